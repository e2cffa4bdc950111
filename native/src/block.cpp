#include "webscale/block.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "webscale/huge_pages.hpp"

namespace webscale {

namespace {
constexpr std::size_t line_bytes = 64;
}

Block::Block(std::size_t bytes) {
    const std::size_t alignment = bytes >= huge_page_bytes ? huge_page_bytes : line_bytes;
    size_ = (std::max(bytes, line_bytes) + line_bytes - 1) / line_bytes * line_bytes;
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, size_) != 0) {
        throw std::bad_alloc();
    }
    data_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), std::free);
    advise_huge_pages(memory, size_);
}

}  // namespace webscale
