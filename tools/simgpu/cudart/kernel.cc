// Kernels: what nvcc's host code announces while libraries load, and the calls that launch it.
//
// Registration comes before everything else (static objects of libtorch_cuda register some 19,000
// kernels) and must not start the GPU.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>

#include "allocator/base/mutex.h"
#include "tools/simgpu/core/kernels.h"
#include "tools/simgpu/core/properties.h"
#include "tools/simgpu/core/settings.h"
#include "tools/simgpu/core/work.h"
#include "tools/simgpu/cudart/face.h"
#include "tools/simgpu/cudart/symbols.h"

using levee::Bytes;
using levee::DeviceId;
using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::Dimensions;
using levee::simgpu::Kernel;
using levee::simgpu::KernelLaunch;
using levee::simgpu::kernels;
using levee::simgpu::native_code;
using levee::simgpu::Process;
using levee::simgpu::this_thread;
using levee::simgpu::cudart::answer;
using levee::simgpu::cudart::put;

namespace {

struct Variable {
  std::size_t bytes = 0;
  std::map<int, void*> addresses;  // by device
};

struct Variables {
  levee::base::Mutex mutex;
  std::map<const void*, Variable> by_shadow LEVEE_GUARDED_BY(mutex);
};
Variables& variables() {
  static auto* value = new Variables;
  return *value;
}

struct CallConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local CallConfiguration pushed;

/// A library handle of cudaLibraryLoadData: the kernels that were asked for.
struct Library {
  levee::base::Mutex mutex;
  std::map<std::string, Kernel*> kernels LEVEE_GUARDED_BY(mutex);
};

Dimensions dimensions(dim3 from) {
  return {from.x, from.y, from.z};
}

int launch(Process& process, const void* function, dim3 grid, dim3 block, void** arguments,
           std::size_t shared, cudaStream_t stream) {
  KernelLaunch what;
  what.kernel = kernels().find(function);
  what.grid = dimensions(grid);
  what.block = dimensions(block);
  what.arguments = arguments;
  what.dynamic_shared = shared;
  what.stream = stream;
  return levee::simgpu::launch_kernel(process, what);
}

int set_attribute(Kernel* kernel, cudaFuncAttribute which, int value) {
  if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
  if (which == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    int most = 0;
    levee::simgpu::device_attribute(0, 97, &most);
    if (value < 0 || value > most) return cudaErrorInvalidValue;
    kernel->max_dynamic_shared_bytes.store(value, std::memory_order_relaxed);
  } else if (which == cudaFuncAttributePreferredSharedMemoryCarveout) {
    kernel->preferred_carveout.store(value, std::memory_order_relaxed);
  }
  return 0;
}

}  // namespace

namespace levee::simgpu::cudart {

int symbol_address(Process& process, const void* symbol, void** address) {
  Variables& known = variables();
  base::MutexLock lock(known.mutex);
  const auto at = known.by_shadow.find(symbol);
  if (at == known.by_shadow.end()) return cudaErrorInvalidSymbol;
  void*& place = at->second.addresses[this_thread().device];
  if (place == nullptr) {
    const auto made = process.model().allocate(current_device(), Bytes{at->second.bytes});
    if (!made.ok()) return native_code(made.status());
    place = reinterpret_cast<void*>(made->value);
  }
  *address = place;
  return 0;
}

std::size_t symbol_bytes(const void* symbol) {
  Variables& known = variables();
  base::MutexLock lock(known.mutex);
  const auto at = known.by_shadow.find(symbol);
  return at != known.by_shadow.end() ? at->second.bytes : 0;
}

}  // namespace levee::simgpu::cudart

extern "C" {

// ---- What nvcc's host code calls. No header declares these.

void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFatBinaryEnd(void** handle);
void __cudaUnregisterFatBinary(void** handle);
void __cudaRegisterFunction(void** handle, const char* stub, char* device_function,
                            const char* name, int thread_limit, uint3* thread, uint3* block,
                            dim3* block_dimensions, dim3* grid_dimensions, int* warp);
void __cudaRegisterVar(void** handle, char* shadow, char* address, const char* name, int ext,
                       size_t bytes, int constant, int global);
void __cudaRegisterManagedVar(void** handle, void** shadow, char* address, const char* name,
                              int ext, size_t bytes, int constant, int global);
char __cudaInitModule(void** handle);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);

void** __cudaRegisterFatBinary(void* image) {
  // The handle only has to differ from null and from other handles; what it points to is ours.
  auto** handle = static_cast<void**>(std::calloc(1, sizeof(void*)));
  if (handle != nullptr) *handle = image;
  return handle;
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void**) {}  // kernels stay known: their names may still be needed

void __cudaRegisterFunction(void** handle, const char* stub, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  kernels().add(stub, name, handle);
}

void __cudaRegisterVar(void**, char* shadow, char*, const char*, int, size_t bytes, int, int) {
  Variables& known = variables();
  levee::base::MutexLock lock(known.mutex);
  known.by_shadow[shadow].bytes = bytes;
}

void __cudaRegisterManagedVar(void**, void** shadow, char*, const char*, int, size_t bytes, int,
                              int) {
  // Managed variables are ordinary host memory here, which both sides can use.
  *shadow = std::calloc(1, bytes);
  Variables& known = variables();
  levee::base::MutexLock lock(known.mutex);
  Variable& variable = known.by_shadow[*shadow];
  variable.bytes = bytes;
  for (int device = 0; device < levee::simgpu::settings().count; ++device)
    variable.addresses[device] = *shadow;
}

char __cudaInitModule(void**) {
  return 1;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(kernels().find(stub));
  return *kernel != nullptr ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared, cudaStream_t stream) {
  static ApiFunction api{"cudaLaunchKernel", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000};
  return answer(api, [&](Process& process) {
    return launch(process, kernel, grid, block, arguments, shared, stream);
  });
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  pushed = {grid, block, shared, stream};
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  *grid = pushed.grid;
  *block = pushed.block;
  *shared = pushed.shared;
  std::memcpy(stream, &pushed.stream, sizeof pushed.stream);
  return cudaSuccess;
}

// ---- Launches

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             size_t shared, cudaStream_t stream) {
  static ApiFunction api{"cudaLaunchKernel", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000};
  return answer(api, [&](Process& process) {
    return launch(process, function, grid, block, arguments, shared, stream);
  });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  static ApiFunction api{"cudaLaunchKernelExC", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060};
  return answer(api, [&](Process& process) {
    if (config == nullptr) return int{cudaErrorInvalidValue};
    KernelLaunch what;
    what.kernel = kernels().find(function);
    what.grid = dimensions(config->gridDim);
    what.block = dimensions(config->blockDim);
    what.arguments = arguments;
    what.dynamic_shared = config->dynamicSmemBytes;
    what.stream = config->stream;
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      const cudaLaunchAttribute& attribute = config->attrs[i];
      if (attribute.id == cudaLaunchAttributeProgrammaticStreamSerialization) {
        what.overlaps_predecessor = attribute.val.programmaticStreamSerializationAllowed != 0;
      }
    }
    return levee::simgpu::launch_kernel(process, what);
  });
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, size_t shared, cudaStream_t stream) {
  static ApiFunction api{"cudaLaunchCooperativeKernel", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000};
  return answer(api, [&](Process& process) {
    int multiprocessors = 0;
    levee::simgpu::device_attribute(0, 16, &multiprocessors);
    const auto blocks = std::uint64_t{grid.x} * grid.y * grid.z;
    const int each =
        levee::simgpu::occupancy(static_cast<int>(block.x * block.y * block.z), shared);
    if (blocks > static_cast<std::uint64_t>(each) * static_cast<std::uint64_t>(multiprocessors)) {
      return int{cudaErrorCooperativeLaunchTooLarge};
    }
    return launch(process, function, grid, block, arguments, shared, stream);
  });
}

// ---- Attributes and occupancy

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  static ApiFunction api{"cudaFuncGetAttributes", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaFuncGetAttributes_v3020};
  return answer(api, [&](Process&) {
    const Kernel* kernel = kernels().find(function);
    if (attributes == nullptr) return int{cudaErrorInvalidValue};
    if (kernel == nullptr) return int{cudaErrorInvalidDeviceFunction};
    std::memset(attributes, 0, sizeof *attributes);
    int major = 0;
    int minor = 0;
    levee::simgpu::device_attribute(0, 75, &major);
    levee::simgpu::device_attribute(0, 76, &minor);
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->ptxVersion = major * 10 + minor;
    attributes->binaryVersion = major * 10 + minor;
    attributes->maxDynamicSharedSizeBytes =
        kernel->max_dynamic_shared_bytes.load(std::memory_order_relaxed);
    attributes->preferredShmemCarveout = kernel->preferred_carveout.load(std::memory_order_relaxed);
    return 0;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute which, int value) {
  static ApiFunction api{"cudaFuncSetAttribute", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaFuncSetAttribute_v9000};
  return answer(api,
                [&](Process&) { return set_attribute(kernels().find(function), which, value); });
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute which, int value,
                                            int device) {
  static ApiFunction api{"cudaKernelSetAttributeForDevice", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaKernelSetAttributeForDevice_v12060};
  return answer(api, [&](Process& process) {
    if (device < 0 || device >= process.device_count()) return int{cudaErrorInvalidDevice};
    return set_attribute(kernels().find(kernel), which, value);
  });
}

cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) {
  return cudaSuccess;
}

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  static ApiFunction api{"cudaFuncGetName", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaFuncGetName_v12030};
  return answer(api, [&](Process&) {
    const Kernel* kernel = kernels().find(function);
    if (kernel == nullptr || name == nullptr) return int{cudaErrorInvalidValue};
    *name = kernel->name();
    return 0;
  });
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* symbol) {
  static ApiFunction api{"cudaGetFuncBySymbol", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGetFuncBySymbol_v11000};
  return answer(api, [&](Process&) {
    Kernel* kernel = kernels().find(symbol);
    if (kernel == nullptr || function == nullptr) return int{cudaErrorInvalidDeviceFunction};
    *function = reinterpret_cast<cudaFunction_t>(kernel);
    return 0;
  });
}

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* symbol) {
  static ApiFunction api{"cudaGetKernel", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGetKernel_v12000};
  return answer(api, [&](Process&) {
    Kernel* found = kernels().find(symbol);
    if (found == nullptr || kernel == nullptr) return int{cudaErrorInvalidDeviceFunction};
    *kernel = reinterpret_cast<cudaKernel_t>(found);
    return 0;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                   int block_threads, size_t shared,
                                                                   unsigned int) {
  static ApiFunction api{
      "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", ApiDomain::kRuntime,
      CUPTI_RUNTIME_TRACE_CBID_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags_v7000};
  return answer(api, [&](Process&) {
    if (block_threads < 1) return int{cudaErrorInvalidValue};
    put(blocks, levee::simgpu::occupancy(block_threads, shared));
    return 0;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int block_threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_threads,
                                                                shared, 0);
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* shared, const void*, int blocks,
                                                      int) {
  static ApiFunction api{"cudaOccupancyAvailableDynamicSMemPerBlock", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaOccupancyAvailableDynamicSMemPerBlock_v10200};
  return answer(api, [&](Process&) {
    int all = 0;
    levee::simgpu::device_attribute(0, 81, &all);
    if (blocks < 1) return int{cudaErrorInvalidValue};
    const int each = all / blocks - 1024;
    put(shared, static_cast<std::size_t>(each > 0 ? each : 0));
    return 0;
  });
}

cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void*, const cudaLaunchConfig_t*) {
  put(clusters, 8);
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void*,
                                                 const cudaLaunchConfig_t*) {
  put(size, 8);
  return cudaSuccess;
}

// ---- Variables

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  static ApiFunction api{"cudaGetSymbolAddress", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGetSymbolAddress_v3020};
  return answer(api, [&](Process& process) {
    if (address == nullptr) return int{cudaErrorInvalidValue};
    return levee::simgpu::cudart::symbol_address(process, symbol, address);
  });
}

cudaError_t cudaGetSymbolSize(size_t* bytes, const void* symbol) {
  static ApiFunction api{"cudaGetSymbolSize", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGetSymbolSize_v3020};
  return answer(api, [&](Process&) {
    const std::size_t known = levee::simgpu::cudart::symbol_bytes(symbol);
    if (known == 0) return int{cudaErrorInvalidSymbol};
    put(bytes, known);
    return 0;
  });
}

// ---- Libraries: images that a program compiled itself (jiterator, NVRTC). Any name that is asked
// for is found in them.

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned int, cudaLibraryOption*, void**, unsigned int) {
  static ApiFunction api{"cudaLibraryLoadData", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaLibraryLoadData_v12060};
  return answer(api, [&](Process& process) {
    if (library == nullptr || code == nullptr) return int{cudaErrorInvalidValue};
    const auto status = process.model().note_call(levee::device::sim::CallKind::kModuleLoad,
                                                  levee::simgpu::current_device());
    if (!status.ok()) return native_code(status);
    *library = reinterpret_cast<cudaLibrary_t>(new Library);
    return 0;
  });
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* name, cudaJitOption*,
                                    void**, unsigned int, cudaLibraryOption*, void**,
                                    unsigned int) {
  static ApiFunction api{"cudaLibraryLoadFromFile", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaLibraryLoadFromFile_v12060};
  return answer(api, [&](Process& process) {
    if (library == nullptr || name == nullptr) return int{cudaErrorInvalidValue};
    const auto status = process.model().note_call(levee::device::sim::CallKind::kModuleLoad,
                                                  levee::simgpu::current_device());
    if (!status.ok()) return native_code(status);
    *library = reinterpret_cast<cudaLibrary_t>(new Library);
    return 0;
  });
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  static ApiFunction api{"cudaLibraryUnload", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaLibraryUnload_v12060};
  return answer(api, [&](Process&) {
    delete reinterpret_cast<Library*>(library);
    return library != nullptr ? 0 : int{cudaErrorInvalidResourceHandle};
  });
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  static ApiFunction api{"cudaLibraryGetKernel", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaLibraryGetKernel_v12060};
  return answer(api, [&](Process&) {
    auto* from = reinterpret_cast<Library*>(library);
    if (kernel == nullptr || from == nullptr || name == nullptr) return int{cudaErrorInvalidValue};
    levee::base::MutexLock lock(from->mutex);
    Kernel*& known = from->kernels[name];
    if (known == nullptr) known = kernels().add(nullptr, name, from);
    *kernel = reinterpret_cast<cudaKernel_t>(known);
    return 0;
  });
}

}  // extern "C"
