#include "webscale/frame_stream.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace webscale {

namespace {
constexpr std::size_t target_chunk_bytes = std::size_t{4} << 20;
constexpr std::size_t chunks_of_small_stream = 8;
constexpr std::size_t bytes_of_entry = sizeof(Block) + sizeof(void*) + sizeof(Segment) + sizeof(SpillSegment);
}  // namespace

FrameStream::FrameStream(std::size_t frame_bytes, std::size_t expected_frames) : frame_bytes_(frame_bytes) {
    if (frame_bytes == 0) {
        throw std::invalid_argument("frame_bytes is 0, but a frame holds at least one byte");
    }
    const std::size_t wanted = std::min(target_chunk_bytes / frame_bytes, expected_frames / chunks_of_small_stream);
    while ((std::size_t{2} << chunk_shift_) <= wanted && chunk_shift_ < 24) {
        ++chunk_shift_;
    }
    chunk_mask_ = (std::uint32_t{1} << chunk_shift_) - 1;
    table_.resize(1);
}

FrameStream::FrameStream(std::size_t frame_bytes, std::size_t chunk_frames, FrameMemory& memory)
    : frame_bytes_(frame_bytes),
      chunk_shift_(static_cast<std::uint32_t>(std::countr_zero(chunk_frames))),
      chunk_mask_(static_cast<std::uint32_t>(chunk_frames - 1)),
      memory_(&memory) {
    if (frame_bytes == 0 || !std::has_single_bit(chunk_frames) || chunk_shift_ > 24) {
        throw std::invalid_argument("a chunk holds a power of two of frames, 2^24 at most, of at least one byte");
    }
    table_.resize(1);
    segments_.resize(1);
}

void FrameStream::reserve(std::size_t frames) {
    for_each_chunk_of_next(frames, [this](std::uint32_t place) {
        if (!table_[place]) {
            start_chunk(place);
        }
    });
}

std::size_t FrameStream::missing_chunks(std::size_t frames) {
    std::size_t missing = 0;
    for_each_chunk_of_next(frames, [&](std::uint32_t place) { missing += !table_[place]; });
    return missing;
}

/// Visits the places in the table of all chunks that the next frames lie in; the table grows to hold them.
template <class Visit>
void FrameStream::for_each_chunk_of_next(std::size_t frames, Visit visit) {
    if (live_frames() + frames > std::size_t{1} << 31) {
        throw std::length_error("a frame stream holds 2^31 frames at most; use more environments or a smaller buffer");
    }
    const std::uint32_t number_mask = UINT32_MAX >> chunk_shift_;
    const std::uint32_t last = static_cast<Sequence>(end_ + frames - 1) >> chunk_shift_;
    for (std::uint32_t chunk = end_ >> chunk_shift_;; chunk = (chunk + 1) & number_mask) {
        while (((chunk - (begin_ >> chunk_shift_)) & number_mask) > table_mask_) {
            grow_table();
        }
        visit(chunk & table_mask_);
        if (chunk == last) {
            break;
        }
    }
}

FrameStream::Sequence FrameStream::append(const std::byte* frame) {
    reserve(1);
    std::byte* home = table_[(end_ >> chunk_shift_) & table_mask_].data();
    std::memcpy(home + static_cast<std::size_t>(end_ & chunk_mask_) * frame_bytes_, frame, frame_bytes_);
    return end_++;
}

void FrameStream::start_chunk(std::uint32_t place) {
    if (memory_ == nullptr) {
        table_[place] = spare_ ? std::exchange(spare_, Block()) : Block(chunk_bytes());
        return;
    }
    auto segment = std::make_unique<Segment>();
    segment->last_used = memory_->now();
    table_[place] = memory_->take(chunk_bytes());
    segments_[place] = std::move(segment);
}

void FrameStream::give_back(std::uint32_t place) noexcept {
    if (memory_ == nullptr) {
        Block released = std::exchange(table_[place], Block());
        if (released.unshared()) {
            spare_ = std::move(released);
        }
        return;
    }
    memory_->give_back(std::exchange(table_[place], Block()), chunk_bytes());
    if (segments_[place] && segments_[place]->spilled) {
        memory_->count_table(-static_cast<std::ptrdiff_t>(SpillSegment::index_bytes(chunk_bytes())));
    }
    segments_[place].reset();
}

std::size_t FrameStream::full_chunks() const noexcept {
    return ((end_ >> chunk_shift_) - (begin_ >> chunk_shift_)) & (UINT32_MAX >> chunk_shift_);
}

void FrameStream::cool(Sequence sequence) {
    const std::uint32_t place = (sequence >> chunk_shift_) & table_mask_;
    Segment& owner = *segments_[place];
    if (!owner.spilled) {
        owner.spilled = memory_->store().write(table_[place].data(), chunk_bytes());
        memory_->count_table(static_cast<std::ptrdiff_t>(SpillSegment::index_bytes(chunk_bytes())));
    }
    memory_->give_back(std::exchange(table_[place], Block()), chunk_bytes());
}

void FrameStream::warm(Sequence sequence) {
    const std::uint32_t place = (sequence >> chunk_shift_) & table_mask_;
    const SpillSegment& spilled = *segments_[place]->spilled;
    Block block = memory_->take(chunk_bytes());
    iovec target{block.data(), chunk_bytes()};
    try {
        spilled.read(0, {&target, 1});
        spilled.check(0, {block.data(), chunk_bytes()});
    } catch (...) {
        memory_->give_back(std::move(block), chunk_bytes());
        throw;
    }
    table_[place] = std::move(block);
}

void FrameStream::grow_table() {
    const std::size_t old_size = table_.size();
    std::vector<Block> grown(old_size * 2);
    std::vector<std::unique_ptr<Segment>> grown_segments(memory_ == nullptr ? 0 : old_size * 2);
    const auto grown_mask = static_cast<std::uint32_t>(grown.size() - 1);
    const std::uint32_t first = begin_ >> chunk_shift_;
    for (std::uint32_t i = 0; i < old_size; ++i) {
        grown[(first + i) & grown_mask] = std::move(table_[(first + i) & table_mask_]);
    }
    for (std::uint32_t i = 0; i < segments_.size(); ++i) {
        grown_segments[(first + i) & grown_mask] = std::move(segments_[(first + i) & table_mask_]);
    }
    segments_ = std::move(grown_segments);
    if (memory_ != nullptr) {
        memory_->count_table(static_cast<std::ptrdiff_t>((grown.size() - old_size) * bytes_of_entry));
    }
    table_ = std::move(grown);
    table_mask_ = grown_mask;
}

void FrameStream::release_before(Sequence sequence) noexcept {
    const std::uint32_t number_mask = UINT32_MAX >> chunk_shift_;
    for (std::uint32_t chunk = begin_ >> chunk_shift_; chunk != sequence >> chunk_shift_;
         chunk = (chunk + 1) & number_mask) {
        give_back(chunk & table_mask_);
    }
    begin_ = sequence;
}

void FrameStream::restart(Sequence first) {
    if (memory_ != nullptr) {
        for (std::uint32_t place = 0; place < table_.size(); ++place) {
            give_back(place);
        }
        memory_->count_table(-static_cast<std::ptrdiff_t>((table_.size() - 1) * bytes_of_entry));
        segments_.clear();
        segments_.resize(1);
    }
    table_.clear();
    table_.resize(1);
    table_mask_ = 0;
    spare_ = Block();
    begin_ = end_ = first;
}

std::size_t FrameStream::nbytes() const noexcept {
    if (memory_ != nullptr) {  // which counts for all its streams
        return 0;
    }
    const auto chunks = std::count_if(table_.begin(), table_.end(), [](const Block& chunk) { return bool(chunk); });
    return (static_cast<std::size_t>(chunks) + bool(spare_)) * chunk_bytes() + table_.size() * sizeof(Block);
}

}  // namespace webscale
