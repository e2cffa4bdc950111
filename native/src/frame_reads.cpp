#include "webscale/frame_reads.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <tuple>

#include "webscale/worker_pool.hpp"

namespace webscale {

namespace {

constexpr std::size_t max_reads_of_run = 64;
constexpr std::size_t max_bytes_of_run = std::size_t{256} << 10;  // that memory beside the budget stays small

constexpr std::size_t items_of_part = 16;  // copies, or reads that take about a microsecond each and more

/// Calls visit(i, scratch) for all i below `count`, in parts that threads share. Throws the first error.
template <class Scratch, class Visit>
void in_parts(std::size_t count, Visit visit) {
    const std::size_t parts = (count + items_of_part - 1) / items_of_part;
    std::vector<std::exception_ptr> errors(parts);
    WorkerPool::shared().run(parts, [&](std::size_t part) {
        try {
            Scratch scratch;
            const std::size_t end = std::min(count, (part + 1) * items_of_part);
            for (std::size_t i = part * items_of_part; i < end; ++i) {
                visit(i, scratch);
            }
        } catch (...) {
            errors[part] = std::current_exception();  // it must not leave a helper thread
        }
    });
    for (const std::exception_ptr& error : errors) {
        if (error) {
            std::rethrow_exception(error);
        }
    }
}

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
        copies_.push_back({stream.at(first), out, bytes});
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
            runs_.push_back({i, i, read.end, false});
        }
        runs_.back().last = i + 1;
        runs_.back().end = std::max(runs_.back().end, read.end);
    }
}

void FrameReads::run(FrameMemory& memory) {
    find_runs();
    in_parts<Scratch>(copies_.size() + runs_.size(), [this](std::size_t i, Scratch& scratch) {
        if (i < copies_.size()) {
            std::memcpy(copies_[i].out, copies_[i].from, copies_[i].bytes);
            return;
        }
        Run& run = runs_[i - copies_.size()];
        run.late = !read_from_cache(run, scratch);
        if (run.late) {
            const Read& first = reads_[run.first];
            first.segment->expect(block_start(first.begin), block_end(*first.segment, run.end));
        }
    });
    std::erase_if(runs_, [](const Run& run) { return !run.late; });
    in_parts<Scratch>(runs_.size(), [this](std::size_t i, Scratch& scratch) { read_from_disk(runs_[i], scratch); });
    memory.count_reads(hot_frames_, cold_frames_, runs_.size());
}

bool FrameReads::read_from_cache(const Run& run, Scratch& scratch) const {
    const Read& first = reads_[run.first];
    if (first.segment->checked(first.begin, run.end)) {
        collect_pieces(run, scratch.pieces);
        if (!first.segment->read_at_once(first.begin, scratch.pieces)) {
            return false;
        }
        copy_repeats(run);
        return true;
    }
    const iovec blocks = blocks_of(run, scratch);
    if (!first.segment->read_at_once(block_start(first.begin), {&blocks, 1})) {
        return false;
    }
    check_and_copy(run, scratch);
    return true;
}

void FrameReads::read_from_disk(const Run& run, Scratch& scratch) const {
    const Read& first = reads_[run.first];
    iovec blocks = blocks_of(run, scratch);
    first.segment->read(block_start(first.begin), {&blocks, 1});
    check_and_copy(run, scratch);
}

/// Where the bytes of a run go. A read takes from the file only what reaches beyond those before it.
void FrameReads::collect_pieces(const Run& run, std::vector<iovec>& pieces) const {
    pieces.clear();
    std::size_t end = reads_[run.first].begin;
    for (std::size_t i = run.first; i < run.last; ++i) {
        const Read& read = reads_[i];
        if (end < read.end) {
            const std::size_t from = std::max(read.begin, end);
            pieces.push_back({read.out + (from - read.begin), read.end - from});
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
iovec FrameReads::blocks_of(const Run& run, Scratch& scratch) const {
    const Read& first = reads_[run.first];
    const std::size_t bytes = block_end(*first.segment, run.end) - block_start(first.begin);
    scratch.blocks.resize(std::max(scratch.blocks.size(), bytes));
    return {scratch.blocks.data(), bytes};
}

void FrameReads::check_and_copy(const Run& run, const Scratch& scratch) const {
    const SpillSegment& segment = *reads_[run.first].segment;
    const std::size_t begin = block_start(reads_[run.first].begin);
    segment.check(begin, {scratch.blocks.data(), block_end(segment, run.end) - begin});
    for (std::size_t i = run.first; i < run.last; ++i) {
        const Read& read = reads_[i];
        std::memcpy(read.out, scratch.blocks.data() + (read.begin - begin), read.end - read.begin);
    }
}

}  // namespace webscale
