#include "webscale/transition_ring.hpp"

#include <array>
#include <stdexcept>

#include "doctest/doctest.h"

using namespace webscale;

namespace {

void add_step(TransitionRing& ring, float value) {
    std::array<float, 2> observations = {value, value + 0.5f};
    std::array<float, 2> following = {value + 1, value + 1.5f};
    std::array<float, 2> rewards = {value, -value};
    std::array<float, 2> zeros = {0, 0};
    const auto* now = reinterpret_cast<const std::byte*>(observations.data());
    const auto* next = reinterpret_cast<const std::byte*>(following.data());
    ring.add({{&now, 1}, {&next, 1}, reinterpret_cast<const std::byte*>(rewards.data()), rewards.data(), zeros.data(),
              zeros.data()});
}

TransitionRing make_ring(std::size_t capacity) {
    const std::array<ObservationLayout, 1> layouts = {ObservationLayout{4, 1, FloatFormat::single}};
    return TransitionRing(capacity, 2, layouts, 4);
}

}  // namespace

TEST_CASE("an id names its transition for as long as it is stored and no other one ever") {
    auto ring = make_ring(5);
    std::vector<std::int64_t> ids;
    for (int step = 0; step < 23; ++step) {
        add_step(ring, static_cast<float>(step));
        const std::size_t slot = (ring.position() + 4) % 5;
        for (std::size_t env = 0; env < 2; ++env) {
            ids.push_back(ring.live_ids().id_of(slot * 2 + env));
        }
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const bool stored = i / 2 + 5 > static_cast<std::size_t>(step);
            REQUIRE(ids[i] == static_cast<std::int64_t>(i));
            REQUIRE(ring.live(ids[i]) == stored);
            if (stored) {
                REQUIRE(ring.live_ids().id_of(ring.row_of(ids[i])) == ids[i]);
            }
        }
    }
    CHECK_FALSE(ring.live(-1));
    CHECK_FALSE(ring.live(1000));
}

TEST_CASE("clearing starts at slot 0 and leaves old ids stale") {
    auto ring = make_ring(5);
    for (int step = 0; step < 7; ++step) {
        add_step(ring, static_cast<float>(step));
    }
    const auto old_id = ring.live_ids().id_of(0);
    ring.clear();
    CHECK(ring.position() == 0);
    CHECK_FALSE(ring.full());
    CHECK(ring.filled_slots() == 0);
    CHECK_FALSE(ring.live(old_id));
    add_step(ring, 1.0f);
    CHECK(ring.live_ids().id_of(0) != old_id);
    CHECK(ring.live(ring.live_ids().id_of(0)));
}

TEST_CASE("sizes of zero are refused") {
    CHECK_THROWS_AS(make_ring(0), std::invalid_argument);
}
