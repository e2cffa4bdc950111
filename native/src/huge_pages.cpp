#include "webscale/huge_pages.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace webscale {

namespace {

std::size_t whole_pages(std::size_t bytes) noexcept {
    constexpr std::size_t page = std::size_t{64} << 10;  // the largest small page of any system
    return (bytes + page - 1) / page * page;
}

}  // namespace

std::byte* map_pages(std::size_t bytes) {
    if (bytes > SIZE_MAX / 2) {
        throw std::bad_alloc();
    }
    // The system aligns to small pages only, so more is asked for and the rest given back at once.
    const std::size_t needed = whole_pages(bytes);
    const std::size_t mapped = needed + huge_page_bytes;
    void* memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::bad_alloc();
    }
    auto* const begin = static_cast<std::byte*>(memory);
    const auto misaligned = reinterpret_cast<std::uintptr_t>(begin) % huge_page_bytes;
    const std::size_t before = misaligned == 0 ? 0 : huge_page_bytes - misaligned;
    std::byte* const address = begin + before;
    if (before > 0) {
        munmap(begin, before);
    }
    munmap(address + needed, huge_page_bytes - before);  // at least a page, since `before` is less
#if defined(__linux__)
    madvise(address, needed, MADV_HUGEPAGE);
#endif
    return address;
}

void unmap_pages(std::byte* address, std::size_t bytes) noexcept {
    munmap(address, whole_pages(bytes));
}

}  // namespace webscale
