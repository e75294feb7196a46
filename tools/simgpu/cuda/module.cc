// Modules, functions and their launches: the way of Triton, NVRTC and jiterator.
//
// A module is accepted as it is: nothing is compiled, any name is found in it. What its image says
// of a function (registers, shared memory) is not read; the answers are those of a modest kernel.
#include <cstring>
#include <map>
#include <string>

#include "allocator/base/mutex.h"
#include "tools/simgpu/core/kernels.h"
#include "tools/simgpu/core/properties.h"
#include "tools/simgpu/core/work.h"
#include "tools/simgpu/cuda/face.h"

using levee::device::sim::CallKind;
using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::current_device;
using levee::simgpu::Kernel;
using levee::simgpu::KernelLaunch;
using levee::simgpu::kernels;
using levee::simgpu::native_code;
using levee::simgpu::Process;
using levee::simgpu::driver::answer;
using levee::simgpu::driver::put;

namespace {

struct Module {
  levee::base::Mutex mutex;
  std::map<std::string, Kernel*> kernels LEVEE_GUARDED_BY(mutex);
};

template <typename Handle>
int load(Process& process, Handle* module) {
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto status = process.model().note_call(CallKind::kModuleLoad, current_device());
  if (!status.ok()) return native_code(status);
  *module = reinterpret_cast<Handle>(new Module);
  return 0;
}

template <typename Handle>
Kernel* find(Handle handle, const char* name) {
  auto* module = reinterpret_cast<Module*>(handle);
  if (module == nullptr || name == nullptr) return nullptr;
  levee::base::MutexLock lock(module->mutex);
  Kernel*& known = module->kernels[name];
  if (known == nullptr) known = kernels().add(nullptr, name, module);
  return known;
}

int launch(Process& process, const void* function, const KernelLaunch& shape) {
  KernelLaunch what = shape;
  what.kernel = kernels().find(function);
  return levee::simgpu::launch_kernel(process, what);
}

int attribute(const Kernel* kernel, CUfunction_attribute which, int* value) {
  int major = 0;
  int minor = 0;
  levee::simgpu::device_attribute(0, 75, &major);
  levee::simgpu::device_attribute(0, 76, &minor);
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      return 0;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      return 0;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = major * 10 + minor;
      return 0;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = kernel->max_dynamic_shared_bytes.load(std::memory_order_relaxed);
      return 0;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = kernel->preferred_carveout.load(std::memory_order_relaxed);
      return 0;
    default:
      if (which >= CU_FUNC_ATTRIBUTE_MAX) return CUDA_ERROR_INVALID_VALUE;
      *value = 0;  // static shared memory, local memory, constants, clusters
      return 0;
  }
}

int set_attribute(Kernel* kernel, CUfunction_attribute which, int value) {
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    int most = 0;
    levee::simgpu::device_attribute(0, 97, &most);
    if (value < 0 || value > most) return CUDA_ERROR_INVALID_VALUE;
    kernel->max_dynamic_shared_bytes.store(value, std::memory_order_relaxed);
  } else if (which == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
    kernel->preferred_carveout.store(value, std::memory_order_relaxed);
  }
  return 0;
}

KernelLaunch shape(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, CUstream stream) {
  KernelLaunch what;
  what.grid = {gx, gy, gz};
  what.block = {bx, by, bz};
  what.dynamic_shared = shared;
  what.stream = stream;
  return what;
}

}  // namespace

extern "C" {

CUresult cuModuleLoad(CUmodule* module, const char*) {
  static ApiFunction api{"cuModuleLoad", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuModuleLoad};
  return answer(api, [&](Process& process) { return load(process, module); });
}

CUresult cuModuleLoadData(CUmodule* module, const void*) {
  static ApiFunction api{"cuModuleLoadData", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuModuleLoadData};
  return answer(api, [&](Process& process) { return load(process, module); });
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void*, unsigned int, CUjit_option*, void**) {
  static ApiFunction api{"cuModuleLoadDataEx", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuModuleLoadDataEx};
  return answer(api, [&](Process& process) { return load(process, module); });
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void*) {
  static ApiFunction api{"cuModuleLoadFatBinary", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuModuleLoadFatBinary};
  return answer(api, [&](Process& process) { return load(process, module); });
}

CUresult cuModuleUnload(CUmodule module) {
  static ApiFunction api{"cuModuleUnload", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuModuleUnload};
  return answer(api, [&](Process&) {
    delete reinterpret_cast<Module*>(module);
    return module != nullptr ? 0 : int{CUDA_ERROR_INVALID_HANDLE};
  });
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  static ApiFunction api{"cuModuleGetFunction", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuModuleGetFunction};
  return answer(api, [&](Process&) {
    Kernel* kernel = find(module, name);
    if (kernel == nullptr || function == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    *function = reinterpret_cast<CUfunction>(kernel);
    return 0;
  });
}

CUresult cuModuleGetGlobal(CUdeviceptr*, size_t*, CUmodule, const char*) {
  static ApiFunction api{"cuModuleGetGlobal", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuModuleGetGlobal_v2};
  return answer(api, [](Process&) { return int{CUDA_ERROR_NOT_FOUND}; });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  put(mode, CU_MODULE_LAZY_LOADING);
  return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary* library, const void*, CUjit_option*, void**, unsigned int,
                           CUlibraryOption*, void**, unsigned int) {
  static ApiFunction api{"cuLibraryLoadData", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuLibraryLoadData};
  return answer(api, [&](Process& process) { return load(process, library); });
}

CUresult cuLibraryUnload(CUlibrary library) {
  static ApiFunction api{"cuLibraryUnload", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuLibraryUnload};
  return answer(api, [&](Process&) {
    delete reinterpret_cast<Module*>(library);
    return library != nullptr ? 0 : int{CUDA_ERROR_INVALID_HANDLE};
  });
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  static ApiFunction api{"cuLibraryGetKernel", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuLibraryGetKernel};
  return answer(api, [&](Process&) {
    Kernel* found = find(library, name);
    if (found == nullptr || kernel == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    *kernel = reinterpret_cast<CUkernel>(found);
    return 0;
  });
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  put(function, reinterpret_cast<CUfunction>(kernel));  // one object is both here
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute which, CUfunction function) {
  static ApiFunction api{"cuFuncGetAttribute", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuFuncGetAttribute};
  return answer(api, [&](Process&) {
    const Kernel* kernel = kernels().find(function);
    if (kernel == nullptr) return int{CUDA_ERROR_INVALID_HANDLE};
    return value != nullptr ? attribute(kernel, which, value) : int{CUDA_ERROR_INVALID_VALUE};
  });
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute which, CUkernel kernel_handle,
                              CUdevice) {
  static ApiFunction api{"cuKernelGetAttribute", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuKernelGetAttribute};
  return answer(api, [&](Process&) {
    const Kernel* kernel = kernels().find(kernel_handle);
    if (kernel == nullptr) return int{CUDA_ERROR_INVALID_HANDLE};
    return value != nullptr ? attribute(kernel, which, value) : int{CUDA_ERROR_INVALID_VALUE};
  });
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute which, int value) {
  static ApiFunction api{"cuFuncSetAttribute", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuFuncSetAttribute};
  return answer(api, [&](Process&) {
    Kernel* kernel = kernels().find(function);
    return kernel != nullptr ? set_attribute(kernel, which, value) : int{CUDA_ERROR_INVALID_HANDLE};
  });
}

CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel kernel_handle,
                              CUdevice) {
  static ApiFunction api{"cuKernelSetAttribute", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuKernelSetAttribute};
  return answer(api, [&](Process&) {
    Kernel* kernel = kernels().find(kernel_handle);
    return kernel != nullptr ? set_attribute(kernel, which, value) : int{CUDA_ERROR_INVALID_HANDLE};
  });
}

CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) {
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction function) {
  const Kernel* kernel = kernels().find(function);
  if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = kernel->name();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel kernel) {
  return cuFuncGetName(name, reinterpret_cast<CUfunction>(kernel));
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, CUstream stream, void**,
                        void**) {
  static ApiFunction api{"cuLaunchKernel", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel};
  return answer(api, [&](Process& process) {
    return launch(process, function, shape(gx, gy, gz, bx, by, bz, shared, stream));
  });
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void**, void**) {
  static ApiFunction api{"cuLaunchKernelEx", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx};
  return answer(api, [&](Process& process) {
    if (config == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    KernelLaunch what =
        shape(config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
              config->blockDimY, config->blockDimZ, config->sharedMemBytes, config->hStream);
    for (unsigned i = 0; i < config->numAttrs; ++i) {
      if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
        what.overlaps_predecessor =
            config->attrs[i].value.programmaticStreamSerializationAllowed != 0;
      }
    }
    return launch(process, function, what);
  });
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                   unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                   CUstream stream, void**) {
  static ApiFunction api{"cuLaunchCooperativeKernel", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel};
  return answer(api, [&](Process& process) {
    return launch(process, function, shape(gx, gy, gz, bx, by, bz, shared, stream));
  });
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int block_threads,
                                                     size_t shared) {
  put(blocks, levee::simgpu::occupancy(block_threads, shared));
  return block_threads > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction function,
                                                              int block_threads, size_t shared,
                                                              unsigned int) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block_threads, shared);
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction, CUoccupancyB2DSize,
                                          size_t, int limit) {
  int multiprocessors = 0;
  levee::simgpu::device_attribute(0, 16, &multiprocessors);
  put(block, limit > 0 && limit < 1024 ? limit : 1024);
  put(grid, multiprocessors);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
  put(clusters, 8);
  return CUDA_SUCCESS;
}

// The linker of device code. Its output is never looked at, since any image is accepted.
CUresult cuLinkCreate(unsigned int, CUjit_option*, void**, CUlinkState* state) {
  put(state, reinterpret_cast<CUlinkState>(new char[16]));
  return CUDA_SUCCESS;
}

CUresult cuLinkAddData(CUlinkState, CUjitInputType, void*, size_t, const char*, unsigned int,
                       CUjit_option*, void**) {
  return CUDA_SUCCESS;
}

CUresult cuLinkAddFile(CUlinkState, CUjitInputType, const char*, unsigned int, CUjit_option*,
                       void**) {
  return CUDA_SUCCESS;
}

CUresult cuLinkComplete(CUlinkState, void** image, size_t* bytes) {
  static char empty[64] = {};
  put(image, static_cast<void*>(empty));
  put(bytes, sizeof empty);
  return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state) {
  delete[] reinterpret_cast<char*>(state);
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*,
                                const cuuint64_t*, const cuuint64_t*, const cuuint32_t*,
                                const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  if (map == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memset(map, 0, sizeof *map);  // opaque to all but kernels
  return CUDA_SUCCESS;
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap* map, CUtensorMapDataType, cuuint32_t, void*,
                                 const cuuint64_t*, const cuuint64_t*, const int*, const int*,
                                 cuuint32_t, cuuint32_t, const cuuint32_t*, CUtensorMapInterleave,
                                 CUtensorMapSwizzle, CUtensorMapL2promotion,
                                 CUtensorMapFloatOOBfill) {
  if (map == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::memset(map, 0, sizeof *map);
  return CUDA_SUCCESS;
}

}  // extern "C"
