#pragma once

#include <cstddef>

namespace webscale {

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Asks the system to back this memory with huge pages, which saves random reads most of their address translations. A
/// hint: small or unaligned ends, and systems without huge pages, are left as they are. O(1).
void advise_huge_pages(void* address, std::size_t bytes) noexcept;

}  // namespace webscale
