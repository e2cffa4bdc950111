#include <pybind11/stl.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "batch_output.hpp"
#include "register.hpp"

namespace webscale::bindings {

namespace {

py::tuple gather(BoundReplay& self, const Contiguous<std::int64_t>& rows, std::size_t n_steps) {
    const auto wanted = view(rows);
    const BatchOutput out(self.format, self.blocks, wanted.size(), checked_steps(n_steps));
    {
        const py::gil_scoped_release release;
        self.replay.gather(wanted, out.windows, out.batch);
    }
    return out.arrays(py::none());
}

/// Draws by priority and gathers what was drawn, in one go.
py::tuple sample(BoundReplay& self, std::size_t count, double beta, std::size_t n_steps) {
    const BatchOutput out(self.format, self.blocks, count, checked_steps(n_steps));
    py::array_t<float> weights({static_cast<py::ssize_t>(count), py::ssize_t{1}});
    const std::span<float> weight_span{weights.mutable_data(), count};
    std::vector<std::int64_t> rows(count);
    {
        const py::gil_scoped_release release;
        self.replay.sample(beta, rows, weight_span, out.windows, out.batch);
    }
    return out.arrays(weights);
}

void gather_observations(BoundReplay& self, std::size_t column, bool next, const Contiguous<std::int64_t>& rows,
                         py::array out) {
    if (column >= self.format.observations.size()) {
        throw std::out_of_range("there is no observation column " + std::to_string(column));
    }
    require_bytes(out, static_cast<std::size_t>(rows.size()) * self.format.observations[column].row_bytes, "out");
    std::vector<std::byte*> addresses(self.format.observations.size(), nullptr);
    addresses[column] = static_cast<std::byte*>(out.mutable_data());
    Batch batch;
    (next ? batch.next : batch.current) = addresses;
    const auto wanted = view(rows);
    const py::gil_scoped_release release;
    self.replay.gather(wanted, batch);
}

Contiguous<std::int64_t> ids_of_rows(BoundReplay& self, const Contiguous<std::int64_t>& rows) {
    Contiguous<std::int64_t> ids(rows.size());
    Batch batch;
    batch.ids = ids.mutable_data();
    self.replay.gather(view(rows), batch);
    return ids;
}

}  // namespace

void register_gathering(py::class_<BoundReplay>& replay) {
    replay.def("gather", &gather, py::arg("rows"), py::arg("n_steps"))
        .def("sample", &sample, py::arg("count"), py::arg("beta"), py::arg("n_steps"))
        .def("gather_observations", &gather_observations, py::arg("column"), py::arg("next"), py::arg("rows"),
             py::arg("out"))
        .def("ids_of_rows", &ids_of_rows, py::arg("rows"));
}

}  // namespace webscale::bindings
