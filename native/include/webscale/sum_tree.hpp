#pragma once

#include <cstddef>

#include "webscale/reduction_tree.hpp"

namespace webscale {

/// Sum tree over non-negative weights: draws an index with probability weight / total in O(log n).
///
/// Schaul et al., "Prioritized Experience Replay" (ICLR 2016), appendix B.2.1, with a fan-out of 8 and draws that
/// descend level by level, so that the cache misses of a batch overlap. Not thread-safe.
class SumTree : public ReductionTree<SumOfLine> {
public:
    using ReductionTree::ReductionTree;

    double total() const noexcept { return root(); }

    /// For each `masses[i]` in [0, total()): the leaf whose interval of the running sum holds it. A leaf of weight
    /// zero is never returned, whatever rounding does. O(count * height). Requires total() > 0; `masses` is overwritten.
    void find(double* masses, std::size_t count, std::size_t* leaves) const noexcept;
};

}  // namespace webscale
