#include "webscale/proximity_graph.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "webscale/prefetch.hpp"
#include "webscale/vector_distance.hpp"

namespace webscale {

namespace {

constexpr float alpha = 1.2f;  // of squared distances
constexpr std::size_t degree_after_pruning = 48;
constexpr std::size_t floor_degree = 16;  // nobody is left with fewer links by another's pruning
constexpr std::size_t links_for_an_orphan = 3;
constexpr std::size_t entry_count = 64;
constexpr std::size_t inserts_for_an_entry = 1024;
constexpr std::size_t lookahead = 6;

template <class T>
void grow(ZeroedArray<T>& array, std::size_t count, std::size_t width) {
    ZeroedArray<T> grown(count, width);
    if (array.size() > 0) {
        std::memcpy(grown.data(), array.data(), array.nbytes());
    }
    array = std::move(grown);
}

}  // namespace

ProximityGraph::ProximityGraph(std::size_t code_bytes, std::size_t max_neighbors, std::size_t ef_construction)
    : code_bytes_(code_bytes), max_neighbors_(max_neighbors), ef_construction_(ef_construction) {
    if (code_bytes == 0 || code_bytes % code_lanes != 0 || code_bytes > max_codes) {
        throw std::invalid_argument("code_bytes must be a positive multiple of 64");
    }
    if (max_neighbors == 0 || max_neighbors > degree_after_pruning) {
        throw std::invalid_argument("max_neighbors must lie in 1 to 48");
    }
    entries_.reserve(entry_count);
}

void ProximityGraph::reserve(std::size_t capacity) {
    if (capacity <= this->capacity()) {
        return;
    }
    if (capacity >= none) {
        throw std::length_error("a graph holds fewer than 2^32 - 1 nodes");
    }
    grow(codes_, capacity, code_bytes_);
    grow(links_, capacity, max_degree);
    grow(present_, capacity, 1);
    grow(degrees_, capacity, 1);
}

std::uint32_t ProximityGraph::distance(Node a, Node b) const noexcept {
    return vector_kernels().code_distance(code(a), code(b), code_bytes_);
}

void ProximityGraph::prefetch_code(Node node) const noexcept {
    for (std::size_t offset = 0; offset < std::min<std::size_t>(code_bytes_, 512); offset += 64) {
        prefetch(code(node) + offset);
    }
}

void ProximityGraph::search(const std::uint8_t* code, std::size_t ef, SearchScratch& scratch) const {
    const auto code_distance = vector_kernels().code_distance;
    CandidatePool& pool = scratch.pool;
    pool.restart(ef);
    scratch.nodes_visited = 0;
    if (entries_.empty()) {
        return;
    }
    if (scratch.stamps.size() < capacity() || ++scratch.stamp == 0) {
        scratch.stamps.assign(capacity(), 0);
        scratch.stamp = 1;
    }
    const auto met_first = [&](Node node) {
        const bool first = scratch.stamps[node] != scratch.stamp;
        scratch.stamps[node] = scratch.stamp;
        return first;
    };
    for (const Node entry : entries_) {
        prefetch_code(entry);
    }
    for (const Node entry : entries_) {
        met_first(entry);
        pool.offer(code_distance(code, this->code(entry), code_bytes_), entry);
    }
    scratch.nodes_visited = entries_.size();
    Node fresh[max_degree];
    while (pool.unfinished()) {
        std::size_t count = 0;
        for (const Node neighbor : neighbors(pool.follow())) {
            fresh[count] = neighbor;
            count += met_first(neighbor) ? 1 : 0;
        }
        if (pool.unfinished()) {
            prefetch(links(pool.next()), max_degree * sizeof(Node));  // most likely the next to be followed
        }
        for (std::size_t i = 0; i < std::min(lookahead, count); ++i) {
            prefetch_code(fresh[i]);
        }
        for (std::size_t i = 0; i < count; ++i) {
            if (i + lookahead < count) {
                prefetch_code(fresh[i + lookahead]);
            }
            pool.offer(code_distance(code, this->code(fresh[i]), code_bytes_), fresh[i]);
        }
        scratch.nodes_visited += count;
    }
}

std::size_t ProximityGraph::prune(std::span<const Choice> nearest_first, std::size_t limit, Node* chosen) const noexcept {
    std::size_t count = 0;
    for (const Choice& choice : nearest_first) {
        const bool covered = std::any_of(chosen, chosen + count, [&](Node other) {
            return alpha * static_cast<float>(distance(choice.node, other)) < static_cast<float>(choice.distance);
        });
        if (!covered) {
            chosen[count++] = choice.node;
            if (count == limit) {
                break;
            }
        }
    }
    return count;
}

void ProximityGraph::insert(Node node, SearchScratch& scratch) {
    search(code(node), ef_construction_, scratch);
    choices_.clear();
    for (std::size_t i = 0; i < scratch.pool.size(); ++i) {
        choices_.push_back({scratch.pool[i].distance, scratch.pool[i].node});
    }
    Node chosen[max_degree];
    const std::size_t count = prune(choices_, max_neighbors_, chosen);
    std::copy(chosen, chosen + count, links(node));
    degrees_[node] = static_cast<std::uint8_t>(count);
    present_[node] = 1;
    ++size_;
    for (std::size_t i = 0; i < count; ++i) {
        connect(chosen[i], node);
    }
    refresh_entries(node);
}

/// Lets `node` name `other`, which names it already. A node with too many links keeps the best, and those it drops drop it,
/// unless they have few others.
void ProximityGraph::connect(Node node, Node other) {
    Node* const own = links(node);
    if (degrees_[node] < max_degree) {
        own[degrees_[node]++] = other;
        return;
    }
    for (const Node neighbor : neighbors(node)) {
        prefetch_code(neighbor);
    }
    choices_.clear();
    for (const Node neighbor : neighbors(node)) {
        choices_.push_back({distance(node, neighbor), neighbor});
    }
    choices_.push_back({distance(node, other), other});
    std::sort(choices_.begin(), choices_.end(), [](const Choice& a, const Choice& b) {
        return a.distance != b.distance ? a.distance < b.distance : a.node < b.node;
    });
    std::size_t count = prune(choices_, degree_after_pruning, own);
    const std::size_t chosen = count;
    for (const Choice& choice : choices_) {
        if (std::find(own, own + chosen, choice.node) != own + chosen) {
            continue;
        }
        if (degrees_[choice.node] <= floor_degree && count < max_degree) {
            own[count++] = choice.node;
        } else {
            forget(choice.node, node);
        }
    }
    degrees_[node] = static_cast<std::uint8_t>(count);
}

void ProximityGraph::forget(Node node, Node other) noexcept {
    Node* const own = links(node);
    Node* const end = own + degrees_[node];
    Node* const found = std::find(own, end, other);
    if (found != end) {
        *found = *(end - 1);
        --degrees_[node];
    }
}

bool ProximityGraph::names(Node node, Node other) const noexcept {
    const auto own = neighbors(node);
    return std::find(own.begin(), own.end(), other) != own.end();
}

void ProximityGraph::remove(Node node) {
    const std::vector<Node> orphans(neighbors(node).begin(), neighbors(node).end());
    for (const Node orphan : orphans) {
        forget(orphan, node);
    }
    degrees_[node] = 0;
    present_[node] = 0;
    --size_;
    replace_entry(node);
    mend(orphans);
}

/// Gives each of a removed node's neighbours new links to the nearest of the others, in place of the way over that node
/// (as Xu et al., "In-place updates of a graph index", 2025, do).
void ProximityGraph::mend(std::span<const Node> orphans) {
    for (const Node orphan : orphans) {
        std::vector<Choice> others;
        for (const Node other : orphans) {
            if (other != orphan && !names(orphan, other)) {
                others.push_back({distance(orphan, other), other});
            }
        }
        const std::size_t count = std::min(links_for_an_orphan, others.size());
        std::partial_sort(others.begin(), others.begin() + static_cast<std::ptrdiff_t>(count), others.end(),
                          [](const Choice& a, const Choice& b) {
                              return a.distance != b.distance ? a.distance < b.distance : a.node < b.node;
                          });
        for (std::size_t i = 0; i < count; ++i) {
            const Node other = others[i].node;
            if (degrees_[orphan] < degree_after_pruning && degrees_[other] < max_degree && !names(orphan, other)) {
                links(orphan)[degrees_[orphan]++] = other;
                links(other)[degrees_[other]++] = orphan;
            }
        }
    }
}

void ProximityGraph::refresh_entries(Node added) {
    ++inserted_;
    if (entries_.size() < entry_count) {
        entries_.push_back(added);
    } else if (inserted_ % inserts_for_an_entry == 0) {
        entries_[inserted_ / inserts_for_an_entry % entry_count] = added;
    }
}

void ProximityGraph::replace_entry(Node removed) {
    const auto found = std::find(entries_.begin(), entries_.end(), removed);
    if (found == entries_.end()) {
        return;
    }
    for (Node node = 0; size_ > 0; ++node) {  // any other node, from the removed one on
        const Node candidate = static_cast<Node>((std::size_t{removed} + node) % capacity());
        if (present_[candidate] && (entries_.size() > size_ ||
                                    std::find(entries_.begin(), entries_.end(), candidate) == entries_.end())) {
            *found = candidate;
            break;
        }
    }
    if (entries_.size() > size_) {
        entries_.erase(found);
    }
}

std::vector<ProximityGraph::Node> ProximityGraph::unreachable() const {
    std::vector<std::uint8_t> reached(capacity(), 0);
    std::vector<Node> open;
    const auto reach = [&](Node node) {
        if (!reached[node]) {
            reached[node] = 1;
            open.push_back(node);
        }
    };
    for (const Node entry : entries_) {
        reach(entry);
    }
    while (!open.empty()) {
        const Node node = open.back();
        open.pop_back();
        for (const Node neighbor : neighbors(node)) {
            reach(neighbor);
        }
    }
    std::vector<Node> lost;
    for (Node node = 0; node < capacity(); ++node) {
        if (present_[node] && !reached[node]) {
            lost.push_back(node);
        }
    }
    return lost;
}

std::size_t ProximityGraph::reconnect(SearchScratch& scratch) {
    const std::vector<Node> lost = unreachable();
    for (const Node node : lost) {
        remove(node);
        insert(node, scratch);
    }
    return lost.size();
}

std::string ProximityGraph::defect() const {
    std::size_t present = 0;
    for (Node node = 0; node < capacity(); ++node) {
        present += present_[node];
        const auto own = neighbors(node);
        if (!present_[node] && !own.empty()) {
            return "node " + std::to_string(node) + " was removed but has links";
        }
        for (const Node neighbor : own) {
            if (neighbor >= capacity() || !present_[neighbor]) {
                return "node " + std::to_string(node) + " names node " + std::to_string(neighbor) + ", which is none";
            }
            if (neighbor == node || std::count(own.begin(), own.end(), neighbor) != 1) {
                return "node " + std::to_string(node) + " names itself or another one twice";
            }
            if (!names(neighbor, node)) {
                return "node " + std::to_string(neighbor) + " does not name node " + std::to_string(node) + " in return";
            }
        }
    }
    if (present != size_) {
        return "the number of nodes is wrong";
    }
    for (const Node entry : entries_) {
        if (!present_[entry]) {
            return "entry node " + std::to_string(entry) + " was removed";
        }
    }
    return "";
}

}  // namespace webscale
