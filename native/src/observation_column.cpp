#include "webscale/observation_column.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

#include "webscale/worker_pool.hpp"

namespace webscale {

namespace {
constexpr std::size_t max_age_in_rows = 64;
constexpr std::size_t bytes_of_part = std::size_t{256} << 10;  // of a batch, worth a thread
}

void ObservationLayout::check() const {
    if (frames == 0 || row_bytes == 0 || row_bytes % frames != 0) {
        throw std::invalid_argument("an observation of row_bytes bytes must split into `frames` equal parts");
    }
    if (frames > max_frames) {
        throw std::invalid_argument("an observation holds 64 stacked frames at most");
    }
    if (parts == 0 || frame_bytes() % parts != 0) {
        throw std::invalid_argument("a frame must split into `parts` equal parts");
    }
}

ObservationColumn::ObservationColumn(std::size_t capacity, std::size_t n_envs, ObservationLayout layout)
    : layout_(layout) {
    layout.check();
    frame_bytes_ = layout.frame_bytes();
    interleaving_ = {layout.frames, layout.parts, frame_bytes_ / layout.parts};
    const std::size_t quarter_ring = std::min(capacity / 4, max_age_in_rows);
    max_age_ = static_cast<Sequence>(std::max<std::size_t>(quarter_ring, 2) * layout.frames);
    streams_.reserve(n_envs);
    for (std::size_t env = 0; env < n_envs; ++env) {
        streams_.emplace_back(frame_bytes_, capacity);
    }
    previous_.resize(layout.frames);
    separated_.resize(layout.interleaved() ? layout.row_bytes : 0);
}

bool ObservationColumn::holds(const FrameStream& stream, Sequence sequence, const std::byte* frame) const noexcept {
    // In a tiered stream a frame on disk is not looked up: storing it anew costs less.
    return stream.end() - sequence <= max_age_ && stream.resident(sequence) && std::memcmp(stream.at(sequence), frame, frame_bytes_) == 0;
}

/// The frames of a row one after another, until the next call.
const std::byte* ObservationColumn::contiguous_frames(const std::byte* row) noexcept {
    if (!layout_.interleaved()) {
        return row;
    }
    interleaving_.separate(row, separated_.data());
    return separated_.data();
}

std::size_t ObservationColumn::find_shift(const FrameStream& stream, const Sequence* earlier,
                                          const std::byte* frames) noexcept {
    if (layout_.frames == 1) {
        return 0;
    }
    if (!holds(stream, earlier[shift_], frames)) {
        for (std::size_t shift = 1; shift < layout_.frames; ++shift) {
            if (holds(stream, earlier[shift], frames)) {
                shift_ = shift;
                break;
            }
        }
    }
    return shift_;
}

void ObservationColumn::intern(FrameStream& stream, const Sequence* earlier, std::size_t shift,
                               const std::byte* frames, Sequence* out) {
    for (std::size_t frame = 0; frame < layout_.frames; ++frame) {
        const std::byte* bytes = frames + frame * frame_bytes_;
        if (earlier != nullptr && frame + shift < layout_.frames && holds(stream, earlier[frame + shift], bytes)) {
            out[frame] = earlier[frame + shift];
        } else if (earlier != nullptr && shift > 0 && holds(stream, earlier[frame], bytes)) {
            out[frame] = earlier[frame];  // a plane that stands still
        } else if (frame > 0 && holds(stream, out[frame - 1], bytes)) {
            out[frame] = out[frame - 1];  // a stack that starts with copies of the first frame, or with blanks
        } else {
            out[frame] = stream.append(bytes);
        }
    }
}

void ObservationColumn::add(std::size_t env, const Sequence* previous, const std::byte* current, const std::byte* next,
                            Sequence* references) {
    FrameStream& stream = streams_[env];
    const Sequence* earlier = nullptr;
    if (previous != nullptr) {
        // Copied, since in a ring of one slot the new row replaces the row that it continues.
        std::copy(previous + layout_.frames, previous + 2 * layout_.frames, previous_.begin());
        earlier = previous_.data();
    }
    intern(stream, earlier, 0, contiguous_frames(current), references);
    const std::byte* next_frames = contiguous_frames(next);
    intern(stream, references, find_shift(stream, references, next_frames), next_frames, references + layout_.frames);
}

void ObservationColumn::release_before(std::size_t env, const Sequence* references) noexcept {
    // References never move back along a stream, so the oldest row's smallest one bounds all that is still in use.
    FrameStream& stream = streams_[env];
    Sequence oldest = stream.end() - stream.begin();
    for (std::size_t frame = 0; frame < layout_.frames; ++frame) {
        oldest = std::min(oldest, references[frame] - stream.begin());
    }
    stream.release_before(stream.begin() + oldest);
}

void ObservationColumn::tier(FrameMemory& memory, std::size_t chunk_frames, std::size_t n_envs) {
    streams_.clear();
    for (std::size_t env = 0; env < n_envs; ++env) {
        streams_.emplace_back(frame_bytes_, chunk_frames, memory);
    }
}

/// Visits the frames of an observation in pieces that are contiguous.
template <class Visit>
void ObservationColumn::for_each_run(const FrameStream& stream, const Sequence* wanted, Visit visit) const {
    for (std::size_t frame = 0; frame < layout_.frames;) {
        const Sequence first = wanted[frame];
        const std::size_t limit = std::min(layout_.frames - frame, stream.contiguous_from(first));
        std::size_t run = 1;
        while (run < limit && wanted[frame + run] == first + run) {
            ++run;
        }
        visit(first, run);
        frame += run;
    }
}

std::byte* ObservationColumn::copy(std::size_t env, Side side, const Sequence* references,
                                   std::byte* out) const noexcept {
    const FrameStream& stream = streams_[env];
    references += side == Side::next ? layout_.frames : 0;
    if (layout_.interleaved()) {
        std::array<const std::byte*, ObservationLayout::max_frames> frames;
        for (std::size_t frame = 0; frame < layout_.frames; ++frame) {
            frames[frame] = stream.at(references[frame]);
        }
        interleaving_.interleave({frames.data(), layout_.frames}, out);
        return out + layout_.row_bytes;
    }
    for_each_run(stream, references, [&](Sequence first, std::size_t run) {
        std::memcpy(out, stream.at(first), run * frame_bytes_);
        out += run * frame_bytes_;
    });
    return out;
}

void ObservationColumn::want(std::size_t env, Side side, const Sequence* references, std::byte* out,
                             FrameReads& reads) const {
    const FrameStream& stream = streams_[env];
    for_each_run(stream, references + (side == Side::next ? layout_.frames : 0), [&](Sequence first, std::size_t run) {
        reads.want(stream, first, run, out);
        out += run * frame_bytes_;
    });
}

void ObservationColumn::finish(std::byte* rows, std::size_t count) const {
    if (!layout_.interleaved()) {
        return;
    }
    const std::size_t row_bytes = layout_.row_bytes;
    const std::size_t parts = std::clamp<std::size_t>(count * row_bytes / bytes_of_part, 1, std::max<std::size_t>(count, 1));
    std::vector<std::byte> scratch(parts * row_bytes);
    WorkerPool::shared().run(parts, [&](std::size_t part) {
        std::byte* separated = scratch.data() + part * row_bytes;
        std::array<const std::byte*, ObservationLayout::max_frames> frames;
        for (std::size_t frame = 0; frame < layout_.frames; ++frame) {
            frames[frame] = separated + frame * frame_bytes_;
        }
        for (std::size_t row = count * part / parts; row < count * (part + 1) / parts; ++row) {
            std::memcpy(separated, rows + row * row_bytes, row_bytes);
            interleaving_.interleave({frames.data(), layout_.frames}, rows + row * row_bytes);
        }
    });
}

void ObservationColumn::clear() noexcept {
    for (FrameStream& stream : streams_) {
        stream.release_before(stream.end());
    }
}

std::size_t ObservationColumn::nbytes() const noexcept {
    std::size_t total = 0;
    for (const FrameStream& stream : streams_) {
        total += stream.nbytes();
    }
    return total + separated_.size();
}

}  // namespace webscale
