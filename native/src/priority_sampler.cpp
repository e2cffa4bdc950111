#include "webscale/priority_sampler.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace webscale {

PrioritySampler::PrioritySampler(std::size_t rows, double alpha, std::uint64_t seed)
    : alpha_(alpha), priorities_(rows), masses_(rows), generator_(seed) {}

double PrioritySampler::mass_of(double priority) const noexcept {
    return priority > 0.0 ? std::pow(priority, alpha_) : 0.0;  // pow(0, 0) is 1, but an absent row has no mass
}

void PrioritySampler::assign(std::span<const std::size_t> rows, std::span<const double> priorities) {
    scratch_.resize(rows.size());
    std::transform(priorities.begin(), priorities.end(), scratch_.begin(), [this](double p) { return mass_of(p); });
    priorities_.assign(rows.data(), priorities.data(), rows.size());
    masses_.assign(rows.data(), scratch_.data(), rows.size());
}

void PrioritySampler::assign_max(std::span<const std::size_t> rows) {
    // The rows being replaced must not count: else one outlier would be inherited for ever by whatever replaces it.
    std::vector<double> priorities(rows.size(), 0.0);
    priorities_.assign(rows.data(), priorities.data(), rows.size());
    const double highest = max_priority();
    std::fill(priorities.begin(), priorities.end(), highest > 0.0 ? highest : 1.0);
    assign(rows, priorities);
}

void PrioritySampler::set_alpha(double alpha) {
    alpha_ = alpha;
    rebuild();
}

void PrioritySampler::sample(double beta, std::span<std::size_t> rows, std::span<float> weights) {
    const double total = total_mass();
    if (!(total > 0.0)) {
        throw std::logic_error("no row has a priority above 0, so there is nothing to draw");
    }
    const std::size_t count = rows.size();
    scratch_.resize(count);
    const double stratum = total / static_cast<double>(count);
    for (std::size_t i = 0; i < count; ++i) {
        scratch_[i] = (static_cast<double>(i) + generator_.uniform()) * stratum;
    }
    masses_.find(scratch_.data(), count, rows.data());

    // (N P_i)^-beta / max_j (N P_j)^-beta = (min_j p_j / p_i)^beta: N and the total cancel.
    double smallest = mass(rows[0]);
    for (const std::size_t row : rows) {
        smallest = std::min(smallest, mass(row));
    }
    for (std::size_t i = 0; i < count; ++i) {
        weights[i] = static_cast<float>(std::pow(smallest / mass(rows[i]), beta));
    }
}

void PrioritySampler::rebuild() {
    for (std::size_t row = 0; row < rows(); ++row) {
        masses_.mutable_leaves()[row] = mass_of(priority(row));
    }
    masses_.rebuild();
}

void PrioritySampler::restore(std::span<const double> priorities) {
    std::copy(priorities.begin(), priorities.end(), priorities_.mutable_leaves());
    priorities_.rebuild();
    rebuild();
}

void PrioritySampler::clear() {
    const std::vector<double> none(rows(), 0.0);
    restore(none);
}

}  // namespace webscale
