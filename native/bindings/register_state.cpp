// Parts of a Replay as plain arrays, for pickles and snapshots; sb3_webscale.buffers.state puts them together.
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <string>

#include "arrays.hpp"
#include "register.hpp"

namespace webscale::bindings {

namespace {

ObservationColumn& column_of(Replay& replay, std::size_t column) { return replay.ring().columns().at(column); }

void check_env(const Replay& replay, std::size_t env) {
    if (env >= replay.ring().n_envs()) {
        throw std::out_of_range("there is no environment " + std::to_string(env));
    }
}

/// Keeps a segment's place in its file, and with it the replay that it belongs to.
struct SegmentHold {
    py::object replay;
    std::shared_ptr<const SpillSegment> segment;  // let go before the replay
};

py::capsule hold(SegmentHold held) {
    auto pointer = std::make_unique<SegmentHold>(std::move(held));
    py::capsule owner(pointer.get(), [](void* segment) { delete static_cast<SegmentHold*>(segment); });
    pointer.release();
    return owner;
}

py::list frames_of(const FrameStream& stream, const py::object& self) {
    py::list runs;
    for (auto frame = stream.begin(); frame != stream.end();) {
        const std::size_t left = static_cast<FrameStream::Sequence>(stream.end() - frame);
        const std::size_t run = std::min(stream.contiguous_from(frame), left);
        const std::size_t bytes = run * stream.frame_bytes();
        if (stream.resident(frame)) {
            auto chunk = std::make_unique<Block>(stream.chunk_of(frame));
            const py::capsule owner(chunk.get(), [](void* pointer) { delete static_cast<Block*>(pointer); });
            chunk.release();
            auto* data = reinterpret_cast<std::uint8_t*>(const_cast<std::byte*>(stream.at(frame)));
            runs.append(borrow({static_cast<py::ssize_t>(bytes)}, data, owner));
        } else {
            const auto& segment = stream.segment(frame).spilled;
            segment->check_all();
            runs.append(py::make_tuple(segment->descriptor(), segment->offset() + stream.offset_in_chunk(frame), bytes,
                                       hold({self, segment})));
        }
        frame += static_cast<FrameStream::Sequence>(run);
    }
    return runs;
}

/// The live frames of one stream, chunk by chunk. Those in memory come as an array that shares its chunk, those on disk
/// as (file descriptor, offset, bytes, owner of that part of the file), compared with their checksums. Either stays as
/// it is whatever the ring does afterwards.
py::list stream_frames(py::object self, std::size_t column, std::size_t env) {
    const auto& replay = self.cast<BoundReplay&>().replay;
    check_env(replay, env);
    return replay.read([&](const TransitionRing& ring) { return frames_of(ring.columns().at(column).stream(env), self); });
}

void restart_stream(BoundReplay& self, std::size_t column, std::size_t env, std::uint32_t first) {
    Replay& replay = self.replay;
    check_env(replay, env);
    column_of(replay, column).stream(env).restart(first);
}

void append_frames(BoundReplay& self, std::size_t column, std::size_t env, const Contiguous<std::uint8_t>& frames) {
    check_env(self.replay, env);
    self.replay.append_frames(column, env, {bytes_of(frames), static_cast<std::size_t>(frames.size())});
}

/// References of the filled rows, shape (filled rows, 2, frames); a view into the records.
py::array references(py::object self, std::size_t column) {
    TransitionRing& ring = self.cast<BoundReplay&>().replay.ring();
    const auto frames = static_cast<py::ssize_t>(ring.columns().at(column).layout().frames);
    constexpr auto item = static_cast<py::ssize_t>(sizeof(RowRecords::Reference));
    return py::array(py::dtype::of<RowRecords::Reference>(),
                     std::vector<py::ssize_t>{static_cast<py::ssize_t>(ring.filled_slots() * ring.n_envs()), 2, frames},
                     std::vector<py::ssize_t>{static_cast<py::ssize_t>(ring.records().stride()), frames * item, item},
                     RowRecords::references(ring.records().record(0)) + ring.references_offset(column), self);
}

/// Restores references after counters and streams. Refused are references outside their stream, and any that an older
/// row's release would leave dangling: the ring relies on a stream's references never moving back.
void restore_references(BoundReplay& self, std::size_t column, const Contiguous<std::uint32_t>& saved) {
    TransitionRing& ring = self.replay.ring();
    const ObservationColumn& target = ring.columns().at(column);
    const std::size_t frames = target.layout().frames;
    const auto values = view(saved);
    const std::size_t filled = ring.filled_slots();
    const std::size_t n_envs = ring.n_envs();
    if (values.size() != filled * n_envs * 2 * frames) {
        throw std::invalid_argument("the saved references are not those of as many transitions as were saved");
    }
    for (std::size_t env = 0; env < n_envs; ++env) {
        const FrameStream& stream = target.stream(env);
        FrameStream::Sequence floor = 0;
        for (std::size_t age = filled; age-- > 0;) {
            const std::size_t slot = (ring.position() + ring.capacity() - 1 - age) % ring.capacity();
            const std::size_t row = slot * n_envs + env;
            const std::uint32_t* source = values.data() + row * 2 * frames;
            auto oldest = static_cast<FrameStream::Sequence>(stream.live_frames());
            for (std::size_t i = 0; i < 2 * frames; ++i) {
                const FrameStream::Sequence place = source[i] - stream.begin();
                oldest = i < frames ? std::min(oldest, place) : oldest;
                if (place >= stream.live_frames() || place < floor || place < oldest) {
                    throw std::invalid_argument("a saved reference points to a frame that does not belong to its transition");
                }
            }
            floor = oldest;
            std::copy(source, source + 2 * frames,
                      RowRecords::references(ring.records().record(row)) + ring.references_offset(column));
        }
    }
}

void check_priority(double value) {
    if (!(value >= 0.0 && value <= PrioritySampler::max_allowed)) {
        throw std::invalid_argument("a saved priority is " + std::to_string(value) + ", outside [0, 1e100]");
    }
}

py::tuple generator(const BoundReplay& self) {
    const Philox& philox = self.replay.sampler().value().generator();
    return py::make_tuple(philox.seed(), philox.counter());
}

void restore_sampler(BoundReplay& self, const Contiguous<double>& priorities, double max_ever, std::uint64_t seed,
                     std::uint64_t counter) {
    Replay& replay = self.replay;
    PrioritySampler& sampler = replay.sampler().value();
    const auto values = view(priorities);
    if (values.size() != replay.ring().filled_slots() * replay.ring().n_envs()) {
        throw std::invalid_argument("there is not one saved priority for each saved transition");
    }
    for (const double value : values) {
        check_priority(value);
    }
    check_priority(max_ever);
    sampler.clear();
    sampler.restore(values);
    sampler.set_max_ever(max_ever);
    sampler.set_generator(Philox(seed, counter));
}

/// Raw priorities of the filled rows; a view.
py::array stored_priorities(py::object self) {
    auto& replay = self.cast<BoundReplay&>().replay;
    const auto rows = static_cast<py::ssize_t>(replay.ring().filled_slots() * replay.ring().n_envs());
    return borrow({rows}, const_cast<double*>(replay.sampler().value().priorities()), self);
}

}  // namespace

void register_state(py::class_<BoundReplay>& replay) {
    replay.def("stream_frames", &stream_frames, py::arg("column"), py::arg("env"))
        .def(
            "stream_begin",
            [](BoundReplay& self, std::size_t column, std::size_t env) {
                check_env(self.replay, env);
                return column_of(self.replay, column).stream(env).begin();
            },
            py::arg("column"), py::arg("env"))
        .def("restart_stream", &restart_stream, py::arg("column"), py::arg("env"), py::arg("first"))
        .def("append_frames", &append_frames, py::arg("column"), py::arg("env"), py::arg("frames"))
        .def("references", &references, py::arg("column"))
        .def("restore_references", &restore_references, py::arg("column"), py::arg("saved"))
        .def(
            "restore_counters",
            [](BoundReplay& self, std::uint64_t steps, std::uint64_t first_step) {
                self.replay.ring().restore_counters(steps, first_step);
            },
            py::arg("steps"), py::arg("first_step"))
        .def_property_readonly("generator", &generator, "(seed, counter) of the generator of prioritized draws.")
        .def("restore_sampler", &restore_sampler, py::arg("priorities"), py::arg("max_ever"),
             py::arg("seed"), py::arg("counter"))
        .def_property_readonly("stored_priorities", &stored_priorities);
}

}  // namespace webscale::bindings
