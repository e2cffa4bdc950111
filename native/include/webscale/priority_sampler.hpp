#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "webscale/philox.hpp"
#include "webscale/reduction_tree.hpp"
#include "webscale/sum_tree.hpp"

namespace webscale {

/// Proportional prioritized sampling over rows (Schaul et al., "Prioritized Experience Replay", ICLR 2016).
///
/// Each row keeps its raw priority; its sampling mass is priority^alpha, the exponent applied in this class alone. A
/// row of priority 0 is absent and is never drawn. Not thread-safe.
class PrioritySampler {
public:
    /// Largest raw priority: its sum over any number of rows stays finite.
    static constexpr double max_allowed = 1e100;

    PrioritySampler(std::size_t rows, double alpha, std::uint64_t seed);

    /// Sets the raw priorities of `rows`, each in [0, max_allowed]; 0 withdraws the row. O(count log n).
    void assign(std::span<const std::size_t> rows, std::span<const double> priorities);

    /// Gives new rows the largest priority among all other rows now stored, or 1 when there is none. O(count log n).
    void assign_max(std::span<const std::size_t> rows);

    /// Re-derives every mass. O(n).
    void set_alpha(double alpha);

    /// Draws `rows.size()` rows, one from each equal part of the total mass, and their importance weights
    /// (N * P(i))^-beta divided by the largest of the batch. O(count log n). Throws std::logic_error when no row has mass.
    void sample(double beta, std::span<std::size_t> rows, std::span<float> weights);

    double priority(std::size_t row) const noexcept { return priorities_.leaf(row); }
    double mass(std::size_t row) const noexcept { return masses_.leaf(row); }
    double max_priority() const noexcept { return priorities_.root(); }
    double total_mass() const noexcept { return masses_.total(); }
    double alpha() const noexcept { return alpha_; }
    std::size_t rows() const noexcept { return priorities_.size(); }
    std::size_t nbytes() const noexcept { return priorities_.nbytes() + masses_.nbytes(); }

    const Philox& generator() const noexcept { return generator_; }
    void set_generator(Philox generator) noexcept { generator_ = generator; }
    const double* priorities() const noexcept { return priorities_.leaves(); }

    /// Replaces all raw priorities, for restoring a saved sampler. O(n).
    void restore(std::span<const double> priorities);

    void clear();

private:
    double mass_of(double priority) const noexcept;
    void rebuild();

    double alpha_;
    MaxTree priorities_;
    SumTree masses_;
    Philox generator_;
    std::vector<double> scratch_;
};

}  // namespace webscale
