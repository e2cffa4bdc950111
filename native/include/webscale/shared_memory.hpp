#pragma once

#include <cstddef>
#include <string>

namespace webscale {

/// A mapping of POSIX shared memory. Unmapped with this object; the name stays until unlink().
class SharedMemory {
public:
    /// New memory of zeros, all of it reserved, so that no later write can fail. Throws std::system_error when the name
    /// is taken or there is no room.
    static SharedMemory create(const std::string& name, std::size_t bytes);

    /// Memory that another process created. Throws std::system_error when there is none of this name.
    static SharedMemory attach(const std::string& name);

    /// Removes the name; mappings stay valid. Whether there was one.
    static bool unlink(const std::string& name) noexcept;

    SharedMemory(SharedMemory&& other) noexcept;
    SharedMemory(const SharedMemory&) = delete;
    SharedMemory& operator=(const SharedMemory&) = delete;
    SharedMemory& operator=(SharedMemory&&) = delete;
    ~SharedMemory();

    std::byte* data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }

private:
    SharedMemory(int descriptor, std::size_t bytes);

    std::byte* data_;
    std::size_t size_;
};

}  // namespace webscale
