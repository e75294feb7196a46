// The way from the runtime to the driver: PyTorch asks here for each cu* function it uses.
#include <dlfcn.h>

#include "tools/simgpu/core/properties.h"
#include "tools/simgpu/cudart/face.h"

using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::Process;
using levee::simgpu::cudart::answer;
using levee::simgpu::cudart::put;

namespace {

using GetProcAddress = int (*)(const char*, void**, int, std::uint64_t, int*);

/// cuGetProcAddress_v2 of the stand-in driver, which is found by the name that every program uses
/// for it.
GetProcAddress driver() {
  static const auto function = [] {
    void* library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    return reinterpret_cast<GetProcAddress>(
        library != nullptr ? dlsym(library, "cuGetProcAddress_v2") : nullptr);
  }();
  return function;
}

int find(const char* symbol, void** function, cudaDriverEntryPointQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return cudaErrorInvalidValue;
  *function = nullptr;
  if (driver() != nullptr) driver()(symbol, function, levee::simgpu::kCudaVersion, 0, nullptr);
  put(status,
      *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound);
  // Without a place for the status the missing function is the call's own error.
  return *function != nullptr || status != nullptr ? 0 : int{cudaErrorInvalidValue};
}

}  // namespace

extern "C" {

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned int,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  static ApiFunction api{"cudaGetDriverEntryPointByVersion", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGetDriverEntryPointByVersion_v12050};
  return answer(api, [&](Process&) { return find(symbol, function, status); });
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* status) {
  static ApiFunction api{"cudaGetDriverEntryPoint", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGetDriverEntryPoint_v11030};
  return answer(api, [&](Process&) { return find(symbol, function, status); });
}

cudaError_t cudaGetExportTable(const void** table, const cudaUUID_t*) {
  put(table, static_cast<const void*>(nullptr));
  return cudaErrorNotSupported;  // private tables of NVIDIA's own libraries, which are not in use
                                 // here
}

}  // extern "C"
