#pragma once

#include <span>

namespace webscale {

/// Raises each of `values` (finite, >= 0) to `exponent` (finite, >= 0) in place; 0 stays 0, to the exponent 0 too, since a
/// row without priority has no mass. Relative error below 1e-13. Unlike the C library's pow, it gives the same bits on
/// every machine, wherever a value stands among the others, and takes a fifth of the time.
void raise_to_power(std::span<double> values, double exponent) noexcept;

}  // namespace webscale
