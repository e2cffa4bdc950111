#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "webscale/frame_stream.hpp"

namespace webscale {

/// Collects the frames of a batch that lie on disk, then reads them in the order of the file.
///
/// Frames wanted twice, as by the current and the next observation of a row, are read once and copied; neighbours come
/// in one system call. What the system's cache has is read first, while the disk fetches all the rest at once. Not
/// thread-safe; several may read from the same streams.
class FrameReads {
public:
    /// Wants `frames` frames of one chunk of a tiered stream, copied to `out`. Copies at once what is in memory.
    void want(const FrameStream& stream, FrameStream::Sequence first, std::size_t frames, std::byte* out);

    /// Carries out what was wanted, and counts it. Throws SpillError.
    void run(FrameMemory& memory);

private:
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
    };

    void find_runs();
    bool read_from_cache(const Run& run);
    void read_from_disk(const Run& run);
    void collect_pieces(const Run& run);
    void copy_repeats(const Run& run) const;
    iovec blocks_of(const Run& run);
    void check_and_copy(const Run& run) const;

    std::vector<Read> reads_;
    std::vector<Run> runs_;
    std::vector<Run> late_;
    std::vector<iovec> pieces_;
    std::vector<std::byte> blocks_;  // whole ones, to be checked
    std::uint64_t hot_frames_ = 0;
    std::uint64_t cold_frames_ = 0;
};

}  // namespace webscale
