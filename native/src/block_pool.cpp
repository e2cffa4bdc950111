#include "webscale/block_pool.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace webscale {

namespace {
constexpr std::size_t line_bytes = 64;
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

std::size_t rounded_up(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }
}  // namespace

void BlockPool::Block::Free::operator()(std::byte* pointer) const noexcept { std::free(pointer); }

BlockPool::Block::Block(std::size_t bytes) {
    const std::size_t alignment = bytes >= huge_page_bytes ? huge_page_bytes : line_bytes;
    size_ = rounded_up(std::max(bytes, line_bytes), alignment);
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, size_)));
    if (data_ == nullptr) {
        throw std::bad_alloc();
    }
#if defined(__linux__)
    if (alignment == huge_page_bytes) {
        madvise(data_.get(), size_, MADV_HUGEPAGE);  // a hint: where it is refused, pages are small
    }
#endif
}

std::unique_ptr<BlockPool::Block> BlockPool::take(std::size_t bytes) {
    {
        const std::lock_guard lock(mutex_);
        // The block given back last is the one that caches still hold.
        const auto fits = std::find_if(free_.rbegin(), free_.rend(), [bytes](const auto& block) {
            return block->size() >= bytes && block->size() / 4 <= bytes + line_bytes;
        });
        if (fits != free_.rend()) {
            auto block = std::move(*fits);
            free_.erase(std::next(fits).base());
            return block;
        }
    }
    return std::make_unique<Block>(bytes);
}

void BlockPool::give_back(std::unique_ptr<Block> block) noexcept {
    const std::lock_guard lock(mutex_);
    if (free_.capacity() < kept_blocks) {
        free_.reserve(kept_blocks);
    }
    if (free_.size() == kept_blocks) {
        free_.erase(free_.begin());
    }
    free_.push_back(std::move(block));
}

}  // namespace webscale
