#include "webscale/observation_column.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace webscale {

namespace {
constexpr std::size_t max_age_in_rows = 64;
}

void ObservationLayout::check() const {
    if (frames == 0 || row_bytes == 0 || row_bytes % frames != 0) {
        throw std::invalid_argument("an observation of row_bytes bytes must split into `frames` equal parts");
    }
}

ObservationColumn::ObservationColumn(std::size_t capacity, std::size_t n_envs, ObservationLayout layout)
    : layout_(layout) {
    layout.check();
    frame_bytes_ = layout.row_bytes / layout.frames;
    const std::size_t quarter_ring = std::min(capacity / 4, max_age_in_rows);
    max_age_ = static_cast<Sequence>(std::max<std::size_t>(quarter_ring, 2) * layout.frames);
    streams_.reserve(n_envs);
    for (std::size_t env = 0; env < n_envs; ++env) {
        streams_.emplace_back(frame_bytes_, capacity);
    }
    previous_.resize(layout.frames);
}

bool ObservationColumn::holds(const FrameStream& stream, Sequence sequence, const std::byte* frame) const noexcept {
    // In a tiered stream a frame on disk is not looked up: storing it anew costs less.
    return stream.end() - sequence <= max_age_ && stream.resident(sequence) && std::memcmp(stream.at(sequence), frame, frame_bytes_) == 0;
}

std::size_t ObservationColumn::find_shift(const FrameStream& stream, const Sequence* earlier,
                                          const std::byte* row) noexcept {
    if (layout_.frames == 1) {
        return 0;
    }
    if (!holds(stream, earlier[shift_], row)) {
        for (std::size_t shift = 1; shift < layout_.frames; ++shift) {
            if (holds(stream, earlier[shift], row)) {
                shift_ = shift;
                break;
            }
        }
    }
    return shift_;
}

void ObservationColumn::intern(FrameStream& stream, const Sequence* earlier, std::size_t shift, const std::byte* row,
                               Sequence* out) {
    for (std::size_t frame = 0; frame < layout_.frames; ++frame) {
        const std::byte* bytes = row + frame * frame_bytes_;
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
    intern(stream, earlier, 0, current, references);
    intern(stream, references, find_shift(stream, references, next), next, references + layout_.frames);
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
    for_each_run(stream, references + (side == Side::next ? layout_.frames : 0), [&](Sequence first, std::size_t run) {
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
    return total;
}

}  // namespace webscale
