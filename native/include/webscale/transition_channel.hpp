#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "webscale/transition_ring.hpp"

namespace webscale {

/// Single-producer single-consumer ring of steps in memory that two processes share.
///
/// A record is one step of `n_envs` environments. It is written before the head moves past it with one atomic store, so
/// a writer that is killed at any moment loses the record it was writing and nothing else. Writers may follow one
/// another: each record tells the session of its writer, so that the reader knows where an unfinished episode broke off.
/// Several processes may look at one ring; only one thread may write and one read.
class TransitionChannel {
public:
    /// A process, by its id and the time it started, since ids are reused, in one number that changes at once; 0 is
    /// nobody. Whoever makes the numbers decides on the rest.
    using Process = std::uint64_t;

    static std::size_t bytes(std::span<const ObservationLayout> layouts, std::size_t action_bytes, std::size_t n_envs,
                             std::size_t records);

    /// Lays a ring out in zeroed memory, or with `existing` checks that one of this shape is there. Throws
    /// std::invalid_argument when it is not.
    TransitionChannel(std::span<std::byte> memory, std::span<const ObservationLayout> layouts, std::size_t action_bytes,
                      std::size_t n_envs, std::size_t records, bool existing);

    /// Begins a session of writing in the place of `previous`, and says whether nobody else did meanwhile.
    bool claim(Process previous, Process writer);

    /// Waits for room up to `patience`, asleep, and stores a step. Whether it did; not when the reader closed the ring.
    bool write(const Step& step, std::chrono::nanoseconds patience);

    /// Calls `function(step, session)` for up to `limit` steps, oldest first. A step leaves the ring when the function
    /// returns, and stays in it when the function throws. Returns how many left.
    template <class Function>
    std::size_t read(std::size_t limit, Function function) {
        const std::uint64_t head = header_->head.load(std::memory_order_acquire);
        std::uint64_t tail = header_->tail.load(std::memory_order_relaxed);
        std::size_t count = 0;
        for (; count < limit && tail != head; ++count) {
            const std::byte* record = record_at(tail);
            function(step_in(record), session_of(record));
            header_->tail.store(++tail, std::memory_order_release);
        }
        return count;
    }

    /// The reader takes no more steps.
    void close() noexcept { header_->closed.store(1, std::memory_order_release); }
    bool closed() const noexcept { return header_->closed.load(std::memory_order_acquire) != 0; }

    std::uint64_t written() const noexcept { return header_->head.load(std::memory_order_acquire); }
    std::uint64_t taken() const noexcept { return header_->tail.load(std::memory_order_acquire); }
    std::uint64_t session() const noexcept { return header_->session.load(std::memory_order_acquire); }
    std::size_t n_envs() const noexcept { return n_envs_; }

    Process writer() const noexcept { return header_->writer.load(std::memory_order_acquire); }
    Process reader() const noexcept { return header_->reader; }
    void set_reader(Process reader) noexcept { header_->reader = reader; }

private:
    struct Header {
        std::uint64_t magic;
        std::uint64_t record_bytes;
        std::uint64_t records;
        Process reader;  // set before any writer knows the ring
        std::atomic<Process> writer;
        std::atomic<std::uint64_t> session;
        std::atomic<std::uint64_t> closed;
        alignas(64) std::atomic<std::uint64_t> head;  // records ever written
        alignas(64) std::atomic<std::uint64_t> tail;  // records ever taken
    };
    static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

    /// Where the parts of a record begin.
    struct Shape {
        Shape(std::span<const ObservationLayout> layouts, std::size_t action_bytes, std::size_t n_envs);
        std::vector<std::size_t> current;
        std::vector<std::size_t> next;
        std::vector<std::size_t> row_bytes;  // of all environments
        std::size_t actions;
        std::size_t actions_bytes;
        std::size_t numbers;  // rewards, dones, timeouts
        std::size_t total;
    };

    std::byte* record_at(std::uint64_t index) const noexcept {
        return records_ + static_cast<std::size_t>(index % header_->records) * shape_.total;
    }
    Step step_in(const std::byte* record);
    static std::uint64_t session_of(const std::byte* record) noexcept;
    bool wait_for_room(std::chrono::nanoseconds patience) const;

    Shape shape_;
    std::size_t n_envs_;
    Header* header_;
    std::byte* records_;
    std::uint64_t own_session_ = 0;
    std::vector<const std::byte*> current_;  // scratch: addresses of the step being read
    std::vector<const std::byte*> next_;
};

}  // namespace webscale
