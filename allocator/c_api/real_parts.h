// What the runtime of a real process is put together from.
#pragma once

#include "allocator/c_api/process_runtime.h"

namespace levee::c_api {

/// CUDA devices, core's allocator, a trace file, CUPTI. Makes no CUDA call by itself.
ProcessRuntime::Parts real_parts();

}  // namespace levee::c_api
