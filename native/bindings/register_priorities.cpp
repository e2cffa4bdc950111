#include <stdexcept>

#include "register.hpp"
#include "td_errors.hpp"

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

/// (updated, stale, cut), or None when a TD error is not a finite non-negative number of a plain type; nothing is changed
/// then, and the caller says why. Priorities above `ceiling` are cut to it.
py::object try_update_priorities(BoundReplay& self, const Contiguous<std::int64_t>& ids, const py::array& td_errors,
                                 double epsilon, double ceiling) {
    const auto read = read_priorities(td_errors, static_cast<std::size_t>(ids.size()), epsilon, ceiling);
    if (!read) {
        return py::none();
    }
    const auto id_span = view(ids);
    UpdateCounts counts{};
    {
        const py::gil_scoped_release release;
        counts = self.replay.update_priorities(id_span, read->priorities);
    }
    return py::make_tuple(counts.updated, counts.stale, read->cut);
}

py::tuple raise_priorities(BoundReplay& self, const Contiguous<std::int64_t>& ids, double factor) {
    const UpdateCounts counts = self.replay.raise_priorities(view(ids), factor);
    return py::make_tuple(counts.updated, counts.stale);
}

/// (drawable rows, entropy in nats, effective sample size)
py::tuple draw_statistics(const BoundReplay& self) {
    DrawStatistics found;
    {
        const py::gil_scoped_release release;
        found = self.replay.draw_statistics();
    }
    return py::make_tuple(found.drawable, found.entropy, found.effective_sample_size);
}

void set_temperature(BoundReplay& self, double temperature) {
    if (!(temperature >= 0.0 && temperature <= 1.0)) {
        throw std::invalid_argument("a temperature is " + std::to_string(temperature) + ", outside [0, 1]");
    }
    self.replay.set_temperature(temperature);
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
        .def("try_update_priorities", &try_update_priorities, py::arg("ids"), py::arg("td_errors"), py::arg("epsilon"),
             py::arg("ceiling"))
        .def("raise_priorities", &raise_priorities, py::arg("ids"), py::arg("factor"))
        .def("draw_statistics", &draw_statistics)
        .def("set_temperature", &set_temperature, py::arg("temperature"))
        .def(
            "set_new_priority",
            [](BoundReplay& self, bool max_ever) {
                self.replay.sampler().value().set_new_priority(max_ever ? NewPriority::max_ever
                                                                       : NewPriority::max_stored);
            },
            py::arg("max_ever"))
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
        .def_property_readonly("temperature", reading([](const PrioritySampler& sampler) { return sampler.temperature(); }))
        .def_property_readonly("max_ever", reading([](const PrioritySampler& sampler) { return sampler.max_ever(); }))
        .def_property_readonly("max_priority", reading([](const PrioritySampler& sampler) { return sampler.max_priority(); }))
        .def_property_readonly("total_mass", reading([](const PrioritySampler& sampler) { return sampler.total_mass(); }));
}

}  // namespace webscale::bindings
