#include "torch_plugin/bindings/python_stack.h"

#include <Python.h>

#include <atomic>
#include <string_view>

namespace levee::bindings {
namespace {

// From Python's own exit handlers on: the interpreter is being taken apart, the GIL may never come.
std::atomic<bool> g_is_ending{false};

void append_text(std::string* out, PyObject* text) {
  Py_ssize_t length = 0;
  const char* bytes = text == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(text, &length);
  if (bytes == nullptr) {
    PyErr_Clear();
    *out += '?';
    return;
  }
  out->append(bytes, static_cast<std::size_t>(length));
}

// Below this frame is no program of the user's but `levee run`, with what started it.
bool is_levee_run(PyCodeObject* code) {
  Py_ssize_t length = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(code->co_filename, &length);
  if (bytes == nullptr) {
    PyErr_Clear();
    return false;
  }
  return std::string_view(bytes, static_cast<std::size_t>(length)).ends_with("/levee/_cli_run.py");
}

std::string walk(int max_frames) {
  std::string out;
  PyThreadState* thread = PyThreadState_Get();
  PyFrameObject* frame = PyThreadState_GetFrame(thread);  // a new reference, or null
  for (int depth = 0; frame != nullptr && depth < max_frames; ++depth) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    if (is_levee_run(code)) {
      Py_DECREF(code);
      break;
    }
    append_text(&out, code->co_filename);
    out += ':';
    out += std::to_string(PyFrame_GetLineNumber(frame));
    out += ' ';
    append_text(&out, code->co_name);
    out += '\n';
    Py_DECREF(code);
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = back;
  }
  Py_XDECREF(frame);
  if (out.empty()) return kNoPythonFrame;
  out.pop_back();
  return out;
}

}  // namespace

void stop_python_stacks() {
  g_is_ending.store(true, std::memory_order_relaxed);
}

std::string python_stack(int max_frames) {
  if (Py_IsInitialized() == 0 || g_is_ending.load(std::memory_order_relaxed)) {
    return kPythonIsEnding;
  }
  // A thread without a state of its own has no Python frames; making one would only cost.
  if (PyGILState_GetThisThreadState() == nullptr) return kNoPythonFrame;
  const PyGILState_STATE gil = PyGILState_Ensure();
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  std::string out = walk(max_frames);
  PyErr_Restore(type, value, traceback);
  PyGILState_Release(gil);
  return out;
}

}  // namespace levee::bindings
