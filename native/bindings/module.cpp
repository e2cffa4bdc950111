#include <pybind11/pybind11.h>

#include "register.hpp"

PYBIND11_MODULE(_native, module) {
    module.doc() = "Native core of sb3_webscale; private, used through sb3_webscale.buffers.";
    webscale::bindings::register_replay(module);
    webscale::bindings::register_sum_tree(module);
}
