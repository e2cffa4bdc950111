#include "webscale/observation_column.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace webscale {

namespace {
constexpr std::size_t max_age_in_rows = 64;
}

ObservationColumn::ObservationColumn(std::size_t capacity, std::size_t n_envs, ObservationLayout layout)
    : layout_(layout), references_(capacity * n_envs * 2 * layout.frames) {
    if (layout.frames == 0 || layout.row_bytes == 0 || layout.row_bytes % layout.frames != 0) {
        throw std::invalid_argument("an observation of row_bytes bytes must split into `frames` equal parts");
    }
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
    return stream.end() - sequence <= max_age_ && std::memcmp(stream.at(sequence), frame, frame_bytes_) == 0;
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
        } else if (frame > 0 && holds(stream, out[frame - 1], bytes)) {
            out[frame] = out[frame - 1];  // a stack that starts with copies of the first frame, or with blanks
        } else {
            out[frame] = stream.append(bytes);
        }
    }
}

void ObservationColumn::add(std::size_t slot, std::size_t env, std::size_t previous_slot, const std::byte* current,
                            const std::byte* next) {
    FrameStream& stream = streams_[env];
    const std::size_t row = slot * n_envs() + env;
    const Sequence* earlier = nullptr;
    if (previous_slot != no_previous) {
        // Copied, since in a ring of one slot the new row replaces the row that it continues.
        const Sequence* source = references_of(previous_slot * n_envs() + env, Side::next);
        std::copy(source, source + layout_.frames, previous_.begin());
        earlier = previous_.data();
    }
    Sequence* now = references_of(row, Side::current);
    intern(stream, earlier, 0, current, now);
    intern(stream, now, find_shift(stream, now, next), next, references_of(row, Side::next));
}

void ObservationColumn::release_before(std::size_t oldest_slot, std::size_t env) noexcept {
    // References never move back along a stream, so the oldest row's smallest one bounds all that is still in use.
    FrameStream& stream = streams_[env];
    const Sequence* references = references_of(oldest_slot * n_envs() + env, Side::current);
    Sequence oldest = stream.end() - stream.begin();
    for (std::size_t frame = 0; frame < layout_.frames; ++frame) {
        oldest = std::min(oldest, references[frame] - stream.begin());
    }
    stream.release_before(stream.begin() + oldest);
}

void ObservationColumn::gather(Side side, const std::size_t* rows, std::size_t count, std::byte* out) const noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        const Sequence* references = references_of(rows[i], side);
        const FrameStream& stream = streams_[rows[i] % n_envs()];
        for (std::size_t frame = 0; frame < layout_.frames;) {
            const Sequence first = references[frame];
            const std::size_t limit = std::min(layout_.frames - frame, stream.contiguous_from(first));
            std::size_t run = 1;
            while (run < limit && references[frame + run] == first + run) {
                ++run;
            }
            std::memcpy(out, stream.at(first), run * frame_bytes_);
            out += run * frame_bytes_;
            frame += run;
        }
    }
}

void ObservationColumn::clear() noexcept {
    for (FrameStream& stream : streams_) {
        stream.release_before(stream.end());
    }
}

std::size_t ObservationColumn::nbytes() const noexcept {
    std::size_t total = references_.nbytes();
    for (const FrameStream& stream : streams_) {
        total += stream.nbytes();
    }
    return total;
}

}  // namespace webscale
