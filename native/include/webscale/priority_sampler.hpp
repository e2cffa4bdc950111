#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "webscale/philox.hpp"
#include "webscale/reduction_tree.hpp"
#include "webscale/sum_tree.hpp"

namespace webscale {

/// Which priority a new row gets: the largest among the other rows now stored, or the largest ever assigned.
enum class NewPriority { max_stored, max_ever };

/// How the probability P of being drawn spreads over the rows.
struct DrawStatistics {
    std::size_t drawable = 0;             // rows with P > 0
    double entropy = 0.0;                 // -sum P ln P, in nats; ln(drawable) when uniform
    double effective_sample_size = 0.0;   // 1 / sum P^2; equals drawable when uniform
};

/// Proportional prioritized sampling over rows (Schaul et al., "Prioritized Experience Replay", ICLR 2016).
///
/// Each row keeps its raw priority; its sampling mass is priority^alpha, the exponent applied in this class alone. A
/// row of priority 0 is absent and is never drawn. With a temperature t, P(i) = (1 - t) mass(i) / total + t / present
/// rows. Not thread-safe.
class PrioritySampler {
public:
    /// Largest raw priority: its sum over any number of rows stays finite.
    static constexpr double max_allowed = 1e100;

    PrioritySampler(std::size_t rows, double alpha, std::uint64_t seed);

    /// Sets the raw priorities of `rows`, each in [0, max_allowed]; 0 withdraws the row. O(count log n).
    void assign(std::span<const std::size_t> rows, std::span<const double> priorities);

    /// The same for rows that are present only: feedback about a row drawn before it was withdrawn must not bring it back.
    /// Returns how many were. O(count log n).
    std::size_t update(std::span<const std::size_t> rows, std::span<const double> priorities);

    /// Multiplies the priorities of `rows` by `factor`, up to max_allowed; a row given twice is raised once. O(count log n).
    void raise(std::span<const std::size_t> rows, double factor);

    /// Gives new rows the largest priority among all other rows now stored, or the largest that assign() ever set, and 1
    /// when there is none; but not less than `at_least`. O(count log n).
    void assign_max(std::span<const std::size_t> rows, double at_least = 0.0);

    /// Re-derives every mass. O(n).
    void set_alpha(double alpha);

    /// `temperature` in [0, 1]: 0 draws by priority, 1 uniformly. O(n) between 0 and the rest, else O(1); above 0, eight
    /// more bytes a row mark which rows are present.
    void set_temperature(double temperature);

    void set_new_priority(NewPriority rule) noexcept { new_priority_ = rule; }

    /// One pass over all rows. O(n).
    DrawStatistics draw_statistics() const noexcept;

    /// Draws `rows.size()` rows, one from each equal part of the total probability. O(count log n). Throws
    /// std::logic_error when no row has mass.
    void draw(std::span<std::size_t> rows);

    /// Importance weights (N * P(i))^-beta of rows that were drawn, divided by the largest among them. O(count).
    void weigh(double beta, std::span<const std::size_t> rows, std::span<float> weights);

    /// Both.
    void sample(double beta, std::span<std::size_t> rows, std::span<float> weights) {
        draw(rows);
        weigh(beta, rows, weights);
    }

    double priority(std::size_t row) const noexcept { return priorities_.leaf(row); }
    double mass(std::size_t row) const noexcept { return masses_.leaf(row); }
    const SumTree& masses() const noexcept { return masses_; }
    double max_priority() const noexcept { return priorities_.root(); }
    double total_mass() const noexcept { return masses_.total(); }
    double alpha() const noexcept { return alpha_; }
    double temperature() const noexcept { return temperature_; }
    NewPriority new_priority() const noexcept { return new_priority_; }

    /// Largest priority that assign() ever set, 0 before the first.
    double max_ever() const noexcept { return max_ever_; }
    void set_max_ever(double priority) noexcept { max_ever_ = priority; }
    std::size_t rows() const noexcept { return priorities_.size(); }
    std::size_t nbytes() const noexcept {
        return priorities_.nbytes() + masses_.nbytes() + (presence_ ? presence_->nbytes() : 0);
    }

    const Philox& generator() const noexcept { return generator_; }
    void set_generator(Philox generator) noexcept { generator_ = generator; }
    const double* priorities() const noexcept { return priorities_.leaves(); }

    /// Replaces all raw priorities, for restoring a saved sampler. O(n).
    void restore(std::span<const double> priorities);

    void clear();

private:
    double density(std::size_t row) const noexcept;
    void store(std::span<const std::size_t> rows, std::span<const double> priorities);
    void note_presence(std::span<const std::size_t> rows, std::span<const double> priorities);
    void find(std::span<std::size_t> rows);
    void find_blended(std::span<std::size_t> rows);
    void rebuild();
    void rebuild_presence();

    double alpha_;
    double temperature_ = 0.0;
    NewPriority new_priority_ = NewPriority::max_stored;
    double max_ever_ = 0.0;
    MaxTree priorities_;
    SumTree masses_;
    std::optional<SumTree> presence_;  // 1 for each present row; kept while the temperature is above 0
    Philox generator_;
    std::vector<double> scratch_;
    std::vector<std::size_t> present_rows_;     // scratch of update()
    std::vector<double> present_priorities_;
};

}  // namespace webscale
