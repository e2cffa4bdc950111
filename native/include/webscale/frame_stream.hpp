#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "webscale/block.hpp"
#include "webscale/frame_memory.hpp"

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

    /// A stream whose chunks of `chunk_frames`, a power of two, come from `memory` and may be moved to disk by it.
    /// `memory` outlives the stream; what missing_chunks() counts must have been set by before frames are reserved.
    FrameStream(std::size_t frame_bytes, std::size_t chunk_frames, FrameMemory& memory);

    FrameStream(FrameStream&&) = default;
    FrameStream& operator=(FrameStream&&) = delete;

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

    /// Whether the frame can be reached with at(); a tiered stream's may lie on disk only.
    bool resident(Sequence sequence) const noexcept { return bool(table_[(sequence >> chunk_shift_) & table_mask_]); }

    /// Where the bounded memory of a tiered stream is; null for others.
    FrameMemory* memory() const noexcept { return memory_; }

    // Chunks of a tiered stream, each named by the sequence of any of its frames.
    Segment& segment(Sequence sequence) const noexcept { return *segments_[(sequence >> chunk_shift_) & table_mask_]; }
    std::size_t chunk_frames() const noexcept { return static_cast<std::size_t>(chunk_mask_) + 1; }
    std::size_t chunk_bytes() const noexcept { return chunk_frames() * frame_bytes_; }
    std::size_t offset_in_chunk(Sequence sequence) const noexcept {
        return static_cast<std::size_t>(sequence & chunk_mask_) * frame_bytes_;
    }
    Sequence chunk_start(Sequence sequence) const noexcept { return sequence & ~chunk_mask_; }

    /// Chunks that are full and not released, oldest first.
    std::size_t full_chunks() const noexcept;

    /// Makes the table ready for `frames` further frames, one at least, and returns how many more chunks they need.
    /// Throws as reserve() does.
    std::size_t missing_chunks(std::size_t frames);

    /// Moves a full chunk to disk and gives its memory back. Throws SpillError; the chunk stays as it is then.
    void cool(Sequence sequence);

    /// Reads a cold chunk into memory that was set by. Throws SpillError; the chunk stays cold then.
    void warm(Sequence sequence);

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
    void grow_table();
    template <class Visit>
    void for_each_chunk_of_next(std::size_t frames, Visit visit);
    void start_chunk(std::uint32_t place);
    void give_back(std::uint32_t place) noexcept;

    std::size_t frame_bytes_;
    std::uint32_t chunk_shift_ = 0;
    std::uint32_t chunk_mask_ = 0;
    std::uint32_t table_mask_ = 0;
    std::vector<Block> table_;
    FrameMemory* memory_ = nullptr;
    std::vector<std::unique_ptr<Segment>> segments_;  // beside table_, in tiered streams only
    Block spare_;  // the chunk given back last: a full ring takes and returns chunks at the same rate
    Sequence begin_ = 0;
    Sequence end_ = 0;
};

}  // namespace webscale
