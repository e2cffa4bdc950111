#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "webscale/observation_column.hpp"
#include "webscale/row_records.hpp"

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

/// Destination arrays of gather(), each with one entry for each row asked for; null pointers are skipped.
struct Batch {
    std::span<std::byte* const> current;  // for each column
    std::span<std::byte* const> next;
    std::byte* actions = nullptr;
    float* rewards = nullptr;
    float* terminals = nullptr;  // done * (1 - timeout): what must not be bootstrapped
    std::int64_t* ids = nullptr;
};

/// What an n-step return needs: for each row asked for, the rewards of the `n_steps` transitions from it on, and how many
/// of them count. A window ends with its episode, at a time limit, or at the newest transition. With one step, nothing
/// is written.
struct Windows {
    std::size_t n_steps = 1;
    float* rewards = nullptr;         // n_steps for each row, those past the end of the window too
    std::int64_t* lengths = nullptr;  // in [1, n_steps]
};

/// Ring of transitions, `capacity` steps of `n_envs` environments.
///
/// A row is slot * n_envs + env. An id is step * n_envs + env, where steps are counted over the whole life of the ring:
/// it names slot and version at once and is never reused, so an id that outlived its transition is recognised.
/// Not thread-safe.
class TransitionRing {
public:
    TransitionRing(std::size_t capacity, std::size_t n_envs, std::span<const ObservationLayout> columns,
                   std::size_t action_bytes);

    /// Stores one step of every environment. O(bytes). Throws std::bad_alloc; nothing is stored then.
    void add(const Step& step);

    /// Copies `rows` out; next observations, rewards and terminals are those of the last transition of each row's window.
    /// All rows must be filled. O(bytes), large batches by several threads. Throws SpillError in a tiered ring.
    void gather(std::span<const std::int64_t> rows, const Windows& windows, const Batch& batch) const;

    /// The first half of gather(): everything but the observations. Returns the last row of each window, or nothing when
    /// windows are one step long.
    std::vector<std::int64_t> gather_fields(std::span<const std::int64_t> rows, const Windows& windows,
                                            const Batch& batch) const;

    /// The second half: the observations, given what the first half returned.
    void copy_observations(std::span<const std::int64_t> rows, std::span<const std::int64_t> last_rows,
                           const Batch& batch) const;

    /// Asks for the memory of rows that gather() will be called for.
    void prefetch_rows(std::span<const std::int64_t> rows) const noexcept;

    /// Forgets all transitions; ids go on, so that ids given out before stay stale.
    void clear() noexcept;

    std::size_t capacity() const noexcept { return capacity_; }
    std::size_t n_envs() const noexcept { return n_envs_; }
    std::size_t rows() const noexcept { return capacity_ * n_envs_; }
    std::size_t position() const noexcept { return static_cast<std::size_t>(steps_ % capacity_); }
    bool full() const noexcept { return steps_ - first_step_ >= capacity_; }
    std::size_t filled_slots() const noexcept {
        return full() ? capacity_ : static_cast<std::size_t>(steps_ - first_step_);
    }
    std::uint64_t steps() const noexcept { return steps_; }
    std::uint64_t first_step() const noexcept { return first_step_; }

    /// Whether the transition of `id` is still stored.
    bool live(std::int64_t id) const noexcept { return live_ids().contains(id); }

    std::size_t row_of(std::int64_t id) const noexcept { return static_cast<std::size_t>(id) % rows(); }

    /// The ids that are stored now, to look many of them up without a division for each.
    class LiveIds {
    public:
        explicit LiveIds(const TransitionRing& ring) noexcept;
        bool contains(std::int64_t id) const noexcept { return id >= begin_ && id < end_; }

        /// Row of an id that is stored.
        std::size_t row_of(std::int64_t id) const noexcept {
            return static_cast<std::size_t>(id - (id < turn_ ? previous_turn_ : turn_));
        }

        /// Id of a row that is filled.
        std::int64_t id_of(std::size_t row) const noexcept {
            return static_cast<std::int64_t>(row) + (row < head_ ? turn_ : previous_turn_);
        }

    private:
        std::int64_t begin_;
        std::int64_t end_;
        std::int64_t turn_;           // id that row 0 has since the write head passed it last
        std::int64_t previous_turn_;  // and had before
        std::size_t head_;            // row that is written next
    };

    LiveIds live_ids() const noexcept { return LiveIds(*this); }

    std::vector<ObservationLayout> layouts() const;

    std::vector<ObservationColumn>& columns() noexcept { return columns_; }
    const std::vector<ObservationColumn>& columns() const noexcept { return columns_; }
    RowRecords& records() noexcept { return records_; }
    const RowRecords& records() const noexcept { return records_; }

    /// Where the references of `column` start among those of a record.
    std::size_t references_offset(std::size_t column) const noexcept { return reference_offsets_[column]; }

    std::size_t nbytes() const noexcept;

    /// Sets the counters of a saved ring; its streams and records must be restored before anything is read. Throws
    /// std::invalid_argument.
    void restore_counters(std::uint64_t steps, std::uint64_t first_step);

private:
    void add_observations(const Step& step, std::size_t slot, std::size_t env);
    std::vector<std::int64_t> follow(std::span<const std::int64_t> rows, const Windows& windows) const;
    void gather_scalars(std::span<const std::int64_t> rows, std::span<const std::int64_t> last_rows,
                        const Batch& batch) const;
    void gather_column(std::size_t column, std::span<const std::int64_t> rows, std::span<const std::int64_t> last_rows,
                       std::byte* current, std::byte* next) const;
    void gather_observations(std::size_t column, std::span<const std::int64_t> rows,
                             std::span<const std::int64_t> last_rows, std::byte* current, std::byte* next) const;
    void gather_frames(std::size_t column, std::span<const std::int64_t> rows, std::span<const std::int64_t> last_rows,
                       std::byte* current, std::byte* next) const;
    void read_observations(std::size_t column, std::span<const std::int64_t> rows,
                           std::span<const std::int64_t> last_rows, std::byte* current, std::byte* next) const;
    void prefetch_frames(std::size_t column, Side side, std::size_t row) const;
    std::size_t env_of(std::size_t row) const noexcept { return n_envs_ == 1 ? 0 : row % n_envs_; }

    std::size_t capacity_;
    std::size_t n_envs_;
    std::vector<ObservationColumn> columns_;
    std::vector<std::size_t> reference_offsets_;
    RowRecords records_;
    std::uint64_t steps_ = 0;       // steps added, a multiple of capacity skipped at each clear
    std::uint64_t first_step_ = 0;  // steps_ at the last clear
};

}  // namespace webscale
