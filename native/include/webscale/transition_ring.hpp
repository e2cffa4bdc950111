#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "webscale/observation_column.hpp"
#include "webscale/zeroed_array.hpp"

namespace webscale {

/// One step of every environment, as pointers to contiguous arrays.
struct Step {
    std::span<const std::byte* const> current;  // for each column: n_envs rows of row_bytes
    std::span<const std::byte* const> next;
    const std::byte* actions;  // n_envs rows of action_bytes
    const float* rewards;      // n_envs values each
    const float* dones;
    const float* timeouts;
};

/// Ring of transitions, columnar, `capacity` steps of `n_envs` environments.
///
/// A row is slot * n_envs + env. An id is step * n_envs + env, where steps are counted over the whole life of the ring:
/// it names slot and version at once and is never reused, so an id that outlived its transition is recognised.
/// Not thread-safe.
class TransitionRing {
public:
    TransitionRing(std::size_t capacity, std::size_t n_envs, std::span<const ObservationLayout> columns,
                   std::size_t action_bytes);

    /// Stores one step of every environment. O(bytes). Throws std::bad_alloc.
    void add(const Step& step);

    /// Forgets all transitions; ids go on, so that ids given out before stay stale.
    void clear() noexcept;

    std::size_t capacity() const noexcept { return capacity_; }
    std::size_t n_envs() const noexcept { return n_envs_; }
    std::size_t rows() const noexcept { return capacity_ * n_envs_; }
    std::size_t position() const noexcept { return static_cast<std::size_t>(steps_ % capacity_); }
    bool full() const noexcept { return steps_ - first_step_ >= capacity_; }
    std::size_t filled_slots() const noexcept { return full() ? capacity_ : static_cast<std::size_t>(steps_ - first_step_); }
    std::uint64_t steps() const noexcept { return steps_; }
    std::uint64_t first_step() const noexcept { return first_step_; }

    /// Id of the transition that `row` holds now; the row must be filled.
    std::int64_t id_of(std::size_t row) const noexcept;

    /// Whether the transition of `id` is still stored.
    bool live(std::int64_t id) const noexcept;

    std::size_t row_of(std::int64_t id) const noexcept { return static_cast<std::size_t>(id) % rows(); }

    std::vector<ObservationColumn>& columns() noexcept { return columns_; }
    const std::vector<ObservationColumn>& columns() const noexcept { return columns_; }
    ZeroedArray<std::byte>& actions() noexcept { return actions_; }
    ZeroedArray<float>& rewards() noexcept { return rewards_; }
    ZeroedArray<float>& dones() noexcept { return dones_; }
    ZeroedArray<float>& timeouts() noexcept { return timeouts_; }
    const ZeroedArray<std::byte>& actions() const noexcept { return actions_; }
    const ZeroedArray<float>& rewards() const noexcept { return rewards_; }
    const ZeroedArray<float>& dones() const noexcept { return dones_; }
    const ZeroedArray<float>& timeouts() const noexcept { return timeouts_; }
    std::size_t action_bytes() const noexcept { return action_bytes_; }
    std::size_t nbytes() const noexcept;

    /// Sets the counters of a saved ring whose columns and arrays have been restored.
    void restore_counters(std::uint64_t steps, std::uint64_t first_step);

private:
    std::size_t capacity_;
    std::size_t n_envs_;
    std::size_t action_bytes_;
    std::vector<ObservationColumn> columns_;
    ZeroedArray<std::byte> actions_;
    ZeroedArray<float> rewards_;
    ZeroedArray<float> dones_;
    ZeroedArray<float> timeouts_;
    std::uint64_t steps_ = 0;       // steps added, a multiple of capacity skipped at each clear
    std::uint64_t first_step_ = 0;  // steps_ at the last clear
};

}  // namespace webscale
