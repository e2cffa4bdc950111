#include <vector>

#include "register.hpp"

namespace webscale::bindings {

namespace {

py::tuple draw(BoundReplay& self, std::size_t count, double beta) {
    Contiguous<std::int64_t> rows(static_cast<py::ssize_t>(count));
    py::array_t<float> weights({static_cast<py::ssize_t>(count), py::ssize_t{1}});
    const auto row_span = mutable_view(rows);
    const std::span<float> weight_span{weights.mutable_data(), count};
    {
        const py::gil_scoped_release release;
        self.replay.draw(beta, row_span, weight_span);
    }
    return py::make_tuple(rows, weights);
}

/// `count` TD errors as they come from torch or NumPy, plus epsilon; false for any other type or shape.
template <class T>
bool read_td_errors(const py::array& array, double epsilon, std::vector<double>& out) {
    if (!py::isinstance<py::array_t<T, py::array::c_style>>(array)) {
        return false;
    }
    const auto* values = static_cast<const T*>(array.data());
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto td_error = static_cast<double>(values[i]);
        out[i] = td_error >= 0.0 ? td_error + epsilon : -1.0;  // NaN too
    }
    return true;
}

/// (updated, stale), or None when a TD error is not a finite non-negative number of a plain type; nothing is changed
/// then, and the caller says why.
py::object try_update_priorities(BoundReplay& self, const Contiguous<std::int64_t>& ids, const py::array& td_errors,
                                 double epsilon) {
    std::vector<double> priorities(static_cast<std::size_t>(ids.size()));
    if (td_errors.size() != ids.size() || !(read_td_errors<float>(td_errors, epsilon, priorities) ||
                                            read_td_errors<double>(td_errors, epsilon, priorities))) {
        return py::none();
    }
    for (const double priority : priorities) {
        if (!(priority > 0.0 && priority <= PrioritySampler::max_allowed)) {
            return py::none();
        }
    }
    const auto id_span = view(ids);
    UpdateCounts counts{};
    {
        const py::gil_scoped_release release;
        counts = self.replay.update_priorities(id_span, priorities);
    }
    return py::make_tuple(counts.updated, counts.stale);
}

Contiguous<double> priorities(const BoundReplay& self, const Contiguous<std::int64_t>& ids) {
    Contiguous<double> out(ids.size());
    self.replay.priorities(view(ids), mutable_view(out));
    return out;
}

/// A property that reads the sampler under its lock.
template <class Function>
auto reading(Function function) {
    return [function](const BoundReplay& self) { return self.replay.read_sampler(function); };
}

}  // namespace

void register_priorities(py::class_<BoundReplay>& replay) {
    using Rows = Contiguous<std::int64_t>;
    replay
        .def(
            "prioritize",
            [](BoundReplay& self, double alpha, std::uint64_t seed) { self.replay.prioritize(alpha, seed); },
            py::arg("alpha"), py::arg("seed"))
        .def("draw", &draw, py::arg("count"), py::arg("beta"))
        .def("try_update_priorities", &try_update_priorities, py::arg("ids"), py::arg("td_errors"), py::arg("epsilon"))
        .def("priorities", &priorities, py::arg("ids"))
        .def(
            "withdraw", [](BoundReplay& self, const Rows& rows) { self.replay.withdraw(view(rows)); }, py::arg("rows"))
        .def(
            "admit", [](BoundReplay& self, const Rows& rows) { self.replay.admit(view(rows)); }, py::arg("rows"))
        .def(
            "set_alpha", [](BoundReplay& self, double alpha) { self.replay.set_alpha(alpha); }, py::arg("alpha"),
            py::call_guard<py::gil_scoped_release>())
        .def_property_readonly("prioritized", [](const BoundReplay& self) { return self.replay.prioritized(); })
        .def_property_readonly("alpha", reading([](const PrioritySampler& sampler) { return sampler.alpha(); }))
        .def_property_readonly("max_priority", reading([](const PrioritySampler& sampler) { return sampler.max_priority(); }))
        .def_property_readonly("total_mass", reading([](const PrioritySampler& sampler) { return sampler.total_mass(); }));
}

}  // namespace webscale::bindings
