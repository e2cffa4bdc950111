#include "webscale/shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace webscale {

namespace {

[[noreturn]] void fail(int error, const std::string& what) { throw std::system_error(error, std::generic_category(), what); }

/// Closes a descriptor; the mapping made from it stays.
struct Descriptor {
    int value;
    ~Descriptor() { ::close(value); }
};

int reserve(int descriptor, std::size_t bytes) {
#ifdef __linux__
    return ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
#else
    return ::ftruncate(descriptor, static_cast<off_t>(bytes)) == 0 ? 0 : errno;
#endif
}

}  // namespace

SharedMemory SharedMemory::create(const std::string& name, std::size_t bytes) {
    const Descriptor descriptor{::shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600)};
    if (descriptor.value < 0) {
        fail(errno, "cannot create shared memory " + name);
    }
    const int error = reserve(descriptor.value, bytes);
    if (error != 0) {
        unlink(name);
        fail(error, "cannot reserve " + std::to_string(bytes) + " bytes of shared memory");
    }
    return SharedMemory(descriptor.value, bytes);
}

SharedMemory SharedMemory::attach(const std::string& name) {
    const Descriptor descriptor{::shm_open(name.c_str(), O_RDWR, 0600)};
    struct stat status {};
    if (descriptor.value < 0 || ::fstat(descriptor.value, &status) != 0) {
        fail(errno, "cannot attach to shared memory " + name);
    }
    return SharedMemory(descriptor.value, static_cast<std::size_t>(status.st_size));
}

bool SharedMemory::unlink(const std::string& name) noexcept { return ::shm_unlink(name.c_str()) == 0; }

SharedMemory::SharedMemory(int descriptor, std::size_t bytes) : size_(bytes) {
    void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) {
        fail(errno, "cannot map shared memory");
    }
    data_ = static_cast<std::byte*>(address);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

SharedMemory::~SharedMemory() {
    if (data_ != nullptr) {
        ::munmap(data_, size_);
    }
}

}  // namespace webscale
