#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "arrays.hpp"
#include "webscale/priority_sampler.hpp"

namespace webscale::bindings {

struct ReadPriorities {
    std::vector<double> priorities;
    std::size_t cut = 0;  // how many were above the ceiling
};

/// TD errors as they come from torch or NumPy; false for any other type or shape.
template <class T>
bool read_td_errors(const py::array& array, std::vector<double>& out) {
    if (!py::isinstance<py::array_t<T, py::array::c_style>>(array)) {
        return false;
    }
    const auto* values = static_cast<const T*>(array.data());
    std::copy(values, values + out.size(), out.begin());
    return true;
}

/// TD errors plus `epsilon`, cut to `ceiling`; none when one is not a finite non-negative number of a plain type.
inline std::optional<ReadPriorities> read_priorities(const py::array& td_errors, std::size_t count, double epsilon,
                                                     double ceiling) {
    ReadPriorities read{std::vector<double>(count)};
    if (static_cast<std::size_t>(td_errors.size()) != count ||
        !(read_td_errors<float>(td_errors, read.priorities) || read_td_errors<double>(td_errors, read.priorities))) {
        return std::nullopt;
    }
    for (double& priority : read.priorities) {
        // Checked before epsilon is added, in which a tiny negative number would vanish.
        if (!(priority >= 0.0 && priority + epsilon <= PrioritySampler::max_allowed)) {
            return std::nullopt;
        }
        priority += epsilon;
        if (priority > ceiling) {
            priority = ceiling;
            ++read.cut;
        }
    }
    return read;
}

}  // namespace webscale::bindings
