#include "webscale/sharded_replay.hpp"

#include <atomic>
#include <cmath>
#include <deque>
#include <numeric>
#include <thread>

#include "doctest/doctest.h"

using namespace webscale;

namespace {

constexpr std::size_t row_floats = 8;

const std::vector<ObservationLayout> layouts = {{row_floats * sizeof(float), 1, FloatFormat::single}};

struct Lanes {
    Lanes(std::size_t shards, std::size_t streams, std::size_t capacity, WindowPolicy windows = {100}) {
        std::vector<Replay*> addresses;
        for (std::size_t i = 0; i < shards * streams; ++i) {
            addresses.push_back(&replays.emplace_back(capacity, 1, layouts, sizeof(float)));
        }
        sharded.emplace(addresses, streams, 7, windows);
    }
    std::deque<Replay> replays;  // not movable
    std::optional<ShardedReplay> sharded;
};

/// One step of a stream: every number of it is stream * 1e5 + step, so that a torn row would show.
void add(ShardedReplay& replay, std::size_t stream, std::size_t step, bool done) {
    const auto value = static_cast<float>(stream * 100'000 + step);
    const std::vector<float> now(row_floats, value);
    const std::vector<float> later(row_floats, value + 1.0f);
    const auto* current = reinterpret_cast<const std::byte*>(now.data());
    const auto* next = reinterpret_cast<const std::byte*>(later.data());
    const float ended = done ? 1.0f : 0.0f;
    const float zero = 0.0f;
    replay.add(stream, 1, {{&current, 1}, {&next, 1}, reinterpret_cast<const std::byte*>(&value), &value, &ended, &zero}, 1,
               true);
}

struct Sampled {
    explicit Sampled(std::size_t count)
        : observations(count * row_floats), next_observations(count * row_floats), actions(count), rewards(count),
          terminals(count), weights(count), ids(count) {
        current = reinterpret_cast<std::byte*>(observations.data());
        next = reinterpret_cast<std::byte*>(next_observations.data());
    }
    Batch batch() {
        return {{&current, 1}, {&next, 1}, reinterpret_cast<std::byte*>(actions.data()), rewards.data(),
                terminals.data(), ids.data()};
    }
    bool whole() const {
        for (std::size_t i = 0; i < rewards.size(); ++i) {
            for (std::size_t j = 0; j < row_floats; ++j) {
                if (observations[i * row_floats + j] != rewards[i] ||
                    next_observations[i * row_floats + j] != rewards[i] + 1.0f || actions[i] != rewards[i]) {
                    return false;
                }
            }
        }
        return true;
    }
    std::vector<float> observations, next_observations, actions, rewards, terminals, weights;
    std::vector<std::int64_t> ids;
    std::byte *current, *next;
};

std::vector<double> even_places(std::size_t count) {
    std::vector<double> places(count);
    for (std::size_t i = 0; i < count; ++i) {
        places[i] = (static_cast<double>(i) + 0.5) / static_cast<double>(count);
    }
    return places;
}

}  // namespace

TEST_CASE("episodes lie whole in the shard that their hash names") {
    Lanes lanes(4, 2, 1000);
    ShardedReplay& replay = *lanes.sharded;
    std::vector<std::size_t> expected(8, 0);
    for (std::size_t episode = 0; episode < 50; ++episode) {
        for (std::size_t stream = 0; stream < 2; ++stream) {
            for (std::size_t step = 0; step < 5; ++step) {
                add(replay, stream, episode * 5 + step, step == 4);
            }
            expected[replay.shard_of(stream, episode) * 2 + stream] += 5;
        }
    }
    for (std::size_t lane = 0; lane < 8; ++lane) {
        CHECK(lanes.replays[lane].ring().filled_slots() == expected[lane]);
        CHECK(expected[lane] > 0);
    }
    CHECK(replay.stored() == 500);
}

TEST_CASE("draws are proportional over lanes of very different weight, weights too") {
    Lanes lanes(4, 1, 1000);
    ShardedReplay& replay = *lanes.sharded;
    replay.prioritize(1.0, 1);
    for (std::size_t i = 0; i < 200; ++i) {
        add(replay, 0, i, i % 3 == 2);
    }
    const std::vector<std::int64_t> ids = replay.recent(200);
    std::vector<double> priorities(200);
    for (std::size_t i = 0; i < 200; ++i) {
        priorities[i] = std::pow(10.0, static_cast<double>(ids[i] % 4) * 2.0 - 4.0);  // one power of 100 for each lane
    }
    REQUIRE(replay.update_priorities(ids, priorities).updated == 200);
    const double total = std::accumulate(priorities.begin(), priorities.end(), 0.0);
    const std::size_t count = 100'000;
    Sampled sampled(count);
    replay.sample(even_places(count), 1.0, {}, sampled.weights, {}, sampled.batch());
    CHECK(sampled.whole());
    std::vector<double> lane_counts(4, 0.0);
    std::vector<double> lane_shares(4, 0.0);
    for (std::size_t i = 0; i < 200; ++i) {
        lane_shares[static_cast<std::size_t>(ids[i] % 4)] += priorities[i] / total;
    }
    double smallest = 1e300;
    for (const std::int64_t id : sampled.ids) {
        lane_counts[static_cast<std::size_t>(id % 4)] += 1.0;
        smallest = std::min(smallest, std::pow(10.0, static_cast<double>(id % 4) * 2.0 - 4.0));
    }
    for (std::size_t lane = 0; lane < 4; ++lane) {
        // Evenly spread places give each lane its share up to one draw.
        CHECK(std::abs(lane_counts[lane] - lane_shares[lane] * static_cast<double>(count)) <= 1.0);
    }
    for (std::size_t i = 0; i < count; i += 997) {
        const double priority = std::pow(10.0, static_cast<double>(sampled.ids[i] % 4) * 2.0 - 4.0);
        CHECK(sampled.weights[i] == doctest::Approx(smallest / priority).epsilon(1e-6));
    }
}

TEST_CASE("ranges, kept windows and decay choose what is drawn") {
    Lanes lanes(2, 1, 60, {10, 5, 0.5});
    ShardedReplay& replay = *lanes.sharded;
    for (std::size_t i = 0; i < 95; ++i) {
        add(replay, 0, i, i % 4 == 3);
    }
    const std::size_t count = 31 * 5 * 10;
    Sampled sampled(count);
    replay.sample(even_places(count), 0.0, {}, {}, {}, sampled.batch());
    std::vector<std::int64_t> arrivals(count);
    replay.arrivals(sampled.ids, arrivals);
    std::vector<double> by_window(10, 0.0);
    for (const std::int64_t arrival : arrivals) {
        by_window[static_cast<std::size_t>(arrival) / 10] += 1.0;
    }
    // Windows 5 to 9 are kept; the newest has 5 transitions, the others 10 times 0.5 to the power of their age.
    const std::vector<double> shares = {0, 0, 0, 0, 0, 0.625, 1.25, 2.5, 5, 5};
    for (std::size_t window = 0; window < 10; ++window) {
        CHECK(std::abs(by_window[window] - static_cast<double>(count) * shares[window] / 14.375) <= 10.0);
    }
    replay.sample(even_places(count), 0.0, {6, 8}, {}, {}, sampled.batch());
    replay.arrivals(sampled.ids, arrivals);
    for (const std::int64_t arrival : arrivals) {
        REQUIRE((arrival >= 60 && arrival < 80));
    }
    CHECK_THROWS_AS(replay.sample(even_places(1), 0.0, {10, 12}, {}, {}, sampled.batch()), std::logic_error);
}

TEST_CASE("an episode that is cut counts as truncated, and the next one begins") {
    Lanes lanes(8, 1, 50);
    ShardedReplay& replay = *lanes.sharded;
    replay.end_episode(0);  // nothing is open
    add(replay, 0, 0, false);
    replay.end_episode(0);
    replay.end_episode(0);
    CHECK(replay.stream_states()[0].episode == 1);
    Replay& lane = lanes.replays[replay.shard_of(0, 0)];
    CHECK(RowRecords::done(lane.ring().records().record(0)) == 1.0f);
    CHECK(RowRecords::timeout(lane.ring().records().record(0)) == 1.0f);
}

TEST_CASE("writers, a sampler, feedback and statistics at the same time see whole transitions only") {
    constexpr std::size_t writers = 4;
    constexpr std::size_t steps = 400;
    Lanes lanes(3, writers, 40, {64, 6, 0.9});
    ShardedReplay& replay = *lanes.sharded;
    replay.prioritize(0.6, 1);
    replay.set_temperature(0.1);
    for (std::size_t stream = 0; stream < writers; ++stream) {
        add(replay, stream, 0, false);
    }
    std::atomic<std::size_t> running{writers};
    std::atomic<std::size_t> torn{0};
    std::vector<std::thread> threads;
    for (std::size_t stream = 0; stream < writers; ++stream) {
        threads.emplace_back([&, stream] {
            for (std::size_t step = 1; step < steps; ++step) {
                add(replay, stream, step, step % (5 + stream) == 0);
                if (step % 50 == 0) {
                    replay.end_episode(stream);
                }
            }
            --running;
        });
    }
    threads.emplace_back([&] {
        Sampled sampled(32);
        while (running > 0) {
            replay.sample(even_places(32), 0.4, {}, sampled.weights, {}, sampled.batch());
            torn += sampled.whole() ? 0 : 1;
            std::vector<double> priorities(32, 0.5);
            replay.update_priorities(sampled.ids, priorities);
            replay.raise_priorities(sampled.ids, 1.5);
        }
    });
    threads.emplace_back([&] {
        while (running > 0) {
            const DrawStatistics found = replay.draw_statistics();
            torn += found.drawable > 0 && found.entropy >= 0.0 ? 0 : 1;
            replay.recent(10);
            replay.set_alpha(0.5);
            torn += replay.stored() <= 3 * writers * 40 ? 0 : 1;
        }
    });
    for (std::thread& thread : threads) {
        thread.join();
    }
    CHECK(torn == 0);
    CHECK(replay.arrivals_so_far() == writers * steps);
}
