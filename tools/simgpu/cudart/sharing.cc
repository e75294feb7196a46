// CUDA IPC: memory and events of other processes. What they mean here: core/shared_memory.h.
#include <cstring>

#include "tools/simgpu/core/shared_memory.h"
#include "tools/simgpu/cudart/face.h"

using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::Process;
using levee::simgpu::SharedHandle;
using levee::simgpu::cudart::answer;
using levee::simgpu::cudart::to_cuda;
using levee::simgpu::cudart::to_event;

namespace {

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(SharedHandle) &&
              sizeof(cudaIpcEventHandle_t) == sizeof(SharedHandle));

template <typename Handle>
SharedHandle from_cuda(const Handle& handle) {
  SharedHandle out;
  std::memcpy(static_cast<void*>(&out), &handle, sizeof out);
  return out;
}

}  // namespace

extern "C" {

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* pointer) {
  static ApiFunction api{"cudaIpcGetMemHandle", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaIpcGetMemHandle_v4010};
  return answer(api, [&](Process& process) {
    if (handle == nullptr) return int{cudaErrorInvalidValue};
    SharedHandle made;
    const int code = levee::simgpu::share_allocation(process, pointer, &made);
    if (code == 0) std::memcpy(handle, &made, sizeof made);
    return code;
  });
}

cudaError_t cudaIpcOpenMemHandle(void** pointer, cudaIpcMemHandle_t handle, unsigned int flags) {
  static ApiFunction api{"cudaIpcOpenMemHandle", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaIpcOpenMemHandle_v4010};
  return answer(api, [&](Process& process) {
    if (flags != cudaIpcMemLazyEnablePeerAccess) return int{cudaErrorInvalidValue};
    return levee::simgpu::open_allocation(process, from_cuda(handle), pointer);
  });
}

cudaError_t cudaIpcCloseMemHandle(void* pointer) {
  static ApiFunction api{"cudaIpcCloseMemHandle", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaIpcCloseMemHandle_v4010};
  return answer(
      api, [&](Process& process) { return levee::simgpu::close_allocation(process, pointer); });
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t* handle, cudaEvent_t event) {
  static ApiFunction api{"cudaIpcGetEventHandle", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaIpcGetEventHandle_v4010};
  return answer(api, [&](Process& process) {
    if (handle == nullptr) return int{cudaErrorInvalidValue};
    SharedHandle made;
    const int code = levee::simgpu::share_event(process, to_event(event), &made);
    if (code == 0) std::memcpy(handle, &made, sizeof made);
    return code;
  });
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t* event, cudaIpcEventHandle_t handle) {
  static ApiFunction api{"cudaIpcOpenEventHandle", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaIpcOpenEventHandle_v4010};
  return answer(api, [&](Process& process) {
    if (event == nullptr) return int{cudaErrorInvalidValue};
    levee::EventId made;
    const int code = levee::simgpu::open_event(process, from_cuda(handle), &made);
    if (code == 0) *event = to_cuda(made);
    return code;
  });
}

}  // extern "C"
