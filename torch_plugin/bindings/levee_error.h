// `levee.LeveeError`, raised from C++: what every extension module tells its caller that went
// wrong.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "torch_plugin/bindings/fs_text.h"

namespace levee::bindings {

[[noreturn]] inline void raise_error(const std::string& sentence) {
  namespace py = pybind11;
  const py::object type = py::module_::import("levee.errors").attr("LeveeError");
  PyErr_SetObject(type.ptr(), fs_text(sentence).ptr());
  throw py::error_already_set();
}

}  // namespace levee::bindings
