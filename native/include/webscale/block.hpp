#pragma once

#include <cstddef>
#include <memory>

namespace webscale {

/// A piece of shared memory, uninitialised, aligned to a cache line and, when large, in huge pages where the system has them.
class Block {
public:
    /// No memory.
    Block() = default;

    /// At least `bytes`. Throws std::bad_alloc.
    explicit Block(std::size_t bytes);

    std::byte* data() const noexcept { return data_.get(); }
    std::size_t size() const noexcept { return size_; }
    explicit operator bool() const noexcept { return data_ != nullptr; }

    /// Whether nobody else holds this memory.
    bool unshared() const noexcept { return data_.use_count() == 1; }

private:
    std::size_t size_ = 0;
    std::shared_ptr<std::byte> data_;
};

}  // namespace webscale
