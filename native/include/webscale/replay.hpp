#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "webscale/held_ids.hpp"
#include "webscale/non_finite.hpp"
#include "webscale/priority_sampler.hpp"
#include "webscale/tiering.hpp"
#include "webscale/transition_ring.hpp"

namespace webscale {

struct UpdateCounts {
    std::size_t updated;
    std::size_t stale;
};

/// Rows of which everything but the observations was copied out, and which are not overwritten before these are too.
struct ChosenRows {
    std::vector<std::int64_t> rows;
    std::vector<std::int64_t> last_rows;  // of their windows, if longer than one step
    HeldIds::Hold hold;
};

/// A transition ring with an optional priority sampler, safe to use from many threads: adding and updating exclude
/// everything else, sampling excludes only them. The arrays that the ring lends out as live views are outside
/// this lock.
class Replay {
public:
    Replay(std::size_t capacity, std::size_t n_envs, std::span<const ObservationLayout> columns,
           std::size_t action_bytes);

    /// Turns prioritized sampling on; rows already stored get equal priority. O(rows).
    void prioritize(double alpha, std::uint64_t seed);

    /// Keeps `allowance` bytes of frames in memory at most and the rest in files in `directory`. Call it while the
    /// replay is empty. Throws std::invalid_argument.
    void tier(std::string directory, std::size_t allowance);

    /// Stores `count` steps, which lie one after another in each of the first one's arrays. With `check_finite`, a NaN
    /// or infinity among floating-point observations is reported instead and nothing is stored. With `withheld`, the
    /// new rows cannot be drawn until admit() is called for them; otherwise their priority is the largest stored, or
    /// `at_least` when that is larger. Throws std::bad_alloc, or SpillError when there is no room and none can be made on
    /// disk; the steps before that one are stored.
    std::optional<NonFinite> add(const Step& first, std::size_t count, bool check_finite, bool withheld,
                                 double at_least = 0.0);

    /// Copies `rows` out; see TransitionRing::gather. Throws std::out_of_range for a row that is not filled, SpillError for
    /// one that cannot be read.
    void gather(std::span<const std::int64_t> rows, const Windows& windows, const Batch& batch);
    void gather(std::span<const std::int64_t> rows, const Batch& batch) { gather(rows, Windows(), batch); }

    /// Draws rows by priority; see PrioritySampler::sample.
    void draw(double beta, std::span<std::int64_t> rows, std::span<float> weights);

    /// Draws rows and copies them out with nothing in between: no writer can replace a row that was drawn.
    void sample(double beta, std::span<std::int64_t> rows, std::span<float> weights, const Windows& windows,
                const Batch& batch);

    /// The first half of gather() or sample(), which fixes what the batch holds: rows, fields, windows and weights. Until
    /// copy_observations() or the end of what is returned, add() waits before it overwrites one of the rows, and clear()
    /// waits.
    ChosenRows choose(std::span<const std::int64_t> rows, const Windows& windows, const Batch& batch);
    ChosenRows choose_by_priority(double beta, std::span<float> weights, const Windows& windows, const Batch& batch);

    /// The second half, once, from any thread. Throws SpillError for an observation that cannot be read.
    void copy_observations(ChosenRows& chosen, const Batch& batch);

    /// Sets raw priorities by id; ids whose transition was overwritten are counted and skipped.
    UpdateCounts update_priorities(std::span<const std::int64_t> ids, std::span<const double> priorities);

    /// Multiplies raw priorities by id; ids of overwritten or withdrawn transitions are counted and skipped.
    UpdateCounts raise_priorities(std::span<const std::int64_t> ids, double factor);

    /// Raw priorities by id, NaN where the transition was overwritten.
    void priorities(std::span<const std::int64_t> ids, std::span<double> out) const;

    /// Withdraws rows from prioritized drawing, or admits them at the largest priority stored.
    void withdraw(std::span<const std::int64_t> rows);
    void admit(std::span<const std::int64_t> rows);

    /// Appends saved frames to a stream while a replay is being restored.
    void append_frames(std::size_t column, std::size_t env, std::span<const std::byte> frames);

    /// Where the frames of a tiered replay are.
    std::optional<TierCounts> tier_counts() const;

    void set_alpha(double alpha);
    void set_temperature(double temperature);
    DrawStatistics draw_statistics() const;
    void clear();

    /// What `function` finds out about the ring while nobody changes it.
    template <class Function>
    auto read(Function function) const {
        const std::shared_lock lock(mutex_);
        return function(ring_);
    }

    /// The same about the sampler. Throws std::logic_error when there is none.
    template <class Function>
    auto read_sampler(Function function) const {
        const std::shared_lock lock(mutex_);
        const std::lock_guard drawing(drawing_);
        return function(required_sampler());
    }

    bool prioritized() const {
        const std::shared_lock lock(mutex_);
        return sampler_.has_value();
    }

    // Unlocked, for building, saving and restoring.
    TransitionRing& ring() noexcept { return ring_; }
    const TransitionRing& ring() const noexcept { return ring_; }
    std::optional<PrioritySampler>& sampler() noexcept { return sampler_; }
    const std::optional<PrioritySampler>& sampler() const noexcept { return sampler_; }
    std::size_t nbytes() const;

private:
    PrioritySampler& required_sampler();
    const PrioritySampler& required_sampler() const;
    void check_rows(std::span<const std::int64_t> rows) const;
    void draw_locked(double beta, std::span<std::int64_t> rows, std::span<float> weights);
    ChosenRows choose_locked(std::vector<std::int64_t> rows, const Windows& windows, const Batch& batch);
    template <class Threshold>
    std::unique_lock<std::shared_mutex> lock_when_free_below(Threshold threshold);
    template <class Function>
    void reading_frames(Function function);

    std::optional<FrameMemory> memory_;  // outlives the ring, which gives its chunks back
    TransitionRing ring_;
    std::optional<PrioritySampler> sampler_;
    std::optional<Tiering> tiering_;
    HeldIds held_;  // added to under mutex_
    mutable std::shared_mutex mutex_;
    mutable std::mutex drawing_;  // guards the sampler's generator among those who hold mutex_ shared
};

}  // namespace webscale
