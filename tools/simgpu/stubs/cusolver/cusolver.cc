// cuSOLVER beyond the rules: versions.
#include <cusolverDn.h>

#include "tools/simgpu/stubs/common/call.h"
#include "tools/simgpu/stubs/common/versions.h"

using namespace levee::simgpu::stubs;

cusolverStatus_t cusolverGetVersion(int* version) {
  SIMGPU_TRACE_CALL("cusolver");
  if (version == nullptr) return CUSOLVER_STATUS_INVALID_VALUE;
  *version = CUSOLVER_VERSION;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverGetProperty(libraryPropertyType type, int* value) {
  SIMGPU_TRACE_CALL("cusolver");
  return version_property(type, CUSOLVER_VER_MAJOR, CUSOLVER_VER_MINOR, CUSOLVER_VER_PATCH, value)
             ? CUSOLVER_STATUS_SUCCESS
             : CUSOLVER_STATUS_INVALID_VALUE;
}
