#include "webscale/huge_pages.hpp"

#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace webscale {

void advise_huge_pages(void* address, std::size_t bytes) noexcept {
#if defined(__linux__)
    const auto first = reinterpret_cast<std::uintptr_t>(address);
    const std::uintptr_t begin = (first + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
    const std::uintptr_t end = (first + bytes) / huge_page_bytes * huge_page_bytes;
    if (begin < end) {
        madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
    }
#else
    (void)address;
    (void)bytes;
#endif
}

}  // namespace webscale
