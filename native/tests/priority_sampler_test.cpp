#include "webscale/priority_sampler.hpp"

#include <cmath>
#include <numeric>
#include <stdexcept>

#include "doctest/doctest.h"

using webscale::PrioritySampler;

namespace {

PrioritySampler sampler_with(const std::vector<double>& priorities, double alpha, std::size_t rows = 0) {
    PrioritySampler sampler(rows == 0 ? priorities.size() : rows, alpha, 11);
    std::vector<std::size_t> indices(priorities.size());
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    sampler.assign(indices, priorities);
    return sampler;
}

}  // namespace

TEST_CASE("rows are drawn in proportion to priority^alpha (chi-squared)") {
    std::vector<double> priorities(100);
    for (std::size_t i = 0; i < priorities.size(); ++i) {
        priorities[i] = std::pow(10.0, static_cast<double>(i % 7) - 3.0);
    }
    for (const double alpha : {0.0, 0.6, 1.0}) {
        auto sampler = sampler_with(priorities, alpha, 1000);
        std::vector<double> counts(priorities.size(), 0.0);
        constexpr std::size_t draws = 400000;
        std::vector<std::size_t> rows(1);  // one at a time: stratification would make the test too easy
        std::vector<float> weights(1);
        for (std::size_t i = 0; i < draws; ++i) {
            sampler.sample(0.4, rows, weights);
            REQUIRE(rows[0] < priorities.size());
            counts[rows[0]] += 1.0;
        }
        // Cells with an expected count below 5 are pooled. 99.99 % quantile of chi-squared with 99 degrees: 158.
        double statistic = 0.0, rare_seen = 0.0, rare_expected = 0.0;
        for (std::size_t i = 0; i < counts.size(); ++i) {
            const double expected = draws * sampler.mass(i) / sampler.total_mass();
            if (expected < 5.0) {
                rare_seen += counts[i];
                rare_expected += expected;
            } else {
                statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
            }
        }
        if (rare_expected >= 5.0) {
            statistic += (rare_seen - rare_expected) * (rare_seen - rare_expected) / rare_expected;
        }
        CHECK(statistic < 158.0);
    }
}

TEST_CASE("weights are (N P)^-beta over the largest of the batch") {
    const std::vector<double> priorities = {0.5, 1.0, 2.0, 4.0, 8.0};
    auto sampler = sampler_with(priorities, 0.7);
    std::vector<std::size_t> rows(64);
    std::vector<float> weights(64);
    sampler.sample(0.5, rows, weights);
    double largest = 0.0;
    std::vector<double> expected(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        expected[i] = std::pow(5.0 * std::pow(priorities[rows[i]], 0.7) / sampler.total_mass(), -0.5);
        largest = std::max(largest, expected[i]);
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
        CHECK(weights[i] == doctest::Approx(expected[i] / largest).epsilon(1e-6));
    }
}

TEST_CASE("alpha 0 is uniform with every weight exactly 1, and leaves absent rows out") {
    auto sampler = sampler_with({3.0, 0.0, 1e-9, 1e9}, 0.0);
    CHECK(sampler.total_mass() == 3.0);
    std::vector<std::size_t> rows(999);
    std::vector<float> weights(999);
    sampler.sample(1.0, rows, weights);
    for (std::size_t i = 0; i < rows.size(); ++i) {
        CHECK(rows[i] != 1);
        CHECK(weights[i] == 1.0f);
    }
}

TEST_CASE("new rows take the largest priority of the other rows, so an outlier is forgotten with its row") {
    auto sampler = sampler_with({1e-3, 1e3, 1e-3}, 0.6);
    const std::vector<std::size_t> ordinary = {0};
    sampler.assign_max(ordinary);
    CHECK(sampler.priority(0) == 1e3);
    auto other = sampler_with({1e-3, 1e3, 2e-3}, 0.6);
    const std::vector<std::size_t> outlier = {1};
    other.assign_max(outlier);
    CHECK(other.priority(1) == 2e-3);
}

TEST_CASE("a change of alpha re-derives every mass") {
    auto sampler = sampler_with({0.1, 1.0, 10.0}, 0.6);
    sampler.set_alpha(0.4);
    for (std::size_t row = 0; row < 3; ++row) {
        CHECK(sampler.mass(row) == doctest::Approx(std::pow(sampler.priority(row), 0.4)).epsilon(1e-12));
    }
}

TEST_CASE("nothing to draw is an error") {
    PrioritySampler sampler(10, 0.6, 1);
    std::vector<std::size_t> rows(4);
    std::vector<float> weights(4);
    CHECK_THROWS_AS(sampler.sample(0.4, rows, weights), std::logic_error);
}
