#include "webscale/transition_ring.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace webscale {

namespace {

std::size_t checked(std::size_t value, const char* message) {
    if (value == 0) {
        throw std::invalid_argument(message);
    }
    return value;
}

}  // namespace

TransitionRing::TransitionRing(std::size_t capacity, std::size_t n_envs, std::span<const ObservationLayout> columns,
                               std::size_t action_bytes)
    : capacity_(checked(capacity, "capacity is 0, but a ring holds at least one step")),
      n_envs_(checked(n_envs, "n_envs is 0, but a ring serves at least one environment")),
      action_bytes_(action_bytes),
      actions_(capacity * n_envs * action_bytes),
      rewards_(capacity * n_envs),
      dones_(capacity * n_envs),
      timeouts_(capacity * n_envs) {
    columns_.reserve(columns.size());
    for (const ObservationLayout& layout : columns) {
        columns_.emplace_back(capacity, n_envs, layout);
    }
}

void TransitionRing::add(const Step& step) {
    const std::size_t slot = position();
    const std::size_t previous =
        steps_ > first_step_ ? (slot + capacity_ - 1) % capacity_ : ObservationColumn::no_previous;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        const std::size_t row_bytes = columns_[c].layout().row_bytes;
        for (std::size_t env = 0; env < n_envs_; ++env) {
            columns_[c].add(slot, env, previous, step.current[c] + env * row_bytes, step.next[c] + env * row_bytes);
        }
    }
    std::memcpy(actions_.data() + slot * n_envs_ * action_bytes_, step.actions, n_envs_ * action_bytes_);
    std::copy(step.rewards, step.rewards + n_envs_, rewards_.data() + slot * n_envs_);
    std::copy(step.dones, step.dones + n_envs_, dones_.data() + slot * n_envs_);
    std::copy(step.timeouts, step.timeouts + n_envs_, timeouts_.data() + slot * n_envs_);
    ++steps_;
    if (full()) {
        for (ObservationColumn& column : columns_) {
            for (std::size_t env = 0; env < n_envs_; ++env) {
                column.release_before(position(), env);
            }
        }
    }
}

void TransitionRing::clear() noexcept {
    steps_ = (steps_ + capacity_ - 1) / capacity_ * capacity_;
    first_step_ = steps_;
    for (ObservationColumn& column : columns_) {
        column.clear();
    }
}

std::int64_t TransitionRing::id_of(std::size_t row) const noexcept {
    const std::uint64_t slot = row / n_envs_;
    const std::uint64_t turn = steps_ / capacity_ - (slot >= position() ? 1 : 0);
    return static_cast<std::int64_t>((turn * capacity_ + slot) * n_envs_ + row % n_envs_);
}

bool TransitionRing::live(std::int64_t id) const noexcept {
    if (id < 0) {
        return false;
    }
    const std::uint64_t step = static_cast<std::uint64_t>(id) / n_envs_;
    return step < steps_ && step >= steps_ - filled_slots();
}

std::size_t TransitionRing::nbytes() const noexcept {
    std::size_t total = actions_.nbytes() + rewards_.nbytes() + dones_.nbytes() + timeouts_.nbytes();
    for (const ObservationColumn& column : columns_) {
        total += column.nbytes();
    }
    return total;
}

void TransitionRing::restore_counters(std::uint64_t steps, std::uint64_t first_step) {
    if (first_step > steps || first_step % capacity_ != 0) {
        throw std::invalid_argument("the saved step counters do not belong to a ring of this capacity");
    }
    steps_ = steps;
    first_step_ = first_step;
}

}  // namespace webscale
