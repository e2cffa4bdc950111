#include "webscale/transition_channel.hpp"

#include <stdexcept>
#include <thread>

#include "doctest/doctest.h"

using namespace webscale;

namespace {

const std::vector<ObservationLayout> layouts = {{3 * sizeof(float)}, {5}};
constexpr std::size_t n_envs = 2;
constexpr std::size_t action_bytes = 1;

struct Memory {
    explicit Memory(std::size_t records)
        : words((TransitionChannel::bytes(layouts, action_bytes, n_envs, records) + 63) / 64) {}
    struct alignas(64) Line {
        std::byte bytes[64]{};
    };
    std::span<std::byte> span() { return {reinterpret_cast<std::byte*>(words.data()), words.size() * 64}; }
    std::vector<Line> words;
};

/// A step of which every byte and number follows from `value`.
struct NumberedStep {
    explicit NumberedStep(std::uint32_t value)
        : floats(3 * n_envs, static_cast<float>(value)),
          bytes(5 * n_envs, static_cast<std::byte>(value)),
          actions(n_envs, static_cast<std::byte>(value + 1)),
          numbers(n_envs, static_cast<float>(value)) {
        addresses[0] = reinterpret_cast<const std::byte*>(floats.data());
        addresses[1] = bytes.data();
    }
    Step step() const { return {addresses, addresses, actions.data(), numbers.data(), numbers.data(), numbers.data()}; }
    bool equals(const Step& other) const {
        return std::equal(floats.begin(), floats.end(), reinterpret_cast<const float*>(other.current[0])) &&
               std::equal(bytes.begin(), bytes.end(), other.next[1]) &&
               std::equal(actions.begin(), actions.end(), other.actions) &&
               std::equal(numbers.begin(), numbers.end(), other.timeouts);
    }
    std::vector<float> floats;
    std::vector<std::byte> bytes, actions;
    std::vector<float> numbers;
    const std::byte* addresses[2];
};

}  // namespace

TEST_CASE("steps come out as they went in, in order, and a full ring waits") {
    Memory memory(4);
    TransitionChannel reader(memory.span(), layouts, action_bytes, n_envs, 4, false);
    TransitionChannel writer(memory.span(), layouts, action_bytes, n_envs, 4, true);
    REQUIRE(writer.claim(0, 11));
    std::uint32_t written = 0;
    std::uint32_t taken = 0;
    while (taken < 20) {
        while (writer.write(NumberedStep(written).step(), std::chrono::nanoseconds(0))) {
            ++written;
        }
        CHECK(written - taken == 4);
        reader.read(3, [&](const Step& step, std::uint64_t session) {
            CHECK(NumberedStep(taken).equals(step));
            CHECK(session == 1);
            ++taken;
        });
        REQUIRE(reader.taken() == taken);
    }
    reader.close();
    CHECK_FALSE(writer.write(NumberedStep(0).step(), std::chrono::seconds(5)));
}

TEST_CASE("a step that the reader fails on stays; sessions tell writers apart; another shape is refused") {
    Memory memory(4);
    TransitionChannel reader(memory.span(), layouts, action_bytes, n_envs, 4, false);
    TransitionChannel first(memory.span(), layouts, action_bytes, n_envs, 4, true);
    TransitionChannel second(memory.span(), layouts, action_bytes, n_envs, 4, true);
    REQUIRE(first.claim(0, 11));
    CHECK_FALSE(second.claim(0, 12));
    first.write(NumberedStep(1).step(), std::chrono::nanoseconds(0));
    REQUIRE(second.claim(11, 12));
    second.write(NumberedStep(2).step(), std::chrono::nanoseconds(0));
    const auto fail = [](const Step&, std::uint64_t) { throw std::runtime_error("no room"); };
    CHECK_THROWS_AS(reader.read(4, fail), std::runtime_error);
    std::vector<std::uint64_t> sessions;
    CHECK(reader.read(4, [&](const Step&, std::uint64_t session) { sessions.push_back(session); }) == 2);
    CHECK(sessions == std::vector<std::uint64_t>{1, 2});
    CHECK_THROWS_AS(TransitionChannel(memory.span(), layouts, action_bytes, n_envs, 3, true), std::invalid_argument);
}

TEST_CASE("a writer and a reader at full speed lose and tear nothing") {
    constexpr std::uint32_t steps = 20'000;
    Memory memory(8);
    TransitionChannel reader(memory.span(), layouts, action_bytes, n_envs, 8, false);
    std::thread thread([&] {
        TransitionChannel writer(memory.span(), layouts, action_bytes, n_envs, 8, true);
        writer.claim(0, 1);
        for (std::uint32_t i = 0; i < steps; ++i) {
            writer.write(NumberedStep(i).step(), std::chrono::seconds(60));
        }
    });
    std::uint32_t taken = 0;
    std::uint32_t wrong = 0;
    while (taken < steps) {
        reader.read(5, [&](const Step& step, std::uint64_t) { wrong += NumberedStep(taken++).equals(step) ? 0 : 1; });
        std::this_thread::yield();
    }
    thread.join();
    CHECK(wrong == 0);
}
