#include <pybind11/stl.h>

#include <mutex>
#include <string>

#include "arrays.hpp"
#include "register.hpp"
#include "webscale/replay.hpp"

namespace webscale::bindings {

namespace {

FloatFormat format_of(const std::string& name) {
    if (name == "float16") return FloatFormat::half;
    if (name == "float32") return FloatFormat::single;
    if (name == "float64") return FloatFormat::double_;
    return FloatFormat::none;
}

/// `columns` is a list of (row_bytes, frames, dtype name).
std::unique_ptr<Replay> make_replay(std::size_t capacity, std::size_t n_envs,
                                    const std::vector<std::tuple<std::size_t, std::size_t, std::string>>& columns,
                                    std::size_t action_bytes) {
    std::vector<ObservationLayout> layouts;
    for (const auto& [row_bytes, frames, dtype] : columns) {
        layouts.push_back({row_bytes, frames, format_of(dtype)});
    }
    return std::make_unique<Replay>(capacity, n_envs, layouts, action_bytes);
}

std::vector<std::size_t> row_bytes_of(const Replay& replay) {
    std::vector<std::size_t> bytes;
    for (const ObservationColumn& column : replay.ring().columns()) {
        bytes.push_back(column.layout().row_bytes);
    }
    return bytes;
}

/// Stores as many steps as `rewards` has rows. None, or (column, is_next, row, element) of the first non-finite
/// observation, when nothing was stored.
py::object add(Replay& replay, const std::vector<py::array>& current, const std::vector<py::array>& next,
               const py::array& actions, const Contiguous<float>& rewards, const Contiguous<float>& dones,
               const Contiguous<float>& timeouts, bool check_finite, bool withheld) {
    const std::size_t n_envs = replay.ring().n_envs();
    const std::size_t count = static_cast<std::size_t>(rewards.size()) / n_envs;
    const std::size_t rows = count * n_envs;
    const auto row_bytes = row_bytes_of(replay);
    const auto now = row_addresses(current, row_bytes, rows, "observations");
    const auto later = row_addresses(next, row_bytes, rows, "next_observations");
    require_bytes(actions, rows * replay.ring().action_bytes(), "actions");
    require_bytes(rewards, rows * sizeof(float), "rewards");
    require_bytes(dones, rows * sizeof(float), "dones");
    require_bytes(timeouts, rows * sizeof(float), "timeouts");
    const Step step{now, later, bytes_of(actions), rewards.data(), dones.data(), timeouts.data()};
    std::optional<NonFinite> found;
    {
        const py::gil_scoped_release release;
        found = replay.add(step, count, check_finite, withheld);
    }
    if (!found) {
        return py::none();
    }
    return py::make_tuple(found->column, found->side == Side::next, found->row, found->element);
}

std::vector<std::byte*> destinations(std::vector<py::array>& arrays, const std::vector<std::size_t>& row_bytes,
                                     std::size_t count, const char* name) {
    std::vector<std::byte*> addresses;
    if (!arrays.empty()) {
        row_addresses(arrays, row_bytes, count, name);
    }
    for (py::array& array : arrays) {
        addresses.push_back(static_cast<std::byte*>(array.mutable_data()));
    }
    return addresses;
}

void gather(const Replay& replay, const Contiguous<std::int64_t>& rows, const Contiguous<std::int64_t>& last_rows,
            std::vector<py::array> current, std::vector<py::array> next, py::array actions, Contiguous<float> rewards,
            Contiguous<float> terminals, Contiguous<std::int64_t> ids) {
    const auto count = static_cast<std::size_t>(rows.size());
    const auto row_bytes = row_bytes_of(replay);
    require_bytes(last_rows, count * sizeof(std::int64_t), "last_rows");
    require_bytes(actions, count * replay.ring().action_bytes(), "actions");
    require_bytes(rewards, count * sizeof(float), "rewards");
    require_bytes(terminals, count * sizeof(float), "terminals");
    require_bytes(ids, count * sizeof(std::int64_t), "ids");
    const auto now = destinations(current, row_bytes, count, "observations");
    const auto later = destinations(next, row_bytes, count, "next_observations");
    const Batch batch{now, later, static_cast<std::byte*>(actions.mutable_data()), rewards.mutable_data(),
                      terminals.mutable_data(), ids.mutable_data()};
    const auto first = view(rows);
    const auto last = view(last_rows);
    const py::gil_scoped_release release;
    replay.gather(first, last, batch);
}

void gather_observations(const Replay& replay, std::size_t column, bool next, const Contiguous<std::int64_t>& rows,
                         py::array out) {
    const auto row_bytes = row_bytes_of(replay);
    if (column >= row_bytes.size()) {
        throw std::out_of_range("there is no observation column " + std::to_string(column));
    }
    require_bytes(out, static_cast<std::size_t>(rows.size()) * row_bytes[column], "out");
    std::vector<std::byte*> addresses(row_bytes.size(), nullptr);
    addresses[column] = static_cast<std::byte*>(out.mutable_data());
    Batch batch;
    (next ? batch.next : batch.current) = addresses;
    const auto wanted = view(rows);
    const py::gil_scoped_release release;
    replay.gather(wanted, wanted, batch);
}

py::tuple draw(Replay& replay, std::size_t count, double beta) {
    Contiguous<std::int64_t> rows(static_cast<py::ssize_t>(count));
    Contiguous<float> weights(static_cast<py::ssize_t>(count));
    const auto row_span = mutable_view(rows);
    const auto weight_span = mutable_view(weights);
    {
        const py::gil_scoped_release release;
        replay.draw(beta, row_span, weight_span);
    }
    return py::make_tuple(rows, weights);
}

py::tuple update_priorities(Replay& replay, const Contiguous<std::int64_t>& ids, const Contiguous<double>& priorities) {
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
        counts = replay.update_priorities(id_span, priority_span);
    }
    return py::make_tuple(counts.updated, counts.stale);
}

Contiguous<double> priorities(const Replay& replay, const Contiguous<std::int64_t>& ids) {
    Contiguous<double> out(ids.size());
    replay.priorities(view(ids), mutable_view(out));
    return out;
}

Contiguous<std::int64_t> ids_of_rows(const Replay& replay, const Contiguous<std::int64_t>& rows) {
    Contiguous<std::int64_t> ids(rows.size());
    Batch batch;
    batch.ids = ids.mutable_data();
    replay.gather(view(rows), view(rows), batch);
    return ids;
}

std::vector<py::ssize_t> shape_of(const Replay& replay) {
    return {static_cast<py::ssize_t>(replay.ring().capacity()), static_cast<py::ssize_t>(replay.ring().n_envs())};
}

py::array live_view(py::object self, ZeroedArray<float>& (TransitionRing::*field)() noexcept) {
    auto& replay = self.cast<Replay&>();
    return borrow(shape_of(replay), (replay.ring().*field)().data(), self);
}

py::array action_view(py::object self) {
    auto& replay = self.cast<Replay&>();
    auto shape = shape_of(replay);
    shape.push_back(static_cast<py::ssize_t>(replay.ring().action_bytes()));
    return borrow(std::move(shape), reinterpret_cast<std::uint8_t*>(replay.ring().actions().data()), self);
}

}  // namespace

void register_replay_state(py::class_<Replay>& replay);

void register_replay(py::module_& module) {
    py::class_<Replay> replay(module, "Replay", "Transition ring with optional priorities.");
    replay
        .def(py::init(&make_replay), py::arg("capacity"), py::arg("n_envs"), py::arg("columns"), py::arg("action_bytes"))
        .def("prioritize", &Replay::prioritize, py::arg("alpha"), py::arg("seed"))
        .def("add", &add, py::arg("observations"), py::arg("next_observations"), py::arg("actions"), py::arg("rewards"),
             py::arg("dones"), py::arg("timeouts"), py::arg("check_finite"), py::arg("withheld"))
        .def("gather", &gather, py::arg("rows"), py::arg("last_rows"), py::arg("observations"),
             py::arg("next_observations"), py::arg("actions"), py::arg("rewards"), py::arg("terminals"), py::arg("ids"))
        .def("gather_observations", &gather_observations, py::arg("column"), py::arg("next"), py::arg("rows"),
             py::arg("out"))
        .def("ids_of_rows", &ids_of_rows, py::arg("rows"))
        .def("draw", &draw, py::arg("count"), py::arg("beta"))
        .def("update_priorities", &update_priorities, py::arg("ids"), py::arg("priorities"))
        .def("priorities", &priorities, py::arg("ids"))
        .def(
            "withdraw", [](Replay& self, const Contiguous<std::int64_t>& rows) { self.withdraw(view(rows)); },
            py::arg("rows"))
        .def(
            "admit", [](Replay& self, const Contiguous<std::int64_t>& rows) { self.admit(view(rows)); }, py::arg("rows"))
        .def("set_alpha", &Replay::set_alpha, py::arg("alpha"), py::call_guard<py::gil_scoped_release>())
        .def("clear", &Replay::clear, py::call_guard<py::gil_scoped_release>())
        .def_property_readonly("position", [](const Replay& self) { return self.ring().position(); })
        .def_property_readonly("full", [](const Replay& self) { return self.ring().full(); })
        .def_property_readonly("filled_slots", [](const Replay& self) { return self.ring().filled_slots(); })
        .def_property_readonly("steps", [](const Replay& self) { return self.ring().steps(); })
        .def_property_readonly("first_step", [](const Replay& self) { return self.ring().first_step(); })
        .def_property_readonly("nbytes", &Replay::nbytes)
        .def_property_readonly("prioritized", [](const Replay& self) { return self.sampler().has_value(); })
        .def_property_readonly("alpha", [](const Replay& self) { return self.sampler().value().alpha(); })
        .def_property_readonly("max_priority",
                               [](const Replay& self) { return self.sampler() ? self.sampler()->max_priority() : 0.0; })
        .def_property_readonly("total_mass",
                               [](const Replay& self) { return self.sampler() ? self.sampler()->total_mass() : 0.0; })
        .def_property_readonly("rewards", [](py::object self) { return live_view(self, &TransitionRing::rewards); })
        .def_property_readonly("dones", [](py::object self) { return live_view(self, &TransitionRing::dones); })
        .def_property_readonly("timeouts", [](py::object self) { return live_view(self, &TransitionRing::timeouts); })
        .def_property_readonly("actions", &action_view, "Raw bytes, shape (capacity, n_envs, action_bytes).");
    register_replay_state(replay);
}

}  // namespace webscale::bindings
