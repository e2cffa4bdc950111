#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace webscale::bindings {

namespace py = pybind11;

/// Checks that `array` is C-contiguous and `bytes` long; the name goes into the error.
inline void require_bytes(const py::array& array, std::size_t bytes, const char* name) {
    if ((array.flags() & py::array::c_style) == 0) {
        throw std::invalid_argument(std::string(name) + " is not C-contiguous; pass numpy.ascontiguousarray(...)");
    }
    if (static_cast<std::size_t>(array.nbytes()) != bytes) {
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(array.nbytes()) + " bytes, but " +
                                    std::to_string(bytes) + " are needed");
    }
}

inline const std::byte* bytes_of(const py::array& array) { return static_cast<const std::byte*>(array.data()); }

template <class T>
using Contiguous = py::array_t<T, py::array::c_style>;

template <class T>
std::span<const T> view(const Contiguous<T>& array) {
    return {array.data(), static_cast<std::size_t>(array.size())};
}

template <class T>
std::span<T> mutable_view(Contiguous<T>& array) {
    return {array.mutable_data(), static_cast<std::size_t>(array.size())};
}

/// Addresses of a list of arrays, one for each of `parts` and each of `count` rows of its row_bytes.
template <class Part>
std::vector<const std::byte*> row_addresses(const std::vector<py::array>& arrays, const std::vector<Part>& parts,
                                            std::size_t count, const char* name) {
    if (arrays.size() != parts.size()) {
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(arrays.size()) + " columns, but " +
                                    std::to_string(parts.size()) + " are stored");
    }
    std::vector<const std::byte*> addresses;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        require_bytes(arrays[i], parts[i].row_bytes * count, name);
        addresses.push_back(bytes_of(arrays[i]));
    }
    return addresses;
}

/// A contiguous view of native memory that keeps its owner alive.
template <class T>
py::array borrow(std::vector<py::ssize_t> shape, T* data, py::handle owner) {
    return py::array(py::dtype::of<T>(), std::move(shape), data, owner);
}

}  // namespace webscale::bindings
