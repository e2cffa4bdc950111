#include <pybind11/pybind11.h>

#include "register.hpp"
#include "webscale/spill_store.hpp"

namespace {

void translate(std::exception_ptr pointer) {
    try {
        std::rethrow_exception(pointer);
    } catch (const webscale::SpillError& error) {
        const pybind11::object type = pybind11::module_::import("sb3_webscale.errors").attr("SpillError");
        pybind11::set_error(type, error.what());
    }
}

}  // namespace

PYBIND11_MODULE(_native, module) {
    module.doc() = "Native core of sb3_webscale; private, used through sb3_webscale.buffers.";
    pybind11::register_local_exception_translator(&translate);
    webscale::bindings::register_replay(module);
    webscale::bindings::register_sharded(module);
    webscale::bindings::register_channel(module);
    webscale::bindings::register_graph_index(module);
    webscale::bindings::register_numpy_stream(module);
    webscale::bindings::register_sum_tree(module);
}
