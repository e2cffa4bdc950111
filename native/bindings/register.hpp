#pragma once

#include <pybind11/pybind11.h>

#include "bound_replay.hpp"

namespace webscale::bindings {

void register_channel(pybind11::module_& module);
void register_graph_index(pybind11::module_& module);
void register_numpy_stream(pybind11::module_& module);
void register_replay(pybind11::module_& module);
void register_sharded(pybind11::module_& module);
void register_sum_tree(pybind11::module_& module);

// Parts of the class that register_replay creates.
void register_adding(pybind11::class_<BoundReplay>& replay);
void register_gathering(pybind11::class_<BoundReplay>& replay);
void register_pending(pybind11::module_& module, pybind11::class_<BoundReplay>& replay);
void register_priorities(pybind11::class_<BoundReplay>& replay);
void register_state(pybind11::class_<BoundReplay>& replay);

}  // namespace webscale::bindings
