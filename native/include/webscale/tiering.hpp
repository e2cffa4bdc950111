#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "webscale/frame_memory.hpp"
#include "webscale/priority_sampler.hpp"
#include "webscale/transition_ring.hpp"

namespace webscale {

/// Where the frames of a tiered replay are; chunks still being filled are hot.
struct TierCounts {
    std::size_t hot_segments = 0;
    std::size_t cold_segments = 0;
    std::size_t hot_bytes = 0;
    std::size_t cold_bytes = 0;
    std::size_t resident_bytes = 0;  // hot segments, memory set by for the next ones, tables and checksums
    std::uint64_t hot_reads = 0;     // frames gathered from memory since the start
    std::uint64_t cold_reads = 0;    // and from files
    std::uint64_t waits = 0;         // reads of files that the system's cache could not answer
};

/// Decides which segments of frames stay in memory.
///
/// The value of a segment is the sampling mass of its rows (their number without priorities), divided by one plus the
/// batches since its last use over `patience`: priority and recency decide together. The least valuable segment goes
/// to disk when new frames need room; a cold one takes a hot one's place when it is worth twice as much. Not
/// thread-safe.
class Tiering {
public:
    static constexpr double patience = 256.0;
    static constexpr std::uint64_t batches_between_exchanges = 32;

    /// Makes the empty `ring` a tiered one whose frames take up `allowance` bytes of memory at most. Memory, ring and
    /// sampler outlive this object. Throws std::invalid_argument when the allowance is below minimum_allowance().
    Tiering(FrameMemory& memory, TransitionRing& ring, const std::optional<PrioritySampler>& sampler);

    /// Two smallest chunks for every stream: one being filled and one to go on with.
    static std::size_t minimum_allowance(const TransitionRing& ring) noexcept;

    /// Sets memory by for one step of every environment. Throws SpillError or std::bad_alloc; nothing is lost then.
    void make_room();

    /// The same for `frames` more frames of one stream.
    void make_room(FrameStream& stream, std::size_t frames);

    /// Counts a batch; true when exchange() is due.
    bool next_batch() noexcept { return memory_.next_batch() % batches_between_exchanges == 0; }

    /// Lets the most valuable cold segment take the place of the least valuable hot one if that pays. When a file
    /// fails, all stays as it was: whoever needs that file is told.
    void exchange();

    TierCounts counts() const;

private:
    struct Chunk {
        std::size_t column = 0;
        std::size_t env = 0;
        FrameStream::Sequence first = 0;
        double value = 0.0;
    };

    template <class Visit>
    void for_each_full_chunk(Visit visit);

    FrameStream& stream_of(const Chunk& chunk) { return ring_.columns()[chunk.column].stream(chunk.env); }
    void set_by(const std::vector<FrameMemory::Need>& needs);
    void refresh_some_masses();
    double value(const Chunk& chunk);
    double mass(const Chunk& chunk);
    std::size_t steps_before(const Chunk& chunk, FrameStream::Sequence distance) const;
    std::optional<Chunk> least_valuable_hot(std::optional<std::size_t> column);

    FrameMemory& memory_;
    TransitionRing& ring_;
    const std::optional<PrioritySampler>& sampler_;
    std::size_t refreshed_ = 0;  // chunks whose masses were renewed in this turn over all of them
};

}  // namespace webscale
