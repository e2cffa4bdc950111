#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "webscale/zeroed_array.hpp"

namespace webscale {

/// How near two vectors are: the square of their Euclidean distance, or one minus the cosine of their angle.
enum class Metric { l2, cosine };

/// Vectors by number, as they are compared: padded with zeros, and of length 1 under cosine. Not thread-safe.
class VectorStore {
public:
    VectorStore(std::size_t dim, Metric metric);

    /// Makes room for vectors 0 to capacity - 1. O(bytes). Throws std::bad_alloc.
    void reserve(std::size_t capacity);
    std::size_t capacity() const noexcept { return capacity_; }

    /// A vector of dim floats as it is stored. Zeros lose their sign, so that equal vectors have equal bytes.
    std::vector<float> prepared(const float* vector) const;

    void set(std::size_t number, const float* prepared) noexcept;
    const float* at(std::size_t number) const noexcept { return values_.data() + number * stride_; }
    bool equal(std::size_t number, const float* prepared) const noexcept;
    std::uint64_t content_key(const float* prepared) const noexcept;

    float distance(const float* prepared, std::size_t number) const noexcept;

    std::size_t dim() const noexcept { return dim_; }
    Metric metric() const noexcept { return metric_; }
    std::size_t nbytes() const noexcept { return values_.nbytes(); }
    std::size_t vector_bytes() const noexcept { return stride_ * sizeof(float); }

private:
    std::size_t dim_;
    std::size_t stride_;  // floats
    Metric metric_;
    std::size_t capacity_ = 0;
    ZeroedArray<float> values_;
};

}  // namespace webscale
