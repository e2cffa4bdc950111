#include "webscale/block.hpp"

#include <algorithm>
#include <new>

#include "webscale/huge_pages.hpp"

namespace webscale {

namespace {
constexpr std::size_t line_bytes = 64;
}

Block::Block(std::size_t bytes) : size_((std::max(bytes, line_bytes) + line_bytes - 1) / line_bytes * line_bytes) {
    if (size_ >= huge_page_bytes) {
        data_ = std::shared_ptr<std::byte>(map_pages(size_),
                                           [size = size_](std::byte* memory) { unmap_pages(memory, size); });
        return;
    }
    constexpr auto alignment = std::align_val_t(line_bytes);
    data_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(::operator new(size_, alignment)),
                                       [](std::byte* memory) { ::operator delete(memory, alignment); });
}

}  // namespace webscale
