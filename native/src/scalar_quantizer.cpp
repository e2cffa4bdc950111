#include "webscale/scalar_quantizer.hpp"

#include <algorithm>
#include <cmath>

namespace webscale {

void ScalarQuantizer::fit(std::span<const float* const> vectors) {
    if (vectors.empty()) {
        return;
    }
    std::vector<float> deviations;
    deviations.reserve(vectors.size() * means_.size());
    for (std::size_t d = 0; d < means_.size(); ++d) {
        double sum = 0.0;
        for (const float* vector : vectors) {
            sum += static_cast<double>(vector[d]);
        }
        means_[d] = static_cast<float>(sum / static_cast<double>(vectors.size()));
        for (const float* vector : vectors) {
            deviations.push_back(std::fabs(vector[d] - means_[d]));
        }
    }
    const auto cut = deviations.begin() + static_cast<std::ptrdiff_t>((deviations.size() - 1) * 999 / 1000);
    std::nth_element(deviations.begin(), cut, deviations.end());
    // When almost all values equal their means, the rest must still be told apart.
    const float largest = *cut > 0.0f ? *cut : *std::max_element(cut, deviations.end());
    step_ = largest > 0.0f ? std::max(largest / 127.0f, 1e-30f) : 1.0f;
}

void ScalarQuantizer::encode(const float* vector, std::uint8_t* code) const noexcept {
    for (std::size_t d = 0; d < means_.size(); ++d) {
        const float level = (vector[d] - means_[d]) / step_ + 128.5f;
        code[d] = static_cast<std::uint8_t>(std::clamp(level, 0.0f, 255.0f));
    }
}

void ScalarQuantizer::restore(std::span<const float> means, float step) {
    means_.assign(means.begin(), means.end());
    step_ = step;
}

}  // namespace webscale
