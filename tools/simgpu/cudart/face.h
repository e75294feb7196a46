// How a function of libcudart.so.13 is made: counted, answered by the model, and its error kept as
// the thread's last one.
//
// Every function of this folder has the prototype of CUDA's header, which the compiler checks, and
// one `ApiFunction` with the number that CUPTI gives it. Nothing here holds state of its own; state
// lives in libsimgpu.so.
#pragma once

#include <cuda_runtime_api.h>
#include <cupti_callbacks.h>
#include <cupti_runtime_cbid.h>

#include <utility>

#include "tools/simgpu/core/call.h"
#include "tools/simgpu/core/process.h"

namespace levee::simgpu::cudart {

/// Runs `body(process)`, which returns a Status or an error number, as the call `api`.
template <typename Body>
cudaError_t answer(ApiFunction& api, Body&& body) {
  Call call(api);
  Process* process = Process::get();
  if (process == nullptr) [[unlikely]]
    return call.done<cudaError_t>(Process::why_not());
  return call.done<cudaError_t>(std::forward<Body>(body)(*process));
}

/// A value through a pointer that the caller may have left out.
template <typename T>
void put(T* to, const T& value) {
  if (to != nullptr) *to = value;
}

inline cudaStream_t to_cuda(StreamId stream) {
  return reinterpret_cast<cudaStream_t>(stream.value);
}
inline cudaEvent_t to_cuda(EventId event) {
  return reinterpret_cast<cudaEvent_t>(event.value);
}
inline EventId to_event(cudaEvent_t event) {
  return EventId{reinterpret_cast<std::uintptr_t>(event)};
}

}  // namespace levee::simgpu::cudart
