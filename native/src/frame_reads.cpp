#include "webscale/frame_reads.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace webscale {

namespace {

constexpr std::size_t max_reads_of_run = 64;
constexpr std::size_t max_bytes_of_run = std::size_t{256} << 10;  // that memory beside the budget stays small

constexpr std::size_t block_start(std::size_t byte) noexcept {
    return byte / SpillSegment::block_bytes * SpillSegment::block_bytes;
}

std::size_t block_end(const SpillSegment& segment, std::size_t byte) noexcept {
    return std::min(block_start(byte + SpillSegment::block_bytes - 1), segment.bytes());
}

}  // namespace

void FrameReads::want(const FrameStream& stream, FrameStream::Sequence first, std::size_t frames, std::byte* out) {
    const std::size_t bytes = frames * stream.frame_bytes();
    Segment& segment = stream.segment(first);
    segment.last_used.store(stream.memory()->now(), std::memory_order_relaxed);
    if (stream.resident(first)) {
        hot_frames_ += frames;
        std::memcpy(out, stream.at(first), bytes);
        return;
    }
    cold_frames_ += frames;
    const std::size_t begin = stream.offset_in_chunk(first);
    reads_.push_back({segment.spilled.get(), begin, begin + bytes, out});
}

void FrameReads::find_runs() {
    std::sort(reads_.begin(), reads_.end(), [](const Read& a, const Read& b) {
        const auto place = [](const Read& read) {
            return std::tuple(read.segment->descriptor(), read.segment->offset(), read.begin, read.end);
        };
        return place(a) < place(b);
    });
    runs_.clear();
    for (std::size_t i = 0; i < reads_.size(); ++i) {
        const Read& read = reads_[i];
        if (i == 0 || read.segment != reads_[i - 1].segment || read.begin > runs_.back().end ||
            i - runs_.back().first == max_reads_of_run || read.end - reads_[runs_.back().first].begin > max_bytes_of_run) {
            runs_.push_back({i, i, read.end});
        }
        runs_.back().last = i + 1;
        runs_.back().end = std::max(runs_.back().end, read.end);
    }
}

void FrameReads::run(FrameMemory& memory) {
    find_runs();
    late_.clear();
    for (const Run& run : runs_) {
        if (!read_from_cache(run)) {
            const Read& first = reads_[run.first];
            first.segment->expect(block_start(first.begin), block_end(*first.segment, run.end));
            late_.push_back(run);
        }
    }
    for (const Run& run : late_) {
        read_from_disk(run);
    }
    memory.count_reads(hot_frames_, cold_frames_, late_.size());
    hot_frames_ = cold_frames_ = 0;
}

bool FrameReads::read_from_cache(const Run& run) {
    const Read& first = reads_[run.first];
    if (first.segment->checked(first.begin, run.end)) {
        collect_pieces(run);
        if (!first.segment->read_at_once(first.begin, pieces_)) {
            return false;
        }
        copy_repeats(run);
        return true;
    }
    const iovec blocks = blocks_of(run);
    if (!first.segment->read_at_once(block_start(first.begin), {&blocks, 1})) {
        return false;
    }
    check_and_copy(run);
    return true;
}

void FrameReads::read_from_disk(const Run& run) {
    const Read& first = reads_[run.first];
    iovec blocks = blocks_of(run);
    first.segment->read(block_start(first.begin), {&blocks, 1});
    check_and_copy(run);
}

/// Where the bytes of a run go. A read takes from the file only what reaches beyond those before it.
void FrameReads::collect_pieces(const Run& run) {
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

/// Memory for the whole blocks that a run touches.
iovec FrameReads::blocks_of(const Run& run) {
    const Read& first = reads_[run.first];
    const std::size_t bytes = block_end(*first.segment, run.end) - block_start(first.begin);
    blocks_.resize(std::max(blocks_.size(), bytes));
    return {blocks_.data(), bytes};
}

void FrameReads::check_and_copy(const Run& run) const {
    const SpillSegment& segment = *reads_[run.first].segment;
    const std::size_t begin = block_start(reads_[run.first].begin);
    segment.check(begin, {blocks_.data(), block_end(segment, run.end) - begin});
    for (std::size_t i = run.first; i < run.last; ++i) {
        const Read& read = reads_[i];
        std::memcpy(read.out, blocks_.data() + (read.begin - begin), read.end - read.begin);
    }
}

}  // namespace webscale
