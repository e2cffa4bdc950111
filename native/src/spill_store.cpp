#include "webscale/spill_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "webscale/checksum.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>
#else
#error "spilling to disk needs POSIX files"
#endif

namespace webscale {

namespace {

constexpr std::size_t piece_bytes = std::size_t{256} << 10;
static_assert(piece_bytes % SpillSegment::block_bytes == 0);

[[noreturn]] void fail_writing(const std::string& path, int error) {
    throw SpillError("spill file " + path + " cannot be written: " + std::strerror(error) +
                     ". Nothing is lost, the frames stay in memory: free space on that disk and go on, or take another "
                     "spill_dir or a larger memory_budget");
}

[[noreturn]] void fail_reading(const std::string& path, const std::string& what) {
    throw SpillError("spill file " + path + " " + what +
                     ". Its transitions cannot be read any more: check the disk, keep other programs away from "
                     "spill_dir, and start again from a saved buffer");
}

/// 0, or the error.
int write_all(int descriptor, const std::byte* data, std::size_t bytes, std::size_t offset) noexcept {
    while (bytes > 0) {
        const ssize_t written = ::pwrite(descriptor, data, bytes, static_cast<off_t>(offset));
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return written < 0 ? errno : ENOSPC;
        }
        data += written;
        bytes -= static_cast<std::size_t>(written);
        offset += static_cast<std::size_t>(written);
    }
    return 0;
}

/// Writes to a slot so that a full disk shows at once, although file systems allot space late. 0, or the error.
int write_slot(int descriptor, const std::byte* data, std::size_t bytes, std::size_t offset) noexcept {
#if defined(__linux__)
    int error = 0;
    do {
        error = ::fallocate(descriptor, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)) == 0 ? 0 : errno;
    } while (error == EINTR);
    if (error != EOPNOTSUPP) {
        error = error == 0 ? write_all(descriptor, data, bytes, offset) : error;
        if (error == 0) {
            // The space is ours, so nobody waits for the disk; it begins now, lest much to write piles up.
            ::sync_file_range(descriptor, static_cast<off_t>(offset), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
        }
        return error;
    }
#endif
    const int written = write_all(descriptor, data, bytes, offset);
    return written != 0 ? written : ::fsync(descriptor) == 0 ? 0 : errno;
}

std::uint32_t checksum_of(const std::byte* data, std::size_t bytes) noexcept {
    Checksum checksum;
    checksum.update(data, bytes);
    return static_cast<std::uint32_t>(checksum.digest());
}

}  // namespace

SpillSegment::SpillSegment(SpillStore& store, SpillFile& file, std::size_t slot, const std::byte* frames,
                           std::size_t bytes)
    : store_(store), file_(file), slot_(slot), bytes_(bytes), blocks_(new Block[blocks_of(bytes)]) {
    for (std::size_t begin = 0; begin < bytes; begin += block_bytes) {
        blocks_[begin / block_bytes].checksum = checksum_of(frames + begin, std::min(block_bytes, bytes - begin));
    }
}

SpillSegment::~SpillSegment() { store_.release(file_, slot_); }

bool SpillSegment::checked(std::size_t begin, std::size_t end) const noexcept {
    for (std::size_t block = begin / block_bytes; block < blocks_of(end); ++block) {
        if (!blocks_[block].checked.load(std::memory_order_relaxed)) {
            return false;
        }
    }
    return true;
}

void SpillSegment::read(std::size_t begin, std::span<iovec> pieces) const {
    auto position = static_cast<off_t>(offset() + begin);
    while (!pieces.empty()) {
        const ssize_t got = ::preadv(descriptor(), pieces.data(), static_cast<int>(pieces.size()), position);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            fail_reading(path(), std::string("cannot be read: ") + std::strerror(errno));
        }
        if (got == 0) {
            fail_reading(path(), "is truncated: it ends at byte " + std::to_string(position));
        }
        position += got;
        auto left = static_cast<std::size_t>(got);
        while (!pieces.empty() && left >= pieces.front().iov_len) {
            left -= pieces.front().iov_len;
            pieces = pieces.subspan(1);
        }
        if (!pieces.empty()) {
            pieces.front().iov_base = static_cast<char*>(pieces.front().iov_base) + left;
            pieces.front().iov_len -= left;
        }
    }
}

bool SpillSegment::read_at_once(std::size_t begin, std::span<const iovec> pieces) const noexcept {
#if defined(RWF_NOWAIT)
    std::size_t wanted = 0;
    for (const iovec& piece : pieces) {
        wanted += piece.iov_len;
    }
    const ssize_t got = ::preadv2(descriptor(), pieces.data(), static_cast<int>(pieces.size()),
                                  static_cast<off_t>(offset() + begin), RWF_NOWAIT);
    return got == static_cast<ssize_t>(wanted);
#else
    (void)begin;
    (void)pieces;
    return false;
#endif
}

void SpillSegment::expect(std::size_t begin, std::size_t end) const noexcept {
#if defined(POSIX_FADV_WILLNEED)
    posix_fadvise(descriptor(), static_cast<off_t>(offset() + begin), static_cast<off_t>(end - begin),
                  POSIX_FADV_WILLNEED);
#else
    (void)begin;
    (void)end;
#endif
}

void SpillSegment::check(std::size_t begin, std::span<const std::byte> data) const {
    for (; !data.empty(); begin += block_bytes) {
        const std::size_t bytes = std::min(block_bytes, data.size());
        Block& block = blocks_[begin / block_bytes];
        if (checksum_of(data.data(), bytes) != block.checksum) {
            fail_reading(path(), "does not match its checksum at byte " + std::to_string(offset() + begin) +
                                     ": its content was changed");
        }
        block.checked.store(true, std::memory_order_relaxed);
        data = data.subspan(bytes);
    }
}

void SpillSegment::check_all() const {
    std::vector<std::byte> piece(std::min(piece_bytes, bytes_));
    for (std::size_t begin = 0; begin < bytes_; begin += piece.size()) {
        const std::size_t bytes = std::min(piece.size(), bytes_ - begin);
        iovec target{piece.data(), bytes};
        read(begin, {&target, 1});
        check(begin, {piece.data(), bytes});
    }
}

SpillStore::SpillStore(std::string directory) : directory_(std::move(directory)), owner_(::getpid()) {}

SpillStore::~SpillStore() {
    for (const auto& file : files_) {
        ::close(file->descriptor);
        if (::getpid() == owner_) {
            ::unlink(file->path.c_str());
        }
    }
}

/// The file with slots of that size, made when there is none.
SpillFile& SpillStore::file_of(std::size_t slot_bytes) {
    for (const auto& file : files_) {
        if (file->slot_bytes == slot_bytes) {
            return *file;
        }
    }
    files_.reserve(files_.size() + 1);
    auto file = std::make_unique<SpillFile>();
    file->path = directory_ + "/" + std::to_string(slot_bytes) + ".frames";
    file->slot_bytes = slot_bytes;
    file->descriptor = ::open(file->path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file->descriptor < 0) {
        fail_writing(file->path, errno);
    }
#if defined(POSIX_FADV_RANDOM)
    posix_fadvise(file->descriptor, 0, 0, POSIX_FADV_RANDOM);  // what lies beside a row is rarely wanted with it
#endif
    files_.push_back(std::move(file));
    return *files_.back();
}

std::shared_ptr<const SpillSegment> SpillStore::write(const std::byte* frames, std::size_t bytes) {
    if (::getpid() != owner_) {
        throw SpillError("spill directory " + directory_ + " belongs to process " + std::to_string(owner_) +
                         ", of which this process is a fork: build the buffer in the process that adds to it");
    }
    // Whole blocks, so that no page of the system's cache belongs to two segments.
    const std::size_t slot_bytes = SpillSegment::blocks_of(bytes) * SpillSegment::block_bytes;
    SpillFile* file = nullptr;
    std::size_t slot = 0;
    {
        const std::lock_guard lock(mutex_);
        file = &file_of(slot_bytes);
        const auto free = std::find(file->used.begin(), file->used.end(), false);
        slot = static_cast<std::size_t>(free - file->used.begin());
        if (free == file->used.end()) {
            file->used.push_back(true);
        } else {
            *free = true;
        }
    }
    const SpillSegment* made = nullptr;
    try {
        made = new SpillSegment(*this, *file, slot, frames, bytes);
    } catch (...) {
        release(*file, slot);
        throw;
    }
    std::shared_ptr<const SpillSegment> segment(made);
    const int error = write_slot(file->descriptor, frames, bytes, segment->offset());
    if (error != 0) {
        fail_writing(file->path, error);
    }
    return segment;
}

void SpillStore::release(SpillFile& file, std::size_t slot) noexcept {
    const std::lock_guard lock(mutex_);
    file.used[slot] = false;
    while (!file.used.empty() && !file.used.back()) {
        file.used.pop_back();
    }
    if (::getpid() == owner_) {
        // Gives the space behind the last slot back; failing to is no loss.
        (void)!::ftruncate(file.descriptor, static_cast<off_t>(file.used.size() * file.slot_bytes));
    }
}

}  // namespace webscale
