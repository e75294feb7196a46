#include "allocator/c_api/real_parts.h"

#include <utility>

#include "allocator/core/allocator.h"
#include "allocator/device/cuda_device.h"
#include "allocator/record/trace_recorder.h"

namespace levee::c_api {

ProcessRuntime::Parts real_parts() { return {}; }

}  // namespace levee::c_api
