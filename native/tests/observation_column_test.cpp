#include "webscale/observation_column.hpp"

#include <cstring>
#include <random>
#include <vector>

#include "doctest/doctest.h"

using namespace webscale;

namespace {

using Row = std::vector<std::byte>;

/// Streams of stacked frames as an environment gives them: resets, time limits, still pictures, foreign observations.
class StackedEnvironment {
public:
    StackedEnvironment(std::size_t frames, std::size_t frame_bytes, unsigned seed)
        : frames_(frames), frame_bytes_(frame_bytes), random_(seed), row_(frames * frame_bytes) {
        reset();
    }

    /// (observation, next observation); after an episode's end the next call starts a new one.
    std::pair<Row, Row> step() {
        const unsigned kind = random_() % 20;
        if (kind == 0) {
            reset();
        } else if (kind == 1) {
            fill(row_.data(), row_.size());  // unrelated to what came before
        }
        const Row before = row_;
        if (random_() % 5 != 0) {
            std::memmove(row_.data(), row_.data() + frame_bytes_, row_.size() - frame_bytes_);
            fill(row_.data() + row_.size() - frame_bytes_, frame_bytes_);
        }
        return {before, row_};
    }

private:
    void reset() {
        fill(row_.data() + row_.size() - frame_bytes_, frame_bytes_);
        for (std::size_t frame = 0; frame + 1 < frames_; ++frame) {
            std::memcpy(row_.data() + frame * frame_bytes_, row_.data() + row_.size() - frame_bytes_, frame_bytes_);
        }
    }

    void fill(std::byte* bytes, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            bytes[i] = static_cast<std::byte>(random_());
        }
    }

    std::size_t frames_;
    std::size_t frame_bytes_;
    std::mt19937 random_;
    Row row_;
};

Row read(const ObservationColumn& column, Side side, std::size_t row) {
    Row out(column.layout().row_bytes);
    column.gather(side, &row, 1, out.data());
    return out;
}

}  // namespace

TEST_CASE("every stored row reads back bit for bit, at every fill level and after wrapping") {
    for (const std::size_t capacity : {1u, 2u, 3u, 17u}) {
        for (const std::size_t frames : {1u, 2u, 4u}) {
            constexpr std::size_t n_envs = 2;
            constexpr std::size_t frame_bytes = 5;
            ObservationColumn column(capacity, n_envs, {frames * frame_bytes, frames});
            std::vector<StackedEnvironment> envs;
            for (unsigned env = 0; env < n_envs; ++env) {
                envs.emplace_back(frames, frame_bytes, env + 1);
            }
            std::vector<std::pair<Row, Row>> model(capacity * n_envs);
            std::size_t previous = ObservationColumn::no_previous;
            for (std::size_t step = 0; step < 10 * capacity + 40; ++step) {
                const std::size_t slot = step % capacity;
                for (std::size_t env = 0; env < n_envs; ++env) {
                    auto [now, next] = envs[env].step();
                    column.add(slot, env, previous, now.data(), next.data());
                    model[slot * n_envs + env] = {now, next};
                    if (step + 1 >= capacity) {
                        column.release_before((step + 1) % capacity, env);
                    }
                }
                previous = slot;
                const std::size_t filled = std::min(step + 1, capacity) * n_envs;
                for (std::size_t row = 0; row < filled; ++row) {
                    REQUIRE(read(column, Side::current, row) == model[row].first);
                    REQUIRE(read(column, Side::next, row) == model[row].second);
                }
            }
        }
    }
}

TEST_CASE("a running stack of frames is kept once") {
    constexpr std::size_t capacity = 1000;
    constexpr std::size_t frame_bytes = 64;
    ObservationColumn column(capacity, 1, {4 * frame_bytes, 4});
    std::vector<std::byte> tape((capacity + 4) * frame_bytes);
    std::mt19937 random(5);
    for (std::byte& b : tape) {
        b = static_cast<std::byte>(random());
    }
    for (std::size_t step = 0; step < capacity; ++step) {
        const std::byte* now = tape.data() + step * frame_bytes;
        column.add(step, 0, step == 0 ? ObservationColumn::no_previous : step - 1, now, now + frame_bytes);
    }
    CHECK(column.stream(0).live_frames() == capacity + 4);
}

TEST_CASE("stacks that move by several frames are found too") {
    constexpr std::size_t frame_bytes = 64;
    ObservationColumn column(100, 1, {6 * frame_bytes, 6});
    std::vector<std::byte> tape(400 * frame_bytes);
    std::mt19937 random(6);
    for (std::byte& b : tape) {
        b = static_cast<std::byte>(random());
    }
    for (std::size_t step = 0; step < 100; ++step) {
        const std::byte* now = tape.data() + step * 3 * frame_bytes;
        column.add(step, 0, step == 0 ? ObservationColumn::no_previous : step - 1, now, now + 3 * frame_bytes);
    }
    CHECK(column.stream(0).live_frames() == 6 + 3 * 100);
}
