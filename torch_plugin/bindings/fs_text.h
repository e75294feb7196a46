// Paths, and sentences that name them, as Python's text and back: bytes that are no text in the
// file system's encoding survive both ways, as os.fsdecode and os.fsencode have it.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

namespace levee::bindings {

inline pybind11::str fs_text(const std::string& bytes) {
  PyObject* text =
      PyUnicode_DecodeFSDefaultAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
  if (text == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::str>(text);
}

inline std::string fs_bytes(const pybind11::str& text) {
  PyObject* bytes = PyUnicode_EncodeFSDefault(text.ptr());
  if (bytes == nullptr) throw pybind11::error_already_set();
  return std::string(pybind11::reinterpret_steal<pybind11::bytes>(bytes));
}

}  // namespace levee::bindings
