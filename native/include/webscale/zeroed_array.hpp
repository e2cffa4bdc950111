#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

#include "webscale/huge_pages.hpp"

namespace webscale {

/// Fixed-size array of zeros, aligned to a cache line.
///
/// The pages come from calloc, so the operating system hands them out at first touch: a ring for a million
/// transitions costs nothing until it is filled. Not thread-safe; the address never changes, so views stay valid.
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
        owner_.reset(std::calloc(size_ * sizeof(T) + alignment, 1));
        if (owner_ == nullptr) {
            throw std::bad_alloc();
        }
        const auto address = reinterpret_cast<std::uintptr_t>(owner_.get());
        data_ = reinterpret_cast<T*>((address + alignment - 1) / alignment * alignment);
        advise_huge_pages(data_, nbytes());
    }

    T* data() noexcept { return data_; }
    const T* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    std::size_t nbytes() const noexcept { return size_ * sizeof(T); }
    T& operator[](std::size_t i) noexcept { return data_[i]; }
    const T& operator[](std::size_t i) const noexcept { return data_[i]; }

private:
    struct Free {
        void operator()(void* pointer) const noexcept { std::free(pointer); }
    };

    std::unique_ptr<void, Free> owner_;
    T* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace webscale
