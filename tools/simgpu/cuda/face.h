// How a function of libcuda.so.1 is made: counted and answered by the model. The driver has no last
// error; errors are returned alone.
//
// Every function of this folder has the prototype of cuda.h, which the compiler checks (and which
// renames calls to their newest version).
#pragma once

#include <cuda.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>

#include <utility>

#include "tools/simgpu/core/call.h"
#include "tools/simgpu/core/process.h"

namespace levee::simgpu::driver {

/// Runs `body(process)`, which returns a Status or an error number, as the call `api`.
template <typename Body>
CUresult answer(ApiFunction& api, Body&& body) {
  Call call(api);
  Process* process = Process::get();
  if (process == nullptr) [[unlikely]]
    return call.driver_done<CUresult>(Process::why_not());
  return call.driver_done<CUresult>(std::forward<Body>(body)(*process));
}

template <typename T>
void put(T* to, const T& value) {
  if (to != nullptr) *to = value;
}

inline bool exists(const Process& process, int device) {
  return device >= 0 && device < process.device_count();
}
inline DeviceAddr to_addr(CUdeviceptr pointer) {
  return DeviceAddr{pointer};
}
inline void* to_pointer(CUdeviceptr pointer) {
  return reinterpret_cast<void*>(pointer);
}
inline HandleId to_handle(CUmemGenericAllocationHandle handle) {
  return HandleId{handle};
}
inline EventId to_event(CUevent event) {
  return EventId{reinterpret_cast<std::uintptr_t>(event)};
}

}  // namespace levee::simgpu::driver
