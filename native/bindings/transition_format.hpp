#pragma once

#include <functional>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <vector>

#include "arrays.hpp"
#include "webscale/replay.hpp"

namespace webscale::bindings {

/// One observation array as Python sees it.
struct ObservationFormat {
    py::object key;  // of a Dict space; None for a flat one
    py::dtype dtype;
    std::vector<py::ssize_t> shape;
    std::size_t row_bytes;
    std::size_t frames;
    std::size_t parts;
};

/// How the bytes of a native transition look as NumPy arrays.
struct TransitionFormat {
    std::vector<ObservationFormat> observations;
    py::dtype action_dtype;
    std::size_t action_dim;

    /// (key, dtype, shape, frames, parts of each frame)
    using Column = std::tuple<py::object, py::dtype, std::vector<py::ssize_t>, std::size_t, std::size_t>;

    TransitionFormat(const std::vector<Column>& columns, py::dtype action_type, std::size_t action_size)
        : action_dtype(std::move(action_type)), action_dim(action_size) {
        for (const auto& [key, dtype, shape, frames, parts] : columns) {
            const auto elements = std::accumulate(shape.begin(), shape.end(), py::ssize_t{1}, std::multiplies<>());
            const auto bytes = static_cast<std::size_t>(elements * dtype.itemsize());
            observations.push_back({key, dtype, shape, bytes, frames, parts});
        }
    }

    FloatFormat action_format() const { return float_format(action_dtype); }

    std::size_t action_bytes() const { return action_dim * static_cast<std::size_t>(action_dtype.itemsize()); }

    std::vector<ObservationLayout> layouts() const {
        std::vector<ObservationLayout> layouts;
        for (const ObservationFormat& format : observations) {
            layouts.push_back({format.row_bytes, format.frames, float_format(format.dtype), format.parts});
        }
        return layouts;
    }

private:
    static FloatFormat float_format(const py::dtype& dtype) {
        if (dtype.kind() != 'f') return FloatFormat::none;
        switch (dtype.itemsize()) {
            case 2: return FloatFormat::half;
            case 4: return FloatFormat::single;
            case 8: return FloatFormat::double_;
            default: throw std::invalid_argument("floating-point observations must have 16, 32 or 64 bits");
        }
    }
};

}  // namespace webscale::bindings
