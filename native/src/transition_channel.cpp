#include "webscale/transition_channel.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <stdexcept>
#include <thread>

namespace webscale {

namespace {

constexpr std::uint64_t magic_number = 0x7765627363616c65;  // "webscale"
constexpr std::size_t header_bytes = 256;

// A full ring is looked at again after 20 microseconds, then twice that, up to a millisecond: no lock or futex is
// shared with a process that may be killed while it holds it.
constexpr std::chrono::nanoseconds first_nap{20'000};
constexpr std::chrono::nanoseconds longest_nap{1'000'000};

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

TransitionChannel::Shape::Shape(std::span<const ObservationLayout> layouts, std::size_t action_bytes,
                                std::size_t n_envs)
    : actions_bytes(action_bytes * n_envs) {
    std::size_t offset = sizeof(std::uint64_t);  // the session
    for (const ObservationLayout& layout : layouts) {
        row_bytes.push_back(layout.row_bytes * n_envs);
        current.push_back(offset);
        offset += aligned(row_bytes.back());
        next.push_back(offset);
        offset += aligned(row_bytes.back());
    }
    actions = offset;
    numbers = actions + aligned(actions_bytes);
    total = aligned(numbers + 3 * n_envs * sizeof(float));
}

std::size_t TransitionChannel::bytes(std::span<const ObservationLayout> layouts, std::size_t action_bytes,
                                     std::size_t n_envs, std::size_t records) {
    return header_bytes + Shape(layouts, action_bytes, n_envs).total * records;
}

TransitionChannel::TransitionChannel(std::span<std::byte> memory, std::span<const ObservationLayout> layouts,
                                     std::size_t action_bytes, std::size_t n_envs, std::size_t records, bool existing)
    : shape_(layouts, action_bytes, n_envs),
      n_envs_(n_envs),
      header_(reinterpret_cast<Header*>(memory.data())),
      records_(memory.data() + header_bytes),
      current_(layouts.size()),
      next_(layouts.size()) {
    static_assert(sizeof(Header) <= header_bytes);
    if (records == 0 || n_envs == 0 || memory.size() < header_bytes + shape_.total * records) {
        throw std::invalid_argument("the shared memory is too small for its records");
    }
    if (!existing) {
        new (header_) Header{};
        header_->record_bytes = shape_.total;
        header_->records = records;
        header_->magic = magic_number;
    } else if (header_->magic != magic_number || header_->record_bytes != shape_.total || header_->records != records) {
        throw std::invalid_argument("the shared memory holds no ring of such transitions");
    }
}

bool TransitionChannel::claim(Process previous, Process writer) {
    if (!header_->writer.compare_exchange_strong(previous, writer)) {
        return false;
    }
    own_session_ = header_->session.fetch_add(1) + 1;
    return true;
}

bool TransitionChannel::wait_for_room(std::chrono::nanoseconds patience) const {
    const std::uint64_t head = header_->head.load(std::memory_order_relaxed);
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (auto nap = first_nap;; nap = std::min(2 * nap, longest_nap)) {
        if (closed()) {
            return false;
        }
        if (head - header_->tail.load(std::memory_order_acquire) < header_->records) {
            return true;
        }
        if (std::chrono::steady_clock::now() >= deadline) {
            return false;
        }
        std::this_thread::sleep_for(nap);
    }
}

bool TransitionChannel::write(const Step& step, std::chrono::nanoseconds patience) {
    if (!wait_for_room(patience)) {
        return false;
    }
    const std::uint64_t head = header_->head.load(std::memory_order_relaxed);
    std::byte* record = record_at(head);
    std::memcpy(record, &own_session_, sizeof(own_session_));
    for (std::size_t c = 0; c < shape_.current.size(); ++c) {
        std::memcpy(record + shape_.current[c], step.current[c], shape_.row_bytes[c]);
        std::memcpy(record + shape_.next[c], step.next[c], shape_.row_bytes[c]);
    }
    std::memcpy(record + shape_.actions, step.actions, shape_.actions_bytes);
    std::byte* numbers = record + shape_.numbers;
    for (const float* values : {step.rewards, step.dones, step.timeouts}) {
        std::memcpy(numbers, values, n_envs_ * sizeof(float));
        numbers += n_envs_ * sizeof(float);
    }
    header_->head.store(head + 1, std::memory_order_release);
    return true;
}

Step TransitionChannel::step_in(const std::byte* record) {
    for (std::size_t c = 0; c < shape_.current.size(); ++c) {
        current_[c] = record + shape_.current[c];
        next_[c] = record + shape_.next[c];
    }
    const auto* numbers = reinterpret_cast<const float*>(record + shape_.numbers);
    return {current_, next_, record + shape_.actions, numbers, numbers + n_envs_, numbers + 2 * n_envs_};
}

std::uint64_t TransitionChannel::session_of(const std::byte* record) noexcept {
    std::uint64_t session = 0;
    std::memcpy(&session, record, sizeof(session));
    return session;
}

}  // namespace webscale
