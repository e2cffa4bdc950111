#include "webscale/frame_stream.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace webscale {

namespace {
constexpr std::size_t target_chunk_bytes = std::size_t{4} << 20;
constexpr std::size_t chunks_of_small_stream = 8;
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

void FrameStream::reserve(std::size_t frames) {
    if (live_frames() + frames > std::size_t{1} << 31) {
        throw std::length_error("a frame stream holds 2^31 frames at most; use more environments or a smaller buffer");
    }
    const std::uint32_t number_mask = UINT32_MAX >> chunk_shift_;
    const std::uint32_t last = static_cast<Sequence>(end_ + frames - 1) >> chunk_shift_;
    for (std::uint32_t chunk = end_ >> chunk_shift_;; chunk = (chunk + 1) & number_mask) {
        provide_chunk(chunk);
        if (chunk == last) {
            break;
        }
    }
}

void FrameStream::provide_chunk(std::uint32_t chunk) {
    const std::uint32_t in_use = (chunk - (begin_ >> chunk_shift_)) & (UINT32_MAX >> chunk_shift_);
    while (in_use > table_mask_) {
        grow_table();
    }
    Block& home = table_[chunk & table_mask_];
    if (!home) {
        home = spare_ ? std::exchange(spare_, Block()) : Block(chunk_bytes());
    }
}

FrameStream::Sequence FrameStream::append(const std::byte* frame) {
    reserve(1);
    std::byte* home = table_[(end_ >> chunk_shift_) & table_mask_].data();
    std::memcpy(home + static_cast<std::size_t>(end_ & chunk_mask_) * frame_bytes_, frame, frame_bytes_);
    return end_++;
}

void FrameStream::grow_table() {
    const std::size_t old_size = table_.size();
    std::vector<Block> grown(old_size * 2);
    const auto grown_mask = static_cast<std::uint32_t>(grown.size() - 1);
    const std::uint32_t first = begin_ >> chunk_shift_;
    for (std::uint32_t i = 0; i < old_size; ++i) {
        grown[(first + i) & grown_mask] = std::move(table_[(first + i) & table_mask_]);
    }
    table_ = std::move(grown);
    table_mask_ = grown_mask;
}

void FrameStream::release_before(Sequence sequence) noexcept {
    const std::uint32_t number_mask = UINT32_MAX >> chunk_shift_;
    for (std::uint32_t chunk = begin_ >> chunk_shift_; chunk != sequence >> chunk_shift_;
         chunk = (chunk + 1) & number_mask) {
        Block released = std::exchange(table_[chunk & table_mask_], Block());
        if (released.unshared()) {
            spare_ = std::move(released);
        }
    }
    begin_ = sequence;
}

void FrameStream::restart(Sequence first) {
    table_.clear();
    table_.resize(1);
    table_mask_ = 0;
    spare_ = Block();
    begin_ = end_ = first;
}

std::size_t FrameStream::nbytes() const noexcept {
    const auto chunks = std::count_if(table_.begin(), table_.end(), [](const Block& chunk) { return bool(chunk); });
    return (static_cast<std::size_t>(chunks) + bool(spare_)) * chunk_bytes() + table_.size() * sizeof(Block);
}

}  // namespace webscale
