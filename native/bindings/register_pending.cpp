#include <pybind11/stl.h>

#include <memory>
#include <utility>
#include <vector>

#include "batch_output.hpp"
#include "register.hpp"

namespace webscale::bindings {

namespace {

/// A batch that was drawn, and whose observations come later, from any thread. Writers that would overwrite one of its
/// rows wait until then, or until it is dropped.
class PendingBatch {
public:
    /// Of these rows.
    PendingBatch(py::object replay, const Contiguous<std::int64_t>& rows, std::size_t n_steps)
        : PendingBatch(std::move(replay), static_cast<std::size_t>(rows.size()), n_steps) {
        const auto wanted = view(rows);
        const py::gil_scoped_release release;
        chosen_ = bound_.replay.choose(wanted, out_.windows, out_.batch);
    }

    /// Of `count` rows drawn by priority.
    PendingBatch(py::object replay, std::size_t count, double beta, std::size_t n_steps)
        : PendingBatch(std::move(replay), count, n_steps) {
        py::array_t<float> weights({static_cast<py::ssize_t>(count), py::ssize_t{1}});
        const std::span<float> weight_span{weights.mutable_data(), count};
        weights_ = weights;
        const py::gil_scoped_release release;
        chosen_ = bound_.replay.choose_by_priority(beta, weight_span, out_.windows, out_.batch);
    }

    void copy_observations() {
        const py::gil_scoped_release release;
        bound_.replay.copy_observations(chosen_, out_.batch);
    }

    py::tuple arrays() const { return out_.arrays(weights_); }

private:
    PendingBatch(py::object replay, std::size_t count, std::size_t n_steps)
        : owner_(std::move(replay)),
          bound_(owner_.cast<BoundReplay&>()),
          out_(bound_.format, bound_.blocks, count, checked_steps(n_steps)) {}

    py::object owner_;  // outlives what follows
    BoundReplay& bound_;
    BatchOutput out_;
    py::object weights_ = py::none();
    ChosenRows chosen_;
};

}  // namespace

void register_pending(py::module_& module, py::class_<BoundReplay>& replay) {
    py::class_<PendingBatch>(module, "PendingBatch", "A batch that was drawn, and whose observations come later.")
        .def("copy_observations", &PendingBatch::copy_observations, "Once, from any thread.")
        .def("arrays", &PendingBatch::arrays, "As from Replay.gather or Replay.sample.");
    replay
        .def(
            "begin_gather",
            [](py::object self, const Contiguous<std::int64_t>& rows, std::size_t n_steps) {
                return std::make_unique<PendingBatch>(std::move(self), rows, n_steps);
            },
            py::arg("rows"), py::arg("n_steps"))
        .def(
            "begin_sample",
            [](py::object self, std::size_t count, double beta, std::size_t n_steps) {
                return std::make_unique<PendingBatch>(std::move(self), count, beta, n_steps);
            },
            py::arg("count"), py::arg("beta"), py::arg("n_steps"));
}

}  // namespace webscale::bindings
