#include "webscale/frame_reads.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

namespace webscale {

namespace {
constexpr std::size_t max_reads_of_run = 64;
constexpr std::size_t lookahead = 16;  // runs that the system is told of ahead of their reading
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
    std::array<std::shared_ptr<const OpenFile>, lookahead> opened;
    for (std::size_t i = 0; i < runs_.size() + lookahead; ++i) {
        if (i >= lookahead) {
            carry_out(store, *opened[i % lookahead], runs_[i - lookahead]);
        }
        if (i < runs_.size()) {
            const Read& first = reads_[runs_[i].first];
            opened[i % lookahead] = store.open(*first.file);
            SpillStore::expect(*opened[i % lookahead], first.begin, reads_[runs_[i].last - 1].end - first.begin);
        }
    }
}

void FrameReads::carry_out(SpillStore& store, const OpenFile& opened, const Run& run) const {
    std::array<iovec, max_reads_of_run> pieces;
    std::size_t count = 0;
    // Read i takes from the file only what reaches beyond `tail`, the read that reaches furthest so far.
    const Read* tail = nullptr;
    for (std::size_t i = run.first; i < run.last; ++i) {
        const Read& read = reads_[i];
        const std::size_t from = tail == nullptr ? read.begin : std::max(read.begin, tail->end);
        if (from < read.end) {
            pieces[count++] = {read.out + (from - read.begin), read.end - from};
            tail = &read;
        }
    }
    store.read(*reads_[run.first].file, opened, reads_[run.first].begin, {pieces.data(), count});
    tail = nullptr;
    for (std::size_t i = run.first; i < run.last; ++i) {
        const Read& read = reads_[i];
        if (tail != nullptr && read.begin < tail->end) {
            std::memcpy(read.out, tail->out + (read.begin - tail->begin), std::min(read.end, tail->end) - read.begin);
        }
        if (tail == nullptr || read.end > tail->end) {
            tail = &read;
        }
    }
}

}  // namespace webscale
