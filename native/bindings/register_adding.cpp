#include <pybind11/stl.h>

#include <optional>
#include <vector>

#include "register.hpp"
#include "step_reader.hpp"

namespace webscale::bindings {

namespace {

/// Stores one step given as SB3's algorithms give it, and says whether it did; see StepReader::read.
bool try_add_step(BoundReplay& self, py::handle obs, py::handle next_obs, py::handle action, py::handle reward,
                  py::handle done, py::handle infos, bool handle_timeouts, bool check_finite, bool withheld) {
    StepReader reader(self.format, self.replay.ring().n_envs());
    if (!reader.read(obs, next_obs, action, reward, done, infos, handle_timeouts, check_finite)) {
        return false;
    }
    const py::gil_scoped_release release;
    return !self.replay.add(reader.step(), 1, check_finite, withheld).has_value();
}

/// Stores as many steps as `rewards` has rows. None, or (column, is_next, row, element) of the first non-finite
/// observation, when nothing was stored.
py::object add_steps(BoundReplay& self, const std::vector<py::array>& current, const std::vector<py::array>& next,
                     const py::array& actions, const Contiguous<float>& rewards, const Contiguous<float>& dones,
                     const Contiguous<float>& timeouts, bool check_finite, bool withheld) {
    const StepArrays arrays(self.format, self.replay.ring().n_envs(), current, next, actions, rewards, dones, timeouts);
    std::optional<NonFinite> found;
    {
        const py::gil_scoped_release release;
        found = self.replay.add(arrays.first(), arrays.count(), check_finite, withheld);
    }
    return place_of(found);
}

}  // namespace

void register_adding(py::class_<BoundReplay>& replay) {
    replay
        .def("try_add_step", &try_add_step, py::arg("obs"), py::arg("next_obs"), py::arg("action"), py::arg("reward"),
             py::arg("done"), py::arg("infos"), py::arg("handle_timeouts"), py::arg("check_finite"), py::arg("withheld"))
        .def("add_steps", &add_steps, py::arg("observations"), py::arg("next_observations"), py::arg("actions"),
             py::arg("rewards"), py::arg("dones"), py::arg("timeouts"), py::arg("check_finite"), py::arg("withheld"));
}

}  // namespace webscale::bindings
