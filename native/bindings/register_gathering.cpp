#include <pybind11/stl.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "register.hpp"

namespace webscale::bindings {

namespace {

/// Hands out consecutive arrays of one recycled block, which returns to its pool when the last of them is dropped.
class BatchArrays {
public:
    BatchArrays(const std::shared_ptr<BlockPool>& pool, std::size_t bytes) {
        auto owner = std::make_unique<Owner>(Owner{pool, pool->take(bytes)});
        data_ = owner->block.data();
        capsule_ = py::capsule(owner.get(), [](void* pointer) {
            const std::unique_ptr<Owner> returned(static_cast<Owner*>(pointer));
            returned->pool->give_back(std::move(returned->block));
        });
        owner.release();
    }

    static std::size_t padded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

    std::byte* next(std::size_t bytes) {
        std::byte* data = data_ + used_;
        used_ += padded(bytes);
        return data;
    }

    py::array array(const py::dtype& dtype, std::vector<py::ssize_t> shape, std::byte* data) const {
        return py::array(dtype, std::move(shape), data, capsule_);
    }

private:
    struct Owner {
        std::shared_ptr<BlockPool> pool;
        Block block;
    };

    py::capsule capsule_;
    std::byte* data_ = nullptr;
    std::size_t used_ = 0;
};

std::vector<py::ssize_t> batch_shape(std::size_t count, const std::vector<py::ssize_t>& shape) {
    std::vector<py::ssize_t> whole = {static_cast<py::ssize_t>(count)};
    whole.insert(whole.end(), shape.begin(), shape.end());
    return whole;
}

/// (observations, next_observations, actions, terminals, rewards, ids) of the rows; observations as lists of one array
/// for each column. Next observations, terminals and rewards are those of `last_rows`.
py::tuple gather(BoundReplay& self, const Contiguous<std::int64_t>& rows,
                 const Contiguous<std::int64_t>& last_rows) {
    const auto count = static_cast<std::size_t>(rows.size());
    require_bytes(last_rows, count * sizeof(std::int64_t), "last_rows");
    std::size_t bytes = 0;
    for (const ObservationFormat& part : self.format.observations) {
        bytes += 2 * BatchArrays::padded(count * part.row_bytes);
    }
    BatchArrays arrays(self.blocks, bytes);
    // Apart from the observations, so that keeping the ids of a batch does not keep its images.
    BatchArrays small(self.blocks, BatchArrays::padded(count * self.format.action_bytes()) +
                                       2 * BatchArrays::padded(count * sizeof(float)) +
                                       BatchArrays::padded(count * sizeof(std::int64_t)));
    py::list observations;
    py::list next_observations;
    std::vector<std::byte*> current;
    std::vector<std::byte*> next;
    for (const ObservationFormat& part : self.format.observations) {
        current.push_back(arrays.next(count * part.row_bytes));
        next.push_back(arrays.next(count * part.row_bytes));
        observations.append(arrays.array(part.dtype, batch_shape(count, part.shape), current.back()));
        next_observations.append(arrays.array(part.dtype, batch_shape(count, part.shape), next.back()));
    }
    std::byte* actions = small.next(count * self.format.action_bytes());
    std::byte* rewards = small.next(count * sizeof(float));
    std::byte* terminals = small.next(count * sizeof(float));
    std::byte* ids = small.next(count * sizeof(std::int64_t));
    const Batch batch{current, next, actions, reinterpret_cast<float*>(rewards), reinterpret_cast<float*>(terminals),
                      reinterpret_cast<std::int64_t*>(ids)};
    const auto first = view(rows);
    const auto last = view(last_rows);
    {
        const py::gil_scoped_release release;
        self.replay.gather(first, last, batch);
    }
    const auto size = static_cast<py::ssize_t>(count);
    const auto action_dim = static_cast<py::ssize_t>(self.format.action_dim);
    return py::make_tuple(observations, next_observations,
                          small.array(self.format.action_dtype, {size, action_dim}, actions),
                          small.array(py::dtype::of<float>(), {size, 1}, terminals),
                          small.array(py::dtype::of<float>(), {size, 1}, rewards),
                          small.array(py::dtype::of<std::int64_t>(), {size}, ids));
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
    self.replay.gather(wanted, wanted, batch);
}

Contiguous<std::int64_t> ids_of_rows(BoundReplay& self, const Contiguous<std::int64_t>& rows) {
    Contiguous<std::int64_t> ids(rows.size());
    Batch batch;
    batch.ids = ids.mutable_data();
    self.replay.gather(view(rows), view(rows), batch);
    return ids;
}

}  // namespace

void register_gathering(py::class_<BoundReplay>& replay) {
    replay.def("gather", &gather, py::arg("rows"), py::arg("last_rows"))
        .def("gather_observations", &gather_observations, py::arg("column"), py::arg("next"), py::arg("rows"),
             py::arg("out"))
        .def("ids_of_rows", &ids_of_rows, py::arg("rows"));
}

}  // namespace webscale::bindings
