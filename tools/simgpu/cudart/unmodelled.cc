// What is not modelled: fails with its name instead of a crash. Kept apart from CUDA's headers,
// whose prototypes these do not have.
#include "tools/simgpu/simgpu_abi.h"

namespace {
constexpr int kNotSupported = 801;  // cudaErrorNotSupported
}

#define SIMGPU_UNMODELLED(function)                                        \
  extern "C" __attribute__((weak, visibility("default"))) int function() { \
    simgpu_not_modelled("libcudart.so.13", #function);                     \
    return kNotSupported;                                                  \
  }

#include "tools/simgpu/cudart/unmodelled.inc"
