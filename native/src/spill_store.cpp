#include "webscale/spill_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "webscale/checksum.hpp"

#if defined(__unix__) || defined(__APPLE__)
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#else
#error "spilling to disk needs POSIX files"
#endif

namespace webscale {

namespace {

struct Header {
    char magic[8] = {'w', 's', 'f', 'r', 'a', 'm', 'e', 's'};
    std::uint32_t version = 1;
    std::uint32_t header_bytes = SpillFile::header_bytes;
    std::uint64_t frame_bytes = 0;
    std::uint64_t payload_bytes = 0;
    std::uint64_t checksum = 0;
    std::byte reserved[24] = {};
};
static_assert(sizeof(Header) == SpillFile::header_bytes);

constexpr std::size_t piece_bytes = std::size_t{256} << 10;

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

[[noreturn]] void fail_reading(const std::string& path, int error) {
    fail_reading(path, std::string("cannot be read: ") + std::strerror(error));
}

bool write_all(int descriptor, const void* data, std::size_t bytes) {
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t written = ::write(descriptor, from, bytes);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return false;
        }
        from += written;
        bytes -= static_cast<std::size_t>(written);
    }
    return true;
}

}  // namespace

OpenFile::~OpenFile() { ::close(descriptor_); }

SpillFile::~SpillFile() { store_.remove(*this); }

std::string SpillFile::path() const { return store_.path_of(number_); }

SpillStore::SpillStore(std::string directory) : directory_(std::move(directory)), owner_(::getpid()) {}

std::string SpillStore::path_of(std::uint64_t number) const {
    return directory_ + "/" + std::to_string(number) + ".frames";
}

std::unique_ptr<SpillFile> SpillStore::write(const std::byte* frames, std::size_t bytes, std::size_t frame_bytes) {
    if (::getpid() != owner_) {
        throw SpillError("spill directory " + directory_ + " belongs to process " + std::to_string(owner_) +
                         ", of which this process is a fork: build the buffer in the process that adds to it");
    }
    std::uint64_t number = 0;
    {
        const std::lock_guard lock(mutex_);
        number = next_number_++;
    }
    Checksum checksum;
    checksum.update(frames, bytes);
    Header header;
    header.frame_bytes = frame_bytes;
    header.payload_bytes = bytes;
    header.checksum = checksum.digest();
    const std::string path = path_of(number);
    const std::string temporary = path + ".tmp";
    const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        fail_writing(temporary, errno);
    }
    int error = 0;
    {
        const OpenFile file(descriptor);
        // The flush is where a full disk shows when space is allotted late.
        if (!write_all(descriptor, &header, sizeof header) || !write_all(descriptor, frames, bytes) ||
            ::fsync(descriptor) != 0) {
            error = errno;
        }
    }
    if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) {
        error = errno;
    }
    if (error != 0) {
        ::unlink(temporary.c_str());
        fail_writing(path, error);
    }
    return std::unique_ptr<SpillFile>(new SpillFile(*this, number, bytes, frame_bytes, header.checksum));
}

std::shared_ptr<const OpenFile> SpillStore::open(const SpillFile& file) {
    Slot& slot = open_[file.number_ % kept_open];
    {
        const std::lock_guard lock(mutex_);
        if (slot.number == file.number_) {
            return slot.file;
        }
    }
    const std::string path = file.path();
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        fail_reading(path, errno);
    }
    auto opened = std::make_shared<const OpenFile>(descriptor);
    if (!file.verified_.load(std::memory_order_acquire)) {
        verify(file, *opened);
        file.verified_.store(true, std::memory_order_release);
    }
    const std::lock_guard lock(mutex_);
    slot = {file.number_, opened};
    return opened;
}

void SpillStore::verify(const SpillFile& file, const OpenFile& opened) const {
    const std::string path = file.path();
    struct stat status {};
    if (::fstat(opened.descriptor(), &status) != 0) {
        fail_reading(path, errno);
    }
    const std::size_t expected = file.payload_bytes_ + SpillFile::header_bytes;
    if (static_cast<std::size_t>(status.st_size) != expected) {
        fail_reading(path, "has " + std::to_string(status.st_size) + " bytes instead of " + std::to_string(expected));
    }
    Header header;
    const ssize_t got = ::pread(opened.descriptor(), &header, sizeof header, 0);
    const Header wanted;
    if (got != static_cast<ssize_t>(sizeof header) || std::memcmp(header.magic, wanted.magic, 8) != 0 ||
        header.version != wanted.version || header.frame_bytes != file.frame_bytes_ ||
        header.payload_bytes != file.payload_bytes_ || header.checksum != file.checksum_) {
        fail_reading(path, "has a damaged header");
    }
    std::vector<std::byte> piece(std::min(piece_bytes, file.payload_bytes_));
    Checksum checksum;
    for (std::size_t offset = 0; offset < file.payload_bytes_; offset += piece.size()) {
        iovec target{piece.data(), std::min(piece.size(), file.payload_bytes_ - offset)};
        const std::size_t bytes = target.iov_len;
        read(file, opened, offset, {&target, 1});
        checksum.update(piece.data(), bytes);
    }
    if (checksum.digest() != file.checksum_) {
        fail_reading(path, "does not match its checksum: its content was changed");
    }
}

void SpillStore::read(const SpillFile& file, const OpenFile& opened, std::size_t offset,
                      std::span<iovec> pieces) const {
    auto position = static_cast<off_t>(offset + SpillFile::header_bytes);
    while (!pieces.empty()) {
        const ssize_t got = ::preadv(opened.descriptor(), pieces.data(), static_cast<int>(pieces.size()), position);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            fail_reading(file.path(), errno);
        }
        if (got == 0) {
            fail_reading(file.path(), "is truncated");
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

bool SpillStore::read_at_once(const OpenFile& opened, std::size_t offset, std::span<const iovec> pieces) noexcept {
#if defined(RWF_NOWAIT)
    std::size_t wanted = 0;
    for (const iovec& piece : pieces) {
        wanted += piece.iov_len;
    }
    const ssize_t got = ::preadv2(opened.descriptor(), pieces.data(), static_cast<int>(pieces.size()),
                                  static_cast<off_t>(offset + SpillFile::header_bytes), RWF_NOWAIT);
    return got == static_cast<ssize_t>(wanted);
#else
    (void)opened;
    (void)offset;
    (void)pieces;
    return false;
#endif
}

void SpillStore::expect(const OpenFile& opened, std::size_t offset, std::size_t bytes) noexcept {
#if defined(POSIX_FADV_WILLNEED)
    posix_fadvise(opened.descriptor(), static_cast<off_t>(offset + SpillFile::header_bytes),
                  static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
#else
    (void)opened;
    (void)offset;
    (void)bytes;
#endif
}

void SpillStore::remove(const SpillFile& file) noexcept {
    {
        const std::lock_guard lock(mutex_);
        Slot& slot = open_[file.number_ % kept_open];
        if (slot.number == file.number_) {
            slot = {};
        }
    }
    if (::getpid() == owner_) {
        ::unlink((directory_ + "/" + std::to_string(file.number_) + ".frames").c_str());
    }
}

}  // namespace webscale
