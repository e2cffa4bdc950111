#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "webscale/frame_stream.hpp"

namespace webscale {

/// Collects the frames of a batch that lie on disk, then reads them in the order of the files.
///
/// Frames wanted twice, as by the current and the next observation of a row, are read once and copied; neighbours come
/// in one system call. What the system has at hand is read first, while the disk fetches the rest. Not thread-safe; several may read from the same streams.
class FrameReads {
public:
    /// Wants `frames` frames of one chunk of a tiered stream, copied to `out`. Copies at once what is in memory.
    void want(const FrameStream& stream, FrameStream::Sequence first, std::size_t frames, std::byte* out);

    /// Carries out what was wanted. Throws SpillError.
    void run(FrameMemory& memory);

private:
    struct Read {
        const SpillFile* file;
        std::size_t begin;  // in the payload
        std::size_t end;
        std::byte* out;
    };
    /// Reads [first, last) that follow each other without a gap in one file.
    struct Run {
        std::size_t first;
        std::size_t last;
    };

    void find_runs();
    struct LateRun {
        Run run;
        std::shared_ptr<const OpenFile> opened;
    };
    using Pieces = std::vector<iovec>;

    const Pieces& pieces_of(const Run& run);
    void copy_repeats(const Run& run) const;
    void read_late(const SpillStore& store);

    std::vector<Read> reads_;
    std::vector<Run> runs_;
    std::vector<LateRun> late_;
    Pieces pieces_;
};

}  // namespace webscale
