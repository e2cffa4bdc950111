#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>

struct iovec;

namespace webscale {

/// A spill file could not be written or read; the message names the file, what happened and what to do.
class SpillError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

class SpillStore;

/// One immutable file of frames; removed with this object.
class SpillFile {
public:
    ~SpillFile();
    SpillFile(const SpillFile&) = delete;
    SpillFile& operator=(const SpillFile&) = delete;

    std::string path() const;
    std::uint64_t number() const noexcept { return number_; }
    std::size_t payload_bytes() const noexcept { return payload_bytes_; }

    static constexpr std::size_t header_bytes = 64;

private:
    friend class SpillStore;
    SpillFile(SpillStore& store, std::uint64_t number, std::size_t payload_bytes, std::size_t frame_bytes,
              std::uint64_t checksum)
        : store_(store),
          number_(number),
          payload_bytes_(payload_bytes),
          frame_bytes_(frame_bytes),
          checksum_(checksum) {}

    SpillStore& store_;
    std::uint64_t number_;
    std::size_t payload_bytes_;
    std::size_t frame_bytes_;
    std::uint64_t checksum_;
    mutable std::atomic<bool> verified_{false};
};

/// An open file descriptor.
class OpenFile {
public:
    explicit OpenFile(int descriptor) noexcept : descriptor_(descriptor) {}
    ~OpenFile();
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;

    int descriptor() const noexcept { return descriptor_; }

private:
    int descriptor_;
};

/// Writes and reads the spill files of one replay in a directory of its own.
///
/// A file is a header (magic, version, frame bytes, payload bytes, checksum) and the frames. It belongs to the process
/// that wrote it and is worth nothing after that one's end: what a frame means stands in memory only. Thread-safe.
class SpillStore {
public:
    explicit SpillStore(std::string directory);

    /// Writes a file under a temporary name, flushes and renames it. Throws SpillError; nothing is left on disk then.
    std::unique_ptr<SpillFile> write(const std::byte* frames, std::size_t bytes, std::size_t frame_bytes);

    /// Opens a file for reading. The first time all of it is read and compared with its checksum. Throws SpillError.
    std::shared_ptr<const OpenFile> open(const SpillFile& file);

    /// Reads consecutive pieces from `offset` of the payload on. Throws SpillError.
    void read(const SpillFile& file, const OpenFile& opened, std::size_t offset, std::span<iovec> pieces) const;

    /// The same if that takes no waiting for the disk; false when it may, and then `pieces` hold nothing of use.
    static bool read_at_once(const OpenFile& opened, std::size_t offset, std::span<const iovec> pieces) noexcept;

    /// Asks the system to fetch a part of the payload ahead of its use, where it can.
    static void expect(const OpenFile& opened, std::size_t offset, std::size_t bytes) noexcept;

    const std::string& directory() const noexcept { return directory_; }

private:
    friend class SpillFile;
    struct Slot {
        std::uint64_t number = 0;
        std::shared_ptr<const OpenFile> file;
    };
    static constexpr std::size_t kept_open = 256;

    std::string path_of(std::uint64_t number) const;
    void verify(const SpillFile& file, const OpenFile& opened) const;
    void remove(const SpillFile& file) noexcept;

    std::string directory_;
    long owner_;  // process: a fork must not write to or remove its parent's files
    std::uint64_t next_number_ = 1;
    std::mutex mutex_;
    std::array<Slot, kept_open> open_;  // by number modulo their count
};

}  // namespace webscale
