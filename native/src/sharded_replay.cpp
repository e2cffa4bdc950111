#include "webscale/sharded_replay.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "webscale/philox.hpp"
#include "webscale/powers.hpp"
#include "webscale/sum_range.hpp"

namespace webscale {

namespace {

/// The part of a step that belongs to one of its environments; keeps the addresses that the Step refers to.
class EnvStep {
public:
    EnvStep(std::span<const ObservationLayout> layouts, std::size_t action_bytes)
        : layouts_(layouts), action_bytes_(action_bytes), current_(layouts.size()), next_(layouts.size()) {}

    Step of(const Step& whole, std::size_t row) {
        for (std::size_t c = 0; c < layouts_.size(); ++c) {
            current_[c] = whole.current[c] + row * layouts_[c].row_bytes;
            next_[c] = whole.next[c] + row * layouts_[c].row_bytes;
        }
        return {current_,
                next_,
                whole.actions + row * action_bytes_,
                whole.rewards + row,
                whole.dones + row,
                whole.timeouts + row};
    }

private:
    std::span<const ObservationLayout> layouts_;
    std::size_t action_bytes_;
    std::vector<const std::byte*> current_;
    std::vector<const std::byte*> next_;
};

/// Sums of the parts before each part: finds the part that holds a place.
class RunningSum {
public:
    void append(double part) {
        total_ += part;
        ends_.push_back(total_);
        last_ = part > 0.0 ? ends_.size() - 1 : last_;
    }
    double total() const noexcept { return total_; }

    /// The part that holds `place`, and what is left of the place in it. Never a part of nothing.
    std::pair<std::size_t, double> find(double place) const noexcept {
        const auto above = std::upper_bound(ends_.begin(), ends_.end(), place);
        const std::size_t part = std::min(static_cast<std::size_t>(above - ends_.begin()), last_);
        return {part, std::max(part == 0 ? place : place - ends_[part - 1], 0.0)};
    }

private:
    std::vector<double> ends_;
    double total_ = 0.0;
    std::size_t last_ = 0;  // last part of more than nothing: rounding may push a place past the end
};

Batch part_of(const Batch& whole, std::size_t begin, std::span<const ObservationLayout> layouts,
              std::size_t action_bytes, std::vector<std::byte*>& current, std::vector<std::byte*>& next) {
    const auto shifted = [&](std::span<std::byte* const> addresses, std::vector<std::byte*>& out) {
        out.assign(addresses.begin(), addresses.end());
        for (std::size_t c = 0; c < out.size(); ++c) {
            out[c] = out[c] == nullptr ? nullptr : out[c] + begin * layouts[c].row_bytes;
        }
    };
    shifted(whole.current, current);
    shifted(whole.next, next);
    return {current,
            next,
            whole.actions == nullptr ? nullptr : whole.actions + begin * action_bytes,
            whole.rewards == nullptr ? nullptr : whole.rewards + begin,
            whole.terminals == nullptr ? nullptr : whole.terminals + begin,
            whole.ids == nullptr ? nullptr : whole.ids + begin};
}

Windows part_of(const Windows& whole, std::size_t begin) {
    return {whole.n_steps, whole.rewards == nullptr ? nullptr : whole.rewards + begin * whole.n_steps,
            whole.lengths == nullptr ? nullptr : whole.lengths + begin};
}

}  // namespace

/// Consecutive slots of one lane that are drawn with one weight.
struct ShardedReplay::Cell {
    std::size_t lane;
    std::size_t begin;
    std::size_t end;
    double weight;
    double mass;
    std::optional<SumRange> range;  // none when the cell is its whole lane
};

ShardedReplay::ShardedReplay(std::span<Replay* const> lanes, std::size_t streams, std::uint64_t hash_seed,
                             WindowPolicy windows)
    : hash_seed_(hash_seed), windows_(windows) {
    if (lanes.empty() || streams == 0 || lanes.size() % streams != 0) {
        throw std::invalid_argument("a sharded replay needs lanes, a multiple of its streams");
    }
    if (windows.size == 0 || windows.keep == 0 || !(windows.decay > 0.0 && windows.decay <= 1.0)) {
        throw std::invalid_argument("windows need a size and a number of 1 at least, and a decay in (0, 1]");
    }
    const TransitionRing& ring = lanes.front()->ring();
    capacity_ = ring.capacity();
    layouts_ = ring.layouts();
    action_bytes_ = ring.records().action_bytes();
    for (Replay* replay : lanes) {
        if (replay->ring().n_envs() != 1 || replay->ring().capacity() != capacity_) {
            throw std::invalid_argument("every lane must hold one environment and as many transitions as the others");
        }
        lanes_.push_back(std::make_unique<Lane>());
        lanes_.back()->replay = replay;
        lanes_.back()->arrivals.resize(capacity_);
    }
    for (std::size_t i = 0; i < streams; ++i) {
        streams_.push_back(std::make_unique<Stream>());
    }
}

bool ShardedReplay::prioritized() const { return lanes_.front()->replay->prioritized(); }

std::size_t ShardedReplay::shard_of(std::size_t stream, std::uint64_t episode) const noexcept {
    const std::uint64_t key = hash_seed_ + static_cast<std::uint64_t>(stream) * 0x9E3779B97F4A7C15u;
    const std::uint64_t hash = Philox::block(key, episode)[0];
    return static_cast<std::size_t>(hash * shards() >> 32);
}

std::optional<NonFinite> ShardedReplay::add(std::size_t first_stream, std::size_t n_streams, const Step& first,
                                            std::size_t count, bool check_finite) {
    if (first_stream + n_streams > streams()) {
        throw std::out_of_range("there is no stream " + std::to_string(first_stream + n_streams - 1));
    }
    if (check_finite) {
        if (const auto found = find_non_finite(first, layouts_, count * n_streams)) {
            return found;
        }
    }
    EnvStep one(layouts_, action_bytes_);
    for (std::size_t row = 0; row < count * n_streams; ++row) {
        add_transition(first_stream + row % n_streams, one.of(first, row));
    }
    return std::nullopt;
}

void ShardedReplay::add_transition(std::size_t stream, const Step& step) {
    Stream& writer = *streams_[stream];
    const std::lock_guard writing(writer.mutex);
    const std::size_t index = shard_of(stream, writer.state.episode) * streams() + stream;
    Lane& lane = *lanes_[index];
    const std::unique_lock lock(lane.mutex);
    const std::size_t slot = lane.replay->ring().position();
    lane.replay->add(step, 1, false, false, highest_elsewhere(index));
    lane.arrivals[slot] = clock_.fetch_add(1, std::memory_order_relaxed);  // in the lock, so that they ascend in a lane
    publish(lane);
    writer.state.open = step.dones[0] == 0.0f;
    writer.state.episode += writer.state.open ? 0 : 1;
}

void ShardedReplay::end_episode(std::size_t stream) {
    Stream& writer = *streams_.at(stream);
    const std::lock_guard writing(writer.mutex);
    if (!writer.state.open) {
        return;
    }
    Lane& lane = *lanes_[shard_of(stream, writer.state.episode) * streams() + stream];
    const std::unique_lock lock(lane.mutex);
    TransitionRing& ring = lane.replay->ring();
    std::byte* last = ring.records().record((ring.position() + capacity_ - 1) % capacity_);
    RowRecords::done(last) = 1.0f;
    RowRecords::timeout(last) = 1.0f;
    writer.state = {writer.state.episode + 1, false};
}

double ShardedReplay::highest_elsewhere(std::size_t lane) const noexcept {
    double highest = 0.0;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        if (i != lane) {
            highest = std::max(highest, lanes_[i]->highest.load(std::memory_order_relaxed));
        }
    }
    return highest;
}

void ShardedReplay::publish(Lane& lane) noexcept {
    if (const auto& sampler = lane.replay->sampler()) {
        const bool ever = sampler->new_priority() == NewPriority::max_ever;
        lane.highest.store(ever ? sampler->max_ever() : sampler->max_priority(), std::memory_order_relaxed);
    }
}

std::vector<std::shared_lock<std::shared_mutex>> ShardedReplay::lock_all() const {
    std::vector<std::shared_lock<std::shared_mutex>> locks;
    locks.reserve(lanes_.size());
    for (const auto& lane : lanes_) {
        locks.emplace_back(lane->mutex);
    }
    return locks;
}

std::vector<ShardedReplay::Cell> ShardedReplay::cells(WindowRange range) const {
    constexpr std::uint64_t unlimited = std::numeric_limits<std::uint64_t>::max();
    const std::uint64_t windows = (arrivals_so_far() + windows_.size - 1) / windows_.size;
    if (windows > windows_.keep) {
        range.first = std::max(range.first, windows - windows_.keep);
    }
    const bool everything = range.first == 0 && range.end == unlimited && windows_.decay == 1.0;
    std::vector<Cell> found;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        const TransitionRing& ring = lanes_[i]->replay->ring();
        if (everything) {
            const auto& sampler = lanes_[i]->replay->sampler();
            found.push_back({i, 0, ring.filled_slots(), 1.0, sampler ? sampler->total_mass() : 0.0, std::nullopt});
        } else if (ring.full()) {
            append_cells(i, ring.position(), capacity_, range, found);
            append_cells(i, 0, ring.position(), range, found);
        } else {
            append_cells(i, 0, ring.filled_slots(), range, found);
        }
    }
    return found;
}

void ShardedReplay::append_cells(std::size_t lane, std::size_t begin, std::size_t end, WindowRange range,
                                 std::vector<Cell>& out) const {
    if (begin == end) {
        return;
    }
    const std::uint64_t* arrivals = lanes_[lane]->arrivals.data();
    const auto& sampler = lanes_[lane]->replay->sampler();
    const std::uint64_t newest = (arrivals_so_far() - 1) / windows_.size;
    const auto start_of = [&](std::uint64_t window) {
        if (window > newest) {
            return end;  // and no product that could overflow
        }
        return static_cast<std::size_t>(std::lower_bound(arrivals + begin, arrivals + end, window * windows_.size) -
                                        arrivals);
    };
    const std::size_t stop = start_of(range.end);
    for (std::size_t slot = start_of(range.first); slot < stop;) {
        const std::uint64_t window = arrivals[slot] / windows_.size;
        const std::size_t next = windows_.decay == 1.0 ? stop : start_of(window + 1);  // alike without decay
        const double weight = std::pow(windows_.decay, static_cast<double>(newest - window));
        Cell cell{lane, slot, next, weight, 0.0, std::nullopt};
        if (sampler) {
            cell.range.emplace(sampler->masses(), slot, next);
            cell.mass = cell.range->total();
        }
        out.push_back(std::move(cell));
        slot = next;
    }
}

void ShardedReplay::draw(std::span<const double> places, double beta, WindowRange range, std::span<std::int64_t> rows,
                         std::span<float> weights) const {
    const bool by_priority = !weights.empty();
    const double uniform_share = by_priority ? temperature_.load() : 1.0;
    const std::vector<Cell> parts = cells(range);
    RunningSum masses;
    RunningSum counts;
    for (const Cell& cell : parts) {
        masses.append(cell.weight * cell.mass);
        counts.append(cell.weight * static_cast<double>(cell.end - cell.begin));
    }
    if (!(counts.total() > 0.0) || (by_priority && !(masses.total() > 0.0))) {
        throw std::logic_error("no transition is stored in these windows, so there is nothing to draw");
    }
    const auto row_of = [&](const Cell& cell, std::size_t slot) {
        return static_cast<std::int64_t>(cell.lane * capacity_ + slot);
    };

    // The unit interval holds the share drawn by priority first, the uniform share after it.
    const std::size_t size = places.size();
    const double priority_share = 1.0 - uniform_share;
    std::vector<double> density(by_priority ? size : 0);
    std::vector<double> rest(size);
    std::vector<std::size_t> found(size);
    for (std::size_t i = 0; i < size; ++i) {
        if (places[i] < priority_share) {
            std::tie(found[i], rest[i]) = masses.find(places[i] / priority_share * masses.total());
            rest[i] /= parts[found[i]].weight;
        } else {
            std::tie(found[i], rest[i]) = counts.find((places[i] - priority_share) / uniform_share * counts.total());
            const Cell& cell = parts[found[i]];
            const auto offset = static_cast<std::size_t>(rest[i] / cell.weight);
            rows[i] = row_of(cell, std::min(cell.begin + offset, cell.end - 1));
        }
    }
    std::vector<std::size_t> leaves(size);
    for (std::size_t i = 0; i < size;) {
        std::size_t end = i + 1;
        if (places[i] < priority_share) {
            // Neighbours in one lane descend its tree together, so that their cache misses overlap.
            const Cell& cell = parts[found[i]];
            while (end < size && found[end] == found[i] && places[end] < priority_share) {
                ++end;
            }
            if (cell.range) {
                std::transform(rest.begin() + i, rest.begin() + end, leaves.begin() + i,
                               [&](double place) { return cell.range->find(place); });
            } else {
                lanes_[cell.lane]->replay->sampler()->masses().find(rest.data() + i, end - i, leaves.data() + i);
            }
            for (std::size_t j = i; j < end; ++j) {
                rows[j] = row_of(cell, leaves[j]);
            }
        }
        i = end;
    }
    if (!by_priority) {
        return;
    }
    // (N P_i)^-beta / max_j (N P_j)^-beta = (min_j P_j / P_i)^beta: the number of rows cancels.
    for (std::size_t i = 0; i < size; ++i) {
        const Cell& cell = parts[found[i]];
        const double mass = lanes_[cell.lane]->replay->sampler()->mass(static_cast<std::size_t>(rows[i]) % capacity_);
        density[i] = cell.weight * (priority_share * mass / masses.total() + uniform_share / counts.total());
    }
    const double smallest = *std::min_element(density.begin(), density.end());
    std::transform(density.begin(), density.end(), density.begin(), [&](double p) { return smallest / p; });
    raise_to_power(density, beta);
    std::transform(density.begin(), density.end(), weights.begin(), [](double w) { return static_cast<float>(w); });
}

void ShardedReplay::sample(std::span<const double> places, double beta, WindowRange range, std::span<float> weights,
                           const Windows& windows, const Batch& batch) const {
    const auto locks = lock_all();
    std::vector<std::int64_t> rows(places.size());
    draw(places, beta, range, rows, weights);
    gather_locked(rows, windows, batch);
}

void ShardedReplay::gather(std::span<const std::int64_t> rows, const Windows& windows, const Batch& batch) const {
    const auto locks = lock_all();
    gather_locked(rows, windows, batch);
}

void ShardedReplay::gather_locked(std::span<const std::int64_t> rows, const Windows& windows,
                                  const Batch& batch) const {
    const auto lane_of = [&](std::int64_t row) {
        const auto lane = static_cast<std::size_t>(row) / capacity_;
        if (row < 0 || lane >= lanes()) {
            throw std::out_of_range("there is no row " + std::to_string(row));
        }
        return lane;
    };
    std::vector<std::int64_t> in_lane;
    std::vector<std::byte*> current;
    std::vector<std::byte*> next;
    for (std::size_t begin = 0; begin < rows.size();) {
        const std::size_t lane = lane_of(rows[begin]);
        in_lane.clear();
        std::size_t end = begin;
        for (; end < rows.size() && lane_of(rows[end]) == lane; ++end) {
            in_lane.push_back(rows[end] - static_cast<std::int64_t>(lane * capacity_));
        }
        const Batch part = part_of(batch, begin, layouts_, action_bytes_, current, next);
        lanes_[lane]->replay->gather(in_lane, part_of(windows, begin), part);
        if (part.ids != nullptr) {
            std::transform(part.ids, part.ids + (end - begin), part.ids,
                           [&](std::int64_t id) { return global_id(id, lane); });
        }
        begin = end;
    }
}

std::vector<ShardedReplay::LaneIds> ShardedReplay::by_lane(std::span<const std::int64_t> ids) const {
    std::vector<LaneIds> parts(lanes());
    const auto count = static_cast<std::int64_t>(lanes());
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] >= 0) {  // no transition has a negative one
            LaneIds& part = parts[static_cast<std::size_t>(ids[i] % count)];
            part.ids.push_back(ids[i] / count);
            part.places.push_back(i);
        }
    }
    return parts;
}

UpdateCounts ShardedReplay::update_priorities(std::span<const std::int64_t> ids, std::span<const double> priorities) {
    const std::vector<LaneIds> parts = by_lane(ids);
    std::vector<double> values;
    std::size_t updated = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (parts[i].ids.empty()) {
            continue;
        }
        values.clear();
        for (const std::size_t place : parts[i].places) {
            values.push_back(priorities[place]);
        }
        const std::unique_lock lock(lanes_[i]->mutex);
        updated += lanes_[i]->replay->update_priorities(parts[i].ids, values).updated;
        publish(*lanes_[i]);
    }
    return {updated, ids.size() - updated};
}

UpdateCounts ShardedReplay::raise_priorities(std::span<const std::int64_t> ids, double factor) {
    const std::vector<LaneIds> parts = by_lane(ids);
    std::size_t raised = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::unique_lock lock(lanes_[i]->mutex);
        raised += lanes_[i]->replay->raise_priorities(parts[i].ids, factor).updated;
        publish(*lanes_[i]);
    }
    return {raised, ids.size() - raised};
}

void ShardedReplay::priorities(std::span<const std::int64_t> ids, std::span<double> out) const {
    std::fill(out.begin(), out.end(), std::numeric_limits<double>::quiet_NaN());
    const std::vector<LaneIds> parts = by_lane(ids);
    std::vector<double> values;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        values.resize(parts[i].ids.size());
        const std::shared_lock lock(lanes_[i]->mutex);
        lanes_[i]->replay->priorities(parts[i].ids, values);
        for (std::size_t j = 0; j < values.size(); ++j) {
            out[parts[i].places[j]] = values[j];
        }
    }
}

DrawStatistics ShardedReplay::draw_statistics() const {
    const auto locks = lock_all();
    const std::vector<Cell> parts = cells({});
    const double temperature = temperature_.load();
    double mass = 0.0;
    double count = 0.0;
    for (const Cell& cell : parts) {
        mass += cell.weight * cell.mass;
        count += cell.weight * static_cast<double>(cell.end - cell.begin);
    }
    DrawStatistics found;
    double squares = 0.0;
    for (const Cell& cell : parts) {
        const PrioritySampler& sampler = *lanes_[cell.lane]->replay->sampler();
        for (std::size_t slot = cell.begin; slot < cell.end; ++slot) {
            const double share = (1.0 - temperature) * sampler.mass(slot) / mass + temperature / count;
            const double probability = cell.weight * share;
            if (probability > 0.0) {
                ++found.drawable;
                found.entropy -= probability * std::log(probability);
                squares += probability * probability;
            }
        }
    }
    found.effective_sample_size = squares > 0.0 ? 1.0 / squares : 0.0;
    return found;
}

std::vector<std::int64_t> ShardedReplay::recent(std::size_t count) const {
    const auto locks = lock_all();
    std::vector<std::pair<std::uint64_t, std::int64_t>> newest;  // arrival and id
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        const TransitionRing& ring = lanes_[i]->replay->ring();
        for (std::size_t age = 0; age < std::min(count, ring.filled_slots()); ++age) {
            const std::size_t slot = (ring.position() + capacity_ - 1 - age) % capacity_;
            newest.emplace_back(lanes_[i]->arrivals[slot], global_id(ring.live_ids().id_of(slot), i));
        }
    }
    std::sort(newest.begin(), newest.end());
    std::vector<std::int64_t> ids;
    for (std::size_t i = newest.size() - std::min(count, newest.size()); i < newest.size(); ++i) {
        ids.push_back(newest[i].second);
    }
    return ids;
}

void ShardedReplay::arrivals(std::span<const std::int64_t> ids, std::span<std::int64_t> out) const {
    std::fill(out.begin(), out.end(), std::int64_t{-1});
    const std::vector<LaneIds> parts = by_lane(ids);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const std::shared_lock lock(lanes_[i]->mutex);
        const TransitionRing& ring = lanes_[i]->replay->ring();
        for (std::size_t j = 0; j < parts[i].ids.size(); ++j) {
            if (ring.live(parts[i].ids[j])) {
                const std::uint64_t arrival = lanes_[i]->arrivals[ring.row_of(parts[i].ids[j])];
                out[parts[i].places[j]] = static_cast<std::int64_t>(arrival);
            }
        }
    }
}

void ShardedReplay::prioritize(double alpha, std::uint64_t seed) {
    for (const auto& lane : lanes_) {
        const std::unique_lock lock(lane->mutex);
        lane->replay->prioritize(alpha, seed);
        publish(*lane);
    }
}

void ShardedReplay::set_alpha(double alpha) {
    for (const auto& lane : lanes_) {
        const std::unique_lock lock(lane->mutex);
        lane->replay->set_alpha(alpha);
    }
}

void ShardedReplay::set_new_priority(NewPriority rule) {
    for (const auto& lane : lanes_) {
        const std::unique_lock lock(lane->mutex);
        lane->replay->sampler().value().set_new_priority(rule);
        publish(*lane);
    }
}

void ShardedReplay::clear() {
    for (const auto& stream : streams_) {
        const std::lock_guard writing(stream->mutex);
        stream->state = {stream->state.episode + (stream->state.open ? 1 : 0), false};
    }
    for (const auto& lane : lanes_) {
        const std::unique_lock lock(lane->mutex);
        lane->replay->clear();
        publish(*lane);
    }
}

std::size_t ShardedReplay::stored() const {
    std::size_t total = 0;
    for (const auto& lane : lanes_) {
        const std::shared_lock lock(lane->mutex);
        total += lane->replay->ring().filled_slots();
    }
    return total;
}

double ShardedReplay::max_priority() const {
    double highest = 0.0;
    for (const auto& lane : lanes_) {
        const std::shared_lock lock(lane->mutex);
        highest = std::max(highest, lane->replay->sampler().value().max_priority());
    }
    return highest;
}

double ShardedReplay::alpha() const {
    const std::shared_lock lock(lanes_.front()->mutex);
    return lanes_.front()->replay->sampler().value().alpha();
}

std::size_t ShardedReplay::nbytes() const {
    std::size_t total = 0;
    for (const auto& lane : lanes_) {
        const std::shared_lock lock(lane->mutex);
        total += lane->replay->nbytes() + lane->arrivals.size() * sizeof(std::uint64_t);
    }
    return total;
}

std::vector<ShardedReplay::StreamState> ShardedReplay::stream_states() const {
    std::vector<StreamState> states;
    for (const auto& stream : streams_) {
        const std::lock_guard writing(stream->mutex);
        states.push_back(stream->state);
    }
    return states;
}

std::vector<std::uint64_t> ShardedReplay::lane_arrivals(std::size_t lane) const {
    const Lane& wanted = *lanes_.at(lane);
    const std::shared_lock lock(wanted.mutex);
    const auto filled = static_cast<std::ptrdiff_t>(wanted.replay->ring().filled_slots());
    return {wanted.arrivals.begin(), wanted.arrivals.begin() + filled};
}

void ShardedReplay::restore(std::span<const StreamState> streams, std::uint64_t arrivals) {
    if (streams.size() != streams_.size()) {
        throw std::invalid_argument("there is not one saved state for each stream");
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
        streams_[i]->state = streams[i];
    }
    clock_.store(arrivals, std::memory_order_relaxed);
}

void ShardedReplay::restore_lane(std::size_t lane, std::span<const std::uint64_t> arrivals) {
    Lane& target = *lanes_.at(lane);
    const TransitionRing& ring = target.replay->ring();
    if (arrivals.size() != ring.filled_slots()) {
        throw std::invalid_argument("there is not one saved arrival for each saved transition");
    }
    const std::size_t oldest = ring.full() ? ring.position() : 0;
    for (std::size_t age = 0; age < arrivals.size(); ++age) {
        const std::uint64_t arrival = arrivals[(oldest + age) % arrivals.size()];
        if (arrival >= arrivals_so_far() || (age > 0 && arrival <= arrivals[(oldest + age - 1) % arrivals.size()])) {
            throw std::invalid_argument("the saved arrivals are not in order");
        }
    }
    std::copy(arrivals.begin(), arrivals.end(), target.arrivals.begin());
    publish(target);
}

}  // namespace webscale
