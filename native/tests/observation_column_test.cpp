#include "webscale/observation_column.hpp"

#include <cstring>
#include <random>
#include <stdexcept>
#include <utility>
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

/// The same frames taking turns.
Row interleaved(const FrameInterleaving& interleaving, const Row& row) {
    std::vector<const std::byte*> frames;
    for (std::size_t frame = 0; frame < interleaving.frames; ++frame) {
        frames.push_back(row.data() + frame * row.size() / interleaving.frames);
    }
    Row out(row.size());
    interleaving.interleave(frames, out.data());
    return out;
}

using References = std::vector<ObservationColumn::Sequence>;

Row read(const ObservationColumn& column, std::size_t env, Side side, const References& references) {
    Row out(column.layout().row_bytes);
    column.copy(env, side, references.data(), out.data());
    return out;
}

}  // namespace

TEST_CASE("every stored row reads back bit for bit, at every fill level and after wrapping") {
    for (const std::size_t capacity : {1u, 2u, 3u, 17u}) {
        for (const auto& [frames, parts] : {std::pair{1u, 1u}, {2u, 1u}, {4u, 1u}, {2u, 6u}, {4u, 2u}, {4u, 3u}}) {
            constexpr std::size_t n_envs = 2;
            constexpr std::size_t frame_bytes = 6;
            ObservationColumn column(capacity, n_envs, {frames * frame_bytes, frames, FloatFormat::none, parts});
            const FrameInterleaving interleaving{frames, parts, frame_bytes / parts};
            std::vector<StackedEnvironment> envs;
            for (unsigned env = 0; env < n_envs; ++env) {
                envs.emplace_back(frames, frame_bytes, env + 1);
            }
            std::vector<std::pair<Row, Row>> model(capacity * n_envs);
            std::vector<References> references(capacity * n_envs, References(column.layout().references()));
            for (std::size_t step = 0; step < 10 * capacity + 40; ++step) {
                const std::size_t slot = step % capacity;
                const std::size_t previous = (step + capacity - 1) % capacity;
                for (std::size_t env = 0; env < n_envs; ++env) {
                    auto [now, next] = envs[env].step();
                    now = interleaved(interleaving, now);
                    next = interleaved(interleaving, next);
                    column.add(env, step == 0 ? nullptr : references[previous * n_envs + env].data(), now.data(),
                               next.data(), references[slot * n_envs + env].data());
                    model[slot * n_envs + env] = {now, next};
                    if (step + 1 >= capacity) {
                        column.release_before(env, references[(step + 1) % capacity * n_envs + env].data());
                    }
                }
                const std::size_t filled = std::min(step + 1, capacity) * n_envs;
                for (std::size_t row = 0; row < filled; ++row) {
                    REQUIRE(read(column, row % n_envs, Side::current, references[row]) == model[row].first);
                    REQUIRE(read(column, row % n_envs, Side::next, references[row]) == model[row].second);
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
    References previous(8);
    for (std::size_t step = 0; step < capacity; ++step) {
        const std::byte* now = tape.data() + step * frame_bytes;
        References references(8);
        column.add(0, step == 0 ? nullptr : previous.data(), now, now + frame_bytes, references.data());
        previous = references;
    }
    CHECK(column.stream(0).live_frames() == capacity + 4);
}

TEST_CASE("frames that take turns in a row are kept once too") {
    constexpr std::size_t capacity = 1000;
    constexpr FrameInterleaving interleaving{4, 16, 3};
    constexpr std::size_t frame_bytes = 48;
    ObservationColumn column(capacity, 1, {4 * frame_bytes, 4, FloatFormat::none, 16});
    std::mt19937 random(8);
    Row stack(4 * frame_bytes);
    References previous(8);
    for (std::size_t step = 0; step < capacity; ++step) {
        const Row now = interleaved(interleaving, stack);
        std::memmove(stack.data(), stack.data() + frame_bytes, 3 * frame_bytes);
        for (std::size_t i = 3 * frame_bytes; i < stack.size(); ++i) {
            stack[i] = static_cast<std::byte>(random());
        }
        References references(8);
        column.add(0, step == 0 ? nullptr : previous.data(), now.data(), interleaved(interleaving, stack).data(),
                   references.data());
        previous = references;
    }
    CHECK(column.stream(0).live_frames() == 1 + capacity);  // the first stack is four times the same frame
}

TEST_CASE("layouts that do not add up are refused") {
    for (const ObservationLayout& layout :
         {ObservationLayout{0}, {12, 0}, {12, 5}, {12, 4, FloatFormat::none, 0}, {12, 4, FloatFormat::none, 2},
          {65, 65}}) {
        CHECK_THROWS_AS(ObservationColumn(10, 1, layout), std::invalid_argument);
    }
}

TEST_CASE("stacks that move by several frames are found too") {
    constexpr std::size_t frame_bytes = 64;
    ObservationColumn column(100, 1, {6 * frame_bytes, 6});
    std::vector<std::byte> tape(400 * frame_bytes);
    std::mt19937 random(6);
    for (std::byte& b : tape) {
        b = static_cast<std::byte>(random());
    }
    References previous(12);
    for (std::size_t step = 0; step < 100; ++step) {
        const std::byte* now = tape.data() + step * 3 * frame_bytes;
        References references(12);
        column.add(0, step == 0 ? nullptr : previous.data(), now, now + 3 * frame_bytes, references.data());
        previous = references;
    }
    CHECK(column.stream(0).live_frames() == 6 + 3 * 100);
}

TEST_CASE("planes that never change do not keep the stream behind them") {
    constexpr std::size_t frame_bytes = 64;
    constexpr std::size_t capacity = 100;
    ObservationColumn column(capacity, 1, {2 * frame_bytes, 2});
    std::vector<References> references(capacity, References(4));
    std::vector<std::byte> now(2 * frame_bytes), next(2 * frame_bytes);
    std::mt19937 random(7);
    for (std::size_t step = 0; step < 20 * capacity; ++step) {
        now = next;
        for (std::size_t i = frame_bytes; i < 2 * frame_bytes; ++i) {
            next[i] = static_cast<std::byte>(random());
        }
        const std::size_t slot = step % capacity;
        column.add(0, step == 0 ? nullptr : references[(slot + capacity - 1) % capacity].data(), now.data(), next.data(),
                   references[slot].data());
        if (step + 1 >= capacity) {
            column.release_before(0, references[(slot + 1) % capacity].data());
        }
        REQUIRE(column.stream(0).live_frames() < 2 * capacity);
    }
}
