#pragma once

#include <cstddef>

namespace webscale {

inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Zeroed memory straight from the system, aligned to huge_page_bytes and backed by huge pages where there are any, which
/// saves random reads most of their address translations. Not from malloc: what it recycles has small pages already, and
/// calloc would have to touch all of it. Pages cost nothing before they are touched. Throws std::bad_alloc.
std::byte* map_pages(std::size_t bytes);

/// Returns memory of map_pages(bytes) to the system.
void unmap_pages(std::byte* address, std::size_t bytes) noexcept;

}  // namespace webscale
