#include "webscale/vector_store.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "webscale/checksum.hpp"
#include "webscale/vector_distance.hpp"

namespace webscale {

VectorStore::VectorStore(std::size_t dim, Metric metric)
    : dim_(dim), stride_(padded_to(dim, float_lanes)), metric_(metric) {}

void VectorStore::reserve(std::size_t capacity) {
    if (capacity <= capacity_) {
        return;
    }
    ZeroedArray<float> grown(capacity, stride_);
    if (capacity_ > 0) {
        std::memcpy(grown.data(), values_.data(), values_.nbytes());
    }
    values_ = std::move(grown);
    capacity_ = capacity;
}

std::vector<float> VectorStore::prepared(const float* vector) const {
    std::vector<float> result(stride_, 0.0f);
    for (std::size_t i = 0; i < dim_; ++i) {
        result[i] = vector[i] + 0.0f;
    }
    if (metric_ == Metric::cosine) {
        // In double: the square of a large or tiny float does not fit into a float.
        double squares = 0.0;
        for (const float value : result) {
            squares += static_cast<double>(value) * static_cast<double>(value);
        }
        const double norm = std::sqrt(squares);
        std::transform(result.begin(), result.end(), result.begin(),
                       [norm](float value) { return static_cast<float>(static_cast<double>(value) / norm); });
    }
    return result;
}

void VectorStore::set(std::size_t number, const float* prepared) noexcept {
    std::memcpy(values_.data() + number * stride_, prepared, vector_bytes());
}

bool VectorStore::equal(std::size_t number, const float* prepared) const noexcept {
    return std::memcmp(at(number), prepared, vector_bytes()) == 0;
}

std::uint64_t VectorStore::content_key(const float* prepared) const noexcept {
    Checksum checksum;
    checksum.update(reinterpret_cast<const std::byte*>(prepared), vector_bytes());
    return checksum.digest();
}

float VectorStore::distance(const float* prepared, std::size_t number) const noexcept {
    const VectorKernels& kernels = vector_kernels();
    return metric_ == Metric::l2 ? kernels.squared_distance(prepared, at(number), stride_)
                                 : 1.0f - kernels.dot(prepared, at(number), stride_);
}

}  // namespace webscale
