#include "webscale/sum_tree.hpp"

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "doctest/doctest.h"

using webscale::SumTree;

namespace {

std::vector<std::size_t> find(const SumTree& tree, std::vector<double> masses) {
    std::vector<std::size_t> leaves(masses.size());
    tree.find(masses.data(), masses.size(), leaves.data());
    return leaves;
}

}  // namespace

TEST_CASE("a mass falls into the leaf whose interval of the running sum holds it") {
    for (const std::size_t size : {1u, 2u, 7u, 8u, 9u, 63u, 64u, 65u, 513u, 5000u}) {
        SumTree tree(size);
        std::vector<std::size_t> indices(size);
        std::iota(indices.begin(), indices.end(), std::size_t{0});
        std::vector<double> weights(size);
        for (std::size_t i = 0; i < size; ++i) {
            weights[i] = static_cast<double>(i % 5);  // whole numbers, so that sums are exact; some are zero
        }
        weights[size - 1] = 3.0;
        tree.assign(indices.data(), weights.data(), size);
        CHECK(tree.total() == std::accumulate(weights.begin(), weights.end(), 0.0));
        double start = 0.0;
        for (std::size_t i = 0; i < size; ++i) {
            if (weights[i] > 0.0) {
                CHECK(find(tree, {start, std::nextafter(start + weights[i], 0.0)}) == std::vector<std::size_t>{i, i});
            }
            start += weights[i];
        }
    }
}

TEST_CASE("masses at and past the total fall into the last leaf that has weight") {
    SumTree tree(500);
    for (std::size_t i = 0; i < 100; ++i) {
        const double weight = 0.1 * static_cast<double>(i + 1);
        tree.assign(&i, &weight, 1);
    }
    const double total = tree.total();
    const auto leaves = find(tree, {total, std::nextafter(total, 1e9), total * 2, std::nextafter(total, 0.0)});
    for (const std::size_t leaf : leaves) {
        CHECK(leaf == 99);
    }
}

TEST_CASE("after many updates the tree equals a fresh one bit for bit and draws no empty leaf") {
    constexpr std::size_t size = 65536;
    SumTree tree(size);
    std::mt19937_64 random(3);
    std::uniform_real_distribution<double> weight(1e-6, 5.0);
    std::vector<double> model(size, 0.0);
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::size_t> indices(100);
        std::vector<double> values(100);
        for (std::size_t i = 0; i < indices.size(); ++i) {
            indices[i] = random() % (size / 2);
            values[i] = random() % 10 == 0 ? 0.0 : weight(random);
            model[indices[i]] = values[i];
        }
        tree.assign(indices.data(), values.data(), indices.size());
    }
    SumTree fresh(size);
    std::copy(model.begin(), model.end(), fresh.mutable_leaves());
    fresh.rebuild();
    CHECK(tree.total() == fresh.total());
    const long double exact = std::accumulate(model.begin(), model.end(), 0.0L);
    CHECK(std::abs(static_cast<double>((tree.total() - exact) / exact)) < 1e-12);

    std::uniform_real_distribution<double> mass(0.0, tree.total());
    std::vector<double> masses(1000000);
    for (double& m : masses) {
        m = mass(random);
    }
    for (const std::size_t leaf : find(tree, masses)) {
        REQUIRE(leaf < size / 2);
        REQUIRE(model[leaf] > 0.0);
    }
}

TEST_CASE("weights that span 12 orders of magnitude keep their shares") {
    SumTree tree(1000);
    std::vector<std::size_t> indices(1000);
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    std::vector<double> weights(1000, 1e-6);
    weights[500] = 1e6;
    tree.assign(indices.data(), weights.data(), weights.size());
    CHECK(find(tree, {0.5e-6, 499.5e-6, 1.0, 1e6}) == std::vector<std::size_t>{0, 499, 500, 500});
}

TEST_CASE("the last of repeated indices in one assignment wins") {
    SumTree tree(10);
    const std::vector<std::size_t> indices = {3, 9, 3};
    const std::vector<double> values = {1.0, 2.0, 5.0};
    tree.assign(indices.data(), values.data(), 3);
    CHECK(tree.leaf(3) == 5.0);
    CHECK(tree.total() == 7.0);
}
