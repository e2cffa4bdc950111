#include "webscale/frame_reads.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace webscale {

namespace {
constexpr std::size_t max_reads_of_run = 64;
constexpr std::size_t max_late_runs = 64;  // each may hold a file open
}  // namespace

void FrameReads::want(const FrameStream& stream, FrameStream::Sequence first, std::size_t frames, std::byte* out) {
    const std::size_t bytes = frames * stream.frame_bytes();
    Segment& segment = stream.segment(first);
    segment.last_used.store(stream.memory()->now(), std::memory_order_relaxed);
    if (stream.resident(first)) {
        std::memcpy(out, stream.at(first), bytes);
        return;
    }
    const std::size_t begin = stream.offset_in_chunk(first);
    reads_.push_back({segment.file.get(), begin, begin + bytes, out});
}

void FrameReads::find_runs() {
    std::sort(reads_.begin(), reads_.end(), [](const Read& a, const Read& b) {
        return std::tuple(a.file->number(), a.begin, a.end) < std::tuple(b.file->number(), b.begin, b.end);
    });
    runs_.clear();
    std::size_t end = 0;
    for (std::size_t i = 0; i < reads_.size(); ++i) {
        const Read& read = reads_[i];
        if (i == 0 || read.file != reads_[i - 1].file || read.begin > end || i - runs_.back().first == max_reads_of_run) {
            runs_.push_back({i, i});
            end = read.begin;
        }
        runs_.back().last = i + 1;
        end = std::max(end, read.end);
    }
}

void FrameReads::run(FrameMemory& memory) {
    find_runs();
    SpillStore& store = memory.store();
    const SpillFile* file = nullptr;
    std::shared_ptr<const OpenFile> opened;
    for (const Run& run : runs_) {
        const Read& first = reads_[run.first];
        if (first.file != file) {
            file = first.file;
            opened = store.open(*file);
        }
        if (SpillStore::read_at_once(*opened, first.begin, pieces_of(run))) {
            copy_repeats(run);
            continue;
        }
        SpillStore::expect(*opened, first.begin, reads_[run.last - 1].end - first.begin);
        late_.push_back({run, opened});
        if (late_.size() == max_late_runs) {
            read_late(store);
        }
    }
    read_late(store);
}

void FrameReads::read_late(const SpillStore& store) {
    for (const LateRun& late : late_) {
        const Read& first = reads_[late.run.first];
        pieces_of(late.run);
        store.read(*first.file, *late.opened, first.begin, pieces_);
        copy_repeats(late.run);
    }
    late_.clear();
}

/// Where the bytes of a run go. A read takes from the file only what reaches beyond those before it.
const FrameReads::Pieces& FrameReads::pieces_of(const Run& run) {
    pieces_.clear();
    std::size_t end = reads_[run.first].begin;
    for (std::size_t i = run.first; i < run.last; ++i) {
        const Read& read = reads_[i];
        if (end < read.end) {
            const std::size_t from = std::max(read.begin, end);
            pieces_.push_back({read.out + (from - read.begin), read.end - from});
            end = read.end;
        }
    }
    return pieces_;
}

void FrameReads::copy_repeats(const Run& run) const {
    const Read* furthest = &reads_[run.first];
    for (std::size_t i = run.first + 1; i < run.last; ++i) {
        const Read& read = reads_[i];
        if (read.begin < furthest->end) {
            std::memcpy(read.out, furthest->out + (read.begin - furthest->begin),
                        std::min(read.end, furthest->end) - read.begin);
        }
        if (read.end > furthest->end) {
            furthest = &read;
        }
    }
}

}  // namespace webscale
