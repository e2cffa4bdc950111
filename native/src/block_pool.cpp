#include "webscale/block_pool.hpp"

#include <algorithm>
#include <utility>

namespace webscale {

Block BlockPool::take(std::size_t bytes) {
    {
        const std::lock_guard lock(mutex_);
        // Searched from the back: the block given back last is the one that caches still hold. One far too large is left
        // for the batches that it was made for.
        const auto fits = std::find_if(free_.rbegin(), free_.rend(), [bytes](const Block& block) {
            return block.size() >= bytes && block.size() / 4 <= bytes;
        });
        if (fits != free_.rend()) {
            Block block = std::move(*fits);
            free_.erase(std::next(fits).base());
            return block;
        }
    }
    return Block(bytes);
}

void BlockPool::give_back(Block block) noexcept {
    const std::lock_guard lock(mutex_);
    if (free_.size() == kept_blocks) {
        free_.erase(free_.begin());
    }
    free_.push_back(std::move(block));
}

}  // namespace webscale
