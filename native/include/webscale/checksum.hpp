#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace webscale {

/// XXH64 (Yann Collet, xxHash specification 0.1.1) with seed 0, fed piece by piece. Finds accidents, not attacks.
class Checksum {
public:
    /// Takes in the next `bytes`, a multiple of 32 in every piece but the last. O(bytes).
    void update(const std::byte* data, std::size_t bytes) noexcept;

    /// The checksum of all pieces. Nothing may be added afterwards.
    std::uint64_t digest() const noexcept;

private:
    std::array<std::uint64_t, 4> lanes_ = {0x60EA27EEADC0B5D6u, 0xC2B2AE3D27D4EB4Fu, 0u, 0x61C8864E7A143579u};
    std::array<std::byte, 32> rest_{};
    std::size_t rest_bytes_ = 0;
    std::uint64_t total_ = 0;
};

}  // namespace webscale
