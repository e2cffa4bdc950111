#include "webscale/philox.hpp"

#include "doctest/doctest.h"

using webscale::Philox;

TEST_CASE("the known answer of Philox4x32-10 for a zero counter and key") {
    // Random123, kat_vectors: philox4x32 10 with all zeros.
    const auto block = Philox::block(0, 0);
    CHECK(block == std::array<std::uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
}

TEST_CASE("a generator restored from seed and counter goes on as the original") {
    Philox original(42);
    for (int i = 0; i < 100; ++i) {
        original.uniform();
    }
    Philox restored(original.seed(), original.counter());
    for (int i = 0; i < 100; ++i) {
        CHECK(restored.uniform() == original.uniform());
    }
}

TEST_CASE("uniform numbers lie in [0, 1) with the mean of a uniform distribution") {
    Philox generator(7);
    double sum = 0.0;
    constexpr int count = 100000;
    for (int i = 0; i < count; ++i) {
        const double value = generator.uniform();
        REQUIRE(value >= 0.0);
        REQUIRE(value < 1.0);
        sum += value;
    }
    // Standard error of the mean is 1 / sqrt(12 count) = 0.0009; the bound is five of them.
    CHECK(sum / count == doctest::Approx(0.5).epsilon(0.0092));
}
