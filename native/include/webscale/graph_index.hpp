#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "webscale/proximity_graph.hpp"
#include "webscale/scalar_quantizer.hpp"
#include "webscale/vector_store.hpp"

namespace webscale {

struct GraphIndexOptions {
    std::size_t dim = 0;
    Metric metric = Metric::l2;
    std::size_t max_neighbors = 32;
    std::size_t ef_construction = 200;
    std::size_t exact_below = 1000;  // nodes; so few are compared one by one, and not linked
};

/// One row that a search found.
struct Neighbor {
    std::int64_t id;
    float distance;
    double priority;
};

/// What a search may return.
struct SearchFilter {
    double priority_threshold = -std::numeric_limits<double>::infinity();  // at least this priority
    const std::unordered_set<std::int64_t>* excluded = nullptr;
};

/// Nearest-neighbour index over rows, each an id with a vector and a priority, changed in place.
///
/// Rows of equal vectors share one node of the graph, so copies neither trap a search nor hide other rows. Traversal
/// compares byte codes; what is returned is ranked by exact distances. While there are few nodes, and when a filter lets few
/// rows through, all rows are compared instead. Thread-safe: searches run side by side, changes alone.
class GraphIndex {
public:
    static constexpr std::size_t max_dim = 16384;

    /// Throws std::invalid_argument.
    explicit GraphIndex(const GraphIndexOptions& options);

    /// Adds `ids.size()` rows of dim floats each. A row whose id is present is replaced. Vectors must be finite, and not
    /// zero under cosine. O(count * log n), about.
    void insert(std::span<const float> vectors, std::span<const std::int64_t> ids, std::span<const double> priorities);

    /// Removes rows and returns how many were present.
    std::size_t remove(std::span<const std::int64_t> ids);

    /// Sets priorities and returns how many rows were present.
    std::size_t set_priorities(std::span<const std::int64_t> ids, std::span<const double> priorities);

    /// The k nearest rows that the filter admits, nearest first, fewer when there are fewer; of equal distances any.
    /// `nodes_visited` counts the distances computed.
    std::vector<Neighbor> search(const float* query, std::size_t k, std::size_t ef, const SearchFilter& filter,
                                 std::size_t& nodes_visited) const;

    /// Links nodes that no search can reach anew; returns how many there were. O(n).
    std::size_t reconnect();

    /// The first broken rule, or an empty string; and the nodes that no search can reach. O(n).
    std::string defect() const;
    std::size_t unreachable() const;

    bool contains(std::int64_t id) const;
    std::size_t size() const;       // rows
    std::size_t nodes() const;      // distinct vectors
    std::size_t nbytes() const;
    const GraphIndexOptions& options() const noexcept { return options_; }

private:
    using Node = ProximityGraph::Node;
    class Scratch;

    void insert_row(const float* vector, std::int64_t id, double priority);
    void remove_row(std::uint32_t row);
    Node add_node(const float* prepared, std::uint64_t key);
    void grow_nodes();
    void build_graph();
    void fit_quantizer();
    bool admits(std::uint32_t row, const SearchFilter& filter) const;
    std::size_t sampled_selectivity(const SearchFilter& filter) const;
    void collect(Node node, float distance, std::size_t k, const SearchFilter& filter, std::vector<Neighbor>& found) const;
    std::vector<Neighbor> scan(const float* prepared, std::size_t k, const SearchFilter& filter,
                               std::size_t& nodes_visited) const;

    GraphIndexOptions options_;
    VectorStore vectors_;
    ScalarQuantizer quantizer_;
    ProximityGraph graph_;
    bool built_ = false;            // whether nodes are linked
    std::size_t inserts_until_fit_ = 0;

    // By node.
    std::vector<std::uint32_t> first_rows_;  // none for a free node
    std::vector<Node> free_nodes_;
    std::size_t nodes_ = 0;
    std::unordered_map<std::uint64_t, Node> nodes_by_content_;

    // By row; rows of one node are a doubly linked list.
    struct Row {
        std::int64_t id;
        double priority;
        Node node;  // none for a free row
        std::uint32_t previous;
        std::uint32_t next;
    };
    std::vector<Row> rows_;
    std::vector<std::uint32_t> free_rows_;
    std::unordered_map<std::int64_t, std::uint32_t> rows_by_id_;

    SearchScratch writing_;
    mutable std::mutex scratch_mutex_;
    mutable std::vector<std::unique_ptr<SearchScratch>> scratch_;
    mutable std::shared_mutex mutex_;
};

}  // namespace webscale
