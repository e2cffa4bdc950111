#include "webscale/finite.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace webscale {

namespace {

template <class Bits>
std::size_t find(const std::byte* elements, std::size_t count, Bits exponent) noexcept {
    constexpr std::size_t block = 64;  // a branch for each block only, so that the compiler can vectorise inside
    for (std::size_t start = 0; start < count; start += block) {
        const std::size_t stop = std::min(count, start + block);
        unsigned found = 0;
        for (std::size_t i = start; i < stop; ++i) {
            Bits bits;
            std::memcpy(&bits, elements + i * sizeof(Bits), sizeof(Bits));
            found |= static_cast<unsigned>((bits & exponent) == exponent);
        }
        for (std::size_t i = start; found != 0 && i < stop; ++i) {
            Bits bits;
            std::memcpy(&bits, elements + i * sizeof(Bits), sizeof(Bits));
            if ((bits & exponent) == exponent) {
                return i;
            }
        }
    }
    return all_finite;
}

}  // namespace

std::size_t find_non_finite(const std::byte* elements, std::size_t count, FloatFormat format) noexcept {
    switch (format) {
        case FloatFormat::half: return find<std::uint16_t>(elements, count, 0x7C00u);
        case FloatFormat::single: return find<std::uint32_t>(elements, count, 0x7F800000u);
        case FloatFormat::double_: return find<std::uint64_t>(elements, count, 0x7FF0000000000000u);
        case FloatFormat::none: break;
    }
    return all_finite;
}

}  // namespace webscale
