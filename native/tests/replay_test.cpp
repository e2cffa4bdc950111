#include "webscale/replay.hpp"

#include <atomic>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <thread>

#include "doctest/doctest.h"

using namespace webscale;

namespace {

constexpr std::size_t row_floats = 16;

Replay make_replay(std::size_t capacity, std::size_t n_envs) {
    const std::vector<ObservationLayout> layouts = {{row_floats * sizeof(float), 1, FloatFormat::single}};
    return Replay(capacity, n_envs, layouts, sizeof(float));
}

/// A step in which every number equals `value`.
struct UniformStep {
    explicit UniformStep(float value, std::size_t n_envs)
        : observations(n_envs * row_floats, value), scalars(n_envs, value), zeros(n_envs, 0.0f) {
        bytes = reinterpret_cast<const std::byte*>(observations.data());
    }
    Step step() const {
        return {{&bytes, 1}, {&bytes, 1}, reinterpret_cast<const std::byte*>(scalars.data()), scalars.data(),
                zeros.data(), zeros.data()};
    }
    std::vector<float> observations, scalars, zeros;
    const std::byte* bytes;
};

}  // namespace

TEST_CASE("a non-finite observation is located and nothing is stored") {
    auto replay = make_replay(10, 3);
    UniformStep bad(1.0f, 3);
    bad.observations[2 * row_floats + 7] = std::numeric_limits<float>::infinity();
    const auto found = replay.add(bad.step(), 1, true, false);
    REQUIRE(found);
    CHECK(found->row == 2);
    CHECK(found->element == 7);
    CHECK(replay.ring().filled_slots() == 0);
    CHECK_FALSE(replay.add(bad.step(), 1, false, false));
    CHECK(replay.ring().filled_slots() == 1);
}

TEST_CASE("rows that are not filled are refused") {
    auto replay = make_replay(10, 1);
    replay.add(UniformStep(1.0f, 1).step(), 1, true, false);
    const std::vector<std::int64_t> rows = {1};
    CHECK_THROWS_AS(replay.gather(rows, Batch()), std::out_of_range);
}

TEST_CASE("feedback for overwritten or withdrawn transitions changes nothing") {
    auto replay = make_replay(4, 1);
    replay.prioritize(1.0, 1);
    for (int i = 0; i < 6; ++i) {
        replay.add(UniformStep(static_cast<float>(i), 1).step(), 1, true, false);
    }
    const std::vector<std::int64_t> withdrawn_row = {3};
    replay.withdraw(withdrawn_row);
    const std::vector<std::int64_t> ids = {0, 1, 2, 3, 4, 5};
    const std::vector<double> priorities(6, 7.0);
    const auto counts = replay.update_priorities(ids, priorities);
    CHECK(counts.updated == 3);
    CHECK(counts.stale == 3);
    CHECK(replay.sampler()->priority(3) == 0.0);
    replay.admit(withdrawn_row);
    CHECK(replay.sampler()->priority(3) == 7.0);
}

TEST_CASE("no row is torn while threads add, draw, gather and update together") {
    constexpr std::size_t n_envs = 2;
    auto replay = make_replay(64, n_envs);
    replay.prioritize(0.6, 1);
    replay.add(UniformStep(0.0f, n_envs).step(), 1, true, false);
    std::atomic<bool> stop{false};
    std::atomic<int> torn{0};

    std::thread writer([&] {
        for (int i = 1; i < 4000; ++i) {
            replay.add(UniformStep(static_cast<float>(i), n_envs).step(), 1, true, false);
        }
        stop = true;
    });
    auto read = [&] {
        std::vector<std::int64_t> rows(32), ids(32);
        std::vector<float> weights(32), observations(32 * row_floats), rewards(32);
        while (!stop) {
            replay.draw(0.5, rows, weights);
            std::byte* out = reinterpret_cast<std::byte*>(observations.data());
            Batch batch;
            batch.current = {&out, 1};
            batch.rewards = rewards.data();
            batch.ids = ids.data();
            replay.gather(rows, batch);
            for (std::size_t i = 0; i < 32; ++i) {
                for (std::size_t j = 0; j < row_floats; ++j) {
                    torn += observations[i * row_floats + j] != rewards[i];
                }
                // Values are step numbers, so the id says what the row must hold.
                torn += static_cast<float>(ids[i] / static_cast<std::int64_t>(n_envs)) != rewards[i];
            }
            replay.update_priorities(ids, std::vector<double>(32, 0.5));
        }
    };
    std::thread first(read);
    std::thread second(read);
    writer.join();
    first.join();
    second.join();
    CHECK(torn == 0);
}

TEST_CASE("a chosen row stays until its observations are copied, whatever is added meanwhile") {
    auto replay = make_replay(4, 1);
    for (int i = 0; i < 6; ++i) {
        replay.add(UniformStep(static_cast<float>(i), 1).step(), 1, true, false);
    }
    // Rows 2 and 3 hold steps 2 and 3; with windows of two steps, step 3 is followed by step 4.
    const std::vector<std::int64_t> rows = {2, 3};
    std::vector<float> current(2 * row_floats), next(2 * row_floats), window_rewards(4);
    std::vector<std::int64_t> lengths(2);
    std::byte* current_out = reinterpret_cast<std::byte*>(current.data());
    std::byte* next_out = reinterpret_cast<std::byte*>(next.data());
    Batch batch;
    batch.current = {&current_out, 1};
    batch.next = {&next_out, 1};
    const Windows windows{2, window_rewards.data(), lengths.data()};
    ChosenRows chosen = replay.choose(rows, windows, batch);
    CHECK(window_rewards == std::vector<float>{2.0f, 3.0f, 3.0f, 4.0f});

    std::atomic<int> added{0};
    std::thread writer([&] {
        for (int i = 6; i < 12; ++i) {
            replay.add(UniformStep(static_cast<float>(i), 1).step(), 1, true, false);
            ++added;
        }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(added == 0);  // the next step would overwrite step 2
    replay.copy_observations(chosen, batch);
    writer.join();
    CHECK(added == 6);
    CHECK(current.front() == 2.0f);
    CHECK(current.back() == 3.0f);
    CHECK(next.front() == 3.0f);
    CHECK(next.back() == 4.0f);
    CHECK_THROWS_AS(replay.copy_observations(chosen, batch), std::logic_error);
}

TEST_CASE("chosen rows that are dropped hold nobody up") {
    auto replay = make_replay(2, 1);
    replay.prioritize(1.0, 1);
    replay.add(UniformStep(1.0f, 1).step(), 1, true, false);
    std::vector<float> weights(3);
    { const ChosenRows dropped = replay.choose_by_priority(0.5, weights, Windows(), Batch()); }
    for (int i = 0; i < 4; ++i) {
        replay.add(UniformStep(1.0f, 1).step(), 1, true, false);
    }
    replay.clear();
    CHECK(replay.ring().filled_slots() == 0);
}
