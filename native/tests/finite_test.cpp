#include "webscale/finite.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "doctest/doctest.h"

using namespace webscale;

TEST_CASE_TEMPLATE("every NaN and infinity is found at its place, and nothing else is", T, float, double) {
    const FloatFormat format = sizeof(T) == 4 ? FloatFormat::single : FloatFormat::double_;
    using limits = std::numeric_limits<T>;
    for (std::size_t size : {1u, 63u, 64u, 65u, 200u}) {
        std::vector<T> values(size, limits::max());
        values[0] = -limits::denorm_min();
        const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
        CHECK(find_non_finite(bytes, size, format) == all_finite);
        for (const T bad : {limits::quiet_NaN(), -limits::quiet_NaN(), limits::infinity(), -limits::infinity()}) {
            for (std::size_t place = 0; place < size; ++place) {
                const T good = values[place];
                values[place] = bad;
                REQUIRE(find_non_finite(bytes, size, format) == place);
                values[place] = good;
            }
        }
    }
}

TEST_CASE("half precision is tested by its own exponent") {
    std::uint16_t values[] = {0x7BFF, 0xFC00};  // largest finite, minus infinity
    CHECK(find_non_finite(reinterpret_cast<const std::byte*>(values), 1, FloatFormat::half) == all_finite);
    CHECK(find_non_finite(reinterpret_cast<const std::byte*>(values), 2, FloatFormat::half) == 1);
}

TEST_CASE("integers are always finite") {
    const std::vector<std::byte> values(100, std::byte{0xFF});
    CHECK(find_non_finite(values.data(), values.size(), FloatFormat::none) == all_finite);
}
