#pragma once

#include <cstddef>
#include <vector>

#include "webscale/sum_tree.hpp"

namespace webscale {

/// A run of leaves of a sum tree as the few whole nodes that make it up.
///
/// Its total is a sum of non-negative parts, not a difference of prefix sums, so a light run beside heavy ones loses no
/// precision. Valid while the tree does not change.
class SumRange {
public:
    /// The leaves from `begin` to before `end`. O(log n).
    SumRange(const SumTree& tree, std::size_t begin, std::size_t end);

    double total() const noexcept { return total_; }

    /// The leaf whose interval of the running sum holds `mass`, in [0, total()); never one of weight zero. O(log n).
    /// Requires total() > 0.
    std::size_t find(double mass) const noexcept;

private:
    struct Node {
        std::size_t level;
        std::size_t index;  // of the value in its level; level 0 holds the leaves
    };

    double value(const Node& node) const noexcept;

    const SumTree* tree_;
    std::vector<Node> nodes_;  // left to right
    double total_ = 0.0;
};

}  // namespace webscale
