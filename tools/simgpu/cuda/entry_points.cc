// How programs find the driver's functions: by name through cuGetProcAddress. A name that is not
// modelled is "not found", which callers handle; nothing is ever answered with a function that does
// something else.
#include <dlfcn.h>

#include <cstdio>
#include <string>

#include "tools/simgpu/cuda/face.h"

using levee::simgpu::driver::put;

namespace {

void* self() {
  static void* const library = [] {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&cuDriverGetVersion), &info);
    return dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  }();
  return library;
}

/// The newest variant that cuda.h has, for a name without version suffix.
void* find(const char* symbol) {
  for (const char* suffix : {"_v2", ""}) {
    if (void* found = dlsym(self(), (std::string(symbol) + suffix).c_str())) return found;
  }
  return nullptr;
}

}  // namespace

extern "C" {

CUresult cuGetProcAddress(const char* symbol, void** function, int, cuuint64_t,
                          CUdriverProcAddressQueryResult* status) {
  if (symbol == nullptr || function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *function = self() != nullptr ? find(symbol) : nullptr;
  put(status,
      *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuGetExportTable(const void** table, const CUuuid*) {
  put(table, static_cast<const void*>(nullptr));
  return CUDA_ERROR_NOT_FOUND;  // private tables of NVIDIA's own libraries, which are not in use
                                // here
}

}  // extern "C"
