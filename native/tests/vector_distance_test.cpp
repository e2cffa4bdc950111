#include "webscale/vector_distance.hpp"

#include <vector>

#include "doctest/doctest.h"
#include "webscale/philox.hpp"

using namespace webscale;

TEST_CASE("every instruction set gives the same bits, which are right") {
    Philox random(1);
    for (const std::size_t count : {64u, 128u, 256u, 1024u}) {
        std::vector<float> a(count), b(count);
        std::vector<std::uint8_t> codes_a(count), codes_b(count);
        for (std::size_t i = 0; i < count; ++i) {
            a[i] = static_cast<float>(random.uniform() * 200.0 - 100.0);
            b[i] = static_cast<float>(random.uniform() * 2.0 - 1.0);
            codes_a[i] = static_cast<std::uint8_t>(random.uniform() * 256.0);
            codes_b[i] = i % 3 == 0 ? 255 : static_cast<std::uint8_t>(random.uniform() * 256.0);
        }
        double squares = 0.0;
        double products = 0.0;
        std::uint32_t code_squares = 0;
        for (std::size_t i = 0; i < count; ++i) {
            squares += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
            products += static_cast<double>(a[i]) * b[i];
            const int difference = codes_a[i] - codes_b[i];
            code_squares += static_cast<std::uint32_t>(difference * difference);
        }
        const VectorKernels& plain = vector_kernels(0);
        CHECK(plain.squared_distance(a.data(), b.data(), count) == doctest::Approx(squares).epsilon(1e-5));
        CHECK(plain.dot(a.data(), b.data(), count) == doctest::Approx(products).epsilon(1e-3));
        for (std::size_t level = 0; level < vector_kernel_levels(); ++level) {
            const VectorKernels& kernels = vector_kernels(level);
            CHECK(kernels.squared_distance(a.data(), b.data(), count) == plain.squared_distance(a.data(), b.data(), count));
            CHECK(kernels.dot(a.data(), b.data(), count) == plain.dot(a.data(), b.data(), count));
            CHECK(kernels.code_distance(codes_a.data(), codes_b.data(), count) == code_squares);
        }
    }
}

TEST_CASE("the largest code distance fits") {
    const std::vector<std::uint8_t> low(max_codes, 0), high(max_codes, 255);
    for (std::size_t level = 0; level < vector_kernel_levels(); ++level) {
        CHECK(vector_kernels(level).code_distance(low.data(), high.data(), max_codes) == 65025u * max_codes);
    }
}
