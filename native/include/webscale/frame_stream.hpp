#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "webscale/block.hpp"

namespace webscale {

/// First-in-first-out store of equal-sized frames in chunks, each frame named by a sequence number.
///
/// Memory follows the number of live frames: a chunk is allocated when the newest frame needs it and returned when all
/// its frames are released. Frames of one stream lie side by side, so that an observation and its successor are one
/// read. Sequence numbers wrap at 2^32; the live window is far smaller. Not thread-safe.
class FrameStream {
public:
    using Sequence = std::uint32_t;

    /// `expected_frames` sets the chunk size: about 4 MiB, less when the whole stream is small.
    FrameStream(std::size_t frame_bytes, std::size_t expected_frames);

    /// Makes room for the next `frames` frames, so that appending them cannot fail. Throws std::bad_alloc, or
    /// std::length_error at 2^31 live frames; the stream's content is unchanged then.
    void reserve(std::size_t frames);

    /// Copies one frame in. Amortised O(frame_bytes). Throws as reserve(1) does.
    Sequence append(const std::byte* frame);

    /// Address of a live frame.
    const std::byte* at(Sequence sequence) const noexcept {
        return table_[(sequence >> chunk_shift_) & table_mask_].data() +
               static_cast<std::size_t>(sequence & chunk_mask_) * frame_bytes_;
    }

    /// The memory that holds a frame. A chunk only grows at its end while it is in use, so whoever keeps it keeps its
    /// frames as they are.
    Block chunk_of(Sequence sequence) const { return table_[(sequence >> chunk_shift_) & table_mask_]; }

    /// Frames from `sequence` on that lie in the same chunk, itself included.
    std::size_t contiguous_from(Sequence sequence) const noexcept { return chunk_mask_ - (sequence & chunk_mask_) + 1; }

    /// Forgets every frame older than `sequence`. Chunks that hold none of the rest are given back.
    void release_before(Sequence sequence) noexcept;

    /// Starts over with an empty stream whose first frame will be `first`, for restoring a saved one.
    void restart(Sequence first);

    Sequence begin() const noexcept { return begin_; }
    Sequence end() const noexcept { return end_; }
    std::size_t live_frames() const noexcept { return static_cast<Sequence>(end_ - begin_); }
    std::size_t frame_bytes() const noexcept { return frame_bytes_; }
    std::size_t nbytes() const noexcept;

private:
    std::size_t chunk_bytes() const noexcept { return (static_cast<std::size_t>(chunk_mask_) + 1) * frame_bytes_; }
    void grow_table();
    void provide_chunk(std::uint32_t chunk);

    std::size_t frame_bytes_;
    std::uint32_t chunk_shift_ = 0;
    std::uint32_t chunk_mask_ = 0;
    std::uint32_t table_mask_ = 0;
    std::vector<Block> table_;
    Block spare_;  // the chunk given back last: a full ring takes and returns chunks at the same rate
    Sequence begin_ = 0;
    Sequence end_ = 0;
};

}  // namespace webscale
