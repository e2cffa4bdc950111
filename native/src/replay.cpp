#include "webscale/replay.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace webscale {

namespace {

std::vector<std::size_t> unsigned_rows(std::span<const std::int64_t> rows) {
    return {rows.begin(), rows.end()};
}

}  // namespace

Replay::Replay(std::size_t capacity, std::size_t n_envs, std::span<const ObservationLayout> columns,
               std::size_t action_bytes)
    : ring_(capacity, n_envs, columns, action_bytes) {}

void Replay::prioritize(double alpha, std::uint64_t seed) {
    const std::unique_lock lock(mutex_);
    sampler_.emplace(ring_.rows(), alpha, seed);
    std::vector<std::size_t> stored(ring_.filled_slots() * ring_.n_envs());
    std::iota(stored.begin(), stored.end(), std::size_t{0});
    sampler_->assign_max(stored);
}

void Replay::tier(std::string directory, std::size_t allowance) {
    const std::unique_lock lock(mutex_);
    if (ring_.filled_slots() > 0 || tiering_) {
        throw std::logic_error("only an empty replay can be given a memory budget, and only once");
    }
    memory_.emplace(std::move(directory), allowance);
    tiering_.emplace(*memory_, ring_, sampler_);
}

void Replay::append_frames(std::size_t column, std::size_t env, std::span<const std::byte> frames) {
    const std::unique_lock lock(mutex_);
    FrameStream& stream = ring_.columns().at(column).stream(env);
    if (frames.size() % stream.frame_bytes() != 0) {
        throw std::invalid_argument("the saved frames are not a whole number of frames");
    }
    for (std::size_t offset = 0; offset < frames.size(); offset += stream.frame_bytes()) {
        if (tiering_) {
            tiering_->make_room(stream, 1);
        }
        stream.append(frames.data() + offset);
    }
}

std::optional<TierCounts> Replay::tier_counts() const {
    const std::shared_lock lock(mutex_);
    return tiering_ ? std::optional(tiering_->counts()) : std::nullopt;
}

PrioritySampler& Replay::required_sampler() {
    if (!sampler_) {
        throw std::logic_error("this replay has no priorities; build it with prioritized=True");
    }
    return *sampler_;
}

const PrioritySampler& Replay::required_sampler() const { return const_cast<Replay*>(this)->required_sampler(); }

void Replay::check_rows(std::span<const std::int64_t> rows) const {
    const auto filled = static_cast<std::int64_t>(ring_.filled_slots() * ring_.n_envs());
    for (const std::int64_t row : rows) {
        if (row < 0 || row >= filled) {
            throw std::out_of_range("row " + std::to_string(row) + " is not stored: rows 0 to " +
                                    std::to_string(filled - 1) + " are");
        }
    }
}

std::optional<NonFinite> Replay::add(const Step& first, std::size_t count, bool check_finite, bool withheld,
                                     double at_least) {
    if (check_finite) {
        if (const auto found = find_non_finite(first, ring_.layouts(), count * ring_.n_envs())) {
            return found;
        }
    }
    std::vector<const std::byte*> current(first.current.begin(), first.current.end());
    std::vector<const std::byte*> next(first.next.begin(), first.next.end());
    const std::size_t n_envs = ring_.n_envs();
    const auto lock = lock_when_free_below([&] {
        const auto oldest_kept = static_cast<std::int64_t>(ring_.steps() + count - ring_.capacity());  // negative at first
        return oldest_kept * static_cast<std::int64_t>(n_envs);
    });
    std::vector<std::size_t> rows(sampler_ ? n_envs : 0);
    const std::vector<double> no_priority(sampler_ ? n_envs : 0);
    for (std::size_t i = 0; i < count; ++i) {
        if (tiering_) {
            tiering_->make_room();  // before anything changes: when it fails, this step was never begun
        }
        std::iota(rows.begin(), rows.end(), ring_.position() * n_envs);
        ring_.add({current, next, first.actions + i * n_envs * ring_.records().action_bytes(), first.rewards + i * n_envs,
                   first.dones + i * n_envs, first.timeouts + i * n_envs});
        if (sampler_ && withheld) {
            sampler_->assign(rows, no_priority);
        } else if (sampler_) {
            sampler_->assign_max(rows, at_least);
        }
        for (std::size_t c = 0; c < current.size(); ++c) {
            const std::size_t step_bytes = ring_.columns()[c].layout().row_bytes * n_envs;
            current[c] += step_bytes;
            next[c] += step_bytes;
        }
    }
    return std::nullopt;
}

/// Locks for writing once no id below threshold(), which is called under the lock, is held.
template <class Threshold>
std::unique_lock<std::shared_mutex> Replay::lock_when_free_below(Threshold threshold) {
    std::unique_lock lock(mutex_);
    while (!held_.free_below(threshold())) {
        const std::int64_t end = threshold();
        lock.unlock();  // whoever holds one needs the lock to copy it
        held_.wait_until_free_below(end);
        lock.lock();
    }
    return lock;
}

/// Calls `function` while nobody writes, then lets a tiered replay exchange what is in memory if that is due.
template <class Function>
void Replay::reading_frames(Function function) {
    bool exchange_due = false;
    {
        const std::shared_lock lock(mutex_);
        function();
        exchange_due = tiering_ && tiering_->next_batch();
    }
    if (exchange_due) {
        const std::unique_lock lock(mutex_);
        tiering_->exchange();
    }
}

void Replay::gather(std::span<const std::int64_t> rows, const Windows& windows, const Batch& batch) {
    reading_frames([&] {
        check_rows(rows);
        ring_.gather(rows, windows, batch);
    });
}

void Replay::draw(double beta, std::span<std::int64_t> rows, std::span<float> weights) {
    const std::shared_lock lock(mutex_);
    draw_locked(beta, rows, weights);
}

void Replay::sample(double beta, std::span<std::int64_t> rows, std::span<float> weights, const Windows& windows,
                    const Batch& batch) {
    reading_frames([&] {
        draw_locked(beta, rows, weights);
        ring_.gather(rows, windows, batch);
    });
}

ChosenRows Replay::choose(std::span<const std::int64_t> rows, const Windows& windows, const Batch& batch) {
    const std::shared_lock lock(mutex_);
    check_rows(rows);
    return choose_locked({rows.begin(), rows.end()}, windows, batch);
}

ChosenRows Replay::choose_by_priority(double beta, std::span<float> weights, const Windows& windows,
                                      const Batch& batch) {
    std::vector<std::int64_t> rows(weights.size());
    const std::shared_lock lock(mutex_);
    draw_locked(beta, rows, weights);
    return choose_locked(std::move(rows), windows, batch);
}

ChosenRows Replay::choose_locked(std::vector<std::int64_t> rows, const Windows& windows, const Batch& batch) {
    std::vector<std::int64_t> last_rows = ring_.gather_fields(rows, windows, batch);
    // A window's last row is newer than its first, so the oldest of these is the oldest of all.
    std::int64_t oldest = std::numeric_limits<std::int64_t>::max();
    const TransitionRing::LiveIds live = ring_.live_ids();
    for (const std::int64_t row : rows) {
        oldest = std::min(oldest, live.id_of(static_cast<std::size_t>(row)));
    }
    return {std::move(rows), std::move(last_rows), held_.hold(oldest)};
}

void Replay::copy_observations(ChosenRows& chosen, const Batch& batch) {
    const HeldIds::Hold hold = std::move(chosen.hold);
    if (!hold) {
        throw std::logic_error("the observations of this batch were copied before");
    }
    reading_frames([&] { ring_.copy_observations(chosen.rows, chosen.last_rows, batch); });
}

void Replay::draw_locked(double beta, std::span<std::int64_t> rows, std::span<float> weights) {
    const std::lock_guard drawing(drawing_);
    PrioritySampler& sampler = required_sampler();
    std::vector<std::size_t> drawn(rows.size());
    sampler.draw(drawn);
    std::copy(drawn.begin(), drawn.end(), rows.begin());
    ring_.prefetch_rows(rows);  // they arrive while the weights are computed
    sampler.weigh(beta, drawn, weights);
}

UpdateCounts Replay::update_priorities(std::span<const std::int64_t> ids, std::span<const double> priorities) {
    const std::unique_lock lock(mutex_);
    PrioritySampler& sampler = required_sampler();
    const TransitionRing::LiveIds live = ring_.live_ids();
    std::vector<std::size_t> rows;
    std::vector<double> values;
    rows.reserve(ids.size());
    values.reserve(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (live.contains(ids[i])) {
            rows.push_back(live.row_of(ids[i]));
            values.push_back(priorities[i]);
        }
    }
    const std::size_t updated = sampler.update(rows, values);
    return {updated, ids.size() - updated};
}

UpdateCounts Replay::raise_priorities(std::span<const std::int64_t> ids, double factor) {
    const std::unique_lock lock(mutex_);
    PrioritySampler& sampler = required_sampler();
    std::vector<std::size_t> rows;
    for (const std::int64_t id : ids) {
        if (ring_.live(id) && sampler.priority(ring_.row_of(id)) > 0.0) {
            rows.push_back(ring_.row_of(id));
        }
    }
    sampler.raise(rows, factor);
    return {rows.size(), ids.size() - rows.size()};
}

void Replay::priorities(std::span<const std::int64_t> ids, std::span<double> out) const {
    const std::shared_lock lock(mutex_);
    const PrioritySampler& sampler = required_sampler();
    for (std::size_t i = 0; i < ids.size(); ++i) {
        out[i] = ring_.live(ids[i]) ? sampler.priority(ring_.row_of(ids[i])) : std::numeric_limits<double>::quiet_NaN();
    }
}

void Replay::withdraw(std::span<const std::int64_t> rows) {
    const std::unique_lock lock(mutex_);
    check_rows(rows);
    required_sampler().assign(unsigned_rows(rows), std::vector<double>(rows.size(), 0.0));
}

void Replay::admit(std::span<const std::int64_t> rows) {
    const std::unique_lock lock(mutex_);
    check_rows(rows);
    required_sampler().assign_max(unsigned_rows(rows));
}

void Replay::set_alpha(double alpha) {
    const std::unique_lock lock(mutex_);
    required_sampler().set_alpha(alpha);
}

void Replay::set_temperature(double temperature) {
    const std::unique_lock lock(mutex_);
    required_sampler().set_temperature(temperature);
}

DrawStatistics Replay::draw_statistics() const {
    const std::shared_lock lock(mutex_);
    return required_sampler().draw_statistics();
}

void Replay::clear() {
    const auto lock = lock_when_free_below([] { return std::numeric_limits<std::int64_t>::max(); });
    ring_.clear();
    if (sampler_) {
        sampler_->clear();
    }
}

std::size_t Replay::nbytes() const {
    const std::shared_lock lock(mutex_);
    return ring_.nbytes() + (sampler_ ? sampler_->nbytes() : 0) + (memory_ ? memory_->resident() : 0);
}

}  // namespace webscale
