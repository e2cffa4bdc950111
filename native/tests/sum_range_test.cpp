#include "webscale/sum_range.hpp"

#include <cmath>

#include "doctest/doctest.h"
#include "webscale/philox.hpp"

using namespace webscale;

TEST_CASE("a range holds exactly its leaves, however it lies") {
    Philox random(1);
    for (const std::size_t size : {1u, 7u, 8u, 9u, 64u, 65u, 600u}) {
        SumTree tree(size);
        for (std::size_t leaf = 0; leaf < size; ++leaf) {
            tree.mutable_leaves()[leaf] = static_cast<double>(1 + leaf % 5) * (leaf % 3 == 0 ? 0.0 : 1.0);
        }
        tree.rebuild();
        for (int round = 0; round < 200; ++round) {
            const auto a = static_cast<std::size_t>(random.uniform() * static_cast<double>(size + 1));
            const auto b = static_cast<std::size_t>(random.uniform() * static_cast<double>(size + 1));
            const std::size_t begin = std::min(a, b);
            const std::size_t end = std::max(a, b);
            double total = 0.0;
            for (std::size_t leaf = begin; leaf < end; ++leaf) {
                total += tree.leaf(leaf);
            }
            const SumRange range(tree, begin, end);
            REQUIRE(range.total() == total);  // small integers add exactly
            double before = 0.0;
            for (std::size_t leaf = begin; leaf < end; ++leaf) {
                if (tree.leaf(leaf) > 0.0) {
                    REQUIRE(range.find(before) == leaf);
                    before += tree.leaf(leaf);
                    REQUIRE(range.find(before - 0.5) == leaf);
                }
            }
        }
    }
}

TEST_CASE("a mass at the end of a range falls into its last leaf that has any, and light ranges keep their precision") {
    SumTree tree(100);
    tree.mutable_leaves()[3] = 1e100;
    tree.mutable_leaves()[40] = 1e-3;
    tree.mutable_leaves()[41] = 3e-3;
    tree.mutable_leaves()[90] = 1e100;
    tree.rebuild();
    const SumRange range(tree, 4, 90);
    CHECK(range.total() == doctest::Approx(4e-3).epsilon(1e-15));
    CHECK(range.find(0.9e-3) == 40);
    CHECK(range.find(1.1e-3) == 41);
    CHECK(range.find(range.total()) == 41);
}
