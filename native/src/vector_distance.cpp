#include "webscale/vector_distance.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace webscale {

namespace {

#if defined(__GNUC__) || defined(__clang__)
#define WEBSCALE_INLINE inline __attribute__((always_inline))
#else
#define WEBSCALE_INLINE inline
#endif

template <std::size_t width>
WEBSCALE_INLINE float halved(float* sums) noexcept {
    if constexpr (width == 1) {
        return sums[0];
    } else {
        for (std::size_t i = 0; i < width / 2; ++i) {
            sums[i] += sums[i + width / 2];
        }
        return halved<width / 2>(sums);
    }
}

/// Element i belongs to partial sum i % 32; the 32 sums are halved five times. Compiled once for each instruction set.
template <class Term>
WEBSCALE_INLINE float summed(const float* a, const float* b, std::size_t count, Term term) noexcept {
    float sums[float_lanes];
    for (std::size_t lane = 0; lane < float_lanes; ++lane) {
        sums[lane] = term(a[lane], b[lane]);
    }
    for (std::size_t i = float_lanes; i < count; i += float_lanes) {
        for (std::size_t lane = 0; lane < float_lanes; ++lane) {
            sums[lane] += term(a[i + lane], b[i + lane]);
        }
    }
    return halved<float_lanes>(sums);
}

struct SquaredDifference {
    WEBSCALE_INLINE float operator()(float a, float b) const noexcept { return (a - b) * (a - b); }
};

struct Product {
    WEBSCALE_INLINE float operator()(float a, float b) const noexcept { return a * b; }
};

float squared_distance(const float* a, const float* b, std::size_t count) noexcept {
    return summed(a, b, count, SquaredDifference());
}

float dot(const float* a, const float* b, std::size_t count) noexcept { return summed(a, b, count, Product()); }

std::uint32_t code_distance(const std::uint8_t* a, const std::uint8_t* b, std::size_t count) noexcept {
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const int difference = static_cast<int>(a[i]) - static_cast<int>(b[i]);
        sum += static_cast<std::uint32_t>(difference * difference);
    }
    return sum;
}

#if defined(__x86_64__)

#define WEBSCALE_AVX2 __attribute__((target("avx2")))
#define WEBSCALE_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq")))

WEBSCALE_AVX2 float squared_distance_avx2(const float* a, const float* b, std::size_t count) noexcept {
    return summed(a, b, count, SquaredDifference());
}

WEBSCALE_AVX2 float dot_avx2(const float* a, const float* b, std::size_t count) noexcept {
    return summed(a, b, count, Product());
}

WEBSCALE_AVX2 inline std::uint32_t sum_of(__m256i parts) noexcept {
    __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(parts), _mm256_extracti128_si256(parts, 1));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
    sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(sum));
}

WEBSCALE_AVX2 std::uint32_t code_distance_avx2(const std::uint8_t* a, const std::uint8_t* b, std::size_t count) noexcept {
    const __m256i zero = _mm256_setzero_si256();
    __m256i even = zero;
    __m256i odd = zero;
    for (std::size_t i = 0; i < count; i += 32) {
        const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i));
        const __m256i y = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + i));
        const __m256i difference = _mm256_or_si256(_mm256_subs_epu8(x, y), _mm256_subs_epu8(y, x));
        const __m256i low = _mm256_unpacklo_epi8(difference, zero);
        const __m256i high = _mm256_unpackhi_epi8(difference, zero);
        even = _mm256_add_epi32(even, _mm256_madd_epi16(low, low));
        odd = _mm256_add_epi32(odd, _mm256_madd_epi16(high, high));
    }
    return sum_of(_mm256_add_epi32(even, odd));
}

WEBSCALE_AVX512 float squared_distance_avx512(const float* a, const float* b, std::size_t count) noexcept {
    return summed(a, b, count, SquaredDifference());
}

WEBSCALE_AVX512 float dot_avx512(const float* a, const float* b, std::size_t count) noexcept {
    return summed(a, b, count, Product());
}

WEBSCALE_AVX512 std::uint32_t code_distance_avx512(const std::uint8_t* a, const std::uint8_t* b,
                                                   std::size_t count) noexcept {
    const __m512i zero = _mm512_setzero_si512();
    __m512i even = zero;
    __m512i odd = zero;
    for (std::size_t i = 0; i < count; i += 64) {
        const __m512i x = _mm512_loadu_si512(a + i);
        const __m512i y = _mm512_loadu_si512(b + i);
        const __m512i difference = _mm512_or_si512(_mm512_subs_epu8(x, y), _mm512_subs_epu8(y, x));
        const __m512i low = _mm512_unpacklo_epi8(difference, zero);
        const __m512i high = _mm512_unpackhi_epi8(difference, zero);
        even = _mm512_add_epi32(even, _mm512_madd_epi16(low, low));
        odd = _mm512_add_epi32(odd, _mm512_madd_epi16(high, high));
    }
    alignas(64) __m256i halves[2];
    _mm512_store_si512(halves, _mm512_add_epi32(even, odd));
    return sum_of(_mm256_add_epi32(halves[0], halves[1]));
}

#endif

constexpr VectorKernels levels[] = {
    {squared_distance, dot, code_distance},
#if defined(__x86_64__)
    {squared_distance_avx2, dot_avx2, code_distance_avx2},
    {squared_distance_avx512, dot_avx512, code_distance_avx512},
#endif
};

}  // namespace

std::size_t vector_kernel_levels() noexcept {
#if defined(__x86_64__)
    static const std::size_t found = [] {
        const bool avx2 = __builtin_cpu_supports("avx2");
        const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                            __builtin_cpu_supports("avx512dq");
        return std::size_t{avx2 ? (avx512 ? 3u : 2u) : 1u};
    }();
    return found;
#else
    return 1;
#endif
}

const VectorKernels& vector_kernels(std::size_t level) noexcept { return levels[level]; }

const VectorKernels& vector_kernels() noexcept { return levels[vector_kernel_levels() - 1]; }

}  // namespace webscale
