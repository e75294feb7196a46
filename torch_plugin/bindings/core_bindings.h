// The parts that levee._core is made of; each adds its functions to the module.
#pragma once

#include <pybind11/pybind11.h>

namespace levee::bindings {

/// Readers of recordings: analysis and export. In core_analysis.cc.
[[gnu::weak]] void bind_analysis(pybind11::module_& module);

}  // namespace levee::bindings
