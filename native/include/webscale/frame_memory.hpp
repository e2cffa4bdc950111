#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "webscale/block.hpp"
#include "webscale/spill_store.hpp"

namespace webscale {

/// What is known about a chunk of frames that may lie in memory, in a file, or in both.
struct Segment {
    static constexpr double mass_unknown = -1.0;

    std::shared_ptr<const SpillSegment> spilled;  // null before it is cooled; shared with whoever saves the replay
    std::atomic<std::uint64_t> last_used{0};  // batch that read it last
    double mass = mass_unknown;               // of its rows, when they were last summed
};

/// The bounded memory of tiered frame streams: chunks in use, chunks set by, and the tables of chunks, together never
/// above `allowance`.
///
/// Chunks are reused, not freed, since freed memory need not return to the system. Everything but the clock and the
/// store is for one thread at a time.
class FrameMemory {
public:
    FrameMemory(std::string directory, std::size_t allowance) : store_(std::move(directory)), allowance_(allowance) {}

    struct Need {
        std::size_t bytes;  // of one chunk
        std::size_t count;
    };

    /// Sets chunks by, as far as the allowance goes; false when some chunk in use must be given back first. Throws
    /// std::bad_alloc.
    bool set_by(std::span<const Need> needs);

    /// A chunk that was set by. Throws std::logic_error when there is none.
    Block take(std::size_t bytes);

    void give_back(Block block, std::size_t bytes) noexcept;

    /// Number of the batch that is being read.
    std::uint64_t now() const noexcept { return clock_.load(std::memory_order_relaxed); }
    std::uint64_t next_batch() noexcept { return clock_.fetch_add(1, std::memory_order_relaxed) + 1; }

    SpillStore& store() noexcept { return store_; }
    std::size_t allowance() const noexcept { return allowance_; }
    std::size_t resident() const noexcept { return resident_ + tables_; }

    /// Counts the tables of chunks, whose size follows what is stored.
    void count_table(std::ptrdiff_t bytes) noexcept { tables_ += static_cast<std::size_t>(bytes); }

    /// Counts frames that were read from memory and from files, and reads that had to wait for the disk.
    void count_reads(std::uint64_t hot, std::uint64_t cold, std::uint64_t waits) noexcept {
        hot_reads_.fetch_add(hot, std::memory_order_relaxed);
        cold_reads_.fetch_add(cold, std::memory_order_relaxed);
        waits_.fetch_add(waits, std::memory_order_relaxed);
    }
    std::uint64_t hot_reads() const noexcept { return hot_reads_.load(std::memory_order_relaxed); }
    std::uint64_t cold_reads() const noexcept { return cold_reads_.load(std::memory_order_relaxed); }
    std::uint64_t waits() const noexcept { return waits_.load(std::memory_order_relaxed); }

private:
    struct FreeBlocks {
        std::size_t bytes;
        std::vector<Block> blocks;
    };

    FreeBlocks& free_of(std::size_t bytes);
    bool drop_unneeded(std::span<const Need> needs) noexcept;

    SpillStore store_;
    std::size_t allowance_;
    std::size_t resident_ = 0;
    std::size_t tables_ = 0;
    std::vector<FreeBlocks> free_;
    std::atomic<std::uint64_t> clock_{0};
    std::atomic<std::uint64_t> hot_reads_{0};
    std::atomic<std::uint64_t> cold_reads_{0};
    std::atomic<std::uint64_t> waits_{0};
};

}  // namespace webscale
