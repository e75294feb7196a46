// The CUDA functions that levee calls, found at run time.
//
// Owns a table of function pointers, made once and never undone. The runtime is the one that the
// process has loaded (PyTorch's), else libcudart.so.13 or .12 from the loader's path; driver
// functions come through the runtime's entry point query, else from libcuda.so.1. Promises: nothing
// is linked; what is missing is named. Each pointer is typed by NVIDIA's header. Thread safety: any
// thread. Costs: the first call loads libraries; then one load.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

namespace levee::device {

struct CudaSymbols {
  // Runtime: all of these, or there is no CUDA for us.
  decltype(&::cudaGetDeviceCount) get_device_count = nullptr;
  decltype(&::cudaGetDevice) get_device = nullptr;
  decltype(&::cudaSetDevice) set_device = nullptr;
  decltype(&::cudaDeviceGetAttribute) device_get_attribute = nullptr;
  decltype(&::cudaGetLastError) get_last_error = nullptr;
  decltype(&::cudaGetErrorString) get_error_string = nullptr;
  decltype(&::cudaMemGetInfo) mem_get_info = nullptr;
  cudaError_t (*malloc)(void**, size_t) = nullptr;  // the header overloads cudaMalloc for C++
  decltype(&::cudaFree) free = nullptr;
  decltype(&::cudaEventCreateWithFlags) event_create_with_flags = nullptr;
  decltype(&::cudaEventDestroy) event_destroy = nullptr;
  cudaError_t (*event_record)(cudaEvent_t, cudaStream_t) = nullptr;
  decltype(&::cudaEventQuery) event_query = nullptr;
  decltype(&::cudaEventSynchronize) event_synchronize = nullptr;
  cudaError_t (*stream_wait_event)(cudaStream_t, cudaEvent_t, unsigned int) = nullptr;
  decltype(&::cudaStreamSynchronize) stream_synchronize = nullptr;
  decltype(&::cudaDeviceSynchronize) device_synchronize = nullptr;
  decltype(&::cudaThreadExchangeStreamCaptureMode) thread_exchange_stream_capture_mode = nullptr;
  // One of two: CUDA 12 has the function under a versioned name with six parameters, CUDA 13 under
  // the plain one with seven.
  cudaError_t (*stream_get_capture_info_v2)(cudaStream_t, cudaStreamCaptureStatus*,
                                            unsigned long long*, cudaGraph_t*,
                                            const cudaGraphNode_t**, size_t*) = nullptr;
  cudaError_t (*stream_get_capture_info)(cudaStream_t, cudaStreamCaptureStatus*,
                                         unsigned long long*, cudaGraph_t*, const cudaGraphNode_t**,
                                         const cudaGraphEdgeData**, size_t*) = nullptr;

  // Driver: each may be null. `has_vmm_calls` says whether all that virtual memory needs are there.
  decltype(&::cuDeviceGetName) device_get_name = nullptr;
  decltype(&::cuDeviceGetAttribute) cu_device_get_attribute = nullptr;
  decltype(&::cuMemGetAllocationGranularity) mem_get_allocation_granularity = nullptr;
  decltype(&::cuMemAddressReserve) mem_address_reserve = nullptr;
  decltype(&::cuMemAddressFree) mem_address_free = nullptr;
  decltype(&::cuMemCreate) mem_create = nullptr;
  decltype(&::cuMemRelease) mem_release = nullptr;
  decltype(&::cuMemMap) mem_map = nullptr;
  decltype(&::cuMemSetAccess) mem_set_access = nullptr;
  decltype(&::cuMemUnmap) mem_unmap = nullptr;

  // The stand-in GPU's judge; null on real hardware.
  void (*simgpu_note_use)(std::uint64_t address, std::uint64_t bytes, void* stream,
                          int kind) = nullptr;
  void (*simgpu_note_pool_lock)(int held) = nullptr;
  int (*simgpu_is_judging)() = nullptr;

  std::string problem;  ///< why the runtime cannot be used, in one sentence; empty if it can

  bool is_usable() const { return problem.empty(); }
  bool has_vmm_calls() const {
    return mem_get_allocation_granularity != nullptr && mem_address_reserve != nullptr &&
           mem_address_free != nullptr && mem_create != nullptr && mem_release != nullptr &&
           mem_map != nullptr && mem_set_access != nullptr && mem_unmap != nullptr &&
           cu_device_get_attribute != nullptr;
  }
};

/// How libraries are opened and searched: dlopen and dlsym, or what a test puts in their place.
struct Libraries {
  /// Opens by name; `loaded_only`: null unless the process has it already.
  void* (*open)(const char* name, bool loaded_only);
  /// The address of a function; null if there is none. RTLD_DEFAULT is the process itself.
  void* (*find)(void* library, const char* name);
};

/// A table made with these; cuda_symbols() makes its own with the loader's.
CudaSymbols load_cuda_symbols(const Libraries& libraries);

/// The table of this process. Loads libraries on the first call; makes no CUDA call that creates a
/// context.
const CudaSymbols& cuda_symbols();

}  // namespace levee::device
