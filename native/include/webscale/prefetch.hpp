#pragma once

#include <cstddef>

namespace webscale {

/// Asks for the cache lines of the first `bytes` at `address` (four at most: a hardware prefetcher follows from there).
inline void prefetch(const void* address, std::size_t bytes = 1) noexcept {
#if defined(__GNUC__) || defined(__clang__)
    const auto* line = static_cast<const char*>(address);
    for (std::size_t offset = 0; offset < bytes && offset < 256; offset += 64) {
        __builtin_prefetch(line + offset);
    }
    // GCC takes a function that does nothing but prefetch for one without effects, and drops calls of it.
    asm volatile("");
#else
    (void)address;
    (void)bytes;
#endif
}

}  // namespace webscale
