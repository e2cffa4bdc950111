#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "webscale/replay.hpp"

namespace webscale {

/// Windows of time: `size` consecutive transitions each, in the order in which they came in over all shards.
struct WindowPolicy {
    std::size_t size;
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();  // newest windows that are drawn from; the others rest
    double decay = 1.0;  // factor on the probability for each window of age, in (0, 1]
};

/// Windows from `first` to before `end`; window 0 holds the first transitions ever added.
struct WindowRange {
    std::uint64_t first = 0;
    std::uint64_t end = std::numeric_limits<std::uint64_t>::max();
};

/// Transitions of several streams of experience spread over shards, each episode whole in one of them.
///
/// A stream is one environment. Each shard has one lane for each stream, a Replay of one environment with a lock of its
/// own, so that writers of different streams never wait for each other and an episode's steps stay consecutive. The
/// shard of an episode is a hash of its stream and number. Draws are proportional to priority over all lanes, exactly
/// as in a single Replay that holds the same transitions.
///
/// A row is lane * capacity + slot, an id is (id in its lane) * lanes + lane, and lane is shard * streams + stream.
/// A new row gets the largest priority of all lanes, as read without their locks: one that changes meanwhile may or may
/// not count. Safe to use from many threads.
class ShardedReplay {
public:
    /// `lanes` are empty replays of one environment and equal capacity, shard by shard, which must outlive this object
    /// and be changed through it alone. Throws std::invalid_argument.
    ShardedReplay(std::span<Replay* const> lanes, std::size_t streams, std::uint64_t hash_seed, WindowPolicy windows);

    /// Stores `count` steps of the `n_streams` streams from `first_stream` on, laid out as for Replay::add.
    std::optional<NonFinite> add(std::size_t first_stream, std::size_t n_streams, const Step& first, std::size_t count,
                                 bool check_finite);

    /// Cuts the running episode of a stream, whose writer is gone: its last transition counts as truncated.
    void end_episode(std::size_t stream);

    /// Draws one row for each of `places`, in [0, 1) of the whole probability, with importance weights as
    /// PrioritySampler::sample gives, and gathers them, all from one state. P = (1 - t) mass / total + t / rows with
    /// temperature t, each weighted by its window. With empty `weights`, P is uniform. Throws std::logic_error when
    /// nothing can be drawn. O(count log n), and O(windows log n) with a range, keep or decay.
    void sample(std::span<const double> places, double beta, WindowRange range, std::span<float> weights,
                const Windows& windows, const Batch& batch) const;

    /// Copies `rows` out; see TransitionRing::gather. Fastest when rows of a lane lie side by side.
    void gather(std::span<const std::int64_t> rows, const Windows& windows, const Batch& batch) const;

    UpdateCounts update_priorities(std::span<const std::int64_t> ids, std::span<const double> priorities);
    UpdateCounts raise_priorities(std::span<const std::int64_t> ids, double factor);
    void priorities(std::span<const std::int64_t> ids, std::span<double> out) const;
    DrawStatistics draw_statistics() const;

    /// Ids of the transitions that came in last, oldest first; all when fewer than `count` are stored. O(lanes * count).
    std::vector<std::int64_t> recent(std::size_t count) const;

    /// For each id its place in the order of arrival, -1 when it was overwritten.
    void arrivals(std::span<const std::int64_t> ids, std::span<std::int64_t> out) const;


    void prioritize(double alpha, std::uint64_t seed);
    void set_alpha(double alpha);
    void set_temperature(double temperature) noexcept { temperature_.store(temperature); }
    void set_new_priority(NewPriority rule);
    void clear();

    std::size_t lanes() const noexcept { return lanes_.size(); }
    std::size_t streams() const noexcept { return streams_.size(); }
    std::size_t shards() const noexcept { return lanes() / streams(); }
    std::size_t capacity() const noexcept { return capacity_; }
    bool prioritized() const;

    std::size_t stored() const;  // transitions
    std::uint64_t arrivals_so_far() const noexcept { return clock_.load(std::memory_order_relaxed); }
    double max_priority() const;
    double alpha() const;
    std::size_t nbytes() const;

    /// Which shard holds an episode.
    std::size_t shard_of(std::size_t stream, std::uint64_t episode) const noexcept;

    // For saving and restoring; nobody may add meanwhile.
    struct StreamState {
        std::uint64_t episode = 0;
        bool open = false;  // whether the episode has begun
    };
    std::vector<StreamState> stream_states() const;
    std::vector<std::uint64_t> lane_arrivals(std::size_t lane) const;
    void restore(std::span<const StreamState> streams, std::uint64_t arrivals);
    void restore_lane(std::size_t lane, std::span<const std::uint64_t> arrivals);

private:
    struct Lane {
        Replay* replay;
        std::vector<std::uint64_t> arrivals;  // of each slot
        std::atomic<double> highest{0.0};     // what a new row would get here, readable without the lock
        mutable std::shared_mutex mutex;
    };
    struct Stream {
        StreamState state;
        mutable std::mutex mutex;
    };
    struct LaneIds {
        std::vector<std::int64_t> ids;    // in the lane
        std::vector<std::size_t> places;  // among all ids given
    };
    struct Cell;

    void add_transition(std::size_t stream, const Step& step);
    std::int64_t global_id(std::int64_t id, std::size_t lane) const noexcept {
        return id * static_cast<std::int64_t>(lanes()) + static_cast<std::int64_t>(lane);
    }
    double highest_elsewhere(std::size_t lane) const noexcept;
    void publish(Lane& lane) noexcept;
    std::vector<std::shared_lock<std::shared_mutex>> lock_all() const;
    void draw(std::span<const double> places, double beta, WindowRange range, std::span<std::int64_t> rows,
              std::span<float> weights) const;
    void gather_locked(std::span<const std::int64_t> rows, const Windows& windows, const Batch& batch) const;
    std::vector<Cell> cells(WindowRange range) const;
    void append_cells(std::size_t lane, std::size_t begin, std::size_t end, WindowRange range,
                      std::vector<Cell>& out) const;
    std::vector<LaneIds> by_lane(std::span<const std::int64_t> ids) const;

    std::size_t capacity_ = 0;
    std::uint64_t hash_seed_;
    WindowPolicy windows_;
    std::atomic<double> temperature_{0.0};
    std::vector<ObservationLayout> layouts_;
    std::size_t action_bytes_ = 0;
    std::vector<std::unique_ptr<Lane>> lanes_;
    std::vector<std::unique_ptr<Stream>> streams_;
    std::atomic<std::uint64_t> clock_{0};
};

}  // namespace webscale
