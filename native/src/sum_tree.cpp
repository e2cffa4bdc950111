#include "webscale/sum_tree.hpp"

#include "webscale/prefetch.hpp"

namespace webscale {

namespace {

/// Picks the child whose interval holds `mass` and leaves the rest in `mass`. A mass that rounding pushed past the
/// end belongs to the last child that has any.
std::size_t descend(const double* line, double& mass) noexcept {
    std::size_t last = 0;
    for (std::size_t child = 0; child < SumTree::fan_out; ++child) {
        if (mass < line[child]) {
            return child;
        }
        if (line[child] > 0.0) {
            last = child;
        }
        mass -= line[child];
    }
    mass = line[last];  // past the end of the child's own children too, so each level takes its last one
    return last;
}

}  // namespace

void SumTree::find(double* masses, std::size_t count, std::size_t* leaves) const noexcept {
    for (std::size_t i = 0; i < count; ++i) {
        leaves[i] = 0;
    }
    for (std::size_t level = height(); level-- > 0;) {
        for (std::size_t i = 0; i < count; ++i) {
            leaves[i] = leaves[i] * fan_out + descend(node(level, leaves[i]), masses[i]);
            if (level > 0) {
                prefetch(node(level - 1, leaves[i]));
            }
        }
    }
}

}  // namespace webscale
