#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "arrays.hpp"
#include "register.hpp"
#include "webscale/sum_tree.hpp"

namespace webscale::bindings {

namespace {

void assign(SumTree& tree, const Contiguous<std::int64_t>& indices, const Contiguous<double>& values) {
    if (indices.size() != values.size()) {
        throw std::invalid_argument("indices and values differ in length; give one value for each index");
    }
    const auto wanted = view(indices);
    const std::vector<std::size_t> rows(wanted.begin(), wanted.end());
    for (const std::size_t row : rows) {
        if (row >= tree.size()) {
            throw std::out_of_range("an index lies outside the tree of " + std::to_string(tree.size()) + " leaves");
        }
    }
    tree.assign(rows.data(), values.data(), rows.size());
}

Contiguous<std::int64_t> find(const SumTree& tree, const Contiguous<double>& masses) {
    if (!(tree.total() > 0.0)) {
        throw std::logic_error("the tree has no positive weight, so there is nothing to find");
    }
    std::vector<double> rest(masses.data(), masses.data() + masses.size());
    std::vector<std::size_t> leaves(rest.size());
    tree.find(rest.data(), rest.size(), leaves.data());
    Contiguous<std::int64_t> out(static_cast<py::ssize_t>(leaves.size()));
    std::copy(leaves.begin(), leaves.end(), out.mutable_data());
    return out;
}

}  // namespace

void register_sum_tree(py::module_& module) {
    py::class_<SumTree>(module, "SumTree", "Sum tree of doubles; exposed for tests and benchmarks.")
        .def(py::init<std::size_t>(), py::arg("size"))
        .def("assign", &assign, py::arg("indices"), py::arg("values"))
        .def("find", &find, py::arg("masses"))
        .def_property_readonly("total", &SumTree::total)
        .def("__len__", &SumTree::size);
}

}  // namespace webscale::bindings
