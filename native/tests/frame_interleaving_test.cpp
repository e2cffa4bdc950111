#include "webscale/frame_interleaving.hpp"

#include <random>
#include <vector>

#include "doctest/doctest.h"

using namespace webscale;

namespace {

/// Blocks of exactly as many bytes as are needed, so that a sanitizer sees any access beyond.
std::vector<std::byte> random_bytes(std::size_t count, std::mt19937& random) {
    std::vector<std::byte> bytes(count);
    for (std::byte& b : bytes) {
        b = static_cast<std::byte>(random());
    }
    return bytes;
}

}  // namespace

TEST_CASE("frames are interleaved and separated as by their definition, for every kind of part") {
    std::mt19937 random(1);
    for (const std::size_t frames : {1u, 2u, 3u, 4u, 5u, 8u, 12u}) {
        for (const std::size_t parts : {1u, 2u, 3u, 16u, 37u}) {
            for (const std::size_t part_bytes : {1u, 2u, 3u, 4u, 7u, 8u, 12u, 20u}) {
                const FrameInterleaving interleaving{frames, parts, part_bytes};
                const std::size_t frame_bytes = parts * part_bytes;
                const std::vector<std::byte> row = random_bytes(frames * frame_bytes, random);
                std::vector<std::byte> separated(row.size());
                interleaving.separate(row.data(), separated.data());
                std::vector<std::vector<std::byte>> stored;
                std::vector<const std::byte*> addresses;
                for (std::size_t f = 0; f < frames; ++f) {
                    std::vector<std::byte> frame(frame_bytes);
                    for (std::size_t i = 0; i < frame_bytes; ++i) {
                        frame[i] = row[(i / part_bytes * frames + f) * part_bytes + i % part_bytes];
                        REQUIRE(separated[f * frame_bytes + i] == frame[i]);
                    }
                    stored.push_back(std::move(frame));
                }
                for (const auto& frame : stored) {
                    addresses.push_back(frame.data());
                }
                std::vector<std::byte> again(row.size());
                interleaving.interleave(addresses, again.data());
                REQUIRE(again == row);
            }
        }
    }
}
