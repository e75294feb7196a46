// levee._core: levee for Python without PyTorch. Settings, life and recording of the allocator in
// this process (over the C interface, so that both doors and this module share one liblevee.so),
// and the readers of recordings (core_analysis.cc).
//
// Promises: failures are raised as levee.errors.LeveeError with the sentence that the library
// gives; calls that may wait (flush, start_kernels, stopping) release the GIL.

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "allocator/c_api/levee.h"
#include "torch_plugin/bindings/core_bindings.h"
#include "torch_plugin/bindings/levee_error.h"
#include "torch_plugin/bindings/python_stack.h"

namespace py = pybind11;

namespace levee::bindings {
namespace {

void require(int code) {
  if (code != LEVEE_OK) raise_error(levee_last_error());
}

/// The text that a C function writes into a buffer of the size it asks for.
template <typename Function>
std::string text_of(const Function& fill) {
  std::string text;
  // What is read may grow between the two calls.
  for (std::size_t needed = fill(nullptr, 0); needed > text.size();) {
    text.resize(needed + 1);
    needed = fill(text.data(), text.size());
    if (needed < text.size()) {
      text.resize(needed);
      break;
    }
  }
  return text;
}

py::list options() {
  py::list all;
  levee_option_info info{};
  for (int i = 0; levee_option_at(i, &info) == LEVEE_OK; ++i) {
    py::dict option;
    option["name"] = info.name;
    option["env"] = info.env;
    option["values"] = info.values;
    option["help"] = info.help;
    all.append(std::move(option));
  }
  return all;
}

std::uint32_t capture_python_stack() {
  const std::string frames = python_stack();
  return frames.empty() ? 0 : levee_intern_stack(frames.data(), frames.size());
}

void bind_runtime(py::module_& module) {
  module.def("version", &levee_version);
  module.def("options", &options, "Every setting: name, env, values, help.");
  module.def("set_option", [](const std::string& name, const py::str& value) {
    require(levee_set_option(name.c_str(), fs_bytes(value).c_str()));
  });
  module.def("get_option", [](const std::string& name) {
    return fs_text(text_of([&](char* buffer, std::size_t capacity) {
      return levee_get_option(name.c_str(), buffer, capacity);
    }));
  });
  module.def("environment_problems", [] { return fs_text(text_of(&levee_environment_problems)); });
  module.def("environment_strangers",
             [] { return fs_text(text_of(&levee_environment_strangers)); });

  module.def("start", [] {
    require(levee_start());
    require(levee_set_context_hook(&capture_python_stack));
  });
  module.def("is_started", [] { return levee_is_started() != 0; });
  module.def("is_forked_child", [] { return levee_is_forked_child() != 0; });
  module.def("device_count", [] {
    int count = 0;
    require(levee_device_count(&count));
    return count;
  });

  module.def("stats_json", [](int device) {
    std::string json = text_of([&](char* buffer, std::size_t capacity) {
      return levee_stats_json(device, buffer, capacity);
    });
    if (json.empty()) raise_error(levee_last_error());
    return json;
  });
  module.def("reset_peak_stats", [](int device) { require(levee_reset_peak_stats(device)); });
  module.def(
      "trim",
      [](int device, std::size_t keep) {
        std::size_t given_back = 0;
        int code = LEVEE_OK;
        {
          const py::gil_scoped_release unlocked;
          code = levee_trim(device, keep, &given_back);
        }
        require(code);
        return given_back;
      },
      py::arg("device"), py::arg("keep") = 0);

  module.def("is_recording", [] { return levee_is_recording() != 0; });
  module.def("push_phase", [](const std::string& name) { levee_push_phase(name.c_str()); });
  module.def("pop_phase", &levee_pop_phase);
  module.def("mark_step", &levee_mark_step);
  module.def("end_step", &levee_end_step);
  module.def("trace_path", [] { return fs_text(text_of(&levee_trace_path)); });
  module.def("flush", [] {
    int code = LEVEE_OK;
    {
      const py::gil_scoped_release unlocked;
      code = levee_flush();
    }
    require(code);
  });
  module.def("start_kernels", [] {
    int code = LEVEE_OK;
    {
      const py::gil_scoped_release unlocked;
      code = levee_start_kernels();
    }
    require(code);
  });
  module.def("stop_kernels", &levee_stop_kernels, py::call_guard<py::gil_scoped_release>());
}

}  // namespace
}  // namespace levee::bindings

PYBIND11_MODULE(_core, module) {
  module.doc() = "levee without PyTorch: settings, recording, and the readers of recordings.";
  levee::bindings::bind_runtime(module);
  if (levee::bindings::bind_analysis != nullptr) levee::bindings::bind_analysis(module);
  py::module_::import("atexit").attr("register")(
      py::cpp_function(&levee::bindings::stop_python_stacks));
}
