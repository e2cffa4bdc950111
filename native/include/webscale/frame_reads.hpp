#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "webscale/frame_stream.hpp"

namespace webscale {

/// Collects the frames of a batch of a tiered stream, then copies those in memory and reads those on disk.
///
/// Frames on disk are read in the order of the file. Those wanted twice, as by the current and the next observation of a
/// row, are read once and copied; neighbours come in one system call. What the system's cache has is read first, while
/// the disk fetches all the rest at once. Threads share the work. Not thread-safe; several may read from the same
/// streams.
class FrameReads {
public:
    /// Wants `frames` frames of one chunk of a tiered stream, copied to `out`.
    void want(const FrameStream& stream, FrameStream::Sequence first, std::size_t frames, std::byte* out);

    /// Carries out what was wanted, and counts it. Throws SpillError.
    void run(FrameMemory& memory);

private:
    struct Copy {
        const std::byte* from;
        std::byte* out;
        std::size_t bytes;
    };
    struct Read {
        const SpillSegment* segment;
        std::size_t begin;
        std::size_t end;
        std::byte* out;
    };
    /// Reads [first, last) that follow each other without a gap in one segment, up to byte `end` of it.
    struct Run {
        std::size_t first;
        std::size_t last;
        std::size_t end;
        bool late;  // not in the system's cache
    };
    /// What a thread needs for itself.
    struct Scratch {
        std::vector<iovec> pieces;
        std::vector<std::byte> blocks;  // whole ones, to be checked
    };

    void find_runs();
    bool read_from_cache(const Run& run, Scratch& scratch) const;
    void read_from_disk(const Run& run, Scratch& scratch) const;
    void collect_pieces(const Run& run, std::vector<iovec>& pieces) const;
    void copy_repeats(const Run& run) const;
    iovec blocks_of(const Run& run, Scratch& scratch) const;
    void check_and_copy(const Run& run, const Scratch& scratch) const;

    std::vector<Copy> copies_;
    std::vector<Read> reads_;
    std::vector<Run> runs_;
    std::uint64_t hot_frames_ = 0;
    std::uint64_t cold_frames_ = 0;
};

}  // namespace webscale
