#include <pybind11/stl.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <string>
#include <unordered_set>
#include <vector>

#include "arrays.hpp"
#include "register.hpp"
#include "webscale/graph_index.hpp"
#include "webscale/worker_pool.hpp"

namespace webscale::bindings {

namespace {

constexpr std::size_t queries_worth_a_thread = 4;

Metric metric_named(const std::string& name) {
    if (name == "l2") return Metric::l2;
    if (name == "cosine") return Metric::cosine;
    throw std::invalid_argument("there is no metric " + name);
}

struct Queries {
    const float* data;
    std::size_t count;
    std::size_t dim;
};

Queries checked_queries(const GraphIndex& index, const Contiguous<float>& queries) {
    const std::size_t dim = index.options().dim;
    if (queries.ndim() != 2 || static_cast<std::size_t>(queries.shape(1)) != dim) {
        throw std::invalid_argument("vectors must have shape (n, " + std::to_string(dim) + ")");
    }
    return {queries.data(), static_cast<std::size_t>(queries.shape(0)), dim};
}

/// (ids, distances, priorities, nodes visited): arrays of shape (n, k), padded with -1, infinity and NaN.
py::tuple search(const GraphIndex& self, const Contiguous<float>& queries, std::size_t k, std::size_t ef,
                 double priority_threshold, const Contiguous<std::int64_t>& excluded) {
    const Queries given = checked_queries(self, queries);
    const std::vector<py::ssize_t> shape = {static_cast<py::ssize_t>(given.count), static_cast<py::ssize_t>(k)};
    Contiguous<std::int64_t> ids(shape);
    Contiguous<float> distances(shape);
    Contiguous<double> priorities(shape);
    Contiguous<std::int64_t> visited(static_cast<py::ssize_t>(given.count));
    const auto id_span = mutable_view(ids);
    const auto distance_span = mutable_view(distances);
    const auto priority_span = mutable_view(priorities);
    const auto visited_span = mutable_view(visited);
    const auto excluded_span = view(excluded);
    const std::unordered_set<std::int64_t> excluded_ids(excluded_span.begin(), excluded_span.end());
    SearchFilter filter;
    filter.priority_threshold = priority_threshold;
    filter.excluded = excluded_ids.empty() ? nullptr : &excluded_ids;
    {
        const py::gil_scoped_release release;
        std::fill(id_span.begin(), id_span.end(), std::int64_t{-1});
        std::fill(distance_span.begin(), distance_span.end(), std::numeric_limits<float>::infinity());
        std::fill(priority_span.begin(), priority_span.end(), std::numeric_limits<double>::quiet_NaN());
        const auto answer = [&](std::size_t query) {
            const float* vector = given.data + query * given.dim;
            std::size_t nodes = 0;
            const std::vector<Neighbor> found = self.search(vector, k, ef, filter, nodes);
            for (std::size_t i = 0; i < found.size(); ++i) {
                id_span[query * k + i] = found[i].id;
                distance_span[query * k + i] = found[i].distance;
                priority_span[query * k + i] = found[i].priority;
            }
            visited_span[query] = static_cast<std::int64_t>(nodes);
        };
        const std::size_t parts = given.count / queries_worth_a_thread;
        if (parts < 2) {
            for (std::size_t query = 0; query < given.count; ++query) {
                answer(query);
            }
        } else {
            std::vector<std::exception_ptr> errors(parts);
            WorkerPool::shared().run(parts, [&](std::size_t part) {
                try {
                    for (std::size_t i = given.count * part / parts; i < given.count * (part + 1) / parts; ++i) {
                        answer(i);
                    }
                } catch (...) {
                    errors[part] = std::current_exception();  // it must not leave a helper thread
                }
            });
            for (const std::exception_ptr& error : errors) {
                if (error) {
                    std::rethrow_exception(error);
                }
            }
        }
    }
    return py::make_tuple(ids, distances, priorities, visited);
}

void insert(GraphIndex& self, const Contiguous<float>& vectors, const Contiguous<std::int64_t>& ids,
            const Contiguous<double>& priorities) {
    const Queries given = checked_queries(self, vectors);
    require_bytes(ids, given.count * sizeof(std::int64_t), "ids");
    require_bytes(priorities, given.count * sizeof(double), "priorities");
    const std::span<const float> values{given.data, given.count * given.dim};
    const auto id_span = view(ids);
    const auto priority_span = view(priorities);
    const py::gil_scoped_release release;
    self.insert(values, id_span, priority_span);
}

std::size_t set_priorities(GraphIndex& self, const Contiguous<std::int64_t>& ids, const Contiguous<double>& priorities) {
    require_bytes(priorities, static_cast<std::size_t>(ids.size()) * sizeof(double), "priorities");
    return self.set_priorities(view(ids), view(priorities));
}

}  // namespace

void register_graph_index(py::module_& module) {
    py::class_<GraphIndex>(module, "GraphIndex")
        .def(py::init([](std::size_t dim, const std::string& metric, std::size_t max_neighbors,
                         std::size_t ef_construction, std::size_t exact_below) {
                 return std::make_unique<GraphIndex>(
                     GraphIndexOptions{dim, metric_named(metric), max_neighbors, ef_construction, exact_below});
             }),
             py::arg("dim"), py::arg("metric"), py::arg("max_neighbors"), py::arg("ef_construction"),
             py::arg("exact_below"))
        .def("insert", &insert, py::arg("vectors"), py::arg("ids"), py::arg("priorities"))
        .def(
            "remove", [](GraphIndex& self, const Contiguous<std::int64_t>& ids) { return self.remove(view(ids)); },
            py::arg("ids"))
        .def("set_priorities", &set_priorities, py::arg("ids"), py::arg("priorities"))
        .def("search", &search, py::arg("queries"), py::arg("k"), py::arg("ef"), py::arg("priority_threshold"),
             py::arg("excluded"))
        .def("reconnect", &GraphIndex::reconnect, py::call_guard<py::gil_scoped_release>())
        .def("defect", &GraphIndex::defect, py::call_guard<py::gil_scoped_release>())
        .def("unreachable", &GraphIndex::unreachable, py::call_guard<py::gil_scoped_release>())
        .def("contains", &GraphIndex::contains, py::arg("id"))
        .def_property_readonly("nodes", &GraphIndex::nodes)
        .def_property_readonly("nbytes", &GraphIndex::nbytes)
        .def("__len__", &GraphIndex::size);
}

}  // namespace webscale::bindings
