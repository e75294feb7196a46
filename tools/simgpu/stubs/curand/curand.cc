// cuRAND beyond the rules: versions.
#include <curand.h>

#include "tools/simgpu/stubs/common/call.h"
#include "tools/simgpu/stubs/common/versions.h"

using namespace levee::simgpu::stubs;

curandStatus_t curandGetVersion(int* version) {
  SIMGPU_TRACE_CALL("curand");
  if (version == nullptr) return CURAND_STATUS_OUT_OF_RANGE;
  *version = CURAND_VERSION;
  return CURAND_STATUS_SUCCESS;
}

curandStatus_t curandGetProperty(libraryPropertyType type, int* value) {
  SIMGPU_TRACE_CALL("curand");
  return version_property(type, CURAND_VER_MAJOR, CURAND_VER_MINOR, CURAND_VER_PATCH, value)
             ? CURAND_STATUS_SUCCESS
             : CURAND_STATUS_OUT_OF_RANGE;
}
