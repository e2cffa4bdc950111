#include "webscale/worker_pool.hpp"

#include <atomic>
#include <vector>

#include "doctest/doctest.h"

using webscale::WorkerPool;

TEST_CASE("every part is done exactly once before run returns, for any number of threads and parts") {
    for (const std::size_t helpers : {0u, 1u, 3u}) {
        WorkerPool pool(helpers);
        CHECK(pool.width() == helpers + 1);
        for (int round = 0; round < 300; ++round) {
            const std::size_t parts = static_cast<std::size_t>(round % 9);
            std::vector<int> done(parts, 0);
            pool.run(parts, [&](std::size_t part) { ++done[part]; });
            REQUIRE(done == std::vector<int>(parts, 1));
        }
    }
}

TEST_CASE("callers that meet a busy pool do their own work") {
    WorkerPool pool(2);
    std::atomic<int> total{0};
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 4; ++caller) {
        callers.emplace_back([&] {
            for (int round = 0; round < 200; ++round) {
                pool.run(5, [&](std::size_t) { ++total; });
            }
        });
    }
    for (std::thread& caller : callers) {
        caller.join();
    }
    CHECK(total == 4 * 200 * 5);
}
