#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "webscale/huge_pages.hpp"

namespace webscale {

/// Fixed-size array of zeros, aligned to a cache line.
///
/// The operating system hands the pages of a large one out at first touch: a ring for a million transitions costs nothing
/// until it is filled. Not thread-safe; the address never changes, so views stay valid.
template <class T>
class ZeroedArray {
    static_assert(std::is_trivial_v<T>);

public:
    static constexpr std::size_t alignment = 64;

    ZeroedArray() = default;

    /// An array of count * width elements. Cost: one allocation. Throws std::bad_alloc.
    explicit ZeroedArray(std::size_t count, std::size_t width = 1) : size_(count * width) {
        if (width != 0 && count > (SIZE_MAX - alignment) / sizeof(T) / width) {
            throw std::bad_alloc();
        }
        const std::size_t bytes = nbytes();
        if (bytes >= huge_page_bytes) {
            memory_ = Memory(map_pages(bytes), Release{bytes});
        } else {
            constexpr auto aligned = std::align_val_t(alignment);
            memory_ = Memory(static_cast<std::byte*>(::operator new(std::max(bytes, alignment), aligned)), Release{bytes});
            std::memset(memory_.get(), 0, bytes);
        }
        data_ = reinterpret_cast<T*>(memory_.get());
    }

    T* data() noexcept { return data_; }
    const T* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    std::size_t nbytes() const noexcept { return size_ * sizeof(T); }
    T& operator[](std::size_t i) noexcept { return data_[i]; }
    const T& operator[](std::size_t i) const noexcept { return data_[i]; }

private:
    struct Release {
        std::size_t bytes = 0;
        void operator()(std::byte* memory) const noexcept {
            bytes >= huge_page_bytes ? unmap_pages(memory, bytes)
                                     : ::operator delete(memory, std::align_val_t(alignment));
        }
    };
    using Memory = std::unique_ptr<std::byte, Release>;

    Memory memory_;
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace webscale
