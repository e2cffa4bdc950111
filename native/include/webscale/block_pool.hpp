#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "webscale/block.hpp"

namespace webscale {

/// Recycles the memory of sampled batches.
///
/// Fresh memory costs page faults, up to ten times the copying itself; a block that was used before does not. A block
/// belongs to whoever took it until it is given back, so a batch that is still held is never overwritten. Thread-safe.
class BlockPool {
public:
    BlockPool() { free_.reserve(kept_blocks); }

    /// Takes a block of at least `bytes`. O(kept_blocks); allocates only when none is free that fits. Throws
    /// std::bad_alloc.
    Block take(std::size_t bytes);

    /// Gives a block back. O(kept_blocks). Beyond that many, memory returns to the system.
    void give_back(Block block) noexcept;

    static constexpr std::size_t kept_blocks = 6;

private:
    std::mutex mutex_;
    std::vector<Block> free_;
};

}  // namespace webscale
