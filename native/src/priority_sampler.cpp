#include "webscale/priority_sampler.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "webscale/powers.hpp"

namespace webscale {

PrioritySampler::PrioritySampler(std::size_t rows, double alpha, std::uint64_t seed)
    : alpha_(alpha), priorities_(rows), masses_(rows), generator_(seed) {}

double PrioritySampler::density(std::size_t row) const noexcept {
    // Up to a factor that is common to all rows, which importance weights do not see.
    return presence_ ? (1.0 - temperature_) * (mass(row) * (presence_->total() / total_mass())) + temperature_ : mass(row);
}

void PrioritySampler::assign(std::span<const std::size_t> rows, std::span<const double> priorities) {
    max_ever_ = std::accumulate(priorities.begin(), priorities.end(), max_ever_,
                                [](double highest, double priority) { return std::max(highest, priority); });
    store(rows, priorities);
}

std::size_t PrioritySampler::update(std::span<const std::size_t> rows, std::span<const double> priorities) {
    priorities_.prefetch_leaves(rows.data(), rows.size());
    masses_.prefetch_leaves(rows.data(), rows.size());
    present_rows_.resize(rows.size());
    present_priorities_.resize(rows.size());
    std::size_t count = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        present_rows_[count] = rows[i];
        present_priorities_[count] = priorities[i];
        count += priority(rows[i]) > 0.0 ? 1 : 0;
    }
    assign(std::span(present_rows_).first(count), std::span(present_priorities_).first(count));
    return count;
}

void PrioritySampler::raise(std::span<const std::size_t> rows, double factor) {
    std::vector<double> raised(rows.size());
    std::transform(rows.begin(), rows.end(), raised.begin(),
                   [&](std::size_t row) { return std::min(priority(row) * factor, max_allowed); });
    store(rows, raised);
}

void PrioritySampler::store(std::span<const std::size_t> rows, std::span<const double> priorities) {
    scratch_.assign(priorities.begin(), priorities.end());
    raise_to_power(scratch_, alpha_);
    priorities_.assign(rows.data(), priorities.data(), rows.size());
    masses_.assign(rows.data(), scratch_.data(), rows.size());
    if (presence_) {
        note_presence(rows, priorities);
    }
}

void PrioritySampler::note_presence(std::span<const std::size_t> rows, std::span<const double> priorities) {
    std::vector<double> present(priorities.size());
    std::transform(priorities.begin(), priorities.end(), present.begin(), [](double p) { return p > 0.0 ? 1.0 : 0.0; });
    const auto unchanged = [&](std::size_t i) { return presence_->leaf(rows[i]) == present[i]; };
    std::size_t first = 0;
    while (first < rows.size() && unchanged(first)) {
        ++first;  // feedback changes no presence: then nothing is propagated
    }
    presence_->assign(rows.data() + first, present.data() + first, rows.size() - first);
}

void PrioritySampler::assign_max(std::span<const std::size_t> rows, double at_least) {
    // The rows being replaced must not count: else one outlier would be inherited for ever by whatever replaces it.
    std::vector<double> priorities(rows.size(), 0.0);
    priorities_.assign(rows.data(), priorities.data(), rows.size());
    const double highest = std::max(at_least, new_priority_ == NewPriority::max_ever ? max_ever_ : max_priority());
    std::fill(priorities.begin(), priorities.end(), highest > 0.0 ? highest : 1.0);
    store(rows, priorities);
}

void PrioritySampler::set_alpha(double alpha) {
    alpha_ = alpha;
    rebuild();
}

void PrioritySampler::set_temperature(double temperature) {
    temperature_ = temperature;
    if (temperature == 0.0) {
        presence_.reset();
    } else if (!presence_) {
        presence_.emplace(rows());
        rebuild_presence();
    }
}

DrawStatistics PrioritySampler::draw_statistics() const noexcept {
    DrawStatistics found;
    if (!(total_mass() > 0.0)) {
        return found;
    }
    const double scale = (1.0 - temperature_) / total_mass();
    const double uniform = presence_ ? temperature_ / presence_->total() : 0.0;
    constexpr std::size_t block = 4096;  // sums of sums: rounding stays far below what one running sum would collect
    double squares = 0.0;
    for (std::size_t begin = 0; begin < rows(); begin += block) {
        double block_entropy = 0.0;
        double block_squares = 0.0;
        for (std::size_t row = begin; row < std::min(begin + block, rows()); ++row) {
            const double probability = mass(row) > 0.0 ? scale * mass(row) + uniform : 0.0;
            if (probability > 0.0) {
                ++found.drawable;
                block_entropy -= probability * std::log(probability);
                block_squares += probability * probability;
            }
        }
        found.entropy += block_entropy;
        squares += block_squares;
    }
    found.effective_sample_size = 1.0 / squares;
    return found;
}

void PrioritySampler::draw(std::span<std::size_t> rows) {
    if (!(total_mass() > 0.0)) {
        throw std::logic_error("no row has a priority above 0, so there is nothing to draw");
    }
    presence_ ? find_blended(rows) : find(rows);
}

void PrioritySampler::weigh(double beta, std::span<const std::size_t> rows, std::span<float> weights) {
    // (N P_i)^-beta / max_j (N P_j)^-beta = (min_j p_j / p_i)^beta: N and the total cancel.
    scratch_.resize(rows.size());
    std::transform(rows.begin(), rows.end(), scratch_.begin(), [this](std::size_t row) { return density(row); });
    const double smallest = *std::min_element(scratch_.begin(), scratch_.end());
    std::transform(scratch_.begin(), scratch_.end(), scratch_.begin(), [&](double p) { return smallest / p; });
    raise_to_power(scratch_, beta);
    std::transform(scratch_.begin(), scratch_.end(), weights.begin(), [](double w) { return static_cast<float>(w); });
}

void PrioritySampler::find(std::span<std::size_t> rows) {
    const std::size_t count = rows.size();
    scratch_.resize(count);
    const double stratum = total_mass() / static_cast<double>(count);
    for (std::size_t i = 0; i < count; ++i) {
        scratch_[i] = (static_cast<double>(i) + generator_.uniform()) * stratum;
    }
    masses_.find(scratch_.data(), count, rows.data());
}

void PrioritySampler::find_blended(std::span<std::size_t> rows) {
    // The unit interval holds the share drawn by priority first, the uniform share after it.
    const std::size_t count = rows.size();
    const double by_priority = 1.0 - temperature_;
    std::size_t split = 0;
    scratch_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
        const double place = (static_cast<double>(i) + generator_.uniform()) / static_cast<double>(count);
        if (place < by_priority) {
            scratch_[i] = place / by_priority * total_mass();
            split = i + 1;
        } else {
            scratch_[i] = (place - by_priority) / temperature_ * presence_->total();
        }
    }
    masses_.find(scratch_.data(), split, rows.data());
    presence_->find(scratch_.data() + split, count - split, rows.data() + split);
}

void PrioritySampler::rebuild() {
    std::copy(priorities(), priorities() + rows(), masses_.mutable_leaves());
    raise_to_power({masses_.mutable_leaves(), rows()}, alpha_);
    masses_.rebuild();
}

void PrioritySampler::rebuild_presence() {
    for (std::size_t row = 0; row < rows(); ++row) {
        presence_->mutable_leaves()[row] = priority(row) > 0.0 ? 1.0 : 0.0;
    }
    presence_->rebuild();
}

void PrioritySampler::restore(std::span<const double> priorities) {
    std::copy(priorities.begin(), priorities.end(), priorities_.mutable_leaves());
    priorities_.rebuild();
    rebuild();
    if (presence_) {
        rebuild_presence();
    }
}

void PrioritySampler::clear() {
    max_ever_ = 0.0;
    const std::vector<double> none(rows(), 0.0);
    restore(none);
}

}  // namespace webscale
