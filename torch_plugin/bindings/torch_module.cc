// levee._torch: the main door for Python. Compiled for one minor version of PyTorch; the package
// loads it only under that one.

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "allocator/c_api/levee.h"
#include "torch_plugin/bindings/python_stack.h"
#include "torch_plugin/torch_allocator.h"
#include "torch_plugin/torch_phases.h"
#include "torch_plugin/torch_versions.h"

namespace py = pybind11;

namespace levee::bindings {
namespace {

Runtime& started_runtime() {
  auto* runtime = static_cast<Runtime*>(levee_runtime());
  TORCH_CHECK(runtime != nullptr, "levee: the runtime was not started");
  return *runtime;
}

ContextId capture_python_stack() {
  return started_runtime().intern_stack(python_stack());
}

/// Nanoseconds for one raw_alloc and raw_delete of PyTorch's current allocator, whichever it is.
double time_raw_pairs(std::size_t bytes, int count) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) allocator::raw_delete(allocator::raw_alloc(bytes));
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
  return took.count() / count;
}

/// The same from several threads at once, each on a stream of its own: the slowest thread's figure.
double time_raw_pairs_on_threads(std::size_t bytes, int count, int thread_count) {
  std::atomic<int> ready{0};
  std::vector<double> took(static_cast<std::size_t>(thread_count));
  std::vector<std::thread> threads;
  for (double& mine : took) {
    threads.emplace_back([&, stream = c10::cuda::getStreamFromPool()] {
      const c10::cuda::CUDAStreamGuard guard(stream);
      time_raw_pairs(bytes, 64);
      ++ready;
      while (ready.load() < thread_count) std::this_thread::yield();
      mine = time_raw_pairs(bytes, count);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(took.begin(), took.end());
}

}  // namespace
}  // namespace levee::bindings

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  using levee::bindings::started_runtime;
  using levee::torch_plugin::TorchAllocator;
  module.doc() = "levee's main door to PyTorch.";
  module.attr("TORCH_VERSION") = std::to_string(levee::torch_plugin::kTorchMajor) + "." +
                                 std::to_string(levee::torch_plugin::kTorchMinor);
  py::module_::import("atexit").attr("register")(
      py::cpp_function(&levee::bindings::stop_python_stacks));
  module.def("install", [] {
    TorchAllocator::install(started_runtime(), &levee::bindings::capture_python_stack);
  });
  module.def("is_installed", [] { return TorchAllocator::installed() != nullptr; });
  // False: every request goes straight to cudaMalloc, as PYTORCH_NO_CUDA_MEMORY_CACHING asks for.
  module.def("set_caching", [](bool caching) {
    TorchAllocator* allocator = TorchAllocator::installed();
    TORCH_CHECK(allocator != nullptr, "levee: not installed");
    allocator->enable(caching);
  });
  // For benchmarks: works without levee installed, so that both allocators are timed by the same
  // loop.
  module.def("time_raw_pairs", &levee::bindings::time_raw_pairs, py::arg("bytes"), py::arg("count"),
             py::call_guard<py::gil_scoped_release>());
  module.def("time_raw_pairs_on_threads", &levee::bindings::time_raw_pairs_on_threads,
             py::arg("bytes"), py::arg("count"), py::arg("threads"),
             py::call_guard<py::gil_scoped_release>());
  module.def("observe_phases", [] { levee::torch_plugin::observe_phases(started_runtime()); });
}
