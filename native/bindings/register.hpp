#pragma once

#include <pybind11/pybind11.h>

namespace webscale::bindings {

void register_replay(pybind11::module_& module);
void register_sum_tree(pybind11::module_& module);

}  // namespace webscale::bindings
