#include "webscale/sum_tree.hpp"

#include <cstring>

#include "webscale/prefetch.hpp"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define WEBSCALE_AVX2_KERNEL 1
#endif

namespace webscale {

namespace {

/// The last child that has any mass: where a mass belongs that rounding pushed past the end. What is left in `mass` is
/// past the end of the child's own children too, so each level below takes its last one.
std::size_t last_child(const double* line, double& mass) noexcept {
    std::size_t last = 0;
    for (std::size_t child = 0; child < SumTree::fan_out; ++child) {
        if (line[child] > 0.0) {
            last = child;
        }
    }
    mass = line[last];
    return last;
}

/// Picks the child whose interval of the running sum holds `mass` and leaves the rest in `mass`. Without branches, which
/// a random mass would mispredict. The sum runs in order, so it never falls, and a child without mass is never picked.
std::size_t descend(const double* line, double& mass) noexcept {
    double sum = 0.0;
    double before = 0.0;
    std::size_t child = 0;
    for (std::size_t i = 0; i < SumTree::fan_out; ++i) {
        sum += line[i];
        const bool passed = mass >= sum;
        child += passed ? 1 : 0;
        before = passed ? sum : before;
    }
    if (child == SumTree::fan_out) [[unlikely]] {
        return last_child(line, mass);
    }
    mass -= before;
    return child;
}

#if WEBSCALE_AVX2_KERNEL
using FourDoubles = double __attribute__((vector_size(32)));
using FourIntegers = long long __attribute__((vector_size(32)));

/// descend() for four nodes at once, one to a lane: the same operations in the same order, hence the same bits.
__attribute__((target("avx2"))) void descend_four(const double* const* lines, double* masses,
                                                  std::size_t* children) noexcept {
    FourDoubles mass;
    std::memcpy(&mass, masses, sizeof mass);
    FourDoubles sum = {};
    FourDoubles before = {};
    FourIntegers child = {};
    for (std::size_t i = 0; i < SumTree::fan_out; ++i) {
        sum += FourDoubles{lines[0][i], lines[1][i], lines[2][i], lines[3][i]};
        const FourIntegers passed = mass >= sum;  // -1 where true
        child -= passed;
        before = passed ? sum : before;
    }
    mass -= before;
    for (std::size_t lane = 0; lane < 4; ++lane) {
        children[lane] = static_cast<std::size_t>(child[lane]);
        if (children[lane] == SumTree::fan_out) [[unlikely]] {
            children[lane] = last_child(lines[lane], masses[lane]);
        } else {
            masses[lane] = mass[lane];
        }
    }
}

const bool has_avx2 = __builtin_cpu_supports("avx2");
#endif

}  // namespace

void SumTree::find(double* masses, std::size_t count, std::size_t* leaves) const noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        leaves[i] = 0;
    }
    for (std::size_t level = height(); level-- > 0;) {
        const auto arrive = [&](std::size_t i, std::size_t child) {
            leaves[i] = leaves[i] * fan_out + child;
            if (level > 0) {
                prefetch(node(level - 1, leaves[i]));
            }
        };
        std::size_t i = 0;
#if WEBSCALE_AVX2_KERNEL
        for (; has_avx2 && i + 4 <= count; i += 4) {
            const double* lines[4];
            std::size_t children[4];
            for (std::size_t lane = 0; lane < 4; ++lane) {
                lines[lane] = node(level, leaves[i + lane]);
            }
            descend_four(lines, masses + i, children);
            for (std::size_t lane = 0; lane < 4; ++lane) {
                arrive(i + lane, children[lane]);
            }
        }
#endif
        for (; i < count; ++i) {
            arrive(i, descend(node(level, leaves[i]), masses[i]));
        }
    }
}

}  // namespace webscale
