#include "webscale/powers.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__GNUC__) || defined(__clang__)
#define WEBSCALE_VECTORS 1
#define WEBSCALE_INLINE inline __attribute__((always_inline))
#else
#define WEBSCALE_INLINE inline
#endif
#if WEBSCALE_VECTORS && defined(__x86_64__)
#define WEBSCALE_AVX2_KERNEL 1
#endif

namespace webscale {

namespace {

constexpr double smallest_normal = std::numeric_limits<double>::min();
constexpr double largest_log2 = 1022.0;                          // beyond it the result is no normal number
constexpr std::uint64_t exponent_unit = std::uint64_t{1} << 52;  // 1 in the exponent field of a double
constexpr std::uint64_t bits_of_root_half = 0x3fe6a09e667f3bcd;  // of sqrt(1/2)

template <class To, class From>
WEBSCALE_INLINE To bits_as(const From& from) noexcept {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

/// log2 of normal numbers: x = 2^k m with m in [sqrt(1/2), sqrt(2)), and ln m = 2 artanh((m - 1) / (m + 1)) as a series.
template <class Real, class Bits>
WEBSCALE_INLINE Real log2_of(Real x) noexcept {
    constexpr double two_over_ln2 = 2.885390081777926814719849362;
    const Bits bits = bits_as<Bits>(x);
    const Bits biased = (bits - bits_of_root_half + 1024 * exponent_unit) >> 52;  // k + 1024
    const Real m = bits_as<Real>(bits - (biased - 1024) * exponent_unit);
    const Real k = bits_as<Real>(biased | 0x4330000000000000) - (0x1p52 + 1024.0);  // an integer as the last bits of 2^52
    const Real z = (m - 1.0) / (m + 1.0);
    const Real square = z * z;
    Real sum = square * (1.0 / 23.0) + 1.0 / 21.0;
    for (int odd = 19; odd >= 1; odd -= 2) {
        sum = sum * square + 1.0 / odd;
    }
    return k + z * sum * two_over_ln2;
}

/// 2^y for |y| <= largest_log2: y = n + f with |f| <= 1/2, and e^(f ln 2) as a series.
template <class Real, class Bits>
WEBSCALE_INLINE Real exp2_of(Real y) noexcept {
    constexpr double ln2 = 0.693147180559945309417232121458;
    constexpr double rounding = 0x1.8p52;  // adding it leaves the nearest integer in the last bits
    const Real shifted = y + rounding;
    const Real t = (y - (shifted - rounding)) * ln2;
    Real sum = t * (1.0 / 13.0) + 1.0;
    for (int n = 12; n >= 1; --n) {
        sum = sum * (t * (1.0 / n)) + 1.0;
    }
    return bits_as<Real>(bits_as<Bits>(sum) + (bits_as<Bits>(shifted) << 52));
}

bool is_ordinary(double x, double y) noexcept {
    return x >= smallest_normal && std::abs(y) <= largest_log2;
}

double power(double x, double exponent) noexcept {
    if (x == 0.0) {
        return 0.0;
    }
    const double y = exponent * log2_of<double, std::uint64_t>(std::max(x, smallest_normal));
    return is_ordinary(x, y) ? exp2_of<double, std::uint64_t>(y) : std::pow(x, exponent);
}

#if WEBSCALE_VECTORS
using FourDoubles = double __attribute__((vector_size(32)));
using FourBits = std::uint64_t __attribute__((vector_size(32)));

/// power() for all full groups of four: the same operations in the same order, hence the same bits.
WEBSCALE_INLINE void raise_fours(std::span<double> values, double exponent) noexcept {
    for (std::size_t i = 0; i + 4 <= values.size(); i += 4) {
        FourDoubles x;
        std::memcpy(&x, &values[i], sizeof x);
        const FourDoubles y = exponent * log2_of<FourDoubles, FourBits>(x);
        bool ordinary = true;
        for (std::size_t lane = 0; lane < 4; ++lane) {
            ordinary &= is_ordinary(x[lane], y[lane]);
        }
        if (ordinary) [[likely]] {
            const FourDoubles result = exp2_of<FourDoubles, FourBits>(y);
            std::memcpy(&values[i], &result, sizeof result);
        } else {
            for (std::size_t lane = 0; lane < 4; ++lane) {
                values[i + lane] = power(values[i + lane], exponent);
            }
        }
    }
}

void raise_fours_plain(std::span<double> values, double exponent) noexcept {
    raise_fours(values, exponent);
}
#endif

#if WEBSCALE_AVX2_KERNEL
__attribute__((target("avx2"))) void raise_fours_avx2(std::span<double> values, double exponent) noexcept {
    raise_fours(values, exponent);
}

const bool has_avx2 = __builtin_cpu_supports("avx2");
#endif

}  // namespace

void raise_to_power(std::span<double> values, double exponent) noexcept {
    if (exponent == 1.0) {
        return;
    }
    std::size_t done = 0;
#if WEBSCALE_VECTORS
    done = values.size() / 4 * 4;
#if WEBSCALE_AVX2_KERNEL
    (has_avx2 ? raise_fours_avx2 : raise_fours_plain)(values, exponent);
#else
    raise_fours_plain(values, exponent);
#endif
#endif
    for (double& value : values.subspan(done)) {
        value = power(value, exponent);
    }
}

}  // namespace webscale
