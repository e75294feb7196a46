// What is not modelled of CUPTI: fails with its name instead of a crash. Kept apart from CUPTI's
// headers, whose prototypes these do not have.
#include "tools/simgpu/simgpu_abi.h"

namespace {
constexpr int kNotSupported = 27;  // CUPTI_ERROR_NOT_SUPPORTED
}

#define SIMGPU_UNMODELLED(function)                                        \
  extern "C" __attribute__((weak, visibility("default"))) int function() { \
    simgpu_not_modelled("libcupti.so.13", #function);                      \
    return kNotSupported;                                                  \
  }

#include "tools/simgpu/cupti/unmodelled.inc"
