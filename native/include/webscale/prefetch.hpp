#pragma once

#include <cstddef>

namespace webscale {

/// Asks for the cache lines of `bytes` at `address`: all of them up to a page, else the first four, from where a hardware
/// prefetcher follows.
inline void prefetch(const void* address, std::size_t bytes = 1) noexcept {
#if defined(__GNUC__) || defined(__clang__)
    const auto* line = static_cast<const char*>(address);
    const std::size_t asked = bytes <= 4096 ? bytes : 256;
    for (std::size_t offset = 0; offset < asked; offset += 64) {
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
