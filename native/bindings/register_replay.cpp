#include <pybind11/stl.h>

#include "register.hpp"

namespace webscale::bindings {

namespace {

/// A live view of one field of every record, shape (capacity, n_envs, *rest).
py::array field_view(py::object self, const py::dtype& dtype, std::byte* first, std::vector<py::ssize_t> rest = {}) {
    const TransitionRing& ring = self.cast<BoundReplay&>().replay.ring();
    const auto n_envs = static_cast<py::ssize_t>(ring.n_envs());
    const auto record = static_cast<py::ssize_t>(ring.records().stride());
    std::vector<py::ssize_t> shape = {static_cast<py::ssize_t>(ring.capacity()), n_envs};
    std::vector<py::ssize_t> strides = {n_envs * record, record};
    for (const py::ssize_t length : rest) {
        shape.push_back(length);
        strides.push_back(dtype.itemsize());
    }
    return py::array(dtype, std::move(shape), std::move(strides), first, self);
}

template <float& (*Field)(std::byte*) noexcept>
py::array float_view(py::object self) {
    RowRecords& records = self.cast<BoundReplay&>().replay.ring().records();
    return field_view(self, py::dtype::of<float>(), reinterpret_cast<std::byte*>(&Field(records.record(0))));
}

py::array action_view(py::object self) {
    auto& bound = self.cast<BoundReplay&>();
    RowRecords& records = bound.replay.ring().records();
    return field_view(self, bound.format.action_dtype, records.action(records.record(0)),
                      {static_cast<py::ssize_t>(bound.format.action_dim)});
}

/// A property that reads the ring under its lock.
template <class Function>
auto reading(Function function) {
    return [function](const BoundReplay& self) { return self.replay.read(function); };
}

/// None for a replay that is all in memory.
py::object tier_counts(const BoundReplay& self) {
    const auto counts = self.replay.tier_counts();
    if (!counts) {
        return py::none();
    }
    using namespace py::literals;
    return py::dict("hot_segments"_a = counts->hot_segments, "cold_segments"_a = counts->cold_segments,
                    "hot_bytes"_a = counts->hot_bytes, "cold_bytes"_a = counts->cold_bytes,
                    "resident_frame_bytes"_a = counts->resident_bytes, "hot_reads"_a = counts->hot_reads,
                    "cold_reads"_a = counts->cold_reads, "disk_waits"_a = counts->waits);
}

}  // namespace

void register_replay(py::module_& module) {
    py::class_<TransitionFormat>(module, "TransitionFormat", "How the bytes of a transition look as NumPy arrays.")
        .def(py::init<const std::vector<TransitionFormat::Column>&, py::dtype, std::size_t>(), py::arg("columns"),
             py::arg("action_dtype"), py::arg("action_dim"));

    py::class_<BoundReplay> replay(module, "Replay", "Transition ring with optional priorities.");
    replay
        .def(py::init<std::size_t, std::size_t, TransitionFormat>(), py::arg("capacity"), py::arg("n_envs"),
             py::arg("format"))
        .def(
            "clear", [](BoundReplay& self) { self.replay.clear(); }, py::call_guard<py::gil_scoped_release>())
        .def(
            "tier",
            [](BoundReplay& self, std::string directory, std::size_t allowance) {
                self.replay.tier(std::move(directory), allowance);
            },
            py::arg("directory"), py::arg("allowance"))
        .def_property_readonly(
            "minimum_allowance",
            [](const BoundReplay& self) { return Tiering::minimum_allowance(self.replay.ring()); },
            "The least bytes of frames that a tiered replay keeps in memory.")
        .def("tier_counts", &tier_counts)
        .def_property_readonly("position", reading([](const TransitionRing& ring) { return ring.position(); }))
        .def_property_readonly("full", reading([](const TransitionRing& ring) { return ring.full(); }))
        .def_property_readonly("filled_slots", reading([](const TransitionRing& ring) { return ring.filled_slots(); }))
        .def_property_readonly("steps", reading([](const TransitionRing& ring) { return ring.steps(); }))
        .def_property_readonly("first_step", reading([](const TransitionRing& ring) { return ring.first_step(); }))
        .def_property_readonly("nbytes", [](const BoundReplay& self) { return self.replay.nbytes(); })
        .def_property_readonly("rewards", &float_view<RowRecords::reward>)
        .def_property_readonly("dones", &float_view<RowRecords::done>)
        .def_property_readonly("timeouts", &float_view<RowRecords::timeout>)
        .def_property_readonly("actions", &action_view);
    register_adding(replay);
    register_gathering(replay);
    register_pending(module, replay);
    register_priorities(replay);
    register_state(replay);
}

}  // namespace webscale::bindings
