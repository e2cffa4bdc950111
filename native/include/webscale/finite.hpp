#pragma once

#include <cstddef>

#include "webscale/observation_column.hpp"

namespace webscale {

inline constexpr std::size_t all_finite = static_cast<std::size_t>(-1);

/// Position of the first NaN or infinity among `count` elements, or all_finite. Tests exponent bits, so it holds under
/// any compiler flags. O(count).
std::size_t find_non_finite(const std::byte* elements, std::size_t count, FloatFormat format) noexcept;

/// Bytes of one element of a floating-point format; 1 for `none`.
constexpr std::size_t element_bytes(FloatFormat format) noexcept {
    switch (format) {
        case FloatFormat::half: return 2;
        case FloatFormat::single: return 4;
        case FloatFormat::double_: return 8;
        case FloatFormat::none: break;
    }
    return 1;
}

}  // namespace webscale
