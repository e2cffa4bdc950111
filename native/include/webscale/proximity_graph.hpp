#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "webscale/candidate_pool.hpp"
#include "webscale/zeroed_array.hpp"

namespace webscale {

/// What one thread needs while it searches a graph.
struct SearchScratch {
    CandidatePool pool;
    std::vector<std::uint32_t> stamps;  // of each node: the search that met it last
    std::uint32_t stamp = 0;
    std::size_t nodes_visited = 0;  // distances computed by the last search
};

/// Flat proximity graph over byte codes, changed in place.
///
/// Links are mutual: if a names b, b names a. So a node knows everybody who names it, and removing it leaves no dangling
/// link and needs no pass over the graph. Neighbours are chosen by the robust pruning of Subramanya et al., "DiskANN"
/// (NeurIPS 2019): a candidate is left out when a chosen one is nearer to it, by the factor alpha, than the node itself.
/// One flat level finds as well as a hierarchy in many dimensions (Munyampirwa, Lakshman, Coleman: "Down with the
/// hierarchy", 2024). Nodes are numbered by the caller. Not thread-safe; searches only read, each with its own scratch.
class ProximityGraph {
public:
    using Node = std::uint32_t;
    static constexpr Node none = UINT32_MAX;
    static constexpr std::size_t max_degree = 64;

    /// `code_bytes` is a multiple of code_lanes. New nodes choose up to `max_neighbors` (at most max_degree - 16)
    /// neighbours; others may add themselves later, up to max_degree.
    ProximityGraph(std::size_t code_bytes, std::size_t max_neighbors, std::size_t ef_construction);

    /// Makes room for nodes 0 to capacity - 1. O(bytes). Throws std::bad_alloc.
    void reserve(std::size_t capacity);
    std::size_t capacity() const noexcept { return degrees_.size(); }

    std::uint8_t* code(Node node) noexcept { return codes_.data() + std::size_t{node} * code_bytes_; }
    const std::uint8_t* code(Node node) const noexcept { return codes_.data() + std::size_t{node} * code_bytes_; }
    std::span<const Node> neighbors(Node node) const noexcept { return {links(node), degrees_[node]}; }
    bool linked(Node node) const noexcept { return present_[node] != 0; }
    std::size_t size() const noexcept { return size_; }

    /// Links a node whose code was written.
    void insert(Node node, SearchScratch& scratch);

    /// Unlinks a node and mends the links around it.
    void remove(Node node);

    /// Leaves the nearest nodes found in scratch.pool, at most ef.
    void search(const std::uint8_t* code, std::size_t ef, SearchScratch& scratch) const;

    /// Nodes that no search can reach, in order. O(nodes).
    std::vector<Node> unreachable() const;

    /// Links nodes that cannot be reached anew, and returns how many there were.
    std::size_t reconnect(SearchScratch& scratch);

    /// The first broken rule of the structure, or an empty string. O(links).
    std::string defect() const;

    std::size_t nbytes() const noexcept {
        return codes_.nbytes() + links_.nbytes() + degrees_.nbytes() + present_.nbytes();
    }

private:
    struct Choice {
        std::uint32_t distance;
        Node node;
    };

    Node* links(Node node) noexcept { return links_.data() + std::size_t{node} * max_degree; }
    const Node* links(Node node) const noexcept { return links_.data() + std::size_t{node} * max_degree; }
    std::uint32_t distance(Node a, Node b) const noexcept;
    void prefetch_code(Node node) const noexcept;
    std::size_t prune(std::span<const Choice> nearest_first, std::size_t limit, Node* chosen) const noexcept;
    void connect(Node node, Node other);
    void forget(Node node, Node other) noexcept;
    bool names(Node node, Node other) const noexcept;
    void refresh_entries(Node added);
    void replace_entry(Node removed);
    void mend(std::span<const Node> orphans);

    std::size_t code_bytes_;
    std::size_t max_neighbors_;
    std::size_t ef_construction_;
    std::size_t size_ = 0;
    std::uint64_t inserted_ = 0;
    ZeroedArray<std::uint8_t> codes_;
    ZeroedArray<Node> links_;
    ZeroedArray<std::uint8_t> degrees_;
    ZeroedArray<std::uint8_t> present_;
    std::vector<Node> entries_;  // where searches begin, all different
    std::vector<Choice> choices_;
};

}  // namespace webscale
