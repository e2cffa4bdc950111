#include <pybind11/stl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bound_sharded_replay.hpp"
#include "register.hpp"
#include "step_reader.hpp"
#include "webscale/non_finite.hpp"
#include "webscale/shared_memory.hpp"
#include "webscale/transition_channel.hpp"

namespace webscale::bindings {

namespace {

/// A channel in shared memory together with what Python needs to know about its bytes.
class BoundChannel {
public:
    BoundChannel(SharedMemory shared, TransitionFormat transition_format, std::size_t n_envs, std::size_t records,
                 bool existing)
        : format(std::move(transition_format)),
          layouts(format.layouts()),
          memory(std::move(shared)),
          channel({memory.data(), memory.size()}, layouts, format.action_bytes(), n_envs, records, existing) {}

    static std::unique_ptr<BoundChannel> create(const std::string& name, const TransitionFormat& format,
                                                std::size_t n_envs, std::size_t records) {
        const std::size_t bytes = TransitionChannel::bytes(format.layouts(), format.action_bytes(), n_envs, records);
        return std::make_unique<BoundChannel>(SharedMemory::create(name, bytes), format, n_envs, records, false);
    }

    static std::unique_ptr<BoundChannel> attach(const std::string& name, const TransitionFormat& format,
                                                std::size_t n_envs, std::size_t records) {
        return std::make_unique<BoundChannel>(SharedMemory::attach(name), format, n_envs, records, true);
    }

    TransitionFormat format;
    std::vector<ObservationLayout> layouts;
    SharedMemory memory;
    TransitionChannel channel;
    std::uint64_t session_read = 0;  // session of the step taken last
};

std::chrono::nanoseconds nanoseconds(double seconds) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

/// Whether the step was written in time; None when it must be converted first, or is wrong.
std::optional<bool> try_write_step(BoundChannel& self, py::handle obs, py::handle next_obs, py::handle action,
                                   py::handle reward, py::handle done, py::handle infos, bool handle_timeouts,
                                   bool check_finite, double patience) {
    StepReader reader(self.format, self.channel.n_envs());
    if (!reader.read(obs, next_obs, action, reward, done, infos, handle_timeouts, check_finite)) {
        return std::nullopt;
    }
    const py::gil_scoped_release release;
    const Step step = reader.step();
    if (check_finite && find_non_finite(step, self.layouts, self.channel.n_envs())) {
        return std::nullopt;
    }
    return self.channel.write(step, nanoseconds(patience));
}

/// (column, is_next, row, element) of the first NaN or infinity among the observations of a step, or None.
py::object find_bad_observation(const BoundChannel& self, const StepArrays& arrays) {
    return place_of(find_non_finite(arrays.first(), self.layouts, self.channel.n_envs()));
}

StepArrays one_step(const BoundChannel& self, const std::vector<py::array>& current, const std::vector<py::array>& next,
                    const py::array& actions, const Contiguous<float>& rewards, const Contiguous<float>& dones,
                    const Contiguous<float>& timeouts) {
    StepArrays arrays(self.format, self.channel.n_envs(), current, next, actions, rewards, dones, timeouts);
    if (arrays.count() != 1) {
        throw std::invalid_argument("a channel takes one step at a time");
    }
    return arrays;
}

/// Takes steps out of the channel into the streams from `first_stream` on. Where another writer took over, episodes that
/// the one before left unfinished are cut.
std::size_t drain(BoundChannel& self, BoundShardedReplay& target, std::size_t first_stream, std::size_t limit) {
    const py::gil_scoped_release release;
    const std::size_t n_envs = self.channel.n_envs();
    return self.channel.read(limit, [&](const Step& step, std::uint64_t session) {
        if (std::exchange(self.session_read, session) != session) {
            for (std::size_t env = 0; env < n_envs; ++env) {
                target.replay.end_episode(first_stream + env);
            }
        }
        target.replay.add(first_stream, n_envs, step, 1, false);
    });
}

}  // namespace

void register_channel(py::module_& module) {
    using Process = TransitionChannel::Process;
    py::class_<BoundChannel>(module, "TransitionChannel", "Ring of steps in shared memory, from one process to another.")
        .def_static("create", &BoundChannel::create, py::arg("name"), py::arg("format"), py::arg("n_envs"),
                    py::arg("records"))
        .def_static("attach", &BoundChannel::attach, py::arg("name"), py::arg("format"), py::arg("n_envs"),
                    py::arg("records"))
        .def_static("unlink", &SharedMemory::unlink, py::arg("name"))
        .def(
            "claim",
            [](BoundChannel& self, Process previous, Process writer) { return self.channel.claim(previous, writer); },
            py::arg("previous"), py::arg("writer"))
        .def(
            "set_reader", [](BoundChannel& self, Process reader) { self.channel.set_reader(reader); },
            py::arg("reader"))
        .def("try_write_step", &try_write_step, py::arg("obs"), py::arg("next_obs"), py::arg("action"),
             py::arg("reward"), py::arg("done"), py::arg("infos"), py::arg("handle_timeouts"), py::arg("check_finite"),
             py::arg("patience"))
        .def(
            "find_bad_observation",
            [](const BoundChannel& self, const std::vector<py::array>& current, const std::vector<py::array>& next,
               const py::array& actions, const Contiguous<float>& rewards, const Contiguous<float>& dones,
               const Contiguous<float>& timeouts) {
                return find_bad_observation(self, one_step(self, current, next, actions, rewards, dones, timeouts));
            },
            py::arg("observations"), py::arg("next_observations"), py::arg("actions"), py::arg("rewards"),
            py::arg("dones"), py::arg("timeouts"))
        .def(
            "write_step",
            [](BoundChannel& self, const std::vector<py::array>& current, const std::vector<py::array>& next,
               const py::array& actions, const Contiguous<float>& rewards, const Contiguous<float>& dones,
               const Contiguous<float>& timeouts, double patience) {
                const StepArrays arrays = one_step(self, current, next, actions, rewards, dones, timeouts);
                const py::gil_scoped_release release;
                return self.channel.write(arrays.first(), nanoseconds(patience));
            },
            py::arg("observations"), py::arg("next_observations"), py::arg("actions"), py::arg("rewards"),
            py::arg("dones"), py::arg("timeouts"), py::arg("patience"))
        .def("drain", &drain, py::arg("target"), py::arg("first_stream"), py::arg("limit"))
        .def("close", [](BoundChannel& self) { self.channel.close(); })
        .def_property_readonly("closed", [](const BoundChannel& self) { return self.channel.closed(); })
        .def_property_readonly("written", [](const BoundChannel& self) { return self.channel.written(); })
        .def_property_readonly("taken", [](const BoundChannel& self) { return self.channel.taken(); })
        .def_property_readonly("writer", [](const BoundChannel& self) { return self.channel.writer(); })
        .def_property_readonly("reader", [](const BoundChannel& self) { return self.channel.reader(); })
        .def_property_readonly("nbytes", [](const BoundChannel& self) { return self.memory.size(); });
}

}  // namespace webscale::bindings
