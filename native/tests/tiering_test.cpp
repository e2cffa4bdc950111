#include "webscale/tiering.hpp"

#include <atomic>
#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "doctest/doctest.h"
#include "temporary_directory.hpp"
#include "webscale/replay.hpp"

using webscale::Batch;
using webscale::ObservationLayout;
using webscale::Replay;
using webscale::SpillError;
using webscale::Step;

namespace {

constexpr std::size_t row_bytes = 512;
constexpr std::size_t n_envs = 3;
constexpr std::size_t capacity = 900;
constexpr std::size_t allowance = 150000;  // of about 1.4 MB

/// Fills replays with a stream whose every frame is new, four frames a row or one.
class Writer {
public:
    void add(Replay& replay) {
        std::vector<std::byte> next(n_envs * row_bytes);
        for (std::byte& value : next) {
            value = static_cast<std::byte>(random_());
        }
        const std::byte* current_rows = current_.data();
        const std::byte* next_rows = next.data();
        const std::vector<float> numbers(n_envs, 0.0f);
        replay.add({{&current_rows, 1}, {&next_rows, 1}, current_.data(), numbers.data(), numbers.data(), numbers.data()},
                   1, false, false);
        current_ = next;
    }

private:
    std::mt19937 random_{1};
    std::vector<std::byte> current_ = std::vector<std::byte>(n_envs * row_bytes);
};

struct Gathered {
    std::vector<std::byte> current;
    std::vector<std::byte> next;
    bool operator==(const Gathered&) const = default;
};

Gathered gather(Replay& replay, const std::vector<std::int64_t>& rows) {
    Gathered out{std::vector<std::byte>(rows.size() * row_bytes), std::vector<std::byte>(rows.size() * row_bytes)};
    std::byte* current = out.current.data();
    std::byte* next = out.next.data();
    Batch batch;
    batch.current = {&current, 1};
    batch.next = {&next, 1};
    replay.gather(rows, batch);
    return out;
}

std::vector<std::int64_t> random_rows(std::mt19937& random, const Replay& replay, std::size_t count) {
    std::vector<std::int64_t> rows(count);
    for (std::int64_t& row : rows) {
        row = static_cast<std::int64_t>(random() % (replay.ring().filled_slots() * n_envs));
    }
    return rows;
}

std::vector<std::int64_t> all_rows(const Replay& replay) {
    std::vector<std::int64_t> rows(replay.ring().filled_slots() * n_envs);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        rows[i] = static_cast<std::int64_t>(i);
    }
    return rows;
}

Replay make_replay(std::size_t frames) {
    const ObservationLayout layout{row_bytes, frames};
    return Replay(capacity, n_envs, {&layout, 1}, 8);
}

}  // namespace

TEST_CASE("a tiered replay gives what an untiered one gives and stays within its allowance") {
    for (const std::size_t frames : {1u, 4u}) {
        const TemporaryDirectory directory;
        Replay tiered = make_replay(frames);
        Replay plain = make_replay(frames);
        tiered.prioritize(0.6, 7);
        plain.prioritize(0.6, 7);
        tiered.tier(directory.path(), allowance);
        Writer tiered_writer;
        Writer plain_writer;
        std::mt19937 random(3);
        for (int step = 0; step < 2500; ++step) {
            tiered_writer.add(tiered);
            plain_writer.add(plain);
            REQUIRE(tiered.tier_counts()->resident_bytes <= allowance);
            if (step % 10 == 9) {
                const auto rows = random_rows(random, plain, 50);
                REQUIRE(gather(tiered, rows) == gather(plain, rows));
                std::vector<std::int64_t> drawn(8), again(8);
                std::vector<float> weights(8);
                plain.draw(0.4, drawn, weights);
                tiered.draw(0.4, again, weights);
                REQUIRE(drawn == again);
            }
            if (step == 1700) {
                tiered.clear();
                plain.clear();
            }
        }
        CHECK(tiered.tier_counts()->cold_segments > 10);
        CHECK(gather(tiered, all_rows(plain)) == gather(plain, all_rows(plain)));
        tiered.clear();
        CHECK(tiered.tier_counts()->cold_segments == 0);
    }
}

TEST_CASE("segments with large priorities move into memory") {
    const TemporaryDirectory directory;
    Replay replay = make_replay(1);
    replay.prioritize(1.0, 7);
    replay.tier(directory.path(), allowance);
    Writer writer;
    for (std::size_t step = 0; step < capacity; ++step) {
        writer.add(replay);
    }
    const webscale::FrameStream& stream = replay.ring().columns()[0].stream(0);
    const auto frame_of = [&](std::size_t slot) {
        return webscale::RowRecords::references(replay.ring().records().record(slot * n_envs))[0];
    };
    std::size_t cold_slot = 0;
    while (stream.resident(frame_of(cold_slot))) {
        ++cold_slot;
    }
    const std::vector<std::int64_t> ids = {static_cast<std::int64_t>(cold_slot * n_envs)};
    const std::vector<double> priorities = {1e6};
    replay.update_priorities(ids, priorities);
    for (int batch = 0; batch < 10000 && !stream.resident(frame_of(cold_slot)); ++batch) {
        gather(replay, ids);
    }
    CHECK(stream.resident(frame_of(cold_slot)));
    CHECK(replay.tier_counts()->resident_bytes <= allowance);
}

TEST_CASE("when nothing can be spilled, an add fails whole and can be repeated later") {
    const TemporaryDirectory directory;
    const std::string spill = directory.path() + "/spill";
    std::filesystem::create_directory(spill);
    Replay tiered = make_replay(1);
    Replay plain = make_replay(1);
    tiered.tier(spill, allowance);
    Writer writer;
    Writer plain_writer;
    std::filesystem::rename(spill, spill + "-away");
    std::size_t stored = 0;
    bool failed = false;
    while (!failed && stored < capacity) {
        Writer before = writer;
        try {
            writer.add(tiered);
            plain_writer.add(plain);
            ++stored;
        } catch (const SpillError&) {
            writer = before;
            failed = true;
        }
    }
    REQUIRE(failed);
    CHECK(tiered.ring().steps() == stored);
    CHECK(gather(tiered, all_rows(plain)) == gather(plain, all_rows(plain)));
    std::filesystem::rename(spill + "-away", spill);
    for (int step = 0; step < 500; ++step) {
        writer.add(tiered);
        plain_writer.add(plain);
    }
    CHECK(gather(tiered, all_rows(plain)) == gather(plain, all_rows(plain)));
}

TEST_CASE("an allowance below the least is refused") {
    Replay replay = make_replay(4);
    CHECK_THROWS_AS(replay.tier("/nowhere", 1000), std::invalid_argument);
}

TEST_CASE("threads may add, draw, update and gather from disk at the same time") {
    const TemporaryDirectory directory;
    Replay replay = make_replay(4);
    replay.prioritize(0.6, 7);
    replay.tier(directory.path(), allowance);
    Writer writer;
    for (int step = 0; step < 1000; ++step) {
        writer.add(replay);
    }
    std::atomic<bool> done{false};
    std::vector<std::thread> readers;
    for (unsigned seed = 0; seed < 3; ++seed) {
        readers.emplace_back([&replay, &done, seed] {
            std::mt19937 random(seed);
            while (!done) {
                std::vector<std::int64_t> rows(32);
                std::vector<float> weights(32);
                replay.draw(0.4, rows, weights);
                gather(replay, rows);
                replay.update_priorities(rows, std::vector<double>(32, 1.0 + random() % 100));
            }
        });
    }
    for (int step = 0; step < 1500; ++step) {
        writer.add(replay);
    }
    done = true;
    for (std::thread& reader : readers) {
        reader.join();
    }
    CHECK(replay.tier_counts()->cold_segments > 0);
}
