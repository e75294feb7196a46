// What every function of a stand-in math library does besides its own work: count itself and put
// its kernel on a stream.
//
// Promises: `SIMGPU_TRACE_CALL` costs some ten nanoseconds. `launch` makes the call visible as a
// kernel with a modelled duration, in stream order, also under capture. Its int is a cudaError_t;
// the libraries have no use for it, since a launch can only fail for a process that has forked or
// lost its device, and then the runtime's next call says so.
#pragma once

#include "tools/simgpu/simgpu_abi.h"
#include "tools/simgpu/stubs/common/cost.h"
#include "tools/simgpu/stubs/common/object.h"
#include "tools/simgpu/stubs/common/outputs.h"

/// First statement of a library function: counts the call under `library`, and names it once if a
/// trace is asked for.
#define SIMGPU_TRACE_CALL(library)                 \
  do {                                             \
    static int traced = 0;                         \
    simgpu_trace_call(library, __func__, &traced); \
  } while (false)

namespace levee::simgpu::stubs {

inline void launch(void* stream, const char* name, Cost cost = {}) {
  simgpu_launch(stream, name, cost.flops, cost.bytes);
}

inline void launch(const Object* handle, const char* name, Cost cost = {}) {
  launch(handle == nullptr ? nullptr : handle->stream(), name, cost);
}

}  // namespace levee::simgpu::stubs
