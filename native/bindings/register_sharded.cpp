#include <pybind11/stl.h>

#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "batch_output.hpp"
#include "bound_sharded_replay.hpp"
#include "register.hpp"
#include "step_reader.hpp"
#include "td_errors.hpp"

namespace webscale::bindings {

namespace {

using Rows = Contiguous<std::int64_t>;

bool try_add_step(BoundShardedReplay& self, std::size_t first_stream, std::size_t n_streams, py::handle obs,
                  py::handle next_obs, py::handle action, py::handle reward, py::handle done, py::handle infos,
                  bool handle_timeouts, bool check_finite) {
    StepReader reader(self.format(), n_streams);
    if (!reader.read(obs, next_obs, action, reward, done, infos, handle_timeouts, check_finite)) {
        return false;
    }
    const py::gil_scoped_release release;
    return !self.replay.add(first_stream, n_streams, reader.step(), 1, check_finite).has_value();
}

py::object add_steps(BoundShardedReplay& self, std::size_t first_stream, std::size_t n_streams,
                     const std::vector<py::array>& current, const std::vector<py::array>& next,
                     const py::array& actions, const Contiguous<float>& rewards, const Contiguous<float>& dones,
                     const Contiguous<float>& timeouts, bool check_finite) {
    const StepArrays arrays(self.format(), n_streams, current, next, actions, rewards, dones, timeouts);
    std::optional<NonFinite> found;
    {
        const py::gil_scoped_release release;
        found = self.replay.add(first_stream, n_streams, arrays.first(), arrays.count(), check_finite);
    }
    return place_of(found);
}

constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();

std::unique_ptr<BoundShardedReplay> make_sharded(const std::vector<py::object>& lanes, std::size_t streams,
                                                 std::uint64_t hash_seed, std::size_t window_size,
                                                 std::optional<std::uint64_t> keep_windows, double window_decay) {
    const WindowPolicy windows{window_size, keep_windows.value_or(unlimited), window_decay};
    return std::make_unique<BoundShardedReplay>(lanes, streams, hash_seed, windows);
}

/// Draws one transition for each of the places and gathers them, in one go. Weights are None for uniform draws.
py::tuple sample(const BoundShardedReplay& self, const Contiguous<double>& places, std::optional<double> beta,
                 std::uint64_t first_window, std::optional<std::uint64_t> end_window, std::size_t n_steps) {
    const auto place_span = view(places);
    const BatchOutput out(self.format(), self.blocks, place_span.size(), checked_steps(n_steps));
    py::array_t<float> weights({beta ? places.size() : 0, py::ssize_t{1}});
    const std::span<float> weight_span{weights.mutable_data(), static_cast<std::size_t>(weights.size())};
    const WindowRange range{first_window, end_window.value_or(unlimited)};
    {
        const py::gil_scoped_release release;
        self.replay.sample(place_span, beta.value_or(0.0), range, weight_span, out.windows, out.batch);
    }
    return out.arrays(beta ? py::object(weights) : py::none());
}

py::tuple gather(const BoundShardedReplay& self, const Rows& rows, std::size_t n_steps) {
    const auto wanted = view(rows);
    const BatchOutput out(self.format(), self.blocks, wanted.size(), checked_steps(n_steps));
    {
        const py::gil_scoped_release release;
        self.replay.gather(wanted, out.windows, out.batch);
    }
    return out.arrays(py::none());
}

py::object try_update_priorities(BoundShardedReplay& self, const Rows& ids, const py::array& td_errors, double epsilon,
                                 double ceiling) {
    const auto read = read_priorities(td_errors, static_cast<std::size_t>(ids.size()), epsilon, ceiling);
    if (!read) {
        return py::none();
    }
    const auto id_span = view(ids);
    UpdateCounts counts{};
    {
        const py::gil_scoped_release release;
        counts = self.replay.update_priorities(id_span, read->priorities);
    }
    return py::make_tuple(counts.updated, counts.stale, read->cut);
}

py::tuple raise_priorities(BoundShardedReplay& self, const Rows& ids, double factor) {
    const auto id_span = view(ids);
    UpdateCounts counts{};
    {
        const py::gil_scoped_release release;
        counts = self.replay.raise_priorities(id_span, factor);
    }
    return py::make_tuple(counts.updated, counts.stale);
}

Contiguous<double> priorities(const BoundShardedReplay& self, const Rows& ids) {
    Contiguous<double> out(ids.size());
    const auto id_span = view(ids);
    const auto out_span = mutable_view(out);
    const py::gil_scoped_release release;
    self.replay.priorities(id_span, out_span);
    return out;
}

/// (drawable rows, entropy in nats, effective sample size)
py::tuple draw_statistics(const BoundShardedReplay& self) {
    DrawStatistics found;
    {
        const py::gil_scoped_release release;
        found = self.replay.draw_statistics();
    }
    return py::make_tuple(found.drawable, found.entropy, found.effective_sample_size);
}

Rows recent(const BoundShardedReplay& self, std::size_t count) {
    const std::vector<std::int64_t> found = self.replay.recent(count);
    return Rows(static_cast<py::ssize_t>(found.size()), found.data());
}

Rows arrivals_of(const BoundShardedReplay& self, const Rows& ids) {
    Rows out(ids.size());
    self.replay.arrivals(view(ids), mutable_view(out));
    return out;
}

py::list stream_states(const BoundShardedReplay& self) {
    py::list states;
    for (const auto& state : self.replay.stream_states()) {
        states.append(py::make_tuple(state.episode, state.open));
    }
    return states;
}

void restore(BoundShardedReplay& self, const std::vector<std::pair<std::uint64_t, bool>>& streams,
             std::uint64_t arrivals) {
    std::vector<ShardedReplay::StreamState> states;
    for (const auto& [episode, open] : streams) {
        states.push_back({episode, open});
    }
    self.replay.restore(states, arrivals);
}

Contiguous<std::uint64_t> lane_arrivals(const BoundShardedReplay& self, std::size_t lane) {
    const std::vector<std::uint64_t> found = self.replay.lane_arrivals(lane);
    return Contiguous<std::uint64_t>(static_cast<py::ssize_t>(found.size()), found.data());
}

/// A property that reads something under the locks it needs.
template <auto Member>
auto reading() {
    return [](const BoundShardedReplay& self) { return (self.replay.*Member)(); };
}

}  // namespace

void register_sharded(py::module_& module) {
    using Unlocked = py::call_guard<py::gil_scoped_release>;
    py::class_<BoundShardedReplay>(module, "ShardedReplay", "Transitions of several streams spread over shards.")
        .def(py::init(&make_sharded), py::arg("lanes"), py::arg("streams"), py::arg("hash_seed"),
             py::arg("window_size"), py::arg("keep_windows"), py::arg("window_decay"))
        .def("try_add_step", &try_add_step, py::arg("first_stream"), py::arg("n_streams"), py::arg("obs"),
             py::arg("next_obs"), py::arg("action"), py::arg("reward"), py::arg("done"), py::arg("infos"),
             py::arg("handle_timeouts"), py::arg("check_finite"))
        .def("add_steps", &add_steps, py::arg("first_stream"), py::arg("n_streams"), py::arg("observations"),
             py::arg("next_observations"), py::arg("actions"), py::arg("rewards"), py::arg("dones"),
             py::arg("timeouts"), py::arg("check_finite"))
        .def(
            "end_episode", [](BoundShardedReplay& self, std::size_t stream) { self.replay.end_episode(stream); },
            py::arg("stream"), Unlocked())
        .def("sample", &sample, py::arg("places"), py::arg("beta"), py::arg("first_window"),
             py::arg("end_window"), py::arg("n_steps"))
        .def("gather", &gather, py::arg("rows"), py::arg("n_steps"))
        .def("try_update_priorities", &try_update_priorities, py::arg("ids"), py::arg("td_errors"), py::arg("epsilon"),
             py::arg("ceiling"))
        .def("raise_priorities", &raise_priorities, py::arg("ids"), py::arg("factor"))
        .def("priorities", &priorities, py::arg("ids"))
        .def("draw_statistics", &draw_statistics)
        .def("recent", &recent, py::arg("count"))
        .def("arrivals_of", &arrivals_of, py::arg("ids"))
        .def("tier_counts", [](const BoundShardedReplay&) { return py::none(); }, "All of it is in memory.")
        .def(
            "prioritize",
            [](BoundShardedReplay& self, double alpha, std::uint64_t seed) { self.replay.prioritize(alpha, seed); },
            py::arg("alpha"), py::arg("seed"))
        .def(
            "set_temperature",
            [](BoundShardedReplay& self, double temperature) { self.replay.set_temperature(temperature); },
            py::arg("temperature"))
        .def(
            "set_alpha", [](BoundShardedReplay& self, double alpha) { self.replay.set_alpha(alpha); },
            py::arg("alpha"), Unlocked())
        .def(
            "set_new_priority",
            [](BoundShardedReplay& self, bool max_ever) {
                self.replay.set_new_priority(max_ever ? NewPriority::max_ever : NewPriority::max_stored);
            },
            py::arg("max_ever"), Unlocked())
        .def(
            "clear", [](BoundShardedReplay& self) { self.replay.clear(); }, Unlocked())
        .def(
            "shard_of",
            [](const BoundShardedReplay& self, std::size_t stream, std::uint64_t episode) {
                return self.replay.shard_of(stream, episode);
            },
            py::arg("stream"), py::arg("episode"))
        .def_property_readonly("stored", reading<&ShardedReplay::stored>())
        .def_property_readonly("arrivals", reading<&ShardedReplay::arrivals_so_far>())
        .def_property_readonly(
            "position",
            [](const BoundShardedReplay& self) {
                return self.replay.arrivals_so_far() / self.replay.streams() %
                       (self.replay.shards() * self.replay.capacity());
            })
        .def_property_readonly(
            "full",
            [](const BoundShardedReplay& self) {
                return self.replay.stored() == self.replay.lanes() * self.replay.capacity();
            })
        .def_property_readonly("alpha", reading<&ShardedReplay::alpha>())
        .def_property_readonly("max_priority", reading<&ShardedReplay::max_priority>())
        .def_property_readonly("nbytes", reading<&ShardedReplay::nbytes>())
        .def("stream_states", &stream_states)
        .def("lane_arrivals", &lane_arrivals, py::arg("lane"))
        .def("restore", &restore, py::arg("streams"), py::arg("arrivals"))
        .def(
            "restore_lane",
            [](BoundShardedReplay& self, std::size_t lane, const Contiguous<std::uint64_t>& arrivals) {
                self.replay.restore_lane(lane, view(arrivals));
            },
            py::arg("lane"), py::arg("arrivals"));
}

}  // namespace webscale::bindings
