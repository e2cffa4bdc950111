#include "webscale/transition_ring.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "webscale/prefetch.hpp"
#include "webscale/worker_pool.hpp"

namespace webscale {

namespace {

// Rows whose records, and then whose frames, are asked for ahead of the copying.
constexpr std::size_t record_lookahead = 64;
constexpr std::size_t bytes_of_frame_lookahead = std::size_t{8} << 10;  // a quarter of a first-level cache
constexpr std::size_t least_frame_lookahead = 4;
constexpr std::size_t bytes_worth_threads = std::size_t{1} << 20;  // waking one costs as much as copying half of this
constexpr std::size_t bytes_of_part = std::size_t{64} << 10;

std::size_t checked(std::size_t value, const char* message) {
    if (value == 0) {
        throw std::invalid_argument(message);
    }
    return value;
}

/// Rows of one side whose frames are asked for ahead of the copying.
std::size_t lookahead_of(std::size_t row_bytes) noexcept {
    return std::max(bytes_of_frame_lookahead / row_bytes, least_frame_lookahead);
}

std::size_t references_of(std::span<const ObservationLayout> columns) {
    std::size_t total = 0;
    for (const ObservationLayout& layout : columns) {
        layout.check();
        total += layout.references();
    }
    return total;
}

}  // namespace

TransitionRing::TransitionRing(std::size_t capacity, std::size_t n_envs, std::span<const ObservationLayout> columns,
                               std::size_t action_bytes)
    : capacity_(checked(capacity, "capacity is 0, but a ring holds at least one step")),
      n_envs_(checked(n_envs, "n_envs is 0, but a ring serves at least one environment")),
      records_(capacity * n_envs, references_of(columns), action_bytes) {
    std::size_t offset = 0;
    columns_.reserve(columns.size());
    for (const ObservationLayout& layout : columns) {
        columns_.emplace_back(capacity, n_envs, layout);
        reference_offsets_.push_back(offset);
        offset += layout.references();
    }
}

std::vector<ObservationLayout> TransitionRing::layouts() const {
    std::vector<ObservationLayout> layouts;
    layouts.reserve(columns_.size());
    for (const ObservationColumn& column : columns_) {
        layouts.push_back(column.layout());
    }
    return layouts;
}

void TransitionRing::add(const Step& step) {
    const std::size_t slot = position();
    // All memory first: from here on nothing can fail, so a step is stored whole or not at all.
    for (ObservationColumn& column : columns_) {
        for (std::size_t env = 0; env < n_envs_; ++env) {
            column.stream(env).reserve(column.layout().references());
        }
    }
    for (std::size_t env = 0; env < n_envs_; ++env) {
        add_observations(step, slot, env);
        std::byte* record = records_.record(slot * n_envs_ + env);
        RowRecords::reward(record) = step.rewards[env];
        RowRecords::done(record) = step.dones[env];
        RowRecords::timeout(record) = step.timeouts[env];
        std::memcpy(records_.action(record), step.actions + env * records_.action_bytes(), records_.action_bytes());
    }
    ++steps_;
    if (full()) {
        for (std::size_t env = 0; env < n_envs_; ++env) {
            const std::byte* oldest = records_.record(position() * n_envs_ + env);
            for (std::size_t c = 0; c < columns_.size(); ++c) {
                columns_[c].release_before(env, RowRecords::references(oldest) + reference_offsets_[c]);
            }
        }
    }
}

void TransitionRing::add_observations(const Step& step, std::size_t slot, std::size_t env) {
    std::byte* record = records_.record(slot * n_envs_ + env);
    const std::size_t previous_slot = slot == 0 ? capacity_ - 1 : slot - 1;
    const std::byte* previous = steps_ > first_step_ ? records_.record(previous_slot * n_envs_ + env) : nullptr;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        const std::size_t row_bytes = columns_[c].layout().row_bytes;
        const std::size_t offset = reference_offsets_[c];
        columns_[c].add(env, previous == nullptr ? nullptr : RowRecords::references(previous) + offset,
                        step.current[c] + env * row_bytes, step.next[c] + env * row_bytes,
                        RowRecords::references(record) + offset);
    }
}

void TransitionRing::gather(std::span<const std::int64_t> rows, const Windows& windows, const Batch& batch) const {
    copy_observations(rows, gather_fields(rows, windows, batch), batch);
}

std::vector<std::int64_t> TransitionRing::gather_fields(std::span<const std::int64_t> rows, const Windows& windows,
                                                        const Batch& batch) const {
    std::vector<std::int64_t> last_rows = windows.n_steps > 1 ? follow(rows, windows) : std::vector<std::int64_t>();
    gather_scalars(rows, last_rows.empty() ? rows : last_rows, batch);
    return last_rows;
}

void TransitionRing::copy_observations(std::span<const std::int64_t> rows, std::span<const std::int64_t> last_rows,
                                       const Batch& batch) const {
    if (last_rows.empty()) {
        last_rows = rows;
    }
    for (std::size_t c = 0; c < columns_.size(); ++c) {
        std::byte* current = c < batch.current.size() ? batch.current[c] : nullptr;
        std::byte* next = c < batch.next.size() ? batch.next[c] : nullptr;
        gather_column(c, rows, last_rows, current, next);
    }
}

std::vector<std::int64_t> TransitionRing::follow(std::span<const std::int64_t> rows, const Windows& windows) const {
    std::vector<std::int64_t> last_rows(rows.size());
    const std::size_t newest = position() == 0 ? capacity_ - 1 : position() - 1;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t env = env_of(static_cast<std::size_t>(rows[i]));
        std::size_t slot = static_cast<std::size_t>(rows[i]) / n_envs_;
        std::size_t length = 0;
        for (std::size_t step = 0; step < windows.n_steps; ++step) {
            const std::byte* record = records_.record(slot * n_envs_ + env);
            windows.rewards[i * windows.n_steps + step] = RowRecords::reward(record);
            const bool ends = RowRecords::done(record) != 0.0f || RowRecords::timeout(record) != 0.0f || slot == newest ||
                              step + 1 == windows.n_steps;
            if (length == 0 && ends) {
                length = step + 1;
                last_rows[i] = static_cast<std::int64_t>(slot * n_envs_ + env);
            }
            slot = slot + 1 == capacity_ ? 0 : slot + 1;
        }
        windows.lengths[i] = static_cast<std::int64_t>(length);
    }
    return last_rows;
}

void TransitionRing::prefetch_rows(std::span<const std::int64_t> rows) const noexcept {
    for (const std::int64_t row : rows) {
        prefetch(records_.record(static_cast<std::size_t>(row)), records_.stride());
    }
}

void TransitionRing::gather_column(std::size_t column, std::span<const std::int64_t> rows,
                                   std::span<const std::int64_t> last_rows, std::byte* current, std::byte* next) const {
    if (columns_[column].memory() != nullptr) {
        read_observations(column, rows, last_rows, current, next);
        return;
    }
    const std::size_t row_bytes = columns_[column].layout().row_bytes;
    const std::size_t total = rows.size() * row_bytes * ((current != nullptr) + (next != nullptr));
    if (total < bytes_worth_threads) {
        gather_observations(column, rows, last_rows, current, next);
        return;
    }
    const std::size_t parts = total / bytes_of_part;
    WorkerPool::shared().run(parts, [&](std::size_t part) {
        const std::size_t begin = rows.size() * part / parts;
        const std::size_t count = rows.size() * (part + 1) / parts - begin;
        gather_observations(column, rows.subspan(begin, count), last_rows.subspan(begin, count),
                            current == nullptr ? nullptr : current + begin * row_bytes,
                            next == nullptr ? nullptr : next + begin * row_bytes);
    });
}

void TransitionRing::gather_scalars(std::span<const std::int64_t> rows, std::span<const std::int64_t> last_rows,
                                    const Batch& batch) const {
    const std::size_t action_bytes = records_.action_bytes();
    const LiveIds live = live_ids();
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (i + record_lookahead < rows.size()) {
            prefetch_rows(rows.subspan(i + record_lookahead, 1));
        }
        const auto row = static_cast<std::size_t>(rows[i]);
        const std::byte* record = records_.record(row);
        const std::byte* last = records_.record(static_cast<std::size_t>(last_rows[i]));
        if (batch.actions != nullptr) {
            std::memcpy(batch.actions + i * action_bytes, records_.action(record), action_bytes);
        }
        if (batch.ids != nullptr) {
            batch.ids[i] = live.id_of(row);
        }
        if (batch.rewards != nullptr) {
            batch.rewards[i] = RowRecords::reward(last);
        }
        if (batch.terminals != nullptr) {
            batch.terminals[i] = RowRecords::done(last) * (1.0f - RowRecords::timeout(last));
        }
    }
}

void TransitionRing::prefetch_frames(std::size_t column, Side side, std::size_t row) const {
    const RowRecords::Reference* references = RowRecords::references(records_.record(row)) + reference_offsets_[column];
    prefetch(columns_[column].first_frame(env_of(row), side, references), columns_[column].layout().row_bytes);
}

void TransitionRing::gather_observations(std::size_t column, std::span<const std::int64_t> rows,
                                         std::span<const std::int64_t> last_rows, std::byte* current,
                                         std::byte* next) const {
    const ObservationColumn& source = columns_[column];
    if (source.layout().frames == 1 && current != nullptr && next != nullptr) {
        gather_frames(column, rows, last_rows, current, next);
        return;
    }
    const std::size_t offset = reference_offsets_[column];
    const std::size_t lookahead = lookahead_of(source.layout().row_bytes);
    const auto ask_for = [&](std::size_t i) {
        if (current != nullptr) {
            prefetch_frames(column, Side::current, static_cast<std::size_t>(rows[i]));
        }
        if (next != nullptr) {
            prefetch_frames(column, Side::next, static_cast<std::size_t>(last_rows[i]));
        }
    };
    for (std::size_t i = 0; i < std::min(lookahead, rows.size()); ++i) {
        ask_for(i);
    }
    // Both sides of a row together: the next observation usually lies behind the current one, or is part of it.
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (i + lookahead < rows.size()) {
            ask_for(i + lookahead);
        }
        if (current != nullptr) {
            const auto row = static_cast<std::size_t>(rows[i]);
            current = source.copy(env_of(row), Side::current, RowRecords::references(records_.record(row)) + offset,
                                  current);
        }
        if (next != nullptr) {
            const auto row = static_cast<std::size_t>(last_rows[i]);
            next = source.copy(env_of(row), Side::next, RowRecords::references(records_.record(row)) + offset, next);
        }
    }
}

void TransitionRing::gather_frames(std::size_t column, std::span<const std::int64_t> rows,
                                   std::span<const std::int64_t> last_rows, std::byte* current, std::byte* next) const {
    // All addresses first: then the loop that copies waits for frames alone, and asks for each of them once.
    const ObservationColumn& source = columns_[column];
    const std::size_t offset = reference_offsets_[column];
    const std::size_t row_bytes = source.layout().row_bytes;
    const auto frame_of = [&](std::int64_t row, Side side) {
        const auto index = static_cast<std::size_t>(row);
        return source.first_frame(env_of(index), side, RowRecords::references(records_.record(index)) + offset);
    };
    std::vector<const std::byte*> frames(2 * rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        frames[2 * i] = frame_of(rows[i], Side::current);
        frames[2 * i + 1] = frame_of(last_rows[i], Side::next);
    }
    const std::size_t lookahead = 2 * lookahead_of(row_bytes);
    for (std::size_t i = 0; i < std::min(lookahead, frames.size()); ++i) {
        prefetch(frames[i], row_bytes);
    }
    for (std::size_t i = 0; i < frames.size(); i += 2) {
        if (i + lookahead < frames.size()) {
            prefetch(frames[i + lookahead], row_bytes);
            prefetch(frames[i + lookahead + 1], row_bytes);
        }
        std::memcpy(current + i / 2 * row_bytes, frames[i], row_bytes);
        std::memcpy(next + i / 2 * row_bytes, frames[i + 1], row_bytes);
    }
}

void TransitionRing::read_observations(std::size_t column, std::span<const std::int64_t> rows,
                                       std::span<const std::int64_t> last_rows, std::byte* current,
                                       std::byte* next) const {
    const ObservationColumn& source = columns_[column];
    const std::size_t offset = reference_offsets_[column];
    const std::size_t row_bytes = source.layout().row_bytes;
    FrameReads reads;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (current != nullptr) {
            const auto row = static_cast<std::size_t>(rows[i]);
            source.want(env_of(row), Side::current, RowRecords::references(records_.record(row)) + offset,
                        current + i * row_bytes, reads);
        }
        if (next != nullptr) {
            const auto row = static_cast<std::size_t>(last_rows[i]);
            source.want(env_of(row), Side::next, RowRecords::references(records_.record(row)) + offset,
                        next + i * row_bytes, reads);
        }
    }
    reads.run(*source.memory());
    if (current != nullptr) {
        source.finish(current, rows.size());
    }
    if (next != nullptr) {
        source.finish(next, rows.size());
    }
}

void TransitionRing::clear() noexcept {
    steps_ = (steps_ + capacity_ - 1) / capacity_ * capacity_;
    first_step_ = steps_;
    for (ObservationColumn& column : columns_) {
        column.clear();
    }
}

TransitionRing::LiveIds::LiveIds(const TransitionRing& ring) noexcept
    : begin_(static_cast<std::int64_t>((ring.steps_ - ring.filled_slots()) * ring.n_envs_)),
      end_(static_cast<std::int64_t>(ring.steps_ * ring.n_envs_)),
      turn_(static_cast<std::int64_t>(ring.steps_ / ring.capacity_ * ring.rows())),
      previous_turn_(turn_ - static_cast<std::int64_t>(ring.rows())),
      head_(ring.position() * ring.n_envs_) {}

std::size_t TransitionRing::nbytes() const noexcept {
    std::size_t total = records_.nbytes();
    for (const ObservationColumn& column : columns_) {
        total += column.nbytes();
    }
    return total;
}

void TransitionRing::restore_counters(std::uint64_t steps, std::uint64_t first_step) {
    const std::uint64_t most = std::uint64_t{1} << 62;  // ids must fit into 63 bits
    if (first_step > steps || first_step % capacity_ != 0 || steps > most / n_envs_) {
        throw std::invalid_argument("the saved step counters do not belong to a ring of this capacity");
    }
    steps_ = steps;
    first_step_ = first_step;
}

}  // namespace webscale
