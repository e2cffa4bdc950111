#include "webscale/frame_stream.hpp"

#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "doctest/doctest.h"

using webscale::FrameStream;

namespace {

std::vector<std::byte> frame_of(std::uint32_t value, std::size_t bytes) {
    std::vector<std::byte> frame(bytes);
    for (std::size_t i = 0; i < bytes; ++i) {
        frame[i] = static_cast<std::byte>((value * 2654435761u + i * 40503u) >> 8);
    }
    return frame;
}

void run_against_model(FrameStream& stream, FrameStream::Sequence first, std::size_t bytes, unsigned seed) {
    std::mt19937 random(seed);
    std::deque<std::uint32_t> model;
    FrameStream::Sequence begin = first;
    std::uint32_t next_value = 0;
    for (int step = 0; step < 3000; ++step) {
        const std::uint32_t adds = random() % 4;
        for (std::uint32_t i = 0; i < adds; ++i) {
            const auto sequence = stream.append(frame_of(next_value, bytes).data());
            REQUIRE(sequence == static_cast<FrameStream::Sequence>(begin + model.size()));
            model.push_back(next_value++);
        }
        if (random() % 2 == 0 && !model.empty()) {
            const std::size_t drop = random() % (model.size() + 1);
            begin += static_cast<FrameStream::Sequence>(drop);
            model.erase(model.begin(), model.begin() + static_cast<std::ptrdiff_t>(drop));
            stream.release_before(begin);
        }
        REQUIRE(stream.live_frames() == model.size());
        for (std::size_t i = 0; i < model.size(); i += 1 + model.size() / 5) {
            const auto expected = frame_of(model[i], bytes);
            REQUIRE(std::memcmp(stream.at(begin + static_cast<FrameStream::Sequence>(i)), expected.data(), bytes) == 0);
        }
    }
}

}  // namespace

TEST_CASE("frames read back as stored through growth and release, for one and many frames a chunk") {
    for (const std::size_t expected : {1u, 40u, 5000u}) {
        FrameStream stream(24, expected);
        run_against_model(stream, 0, 24, 1);
    }
}

TEST_CASE("sequence numbers may wrap around 2^32") {
    FrameStream stream(8, 100);
    stream.restart(0xFFFFFF00u);
    run_against_model(stream, 0xFFFFFF00u, 8, 2);
}

TEST_CASE("memory follows the live frames") {
    FrameStream stream(1000, 100000);
    const auto frame = frame_of(1, 1000);
    for (std::uint32_t i = 0; i < 100000; ++i) {
        const auto sequence = stream.append(frame.data());
        if (i >= 5000) {
            stream.release_before(sequence - 5000);
        }
    }
    CHECK(stream.live_frames() == 5001);
    CHECK(stream.nbytes() < 5001u * 1000u + 3u * 4u * 1024u * 1024u);
}
