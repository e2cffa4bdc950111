#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

struct iovec;

namespace webscale {

/// A spill file could not be written or read; the message names the file, what happened and what to do.
class SpillError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

class SpillStore;

/// An open file of equal slots. Slots are numbered by their place.
struct SpillFile {
    std::string path;
    std::size_t slot_bytes = 0;
    int descriptor = -1;
    std::vector<bool> used;  // guarded by the store; ends with a used slot
};

/// Frames in one slot of a file, immutable, with a checksum for every block. Its slot is free again with its end.
///
/// Blocks are checked when they are first read, and again whenever they had to come from the disk. Thread-safe.
class SpillSegment {
public:
    static constexpr std::size_t block_bytes = 4096;  // what disks and page caches move at the least

    ~SpillSegment();
    SpillSegment(const SpillSegment&) = delete;
    SpillSegment& operator=(const SpillSegment&) = delete;

    const std::string& path() const noexcept { return file_.path; }
    int descriptor() const noexcept { return file_.descriptor; }
    std::size_t bytes() const noexcept { return bytes_; }

    /// Where the segment begins in its file.
    std::size_t offset() const noexcept { return slot_ * file_.slot_bytes; }

    /// Memory that the checksums take.
    static std::size_t index_bytes(std::size_t bytes) noexcept { return blocks_of(bytes) * sizeof(Block); }

    /// Whether all blocks of [begin, end) have been checked once.
    bool checked(std::size_t begin, std::size_t end) const noexcept;

    /// Reads consecutive pieces from `begin` on. Throws SpillError.
    void read(std::size_t begin, std::span<iovec> pieces) const;

    /// The same, but only if that takes no waiting for the disk; false otherwise, with undefined pieces.
    bool read_at_once(std::size_t begin, std::span<const iovec> pieces) const noexcept;

    /// Asks the system to fetch [begin, end) ahead of its use, where it can.
    void expect(std::size_t begin, std::size_t end) const noexcept;

    /// Compares whole blocks, of which the first begins at `begin`, with their checksums. Throws SpillError.
    void check(std::size_t begin, std::span<const std::byte> data) const;

    /// Reads and checks all blocks. Throws SpillError.
    void check_all() const;

private:
    friend class SpillStore;
    struct Block {
        std::uint32_t checksum = 0;
        std::atomic<bool> checked = false;
    };
    static std::size_t blocks_of(std::size_t bytes) noexcept { return (bytes + block_bytes - 1) / block_bytes; }

    SpillSegment(SpillStore& store, SpillFile& file, std::size_t slot, const std::byte* frames, std::size_t bytes);

    SpillStore& store_;
    SpillFile& file_;
    std::size_t slot_;
    std::size_t bytes_;
    std::unique_ptr<Block[]> blocks_;
};

/// The spill files of one replay in a directory of its own, one for each size of segments.
///
/// Files are frames and nothing else. They belong to the process that wrote them, which keeps them open, and are worth
/// nothing after its end: checksums, and what a frame means, stand in memory only. Thread-safe.
class SpillStore {
public:
    explicit SpillStore(std::string directory);

    /// Closes and removes the files. No segment may be left.
    ~SpillStore();
    SpillStore(const SpillStore&) = delete;
    SpillStore& operator=(const SpillStore&) = delete;

    /// Writes frames to a free slot, whose space the disk has then promised. Throws SpillError or std::bad_alloc; the slot is free then.
    std::shared_ptr<const SpillSegment> write(const std::byte* frames, std::size_t bytes);

    const std::string& directory() const noexcept { return directory_; }

private:
    friend class SpillSegment;

    SpillFile& file_of(std::size_t slot_bytes);
    void release(SpillFile& file, std::size_t slot) noexcept;

    std::string directory_;
    long owner_;  // process: a fork must not write to, cut or remove its parent's files
    std::mutex mutex_;
    std::vector<std::unique_ptr<SpillFile>> files_;
};

}  // namespace webscale
