#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace webscale {

/// Maps floats to bytes: the mean of each dimension to 128, and one step, the same in all dimensions, to 1. Squared
/// distances of codes are then those of vectors, rounded, over the square of the step. Not thread-safe.
class ScalarQuantizer {
public:
    explicit ScalarQuantizer(std::size_t dim) : means_(dim, 0.0f) {}

    /// Learns means and step from some vectors, so that at most one value in a thousand is cut.
    void fit(std::span<const float* const> vectors);

    /// Writes one byte for each dimension.
    void encode(const float* vector, std::uint8_t* code) const noexcept;

    const std::vector<float>& means() const noexcept { return means_; }
    float step() const noexcept { return step_; }
    void restore(std::span<const float> means, float step);

private:
    std::vector<float> means_;
    float step_ = 1.0f;
};

}  // namespace webscale
