#include <pybind11/stl.h>

#include "register.hpp"

namespace webscale::bindings {

namespace {

std::vector<py::ssize_t> shape_of(const Replay& replay) {
    return {static_cast<py::ssize_t>(replay.ring().capacity()), static_cast<py::ssize_t>(replay.ring().n_envs())};
}

py::array live_view(py::object self, ZeroedArray<float>& (TransitionRing::*field)() noexcept) {
    auto& replay = self.cast<BoundReplay&>().replay;
    return borrow(shape_of(replay), (replay.ring().*field)().data(), self);
}

py::array action_view(py::object self) {
    auto& bound = self.cast<BoundReplay&>();
    auto shape = shape_of(bound.replay);
    shape.push_back(static_cast<py::ssize_t>(bound.format.action_dim));
    return py::array(bound.format.action_dtype, std::move(shape), bound.replay.ring().actions().data(), self);
}

}  // namespace

void register_replay(py::module_& module) {
    using Columns = std::vector<std::tuple<py::object, py::dtype, std::vector<py::ssize_t>, std::size_t>>;
    py::class_<TransitionFormat>(module, "TransitionFormat", "How the bytes of a transition look as NumPy arrays.")
        .def(py::init<const Columns&, py::dtype, std::size_t>(), py::arg("columns"), py::arg("action_dtype"),
             py::arg("action_dim"));

    py::class_<BoundReplay> replay(module, "Replay", "Transition ring with optional priorities.");
    replay
        .def(py::init<std::size_t, std::size_t, TransitionFormat>(), py::arg("capacity"), py::arg("n_envs"),
             py::arg("format"))
        .def(
            "clear", [](BoundReplay& self) { self.replay.clear(); }, py::call_guard<py::gil_scoped_release>())
        .def_property_readonly("position", [](const BoundReplay& self) { return self.replay.ring().position(); })
        .def_property_readonly("full", [](const BoundReplay& self) { return self.replay.ring().full(); })
        .def_property_readonly("filled_slots", [](const BoundReplay& self) { return self.replay.ring().filled_slots(); })
        .def_property_readonly("steps", [](const BoundReplay& self) { return self.replay.ring().steps(); })
        .def_property_readonly("first_step", [](const BoundReplay& self) { return self.replay.ring().first_step(); })
        .def_property_readonly("nbytes", [](const BoundReplay& self) { return self.replay.nbytes(); })
        .def_property_readonly("rewards", [](py::object self) { return live_view(self, &TransitionRing::rewards); })
        .def_property_readonly("dones", [](py::object self) { return live_view(self, &TransitionRing::dones); })
        .def_property_readonly("timeouts", [](py::object self) { return live_view(self, &TransitionRing::timeouts); })
        .def_property_readonly("actions", &action_view);
    register_adding(replay);
    register_gathering(replay);
    register_priorities(replay);
    register_state(replay);
}

}  // namespace webscale::bindings
