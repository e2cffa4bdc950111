#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "transition_format.hpp"
#include "webscale/non_finite.hpp"

namespace webscale::bindings {

/// One step as SB3's algorithms give it to a buffer, read without copying its arrays.
class StepReader {
public:
    StepReader(const TransitionFormat& format, std::size_t n_envs);

    /// Whether the step was read. Anything out of the ordinary (another dtype, a wrong shape, with `check_finite` a
    /// reward or action that is not finite) is left to add_steps, which converts or explains.
    bool read(py::handle obs, py::handle next_obs, py::handle action, py::handle reward, py::handle done,
              py::handle infos, bool handle_timeouts, bool check_finite);

    /// What was read; valid while this object and the arrays are.
    Step step() const noexcept;

private:
    const TransitionFormat& format_;
    std::size_t n_envs_;
    std::vector<const std::byte*> current_;
    std::vector<const std::byte*> next_;
    const std::byte* actions_ = nullptr;
    std::vector<float> numbers_;  // rewards, dones, timeouts
};

/// Consecutive steps in arrays of the stored types, each with one row for each step and environment. Refers to the arrays.
class StepArrays {
public:
    /// As many steps as `rewards` has rows. Throws std::invalid_argument when an array has another size.
    StepArrays(const TransitionFormat& format, std::size_t n_envs, const std::vector<py::array>& current,
               const std::vector<py::array>& next, const py::array& actions, const Contiguous<float>& rewards,
               const Contiguous<float>& dones, const Contiguous<float>& timeouts);

    std::size_t count() const noexcept { return count_; }
    Step first() const noexcept { return {current_, next_, actions_, rewards_, dones_, timeouts_}; }

private:
    std::size_t count_;
    std::vector<const std::byte*> current_;
    std::vector<const std::byte*> next_;
    const std::byte* actions_;
    const float* rewards_;
    const float* dones_;
    const float* timeouts_;
};

/// (column, is_next, row, element) for Python, or None.
py::object place_of(const std::optional<NonFinite>& found);

}  // namespace webscale::bindings
