#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "webscale/prefetch.hpp"
#include "webscale/zeroed_array.hpp"

namespace webscale {

/// Tree of doubles with fan-out 8: one node is one cache line, its parent holds the reduction of its eight values.
///
/// A parent is always recomputed from its children, never adjusted by a difference, so rounding does not accumulate:
/// after any number of updates the tree equals a freshly built one bit for bit. `Reduce` maps a line of eight doubles
/// to one and must be deterministic. Not thread-safe.
template <class Reduce>
class ReductionTree {
public:
    static constexpr std::size_t fan_out = 8;

    explicit ReductionTree(std::size_t size) : size_(size) {
        std::size_t width = std::max<std::size_t>(size, 1);
        while (true) {
            width = (width + fan_out - 1) / fan_out * fan_out;
            levels_.emplace_back(width);
            if (width == fan_out) {
                break;
            }
            width /= fan_out;
        }
    }

    std::size_t size() const noexcept { return size_; }
    std::size_t height() const noexcept { return levels_.size(); }
    double leaf(std::size_t i) const noexcept { return levels_[0][i]; }
    const double* leaves() const noexcept { return levels_[0].data(); }
    double* mutable_leaves() noexcept { return levels_[0].data(); }

    /// The eight values of node `node` of level `level` (0 holds the leaves).
    const double* node(std::size_t level, std::size_t node) const noexcept {
        return levels_[level].data() + node * fan_out;
    }

    /// Reduction over all leaves. O(1).
    double root() const noexcept { return Reduce::line(levels_.back().data()); }

    /// Sets leaf `indices[i]` to `values[i]`, the last one winning where an index repeats. Each touched node is
    /// recomputed once. O(count * height), less where indices share nodes. Indices must be below size().
    void assign(const std::size_t* indices, const double* values, std::size_t count) {
        prefetch_leaves(indices, count);
        nodes_.resize(count);
        std::size_t kept = 0;
        for (std::size_t i = 0; i < count; ++i) {
            levels_[0][indices[i]] = values[i];
            keep(kept, indices[i] / fan_out, true);
        }
        propagate(kept);
    }

    /// Asks for the memory that assign() to these leaves touches first.
    void prefetch_leaves(const std::size_t* indices, std::size_t count) const noexcept {
        for (std::size_t i = 0; i < count; ++i) {
            prefetch(&levels_[0][indices[i]]);
            if (height() > 1) {
                prefetch(&levels_[1][indices[i] / fan_out]);
            }
        }
    }

    /// Recomputes every inner node after leaves were written directly. O(size).
    void rebuild() noexcept {
        for (std::size_t level = 1; level < levels_.size(); ++level) {
            const std::size_t lines = levels_[level - 1].size() / fan_out;
            for (std::size_t line = 0; line < lines; ++line) {
                levels_[level][line] = Reduce::line(node(level - 1, line));
            }
        }
    }

    std::size_t nbytes() const noexcept {
        std::size_t total = 0;
        for (const auto& level : levels_) {
            total += level.nbytes();
        }
        return total;
    }

private:
    // Puts a node that has changed on the list, unless it repeats the last one: rows of one batch often share a line, and
    // dropping such repeats is enough to profit. Without branches, since changes are hard to predict.
    void keep(std::size_t& kept, std::size_t node, bool changed) noexcept {
        const bool repeats = kept > 0 && nodes_[kept - 1] == node;
        nodes_[kept] = node;
        kept += changed && !repeats ? 1 : 0;
    }

    // Level by level, so that the loads of all paths overlap instead of each path waiting for its own. A path ends where
    // the reduction stays as it was: early in a tree of maxima.
    void propagate(std::size_t count) noexcept {
        for (std::size_t level = 1; level < levels_.size(); ++level) {
            std::size_t kept = 0;
            for (std::size_t i = 0; i < count; ++i) {
                const std::size_t child = nodes_[i];
                const double reduced = Reduce::line(node(level - 1, child));
                const bool changed = levels_[level][child] != reduced;
                levels_[level][child] = reduced;
                keep(kept, child / fan_out, changed);
            }
            count = kept;
        }
    }

    std::size_t size_;
    std::vector<ZeroedArray<double>> levels_;
    std::vector<std::size_t> nodes_;  // scratch: nodes whose values changed
};

/// Sum with one fixed association, so that every compiler and SIMD level gives the same bits.
struct SumOfLine {
    static double line(const double* v) noexcept {
        return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
    }
};

struct MaxOfLine {
    static double line(const double* v) noexcept {
        return std::max(std::max(std::max(v[0], v[1]), std::max(v[2], v[3])),
                        std::max(std::max(v[4], v[5]), std::max(v[6], v[7])));
    }
};

using MaxTree = ReductionTree<MaxOfLine>;

}  // namespace webscale
