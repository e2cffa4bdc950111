#pragma once

#include <cstddef>
#include <cstdint>

namespace webscale {

/// Distances between vectors, in the widest instructions that the processor has.
///
/// Floats are summed in one fixed order, without fused multiply-add, and codes as integers, so every processor gives the
/// same bits. Vectors are padded with zeros to the lengths below.
struct VectorKernels {
    /// Squared Euclidean distance of `count` floats, a multiple of float_lanes.
    float (*squared_distance)(const float* a, const float* b, std::size_t count) noexcept;

    /// Dot product of `count` floats, a multiple of float_lanes.
    float (*dot)(const float* a, const float* b, std::size_t count) noexcept;

    /// Squared Euclidean distance of `count` bytes, a multiple of code_lanes and at most max_codes.
    std::uint32_t (*code_distance)(const std::uint8_t* a, const std::uint8_t* b, std::size_t count) noexcept;
};

inline constexpr std::size_t float_lanes = 32;
inline constexpr std::size_t code_lanes = 64;
inline constexpr std::size_t max_codes = 65536;  // the sum of so many squares fits into 32 bits

constexpr std::size_t padded_to(std::size_t count, std::size_t lanes) noexcept {
    return (count + lanes - 1) / lanes * lanes;
}

/// The best that this processor can run.
const VectorKernels& vector_kernels() noexcept;

/// All that it can run, the plainest first; for tests.
std::size_t vector_kernel_levels() noexcept;
const VectorKernels& vector_kernels(std::size_t level) noexcept;

}  // namespace webscale
