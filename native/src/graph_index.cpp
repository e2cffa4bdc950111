#include "webscale/graph_index.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "webscale/prefetch.hpp"
#include "webscale/vector_distance.hpp"

namespace webscale {

namespace {

constexpr std::uint32_t none = ProximityGraph::none;
constexpr std::size_t first_capacity = 1024;
constexpr std::size_t vectors_to_fit = 4096;
constexpr std::size_t rows_to_sample = 512;
constexpr std::size_t ranked_beyond_k = 16;      // candidates whose exact distance is computed, besides 1.5 k
constexpr std::size_t widest_search = 8;         // times ef, when a filter lets few rows through

bool nearer(const Neighbor& a, const Neighbor& b) noexcept {
    return a.distance != b.distance ? a.distance < b.distance : a.id < b.id;
}

std::vector<Neighbor> nearest(std::vector<Neighbor> found, std::size_t k) {
    const std::size_t count = std::min(k, found.size());
    std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(count), found.end(), nearer);
    found.resize(count);
    return found;
}

const GraphIndexOptions& checked(const GraphIndexOptions& options) {
    if (options.dim == 0 || options.dim > GraphIndex::max_dim) {
        throw std::invalid_argument("dim is " + std::to_string(options.dim) + ", but must lie in 1 to " +
                                    std::to_string(GraphIndex::max_dim));
    }
    if (options.ef_construction == 0) {
        throw std::invalid_argument("ef_construction is 0, but must be at least 1");
    }
    return options;
}

}  // namespace

/// Lends a search the memory that an earlier one left.
class GraphIndex::Scratch {
public:
    explicit Scratch(const GraphIndex& index) : index_(index) {
        const std::lock_guard lock(index.scratch_mutex_);
        if (index.scratch_.empty()) {
            lent_ = std::make_unique<SearchScratch>();
        } else {
            lent_ = std::move(index.scratch_.back());
            index.scratch_.pop_back();
        }
    }
    ~Scratch() {
        const std::lock_guard lock(index_.scratch_mutex_);
        index_.scratch_.push_back(std::move(lent_));
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    SearchScratch& operator*() const noexcept { return *lent_; }

private:
    const GraphIndex& index_;
    std::unique_ptr<SearchScratch> lent_;
};

GraphIndex::GraphIndex(const GraphIndexOptions& options)
    : options_(checked(options)),
      vectors_(options.dim, options.metric),
      quantizer_(options.dim),
      graph_(padded_to(options.dim, code_lanes), options.max_neighbors, options.ef_construction) {}

void GraphIndex::insert(std::span<const float> vectors, std::span<const std::int64_t> ids,
                        std::span<const double> priorities) {
    const std::unique_lock lock(mutex_);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        insert_row(vectors.data() + i * options_.dim, ids[i], priorities[i]);
    }
}

void GraphIndex::insert_row(const float* vector, std::int64_t id, double priority) {
    if (const auto present = rows_by_id_.find(id); present != rows_by_id_.end()) {
        remove_row(present->second);
    }
    const std::vector<float> prepared = vectors_.prepared(vector);
    const std::uint64_t key = vectors_.content_key(prepared.data());
    const auto twin = nodes_by_content_.find(key);
    // Two contents with one key would be a wonder; the second then gets a node that copies of it do not find.
    const bool copies = twin != nodes_by_content_.end() && vectors_.equal(twin->second, prepared.data());
    const Node node = copies ? twin->second : add_node(prepared.data(), key);
    if (free_rows_.empty()) {
        if (rows_.size() >= none) {
            throw std::length_error("an index holds fewer than 2^32 - 1 rows");
        }
        free_rows_.push_back(static_cast<std::uint32_t>(rows_.size()));
        rows_.push_back({0, 0.0, none, none, none});
    }
    const std::uint32_t row = free_rows_.back();
    rows_by_id_.emplace(id, row);
    free_rows_.pop_back();
    const std::uint32_t second = first_rows_[node];
    rows_[row] = {id, priority, node, none, second};
    if (second != none) {
        rows_[second].previous = row;
    }
    first_rows_[node] = row;
}

GraphIndex::Node GraphIndex::add_node(const float* prepared, std::uint64_t key) {
    if (free_nodes_.empty()) {
        grow_nodes();
    }
    const Node node = free_nodes_.back();
    nodes_by_content_.emplace(key, node);
    free_nodes_.pop_back();
    vectors_.set(node, prepared);
    first_rows_[node] = none;
    ++nodes_;
    if (!built_) {
        if (nodes_ >= options_.exact_below) {
            build_graph();
        }
        return node;
    }
    if (--inserts_until_fit_ == 0) {
        fit_quantizer();
    }
    quantizer_.encode(prepared, graph_.code(node));
    graph_.insert(node, writing_);
    return node;
}

void GraphIndex::grow_nodes() {
    const std::size_t old = vectors_.capacity();
    const std::size_t capacity = std::max(2 * old, first_capacity);
    vectors_.reserve(capacity);
    graph_.reserve(capacity);
    first_rows_.resize(capacity, none);
    free_nodes_.reserve(capacity);
    for (std::size_t node = capacity; node-- > old;) {
        free_nodes_.push_back(static_cast<Node>(node));
    }
}

void GraphIndex::build_graph() {
    built_ = true;
    std::vector<Node> used(vectors_.capacity());
    for (Node node = 0; node < used.size(); ++node) {
        used[node] = node;
    }
    std::vector<Node> free = free_nodes_;
    std::sort(free.begin(), free.end());
    std::vector<Node> nodes;
    std::set_difference(used.begin(), used.end(), free.begin(), free.end(), std::back_inserter(nodes));
    fit_quantizer();
    for (const Node node : nodes) {
        quantizer_.encode(vectors_.at(node), graph_.code(node));
        graph_.insert(node, writing_);
    }
}

/// Adapts the codes to the vectors that are stored now: all are encoded anew, links stay.
void GraphIndex::fit_quantizer() {
    std::vector<std::uint8_t> is_free(vectors_.capacity(), 0);
    for (const Node node : free_nodes_) {
        is_free[node] = 1;
    }
    std::vector<Node> used;
    for (Node node = 0; node < vectors_.capacity(); ++node) {
        if (!is_free[node]) {
            used.push_back(node);
        }
    }
    const std::size_t stride = std::max<std::size_t>(used.size() / vectors_to_fit, 1);
    std::vector<const float*> sample;
    for (std::size_t i = 0; i < used.size(); i += stride) {
        sample.push_back(vectors_.at(used[i]));
    }
    quantizer_.fit(sample);
    inserts_until_fit_ = std::max<std::size_t>(3 * used.size(), 1);
    for (const Node node : used) {
        if (graph_.linked(node)) {
            quantizer_.encode(vectors_.at(node), graph_.code(node));
        }
    }
}

std::size_t GraphIndex::remove(std::span<const std::int64_t> ids) {
    const std::unique_lock lock(mutex_);
    std::size_t removed = 0;
    for (const std::int64_t id : ids) {
        if (const auto present = rows_by_id_.find(id); present != rows_by_id_.end()) {
            remove_row(present->second);
            ++removed;
        }
    }
    return removed;
}

void GraphIndex::remove_row(std::uint32_t number) {
    const Row row = rows_[number];
    free_rows_.push_back(number);
    rows_by_id_.erase(row.id);
    rows_[number].node = none;
    if (row.next != none) {
        rows_[row.next].previous = row.previous;
    }
    if (row.previous != none) {
        rows_[row.previous].next = row.next;
    } else {
        first_rows_[row.node] = row.next;
    }
    if (first_rows_[row.node] != none) {
        return;
    }
    const auto content = nodes_by_content_.find(vectors_.content_key(vectors_.at(row.node)));
    if (content != nodes_by_content_.end() && content->second == row.node) {
        nodes_by_content_.erase(content);
    }
    if (built_) {
        graph_.remove(row.node);
    }
    free_nodes_.push_back(row.node);
    --nodes_;
}

std::size_t GraphIndex::set_priorities(std::span<const std::int64_t> ids, std::span<const double> priorities) {
    const std::unique_lock lock(mutex_);
    std::size_t present = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (const auto row = rows_by_id_.find(ids[i]); row != rows_by_id_.end()) {
            rows_[row->second].priority = priorities[i];
            ++present;
        }
    }
    return present;
}

bool GraphIndex::admits(std::uint32_t row, const SearchFilter& filter) const {
    return rows_[row].node != none && rows_[row].priority >= filter.priority_threshold &&
           (filter.excluded == nullptr || !filter.excluded->contains(rows_[row].id));
}

void GraphIndex::collect(Node node, float distance, std::size_t k, const SearchFilter& filter,
                         std::vector<Neighbor>& found) const {
    for (std::uint32_t row = first_rows_[node]; row != none && k > 0; row = rows_[row].next) {
        if (admits(row, filter)) {
            found.push_back({rows_[row].id, distance, rows_[row].priority});
            --k;
        }
    }
}

/// How many of rows_to_sample rows, spread evenly, the filter admits.
std::size_t GraphIndex::sampled_selectivity(const SearchFilter& filter) const {
    std::size_t admitted = 0;
    for (std::size_t i = 0; i < rows_to_sample; ++i) {
        admitted += admits(static_cast<std::uint32_t>(rows_.size() * i / rows_to_sample), filter);
    }
    return admitted;
}

std::vector<Neighbor> GraphIndex::search(const float* query, std::size_t k, std::size_t ef, const SearchFilter& filter,
                                         std::size_t& nodes_visited) const {
    const std::vector<float> prepared = vectors_.prepared(query);
    const std::shared_lock lock(mutex_);
    nodes_visited = 0;
    if (rows_by_id_.empty() || k == 0) {
        return {};
    }
    const bool filtered = filter.priority_threshold > -std::numeric_limits<double>::infinity();
    std::size_t width = std::max(ef, k);
    if (filtered) {
        const std::size_t admitted = std::max<std::size_t>(sampled_selectivity(filter), 1);
        width = width * rows_to_sample / admitted;
        if (width > widest_search * std::max(ef, k)) {
            return scan(prepared.data(), k, filter, nodes_visited);
        }
    }
    if (!built_ || width >= nodes_) {
        return scan(prepared.data(), k, filter, nodes_visited);
    }
    std::vector<std::uint8_t> code(padded_to(options_.dim, code_lanes), 0);
    quantizer_.encode(prepared.data(), code.data());
    std::vector<Neighbor> found;
    {
        const Scratch scratch(*this);
        graph_.search(code.data(), width, *scratch);
        const CandidatePool& pool = (*scratch).pool;
        nodes_visited = (*scratch).nodes_visited;
        const bool selective = filtered || filter.excluded != nullptr;
        const std::size_t ranked = selective ? pool.size() : std::min(pool.size(), k + k / 2 + ranked_beyond_k);
        for (std::size_t i = 0; i < ranked; ++i) {
            for (std::size_t offset = 0; offset < vectors_.vector_bytes(); offset += 256) {
                prefetch(reinterpret_cast<const std::byte*>(vectors_.at(pool[i].node)) + offset, 256);
            }
        }
        for (std::size_t i = 0; i < ranked; ++i) {
            collect(pool[i].node, vectors_.distance(prepared.data(), pool[i].node), k, filter, found);
        }
    }
    if (found.size() < std::min(k, rows_by_id_.size())) {
        return scan(prepared.data(), k, filter, nodes_visited);  // the filter let through fewer than the search met
    }
    return nearest(std::move(found), k);
}

std::vector<Neighbor> GraphIndex::scan(const float* prepared, std::size_t k, const SearchFilter& filter,
                                       std::size_t& nodes_visited) const {
    std::vector<Neighbor> found;
    float limit = std::numeric_limits<float>::infinity();
    for (Node node = 0; node < first_rows_.size() && k > 0; ++node) {
        std::uint32_t row = first_rows_[node];
        while (row != none && !admits(row, filter)) {
            row = rows_[row].next;
        }
        if (row == none) {
            continue;
        }
        ++nodes_visited;
        const float distance = vectors_.distance(prepared, node);
        if (distance > limit) {
            continue;
        }
        collect(node, distance, k, filter, found);
        if (found.size() >= 2 * k) {
            found = nearest(std::move(found), k);
            limit = found.back().distance;
        }
    }
    return nearest(std::move(found), k);
}

std::size_t GraphIndex::reconnect() {
    const std::unique_lock lock(mutex_);
    return graph_.reconnect(writing_);
}

std::string GraphIndex::defect() const {
    const std::shared_lock lock(mutex_);
    std::size_t rows = 0;
    std::size_t nodes = 0;
    for (Node node = 0; node < first_rows_.size(); ++node) {
        nodes += first_rows_[node] != none;
        for (std::uint32_t row = first_rows_[node]; row != none; row = rows_[row].next) {
            ++rows;
            const auto known = rows_by_id_.find(rows_[row].id);
            if (rows_[row].node != node || known == rows_by_id_.end() || known->second != row) {
                return "row " + std::to_string(row) + " does not belong to node " + std::to_string(node);
            }
        }
        if (built_ && graph_.linked(node) != (first_rows_[node] != none)) {
            return "node " + std::to_string(node) + " is linked without rows, or has rows without links";
        }
    }
    if (rows != rows_by_id_.size() || nodes != nodes_) {
        return "the number of rows or nodes is wrong";
    }
    return built_ ? graph_.defect() : "";
}

std::size_t GraphIndex::unreachable() const {
    const std::shared_lock lock(mutex_);
    return graph_.unreachable().size();
}

bool GraphIndex::contains(std::int64_t id) const {
    const std::shared_lock lock(mutex_);
    return rows_by_id_.contains(id);
}

std::size_t GraphIndex::size() const {
    const std::shared_lock lock(mutex_);
    return rows_by_id_.size();
}

std::size_t GraphIndex::nodes() const {
    const std::shared_lock lock(mutex_);
    return nodes_;
}

std::size_t GraphIndex::nbytes() const {
    const std::shared_lock lock(mutex_);
    constexpr std::size_t map_entry = 56;  // of a node, its place in a bucket and its allocation, about
    return vectors_.nbytes() + graph_.nbytes() + rows_.capacity() * sizeof(Row) +
           first_rows_.capacity() * sizeof(std::uint32_t) + (rows_by_id_.size() + nodes_by_content_.size()) * map_entry;
}

}  // namespace webscale
