// Errors of the runtime: the thread's last one, and their names.
#include "tools/simgpu/core/errors.h"

#include "allocator/device/native_status.h"
#include "tools/simgpu/cudart/face.h"

using levee::simgpu::find_error;
using levee::simgpu::this_thread;

extern "C" {

cudaError_t cudaGetLastError() {
  int& last = this_thread().last_error;
  const int error = last;
  // A sticky error stays: the process cannot use the GPU any more.
  if (!levee::device::is_sticky(static_cast<levee::device::Native>(error))) last = 0;
  return static_cast<cudaError_t>(error);
}

cudaError_t cudaPeekAtLastError() {
  return static_cast<cudaError_t>(this_thread().last_error);
}

const char* cudaGetErrorName(cudaError_t error) {
  const auto* known = find_error(error);
  return known != nullptr ? known->runtime_name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* known = find_error(error);
  return known != nullptr ? known->text : "unrecognized error code";
}

}  // extern "C"
