#include <stdexcept>
#include <string>

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

py::tuple update_priorities(BoundReplay& self, const Contiguous<std::int64_t>& ids,
                            const Contiguous<double>& priorities) {
    if (ids.size() != priorities.size()) {
        throw std::invalid_argument("ids and priorities differ in length; give one priority for each id");
    }
    for (const double priority : view(priorities)) {
        if (!(priority > 0.0 && priority <= PrioritySampler::max_allowed)) {
            throw std::invalid_argument("a priority must lie in (0, 1e100], but one is " + std::to_string(priority));
        }
    }
    const auto id_span = view(ids);
    const auto priority_span = view(priorities);
    UpdateCounts counts{};
    {
        const py::gil_scoped_release release;
        counts = self.replay.update_priorities(id_span, priority_span);
    }
    return py::make_tuple(counts.updated, counts.stale);
}

Contiguous<double> priorities(const BoundReplay& self, const Contiguous<std::int64_t>& ids) {
    Contiguous<double> out(ids.size());
    self.replay.priorities(view(ids), mutable_view(out));
    return out;
}

const PrioritySampler& sampler_of(const BoundReplay& self) {
    if (!self.replay.sampler()) {
        throw std::logic_error("this replay has no priorities; build it with prioritized=True");
    }
    return *self.replay.sampler();
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
        .def("update_priorities", &update_priorities, py::arg("ids"), py::arg("priorities"))
        .def("priorities", &priorities, py::arg("ids"))
        .def(
            "withdraw", [](BoundReplay& self, const Rows& rows) { self.replay.withdraw(view(rows)); }, py::arg("rows"))
        .def(
            "admit", [](BoundReplay& self, const Rows& rows) { self.replay.admit(view(rows)); }, py::arg("rows"))
        .def(
            "set_alpha", [](BoundReplay& self, double alpha) { self.replay.set_alpha(alpha); }, py::arg("alpha"),
            py::call_guard<py::gil_scoped_release>())
        .def_property_readonly("prioritized", [](const BoundReplay& self) { return self.replay.sampler().has_value(); })
        .def_property_readonly("alpha", [](const BoundReplay& self) { return sampler_of(self).alpha(); })
        .def_property_readonly("max_priority", [](const BoundReplay& self) { return sampler_of(self).max_priority(); })
        .def_property_readonly("total_mass", [](const BoundReplay& self) { return sampler_of(self).total_mass(); });
}

}  // namespace webscale::bindings
