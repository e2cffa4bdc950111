#include "webscale/sum_range.hpp"

namespace webscale {

namespace {

/// Picks the part whose interval of the running sum holds `mass` and leaves the rest in `mass`. A mass that rounding
/// pushed past the end belongs to the last part that has any, all of it.
template <class Weight>
std::size_t pick(std::size_t count, Weight weight, double& mass) noexcept {
    std::size_t last = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const double part = weight(i);
        if (mass < part) {
            return i;
        }
        if (part > 0.0) {
            last = i;
        }
        mass -= part;
    }
    mass = weight(last);
    return last;
}

}  // namespace

SumRange::SumRange(const SumTree& tree, std::size_t begin, std::size_t end) : tree_(&tree) {
    // Level by level, what sticks out to the left and right of whole parents.
    std::vector<Node> right;
    for (std::size_t level = 0; begin < end; ++level) {
        if (level + 1 == tree.height()) {
            for (; begin < end; ++begin) {
                nodes_.push_back({level, begin});
            }
            break;
        }
        for (; begin < end && begin % SumTree::fan_out != 0; ++begin) {
            nodes_.push_back({level, begin});
        }
        for (; end > begin && end % SumTree::fan_out != 0; --end) {
            right.push_back({level, end - 1});
        }
        begin /= SumTree::fan_out;
        end /= SumTree::fan_out;
    }
    nodes_.insert(nodes_.end(), right.rbegin(), right.rend());
    for (const Node& node : nodes_) {
        total_ += value(node);
    }
}

double SumRange::value(const Node& node) const noexcept {
    return tree_->node(node.level, 0)[node.index];
}

std::size_t SumRange::find(double mass) const noexcept {
    const Node& top = nodes_[pick(nodes_.size(), [&](std::size_t i) { return value(nodes_[i]); }, mass)];
    std::size_t index = top.index;
    for (std::size_t level = top.level; level-- > 0;) {
        const double* line = tree_->node(level, index);
        index = index * SumTree::fan_out + pick(SumTree::fan_out, [&](std::size_t i) { return line[i]; }, mass);
    }
    return index;
}

}  // namespace webscale
