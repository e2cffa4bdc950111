#pragma once

#include <cstddef>
#include <memory>

namespace webscale {

/// A piece of memory, uninitialised, aligned to a cache line and, when large, in huge pages where the system has them.
class Block {
public:
    /// No memory.
    Block() = default;

    /// At least `bytes`. Throws std::bad_alloc.
    explicit Block(std::size_t bytes);

    std::byte* data() const noexcept { return data_.get(); }
    std::size_t size() const noexcept { return size_; }
    explicit operator bool() const noexcept { return data_ != nullptr; }

private:
    struct Free {
        void operator()(std::byte* pointer) const noexcept;
    };

    std::size_t size_ = 0;
    std::unique_ptr<std::byte, Free> data_;
};

}  // namespace webscale
