#include "webscale/proximity_graph.hpp"

#include <algorithm>
#include <vector>

#include "doctest/doctest.h"
#include "webscale/philox.hpp"
#include "webscale/vector_distance.hpp"

using namespace webscale;

namespace {

constexpr std::size_t code_bytes = 64;

void randomise(ProximityGraph& graph, ProximityGraph::Node node, Philox& random) {
    for (std::size_t i = 0; i < code_bytes; ++i) {
        graph.code(node)[i] = i < 8 ? static_cast<std::uint8_t>(random.uniform() * 256.0) : 128;
    }
}

}  // namespace

TEST_CASE("links stay mutual and all nodes reachable through inserts, removals and reuse") {
    ProximityGraph graph(code_bytes, 12, 40);
    graph.reserve(600);
    SearchScratch scratch;
    Philox random(1);
    for (ProximityGraph::Node node = 0; node < 600; ++node) {
        randomise(graph, node, random);
        graph.insert(node, scratch);
    }
    CHECK(graph.defect() == "");
    for (int round = 0; round < 2000; ++round) {
        const auto node = static_cast<ProximityGraph::Node>(random.uniform() * 600.0);
        if (graph.linked(node)) {
            graph.remove(node);
        } else {
            randomise(graph, node, random);
            graph.insert(node, scratch);
        }
    }
    CHECK(graph.defect() == "");
    graph.reconnect(scratch);
    CHECK(graph.unreachable().empty());
    CHECK(graph.defect() == "");
    for (ProximityGraph::Node node = 0; node < 600; ++node) {
        if (graph.linked(node)) {
            graph.remove(node);
        }
    }
    CHECK(graph.size() == 0);
    CHECK(graph.defect() == "");
    graph.search(graph.code(0), 10, scratch);
    CHECK(scratch.pool.size() == 0);
}

TEST_CASE("groups of equal codes do not cut the graph apart") {
    ProximityGraph graph(code_bytes, 12, 40);
    graph.reserve(800);
    SearchScratch scratch;
    Philox random(2);
    for (ProximityGraph::Node node = 0; node < 800; ++node) {
        if (node % 20 == 0) {
            randomise(graph, node, random);
        } else {
            std::copy(graph.code(node - 1), graph.code(node), graph.code(node));
        }
        graph.insert(node, scratch);
    }
    graph.reconnect(scratch);
    CHECK(graph.unreachable().empty());
    CHECK(graph.defect() == "");
}

TEST_CASE("the pool keeps the nearest in order and follows each once") {
    CandidatePool pool;
    pool.restart(3);
    pool.offer(5, 50);
    pool.offer(9, 90);
    CHECK(pool.follow() == 50);
    pool.offer(7, 70);
    pool.offer(3, 30);
    pool.offer(8, 80);  // too far by now
    CHECK(pool.size() == 3);
    CHECK(pool.follow() == 30);
    CHECK(pool.follow() == 70);
    CHECK_FALSE(pool.unfinished());
}
