#include "webscale/tiering.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <string>

namespace webscale {

namespace {

constexpr std::size_t smallest_chunk = std::size_t{4} << 10;
constexpr std::size_t largest_chunk = std::size_t{4} << 20;
constexpr std::size_t chunks_of_stream = 4;  // hot ones, on average: small enough to choose among
constexpr std::size_t chunks_of_small_stream = 8;
constexpr std::size_t masses_at_a_time = 4;
constexpr double worth_exchanging = 2.0;

/// So many that a step of one environment never needs more than one new chunk, and a file is worth its entry.
std::size_t smallest_chunk_frames(const ObservationColumn& column) noexcept {
    const std::size_t frame_bytes = column.layout().row_bytes / column.layout().frames;
    return std::bit_ceil(std::max(column.layout().references(), smallest_chunk / frame_bytes));
}

std::size_t smallest_chunk_bytes(const ObservationColumn& column) noexcept {
    return smallest_chunk_frames(column) * (column.layout().row_bytes / column.layout().frames);
}

std::size_t chunk_frames(const ObservationColumn& column, std::size_t capacity, std::size_t limit) noexcept {
    const std::size_t frame_bytes = column.layout().row_bytes / column.layout().frames;
    std::size_t frames = smallest_chunk_frames(column);
    while (2 * frames * frame_bytes <= limit && 2 * frames <= capacity / chunks_of_small_stream &&
           frames < std::size_t{1} << 24) {
        frames *= 2;
    }
    return frames;
}

}  // namespace

std::size_t Tiering::minimum_allowance(const TransitionRing& ring) noexcept {
    std::size_t bytes = 0;
    for (const ObservationColumn& column : ring.columns()) {
        bytes += 2 * ring.n_envs() * smallest_chunk_bytes(column);
    }
    return bytes;
}

Tiering::Tiering(FrameMemory& memory, TransitionRing& ring, const std::optional<PrioritySampler>& sampler)
    : memory_(memory), ring_(ring), sampler_(sampler) {
    if (memory.allowance() < minimum_allowance(ring)) {
        throw std::invalid_argument("the memory budget leaves " + std::to_string(memory.allowance()) +
                                    " bytes for frames, but " + std::to_string(minimum_allowance(ring)) +
                                    " are the least");
    }
    const std::size_t share = memory.allowance() / (ring.columns().size() * ring.n_envs() * chunks_of_stream);
    for (ObservationColumn& column : ring.columns()) {
        column.tier(memory, chunk_frames(column, ring.capacity(), std::min(share, largest_chunk)), ring.n_envs());
    }
}

template <class Visit>
void Tiering::for_each_full_chunk(Visit visit) {
    for (std::size_t column = 0; column < ring_.columns().size(); ++column) {
        for (std::size_t env = 0; env < ring_.n_envs(); ++env) {
            const FrameStream& stream = ring_.columns()[column].stream(env);
            FrameStream::Sequence first = stream.chunk_start(stream.begin());
            for (std::size_t left = stream.full_chunks(); left > 0; --left) {
                visit(Chunk{column, env, first});
                first += static_cast<FrameStream::Sequence>(stream.chunk_frames());
            }
        }
    }
}

void Tiering::make_room() {
    std::vector<FrameMemory::Need> needs;
    for (ObservationColumn& column : ring_.columns()) {
        std::size_t count = 0;
        for (std::size_t env = 0; env < ring_.n_envs(); ++env) {
            count += column.stream(env).missing_chunks(column.layout().references());
        }
        const std::size_t bytes = column.stream(0).chunk_bytes();
        const auto same = std::find_if(needs.begin(), needs.end(), [&](const auto& need) { return need.bytes == bytes; });
        if (same != needs.end()) {
            same->count += count;
        } else if (count > 0) {
            needs.push_back({bytes, count});
        }
    }
    set_by(needs);
}

void Tiering::make_room(FrameStream& stream, std::size_t frames) {
    set_by({{stream.chunk_bytes(), stream.missing_chunks(frames)}});
}

void Tiering::set_by(const std::vector<FrameMemory::Need>& needs) {
    while (!memory_.set_by(needs)) {
        refresh_some_masses();
        const auto chunk = least_valuable_hot(std::nullopt);
        if (!chunk) {
            throw SpillError("memory_budget is used up by the tables of what lies in " + memory_.store().directory() +
                             ": give a larger memory_budget, whose segments are larger and fewer"
                             ", or a smaller buffer_size");
        }
        stream_of(*chunk).cool(chunk->first);
    }
}

void Tiering::exchange() {
    refresh_some_masses();
    std::optional<Chunk> best;
    for_each_full_chunk([&](Chunk chunk) {
        if (!stream_of(chunk).resident(chunk.first)) {
            chunk.value = value(chunk);
            if (!best || chunk.value > best->value) {
                best = chunk;
            }
        }
    });
    if (!best) {
        return;
    }
    const auto worst = least_valuable_hot(best->column);
    if (!worst || best->value <= worth_exchanging * worst->value) {
        return;
    }
    try {
        stream_of(*worst).cool(worst->first);
        stream_of(*best).warm(best->first);
    } catch (const SpillError&) {
        return;
    }
}

std::optional<Tiering::Chunk> Tiering::least_valuable_hot(std::optional<std::size_t> column) {
    std::optional<Chunk> worst;
    std::uint64_t worst_used = 0;
    for_each_full_chunk([&](Chunk chunk) {
        const FrameStream& stream = stream_of(chunk);
        if ((column && chunk.column != *column) || !stream.resident(chunk.first)) {
            return;
        }
        chunk.value = value(chunk);
        const std::uint64_t used = stream.segment(chunk.first).last_used;
        if (!worst || chunk.value < worst->value || (chunk.value == worst->value && used < worst_used)) {
            worst = chunk;
            worst_used = used;
        }
    });
    return worst;
}

void Tiering::refresh_some_masses() {
    std::size_t chunks = 0;
    for_each_full_chunk([&](const Chunk& chunk) {
        if (chunks >= refreshed_ && chunks < refreshed_ + masses_at_a_time) {
            stream_of(chunk).segment(chunk.first).mass = Segment::mass_unknown;
        }
        ++chunks;
    });
    refreshed_ = refreshed_ + masses_at_a_time < chunks ? refreshed_ + masses_at_a_time : 0;
}

double Tiering::value(const Chunk& chunk) {
    Segment& segment = stream_of(chunk).segment(chunk.first);
    if (segment.mass == Segment::mass_unknown) {
        segment.mass = mass(chunk);
    }
    const auto idle = static_cast<double>(memory_.now() - segment.last_used);
    return segment.mass / (1.0 + idle / patience);
}

double Tiering::mass(const Chunk& chunk) {
    const FrameStream& stream = stream_of(chunk);
    const auto start = static_cast<std::int32_t>(chunk.first - stream.begin());
    const std::size_t from = steps_before(chunk, static_cast<FrameStream::Sequence>(std::max(start, 0)));
    const std::size_t to =
        steps_before(chunk, chunk.first - stream.begin() + static_cast<FrameStream::Sequence>(stream.chunk_frames()));
    if (!sampler_) {
        return static_cast<double>(to - from);
    }
    const std::size_t oldest = ring_.full() ? ring_.position() : 0;
    double total = 0.0;
    for (std::size_t step = from; step < to; ++step) {
        total += sampler_->mass((oldest + step) % ring_.capacity() * ring_.n_envs() + chunk.env);
    }
    return total;
}

/// Stored steps, from the oldest, whose first frame lies less than `distance` frames behind the stream's beginning.
std::size_t Tiering::steps_before(const Chunk& chunk, FrameStream::Sequence distance) const {
    const FrameStream& stream = ring_.columns()[chunk.column].stream(chunk.env);
    const std::size_t oldest = ring_.full() ? ring_.position() : 0;
    std::size_t low = 0;
    std::size_t high = ring_.filled_slots();
    while (low < high) {  // references never move back along a stream
        const std::size_t middle = std::midpoint(low, high);
        const std::size_t row = (oldest + middle) % ring_.capacity() * ring_.n_envs() + chunk.env;
        const RowRecords::Reference first =
            RowRecords::references(ring_.records().record(row))[ring_.references_offset(chunk.column)];
        if (first - stream.begin() < distance) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

TierCounts Tiering::counts() const {
    TierCounts counts;
    for (const ObservationColumn& column : ring_.columns()) {
        for (std::size_t env = 0; env < ring_.n_envs(); ++env) {
            const FrameStream& stream = column.stream(env);
            FrameStream::Sequence first = stream.chunk_start(stream.begin());
            for (std::size_t left = stream.full_chunks(); left > 0; --left) {
                const bool hot = stream.resident(first);
                counts.hot_segments += hot;
                counts.cold_segments += !hot;
                (hot ? counts.hot_bytes : counts.cold_bytes) += stream.chunk_bytes();
                first += static_cast<FrameStream::Sequence>(stream.chunk_frames());
            }
            counts.hot_segments += stream.live_frames() > 0 && stream.end() != first;
            counts.hot_bytes += static_cast<FrameStream::Sequence>(stream.end() - first) * stream.frame_bytes();
        }
    }
    counts.resident_bytes = memory_.resident();
    counts.hot_reads = memory_.hot_reads();
    counts.cold_reads = memory_.cold_reads();
    counts.waits = memory_.waits();
    return counts;
}

}  // namespace webscale
