#include "webscale/checksum.hpp"

#include <bit>
#include <cstring>

namespace webscale {

namespace {

constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87u;
constexpr std::uint64_t prime2 = 0xC2B2AE3D27D4EB4Fu;
constexpr std::uint64_t prime3 = 0x165667B19E3779F9u;
constexpr std::uint64_t prime4 = 0x85EBCA77C2B2AE63u;
constexpr std::uint64_t prime5 = 0x27D4EB2F165667C5u;

template <class T>
T load(const std::byte* data) noexcept {
    T value;
    std::memcpy(&value, data, sizeof(T));
    return value;
}

std::uint64_t mixed(std::uint64_t lane, std::uint64_t word) noexcept {
    return std::rotl(lane + word * prime2, 31) * prime1;
}

}  // namespace

void Checksum::update(const std::byte* data, std::size_t bytes) noexcept {
    total_ += bytes;
    auto lanes = lanes_;
    for (; bytes >= 32; bytes -= 32, data += 32) {
        for (std::size_t i = 0; i < 4; ++i) {
            lanes[i] = mixed(lanes[i], load<std::uint64_t>(data + 8 * i));
        }
    }
    lanes_ = lanes;
    std::memcpy(rest_.data(), data, bytes);
    rest_bytes_ = bytes;
}

std::uint64_t Checksum::digest() const noexcept {
    std::uint64_t hash = prime5;
    if (total_ >= 32) {
        hash = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
        for (const std::uint64_t lane : lanes_) {
            hash = (hash ^ mixed(0, lane)) * prime1 + prime4;
        }
    }
    hash += total_;
    const std::byte* data = rest_.data();
    std::size_t left = rest_bytes_;
    for (; left >= 8; left -= 8, data += 8) {
        hash = std::rotl(hash ^ mixed(0, load<std::uint64_t>(data)), 27) * prime1 + prime4;
    }
    for (; left >= 4; left -= 4, data += 4) {
        hash = std::rotl(hash ^ load<std::uint32_t>(data) * prime1, 23) * prime2 + prime3;
    }
    for (; left > 0; --left, ++data) {
        hash = std::rotl(hash ^ static_cast<std::uint64_t>(*data) * prime5, 11) * prime1;
    }
    hash = (hash ^ (hash >> 33)) * prime2;
    hash = (hash ^ (hash >> 29)) * prime3;
    return hash ^ (hash >> 32);
}

}  // namespace webscale
