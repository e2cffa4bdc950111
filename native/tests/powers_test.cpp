#include "webscale/powers.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "doctest/doctest.h"

using webscale::raise_to_power;

namespace {

std::vector<double> magnitudes(std::size_t count, double exponent_of_ten) {
    std::mt19937_64 random(7);
    std::uniform_real_distribution<double> exponent(-exponent_of_ten, exponent_of_ten);
    std::vector<double> values(count);
    for (double& value : values) {
        value = std::pow(10.0, exponent(random));
    }
    return values;
}

}  // namespace

TEST_CASE("powers agree with the C library's to 1e-13, over all priorities that are allowed and those near 1") {
    for (const double width : {100.0, 3.0, 1e-6}) {
        const std::vector<double> bases = magnitudes(20000, width);
        for (const double exponent : {0.0, 0.1, 0.4, 0.6, 0.7, 0.999, 1.0, 1.5, 3.0}) {
            std::vector<double> raised = bases;
            raise_to_power(raised, exponent);
            double worst = 0.0;
            for (std::size_t i = 0; i < bases.size(); ++i) {
                const double expected = std::pow(bases[i], exponent);
                worst = std::max(worst, std::abs(raised[i] - expected) / expected);
            }
            CHECK(worst < 1e-13);
        }
    }
}

TEST_CASE("a power has the same bits alone, in a group of four, and beside an extraordinary neighbour") {
    const std::vector<double> bases = magnitudes(64, 100.0);
    std::vector<double> together = bases;
    raise_to_power(together, 0.6);
    for (std::size_t i = 0; i < bases.size(); ++i) {
        std::vector<double> alone = {bases[i]};
        std::vector<double> beside_zero = {0.0, bases[i], 1e-310, 1.0};
        raise_to_power(alone, 0.6);
        raise_to_power(beside_zero, 0.6);
        CHECK(alone[0] == together[i]);
        CHECK(beside_zero[1] == together[i]);
    }
}

TEST_CASE("edges: 0 stays 0, 1 stays 1, subnormal bases and results are right, nothing overflows silently") {
    constexpr double tiny = std::numeric_limits<double>::denorm_min();
    for (const double exponent : {0.0, 0.5, 1.0, 2.0}) {
        std::vector<double> values = {0.0, 1.0, tiny, 1e-310, 0.0};
        raise_to_power(values, exponent);
        CHECK(values[0] == 0.0);
        CHECK(values[1] == 1.0);
        CHECK(values[2] == std::pow(tiny, exponent));
        CHECK(values[3] == std::pow(1e-310, exponent));
        CHECK(values[4] == 0.0);
    }
    std::vector<double> extremes = {1e200, 1e-200, 1e300, 1e-300};
    raise_to_power(extremes, 2.0);
    CHECK(extremes[0] == std::numeric_limits<double>::infinity());
    CHECK(extremes[1] == 0.0);
    std::vector<double> subnormal = {1e-155};
    raise_to_power(subnormal, 2.0);
    CHECK(subnormal[0] == std::pow(1e-155, 2.0));
    std::vector<double> none;
    raise_to_power(none, 0.5);
}
