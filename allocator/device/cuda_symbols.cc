#include "allocator/device/cuda_symbols.h"

#include <dlfcn.h>

#include <string>

namespace levee::device {

namespace {

constexpr Libraries kLoader{[](const char* name, bool loaded_only) {
                              return ::dlopen(name, RTLD_NOW | (loaded_only ? RTLD_NOLOAD : 0));
                            },
                            [](void* library, const char* name) { return ::dlsym(library, name); }};

/// The runtime that the process has loaded already comes first: two runtimes in one process would
/// each have their own state.
void* open_runtime(const Libraries& libraries) {
  constexpr const char* kNames[] = {"libcudart.so.13", "libcudart.so.12"};
  for (const bool loaded_only : {true, false}) {
    for (const char* name : kNames) {
      if (void* library = libraries.open(name, loaded_only); library != nullptr) return library;
    }
  }
  return nullptr;
}

/// Finds functions by name; remembers the first that is missing.
class Finder {
 public:
  Finder(const Libraries& libraries, void* library) : libraries_(libraries), library_(library) {}

  template <typename Function>
  void find(const char* name, Function& function) {
    find_optional(name, function);
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  template <typename Function>
  void find_optional(const char* name, Function& function) {
    function = reinterpret_cast<Function>(libraries_.find(library_, name));
  }
  const std::string& missing() const { return missing_; }

 private:
  const Libraries& libraries_;
  void* library_;
  std::string missing_;
};

/// Functions of the driver, in the version that our headers describe.
class DriverFinder {
 public:
  DriverFinder(const Libraries& libraries, void* runtime) : libraries_(libraries) {
    by_version_ =
        reinterpret_cast<ByVersion>(libraries.find(runtime, "cudaGetDriverEntryPointByVersion"));
    plain_ = reinterpret_cast<Plain>(libraries.find(runtime, "cudaGetDriverEntryPoint"));
  }

  template <typename Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(find_address(name));
  }

 private:
  using ByVersion = cudaError_t (*)(const char*, void**, unsigned int, unsigned long long,
                                    cudaDriverEntryPointQueryResult*);
  using Plain = cudaError_t (*)(const char*, void**, unsigned long long,
                                cudaDriverEntryPointQueryResult*);
  // All functions of the table exist since CUDA 11 in the form used here; drivers older than 12.0
  // are not supported by PyTorch.
  static constexpr unsigned int kVersion = 12000;

  void* find_address(const char* name) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
    if (by_version_ != nullptr &&
        by_version_(name, &address, kVersion, cudaEnableDefault, &result) == cudaSuccess &&
        result == cudaDriverEntryPointSuccess) {
      return address;
    }
    if (by_version_ == nullptr && plain_ != nullptr &&
        plain_(name, &address, cudaEnableDefault, &result) == cudaSuccess &&
        result == cudaDriverEntryPointSuccess) {
      return address;
    }
    if (driver_ == nullptr) driver_ = libraries_.open("libcuda.so.1", false);
    return driver_ == nullptr ? nullptr : libraries_.find(driver_, name);
  }

  const Libraries& libraries_;
  ByVersion by_version_ = nullptr;
  Plain plain_ = nullptr;
  void* driver_ = nullptr;
};

void find_runtime(CudaSymbols& cuda, Finder& runtime) {
  runtime.find("cudaGetDeviceCount", cuda.get_device_count);
  runtime.find("cudaGetDevice", cuda.get_device);
  runtime.find("cudaSetDevice", cuda.set_device);
  runtime.find("cudaDeviceGetAttribute", cuda.device_get_attribute);
  runtime.find("cudaGetLastError", cuda.get_last_error);
  runtime.find("cudaGetErrorString", cuda.get_error_string);
  runtime.find("cudaMemGetInfo", cuda.mem_get_info);
  runtime.find("cudaMalloc", cuda.malloc);
  runtime.find("cudaFree", cuda.free);
  runtime.find("cudaEventCreateWithFlags", cuda.event_create_with_flags);
  runtime.find("cudaEventDestroy", cuda.event_destroy);
  runtime.find("cudaEventRecord", cuda.event_record);
  runtime.find("cudaEventQuery", cuda.event_query);
  runtime.find("cudaEventSynchronize", cuda.event_synchronize);
  runtime.find("cudaStreamWaitEvent", cuda.stream_wait_event);
  runtime.find("cudaStreamSynchronize", cuda.stream_synchronize);
  runtime.find("cudaDeviceSynchronize", cuda.device_synchronize);
  runtime.find("cudaThreadExchangeStreamCaptureMode", cuda.thread_exchange_stream_capture_mode);
  runtime.find_optional("cudaStreamGetCaptureInfo_v2", cuda.stream_get_capture_info_v2);
  if (cuda.stream_get_capture_info_v2 == nullptr) {
    runtime.find("cudaStreamGetCaptureInfo", cuda.stream_get_capture_info);
  }
}

void find_driver(CudaSymbols& cuda, DriverFinder driver) {
  driver.find("cuDeviceGetName", cuda.device_get_name);
  driver.find("cuDeviceGetAttribute", cuda.cu_device_get_attribute);
  driver.find("cuMemGetAllocationGranularity", cuda.mem_get_allocation_granularity);
  driver.find("cuMemAddressReserve", cuda.mem_address_reserve);
  driver.find("cuMemAddressFree", cuda.mem_address_free);
  driver.find("cuMemCreate", cuda.mem_create);
  driver.find("cuMemRelease", cuda.mem_release);
  driver.find("cuMemMap", cuda.mem_map);
  driver.find("cuMemSetAccess", cuda.mem_set_access);
  driver.find("cuMemUnmap", cuda.mem_unmap);
}

}  // namespace

CudaSymbols load_cuda_symbols(const Libraries& libraries) {
  CudaSymbols cuda;
  void* library = open_runtime(libraries);
  if (library == nullptr) {
    cuda.problem =
        "The CUDA runtime (libcudart.so.13 or libcudart.so.12) was not found; import a CUDA build "
        "of torch first, or "
        "install the CUDA runtime.";
    return cuda;
  }
  Finder runtime(libraries, library);
  find_runtime(cuda, runtime);
  if (!runtime.missing().empty()) {
    cuda.problem = "The CUDA runtime that is loaded has no function " + runtime.missing() +
                   "; levee needs CUDA 12 or 13.";
    return cuda;
  }
  find_driver(cuda, DriverFinder(libraries, library));
  Finder process(libraries, RTLD_DEFAULT);
  process.find_optional("simgpu_note_use", cuda.simgpu_note_use);
  process.find_optional("simgpu_note_pool_lock", cuda.simgpu_note_pool_lock);
  process.find_optional("simgpu_is_judging", cuda.simgpu_is_judging);
  return cuda;
}

const CudaSymbols& cuda_symbols() {
  // Leaked on purpose: devices call through it until the very end of the process.
  static const CudaSymbols* const symbols = new CudaSymbols(load_cuda_symbols(kLoader));
  return *symbols;
}

}  // namespace levee::device
