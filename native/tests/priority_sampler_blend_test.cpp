#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "doctest/doctest.h"
#include "webscale/priority_sampler.hpp"

using webscale::NewPriority;
using webscale::PrioritySampler;

namespace {

std::vector<std::size_t> all_rows(std::size_t count) {
    std::vector<std::size_t> rows(count);
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    return rows;
}

/// Priorities from 1e-6 to 1e6, a tenth of the rows absent.
PrioritySampler wide_sampler(std::size_t rows, double alpha) {
    std::mt19937_64 random(5);
    std::uniform_real_distribution<double> exponent(-6.0, 6.0);
    std::vector<double> priorities(rows);
    for (double& priority : priorities) {
        priority = random() % 10 == 0 ? 0.0 : std::pow(10.0, exponent(random));
    }
    PrioritySampler sampler(rows, alpha, 7);
    sampler.assign(all_rows(rows), priorities);
    return sampler;
}

std::size_t present_rows(const PrioritySampler& sampler) {
    std::size_t present = 0;
    for (std::size_t row = 0; row < sampler.rows(); ++row) {
        present += sampler.priority(row) > 0.0;
    }
    return present;
}

double probability(const PrioritySampler& sampler, std::size_t row, std::size_t present) {
    if (sampler.priority(row) == 0.0) {
        return 0.0;
    }
    return (1.0 - sampler.temperature()) * sampler.mass(row) / sampler.total_mass() +
           sampler.temperature() / static_cast<double>(present);
}

/// Chi-squared of single draws against `cell_of` rows, cells expecting fewer than 5 left out with what fell into them.
template <class CellOf>
double chi_squared(PrioritySampler& sampler, std::size_t cells, std::size_t draws, CellOf cell_of) {
    std::vector<double> seen(cells, 0.0), expected(cells, 0.0);
    const std::size_t present = present_rows(sampler);
    for (std::size_t row = 0; row < sampler.rows(); ++row) {
        expected[cell_of(row)] += static_cast<double>(draws) * probability(sampler, row, present);
    }
    std::vector<std::size_t> row(1);  // one at a time: stratification would make the test too easy
    std::vector<float> weight(1);
    for (std::size_t i = 0; i < draws; ++i) {
        sampler.sample(0.4, row, weight);
        REQUIRE(sampler.priority(row[0]) > 0.0);
        seen[cell_of(row[0])] += 1.0;
    }
    double statistic = 0.0;
    for (std::size_t cell = 0; cell < cells; ++cell) {
        if (expected[cell] >= 5.0) {
            statistic += (seen[cell] - expected[cell]) * (seen[cell] - expected[cell]) / expected[cell];
        }
    }
    return statistic;
}

}  // namespace

TEST_CASE("ten million rows over 12 orders of magnitude are drawn by their probability, blended or not (chi-squared)") {
    constexpr std::size_t rows = 10'000'000;
    constexpr std::size_t cells = 100;
    auto sampler = wide_sampler(rows, 0.6);
    for (const double temperature : {0.0, 0.3}) {
        sampler.set_temperature(temperature);
        // 99.99 % quantile of chi-squared with 99 degrees: 158; with 11 degrees: 38.
        CHECK(chi_squared(sampler, cells, 200'000, [](std::size_t row) { return row / (rows / cells); }) < 158.0);
        CHECK(chi_squared(sampler, 12, 200'000, [&](std::size_t row) {
                  const double priority = sampler.priority(row);
                  return priority > 0.0 ? std::min<std::size_t>(11, static_cast<std::size_t>(std::log10(priority) + 6.0))
                                        : 0;
              }) < 38.0);
    }
}

TEST_CASE("each row of a blend is drawn by its own probability (chi-squared)") {
    for (const double temperature : {0.05, 0.5, 1.0}) {
        auto sampler = wide_sampler(60, 0.3);
        sampler.set_temperature(temperature);
        // 99.99 % quantile of chi-squared with 59 degrees: 108.
        CHECK(chi_squared(sampler, 60, 300'000, [](std::size_t row) { return row; }) < 108.0);
    }
}

TEST_CASE("a batch of a blend holds each row as often as its share, within 2 draws of each part") {
    auto sampler = wide_sampler(60, 0.3);
    sampler.set_temperature(0.4);
    std::vector<std::size_t> rows(6000);
    std::vector<float> weights(6000);
    sampler.sample(0.4, rows, weights);
    std::vector<double> counts(60, 0.0);
    for (const std::size_t row : rows) {
        counts[row] += 1.0;
    }
    const std::size_t present = present_rows(sampler);
    for (std::size_t row = 0; row < 60; ++row) {
        CHECK(std::abs(counts[row] - 6000.0 * probability(sampler, row, present)) < 4.0);
    }
}

TEST_CASE("weights of a blend are (N P)^-beta over the largest of the batch; all 1 when uniform") {
    auto sampler = wide_sampler(60, 0.6);
    const std::size_t present = present_rows(sampler);
    std::vector<std::size_t> rows(64);
    std::vector<float> weights(64);
    for (const double temperature : {1e-3, 0.5, 1.0}) {
        sampler.set_temperature(temperature);
        sampler.sample(0.7, rows, weights);
        double smallest = 1.0;
        for (const std::size_t row : rows) {
            smallest = std::min(smallest, probability(sampler, row, present));
        }
        for (std::size_t i = 0; i < rows.size(); ++i) {
            const double expected = std::pow(smallest / probability(sampler, rows[i], present), 0.7);
            CHECK(weights[i] == doctest::Approx(expected).epsilon(1e-6));
            CHECK((temperature < 1.0 || weights[i] == 1.0f));
        }
    }
}

TEST_CASE("withdrawn rows are not drawn at any temperature, rows that come back are") {
    PrioritySampler sampler(1000, 0.6, 3);
    sampler.assign(all_rows(1000), std::vector<double>(1000, 2.0));
    sampler.set_temperature(0.5);
    std::vector<std::size_t> gone(998);
    std::iota(gone.begin(), gone.end(), std::size_t{1});
    sampler.assign(gone, std::vector<double>(998, 0.0));
    std::vector<std::size_t> rows(5000);
    std::vector<float> weights(5000);
    for (const double temperature : {0.5, 1.0, 0.0, 0.01}) {
        sampler.set_temperature(temperature);
        sampler.sample(1.0, rows, weights);
        for (const std::size_t row : rows) {
            REQUIRE((row == 0 || row == 999));
        }
    }
    sampler.assign_max(std::vector<std::size_t>{500});
    sampler.set_temperature(1.0);
    sampler.sample(1.0, rows, weights);
    CHECK(std::count(rows.begin(), rows.end(), std::size_t{500}) > 1600);
    sampler.clear();
    CHECK_THROWS_AS(sampler.sample(1.0, rows, weights), std::logic_error);
}

TEST_CASE("a row that leaves and returns within one assignment is present as its last priority says") {
    PrioritySampler sampler(10, 0.6, 3);
    sampler.set_temperature(1.0);
    sampler.assign(std::vector<std::size_t>{3, 3, 4, 4}, std::vector<double>{1.0, 0.0, 0.0, 1.0});
    std::vector<std::size_t> rows(50);
    std::vector<float> weights(50);
    sampler.sample(1.0, rows, weights);
    CHECK(rows == std::vector<std::size_t>(50, 4));
}

TEST_CASE("the spread of probabilities by hand") {
    auto sampler = wide_sampler(5000, 0.6);
    const std::size_t present = present_rows(sampler);
    for (const double temperature : {0.0, 0.2, 1.0}) {
        sampler.set_temperature(temperature);
        long double entropy = 0.0L, squares = 0.0L;
        for (std::size_t row = 0; row < sampler.rows(); ++row) {
            if (const long double p = probability(sampler, row, present); p > 0.0L) {
                entropy -= p * std::log(p);
                squares += p * p;
            }
        }
        const auto found = sampler.draw_statistics();
        CHECK(found.drawable == present);
        CHECK(found.entropy == doctest::Approx(static_cast<double>(entropy)).epsilon(1e-12));
        CHECK(found.effective_sample_size == doctest::Approx(static_cast<double>(1.0L / squares)).epsilon(1e-12));
    }
    const auto uniform = sampler.draw_statistics();
    CHECK(uniform.entropy == doctest::Approx(std::log(static_cast<double>(present))).epsilon(1e-12));
    sampler.clear();
    CHECK(sampler.draw_statistics().drawable == 0);
}

TEST_CASE("new rows may take the largest priority ever assigned, which neither defaults nor raised rows count for") {
    PrioritySampler sampler(4, 0.6, 1);
    sampler.set_new_priority(NewPriority::max_ever);
    sampler.assign_max(std::vector<std::size_t>{0, 1});
    CHECK(sampler.priority(0) == 1.0);
    CHECK(sampler.max_ever() == 0.0);
    sampler.assign(std::vector<std::size_t>{0}, std::vector<double>{0.25});
    sampler.assign(std::vector<std::size_t>{0}, std::vector<double>{0.125});
    sampler.raise(std::vector<std::size_t>{1}, 50.0);
    sampler.assign_max(std::vector<std::size_t>{2});
    CHECK(sampler.priority(2) == 0.25);
    sampler.clear();
    CHECK(sampler.max_ever() == 0.0);
}

TEST_CASE("raising multiplies once, stops at the largest priority allowed and leaves absent rows absent") {
    PrioritySampler sampler(3, 1.0, 1);
    sampler.assign(std::vector<std::size_t>{0, 1}, std::vector<double>{2.0, 1e99});
    sampler.raise(std::vector<std::size_t>{0, 0, 1, 2}, 100.0);
    CHECK(sampler.priority(0) == 200.0);
    CHECK(sampler.priority(1) == PrioritySampler::max_allowed);
    CHECK(sampler.priority(2) == 0.0);
}

TEST_CASE("after any mix of updates a sampler equals one restored from its priorities, bit for bit") {
    constexpr std::size_t size = 20'000;
    auto sampler = wide_sampler(size, 0.6);
    sampler.set_temperature(0.1);
    std::mt19937_64 random(9);
    std::uniform_real_distribution<double> exponent(-6.0, 6.0);
    for (int round = 0; round < 3000; ++round) {
        std::vector<std::size_t> rows(256);
        std::vector<double> priorities(256);
        for (std::size_t i = 0; i < rows.size(); ++i) {
            rows[i] = random() % size;
            priorities[i] = random() % 10 == 0 ? 0.0 : std::pow(10.0, exponent(random));
        }
        switch (round % 3) {
            case 0: sampler.assign(rows, priorities); break;
            case 1: sampler.assign_max(rows); break;
            default: sampler.raise(rows, 1e-3 + 1.0); break;
        }
    }
    PrioritySampler fresh(size, 0.6, 1);
    fresh.set_temperature(0.1);
    fresh.restore({sampler.priorities(), size});
    fresh.set_generator(sampler.generator());
    CHECK(fresh.total_mass() == sampler.total_mass());
    CHECK(fresh.max_priority() == sampler.max_priority());
    std::vector<std::size_t> rows(10'000), fresh_rows(10'000);
    std::vector<float> weights(10'000), fresh_weights(10'000);
    sampler.sample(0.5, rows, weights);
    fresh.sample(0.5, fresh_rows, fresh_weights);
    CHECK(rows == fresh_rows);
    CHECK(weights == fresh_weights);
}
