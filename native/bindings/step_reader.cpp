#include "step_reader.hpp"

#include <algorithm>
#include <cmath>

#include "webscale/finite.hpp"

namespace webscale::bindings {

namespace {

/// Address of `value` when it is an array of exactly this type and size whose memory can be read as it is.
const std::byte* plain(py::handle value, const py::dtype& dtype, std::size_t bytes) {
    if (!py::isinstance<py::array>(value)) {
        return nullptr;
    }
    const auto array = py::reinterpret_borrow<py::array>(value);
    const bool same_type = array.dtype().num() == dtype.num() && array.dtype().byteorder() == dtype.byteorder();
    const bool readable = (array.flags() & py::array::c_style) != 0;
    return same_type && readable && static_cast<std::size_t>(array.nbytes()) == bytes ? bytes_of(array) : nullptr;
}

template <class T>
bool copy_as(py::handle value, std::size_t count, float* out) {
    const std::byte* data = plain(value, py::dtype::of<T>(), count * sizeof(T));
    if (data == nullptr) {
        return false;
    }
    const T* typed = reinterpret_cast<const T*>(data);
    for (std::size_t i = 0; i < count; ++i) {
        out[i] = static_cast<float>(typed[i]);
    }
    return true;
}

/// One number for each environment, from the types that vectorised environments return.
bool read_floats(py::handle value, std::size_t count, float* out) {
    return copy_as<float>(value, count, out) || copy_as<bool>(value, count, out) || copy_as<double>(value, count, out);
}

bool read_timeouts(py::handle infos, std::size_t count, float* out) {
    static const py::str* key = new py::str("TimeLimit.truncated");  // lives as long as the interpreter
    if (!PyList_Check(infos.ptr()) && !PyTuple_Check(infos.ptr())) {
        return false;
    }
    for (std::size_t env = 0; env < count; ++env) {
        // Looked at anew each time: the truth of a value below is arbitrary code, which may change the list.
        if (static_cast<std::size_t>(PySequence_Fast_GET_SIZE(infos.ptr())) != count) {
            return false;
        }
        const auto info = py::reinterpret_borrow<py::object>(
            PySequence_Fast_GET_ITEM(infos.ptr(), static_cast<py::ssize_t>(env)));
        if (!PyDict_Check(info.ptr())) {
            return false;
        }
        if (PyDict_Size(info.ptr()) == 0) {
            out[env] = 0.0f;
            continue;
        }
        PyObject* truncated = PyDict_GetItemWithError(info.ptr(), key->ptr());
        if (truncated == nullptr && PyErr_Occurred() != nullptr) {
            throw py::error_already_set();
        }
        const int truth = truncated == nullptr ? 0 : PyObject_IsTrue(truncated);
        if (truth < 0) {
            throw py::error_already_set();
        }
        out[env] = static_cast<float>(truth);
    }
    return true;
}

bool has_shape(py::handle value, std::size_t rows, const std::vector<py::ssize_t>& shape) {
    const auto array = py::reinterpret_borrow<py::array>(value);
    return array.ndim() == static_cast<py::ssize_t>(shape.size()) + 1 &&
           array.shape(0) == static_cast<py::ssize_t>(rows) && std::equal(shape.begin(), shape.end(), array.shape() + 1);
}

bool read_observations(const TransitionFormat& format, py::handle value, std::size_t rows,
                       std::vector<const std::byte*>& out) {
    for (const ObservationFormat& part : format.observations) {
        py::handle array = value;
        if (!part.key.is_none()) {
            array = PyDict_Check(value.ptr()) ? PyDict_GetItemWithError(value.ptr(), part.key.ptr()) : nullptr;
            if (!array) {
                return false;
            }
        }
        out.push_back(plain(array, part.dtype, part.row_bytes * rows));
        if (out.back() == nullptr || !has_shape(array, rows, part.shape)) {
            return false;
        }
    }
    return true;
}

}  // namespace

StepReader::StepReader(const TransitionFormat& format, std::size_t n_envs)
    : format_(format), n_envs_(n_envs), numbers_(3 * n_envs, 0.0f) {
    current_.reserve(format.observations.size());
    next_.reserve(format.observations.size());
}

bool StepReader::read(py::handle obs, py::handle next_obs, py::handle action, py::handle reward, py::handle done,
                      py::handle infos, bool handle_timeouts, bool check_finite) {
    float* rewards = numbers_.data();
    float* dones = rewards + n_envs_;
    float* timeouts = dones + n_envs_;
    actions_ = plain(action, format_.action_dtype, n_envs_ * format_.action_bytes());
    if (actions_ == nullptr || !read_observations(format_, obs, n_envs_, current_) ||
        !read_observations(format_, next_obs, n_envs_, next_) || !read_floats(reward, n_envs_, rewards) ||
        !read_floats(done, n_envs_, dones) || (handle_timeouts && !read_timeouts(infos, n_envs_, timeouts))) {
        return false;
    }
    const FloatFormat action_format = format_.action_format();
    const std::size_t action_elements = action_format == FloatFormat::none ? 0 : n_envs_ * format_.action_dim;
    return !check_finite || (std::all_of(rewards, rewards + n_envs_, [](float r) { return std::isfinite(r); }) &&
                             find_non_finite(actions_, action_elements, action_format) == all_finite);
}

Step StepReader::step() const noexcept {
    const float* rewards = numbers_.data();
    return {current_, next_, actions_, rewards, rewards + n_envs_, rewards + 2 * n_envs_};
}

StepArrays::StepArrays(const TransitionFormat& format, std::size_t n_envs, const std::vector<py::array>& current,
                       const std::vector<py::array>& next, const py::array& actions, const Contiguous<float>& rewards,
                       const Contiguous<float>& dones, const Contiguous<float>& timeouts)
    : count_(static_cast<std::size_t>(rewards.size()) / n_envs),
      current_(row_addresses(current, format.observations, count_ * n_envs, "observations")),
      next_(row_addresses(next, format.observations, count_ * n_envs, "next_observations")),
      actions_(bytes_of(actions)),
      rewards_(rewards.data()),
      dones_(dones.data()),
      timeouts_(timeouts.data()) {
    const std::size_t rows = count_ * n_envs;
    require_bytes(actions, rows * format.action_bytes(), "actions");
    require_bytes(rewards, rows * sizeof(float), "rewards");
    require_bytes(dones, rows * sizeof(float), "dones");
    require_bytes(timeouts, rows * sizeof(float), "timeouts");
}

py::object place_of(const std::optional<NonFinite>& found) {
    if (!found) {
        return py::none();
    }
    return py::make_tuple(found->column, found->side == Side::next, found->row, found->element);
}

}  // namespace webscale::bindings
