#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace webscale {

/// Recycles the memory of sampled batches.
///
/// Fresh memory costs page faults, up to ten times the copying itself; a block that was used before does not. A block
/// belongs to whoever took it until it is given back, so a batch that is still held is never overwritten. Thread-safe.
class BlockPool {
public:
    /// A block of at least `bytes`, aligned to a cache line and, when large, in huge pages where the system has them.
    class Block {
    public:
        explicit Block(std::size_t bytes);
        std::byte* data() noexcept { return data_.get(); }
        std::size_t size() const noexcept { return size_; }

    private:
        struct Free {
            void operator()(std::byte* pointer) const noexcept;
        };
        std::size_t size_;
        std::unique_ptr<std::byte, Free> data_;
    };

    /// Takes a block. O(blocks kept); allocates only when none is free that is large enough. Throws std::bad_alloc.
    std::unique_ptr<Block> take(std::size_t bytes);

    /// Gives a block back. O(1). Beyond `kept_blocks`, memory is returned to the system.
    void give_back(std::unique_ptr<Block> block) noexcept;

    static constexpr std::size_t kept_blocks = 4;

private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Block>> free_;
};

}  // namespace webscale
