// NVSHMEM: present, so that PyTorch's library loads, and absent for a program that asks: it is "not
// initialised", and every attempt to start it fails with its name. No headers: the few functions
// that PyTorch imports are declared here.
#include <cstddef>

#include "tools/simgpu/simgpu_abi.h"

extern "C" {

// 0: not initialised. Asked by PyTorch before it decides whether NVSHMEM may be used.
int nvshmemid_init_status() {
  return 0;
}

void nvshmem_info_get_version(int* major, int* minor) {
  if (major != nullptr) *major = 3;
  if (minor != nullptr) *minor = 4;
}

void nvshmemid_hostlib_finalize() {}

void* nvshmem_malloc(std::size_t /*size*/) {
  simgpu_not_modelled("libnvshmem_host", "nvshmem_malloc");
  return nullptr;
}

void nvshmem_free(void* /*ptr*/) {}

void* nvshmem_ptr(const void* /*dest*/, int /*pe*/) {
  return nullptr;
}

void* nvshmemx_mc_ptr(int /*team*/, const void* /*ptr*/) {
  return nullptr;
}

}  // extern "C"
