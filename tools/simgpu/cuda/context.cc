// Devices and contexts of the driver. Each device has one context, the primary one; a context's
// handle is 16 times (device + 1).
#include <cstdio>
#include <cstring>

#include "tools/simgpu/core/errors.h"
#include "tools/simgpu/core/host_functions.h"
#include "tools/simgpu/core/properties.h"
#include "tools/simgpu/cuda/face.h"

using levee::DeviceId;
using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::current_device;
using levee::simgpu::native_code;
using levee::simgpu::Process;
using levee::simgpu::this_thread;
using levee::simgpu::ThreadState;
using levee::simgpu::driver::answer;
using levee::simgpu::driver::exists;
using levee::simgpu::driver::put;

namespace {

constexpr std::uintptr_t kContextStep = 16;

CUcontext context_of(int device) {
  return reinterpret_cast<CUcontext>((static_cast<std::uintptr_t>(device) + 1) * kContextStep);
}

/// The device of a context; -1 for what is none.
int device_of(const Process& process, CUcontext context) {
  const auto value = reinterpret_cast<std::uintptr_t>(context);
  if (value == 0 || value % kContextStep != 0) return -1;
  const auto device = static_cast<int>(value / kContextStep) - 1;
  return exists(process, device) ? device : -1;
}

int set_current(Process& process, CUcontext context) {
  ThreadState& thread = this_thread();
  if (context == nullptr) {
    thread.has_context = false;
    return 0;
  }
  const int device = device_of(process, context);
  if (device < 0) return CUDA_ERROR_INVALID_CONTEXT;
  thread.device = device;
  thread.has_context = true;
  process.activate(device);
  return 0;
}

CUcontext current() {
  const ThreadState& thread = this_thread();
  return thread.has_context ? context_of(thread.device) : nullptr;
}

}  // namespace

extern "C" {

CUresult cuInit(unsigned int flags) {
  static ApiFunction api{"cuInit", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuInit};
  return answer(api, [&](Process&) { return flags == 0 ? 0 : int{CUDA_ERROR_INVALID_VALUE}; });
}

CUresult cuDriverGetVersion(int* version) {
  put(version, levee::simgpu::kCudaVersion);
  return version != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  const auto* known = levee::simgpu::find_error(error);
  put(name, known != nullptr ? known->driver_name : nullptr);
  return known != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  const auto* known = levee::simgpu::find_error(error);
  put(text, known != nullptr ? known->text : nullptr);
  return known != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int* count) {
  static ApiFunction api{"cuDeviceGetCount", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuDeviceGetCount};
  put(count, 0);
  return answer(api, [&](Process& process) {
    put(count, process.device_count());
    return 0;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  static ApiFunction api{"cuDeviceGet", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuDeviceGet};
  return answer(api, [&](Process& process) {
    if (!exists(process, ordinal)) return int{CUDA_ERROR_INVALID_DEVICE};
    put(device, ordinal);
    return 0;
  });
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  static ApiFunction api{"cuDeviceGetName", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuDeviceGetName};
  return answer(api, [&](Process& process) {
    if (!exists(process, device)) return int{CUDA_ERROR_INVALID_DEVICE};
    if (name == nullptr || length <= 0) return int{CUDA_ERROR_INVALID_VALUE};
    std::snprintf(name, static_cast<std::size_t>(length), "%s",
                  levee::simgpu::device_name(device).c_str());
    return 0;
  });
}

CUresult cuDeviceTotalMem(size_t* bytes, CUdevice device) {
  static ApiFunction api{"cuDeviceTotalMem", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuDeviceTotalMem_v2};
  return answer(api, [&](Process& process) {
    if (!exists(process, device)) return int{CUDA_ERROR_INVALID_DEVICE};
    put(bytes, std::size_t{process.model().device(DeviceId{device}).total_memory.value});
    return 0;
  });
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice device) {
  static ApiFunction api{"cuDeviceGetAttribute", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuDeviceGetAttribute};
  return answer(api, [&](Process& process) {
    if (!exists(process, device)) return int{CUDA_ERROR_INVALID_DEVICE};
    return value != nullptr && levee::simgpu::device_attribute(device, which, value)
               ? 0
               : int{CUDA_ERROR_INVALID_VALUE};
  });
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  static ApiFunction api{"cuDeviceGetUuid", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuDeviceGetUuid_v2};
  return answer(api, [&](Process& process) {
    if (!exists(process, device)) return int{CUDA_ERROR_INVALID_DEVICE};
    if (uuid == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    std::memcpy(uuid->bytes, levee::simgpu::device_uuid(device).data(), sizeof uuid->bytes);
    return 0;
  });
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  static ApiFunction api{"cuDeviceGetPCIBusId", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuDeviceGetPCIBusId};
  return answer(api, [&](Process& process) {
    if (!exists(process, device)) return int{CUDA_ERROR_INVALID_DEVICE};
    if (text == nullptr || length <= 0) return int{CUDA_ERROR_INVALID_VALUE};
    std::snprintf(text, static_cast<std::size_t>(length), "%s",
                  levee::simgpu::device_bus_id(device, 4).c_str());
    return 0;
  });
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  static ApiFunction api{"cuDeviceCanAccessPeer", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuDeviceCanAccessPeer};
  return answer(api, [&](Process& process) {
    if (!exists(process, device) || !exists(process, peer)) return int{CUDA_ERROR_INVALID_DEVICE};
    put(can, device != peer ? 1 : 0);
    return 0;
  });
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  static ApiFunction api{"cuDevicePrimaryCtxGetState", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxGetState};
  return answer(api, [&](Process& process) {
    if (!exists(process, device)) return int{CUDA_ERROR_INVALID_DEVICE};
    put(flags, 0U);
    put(active, process.is_active(device) ? 1 : 0);
    return 0;
  });
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  static ApiFunction api{"cuDevicePrimaryCtxRetain", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRetain};
  return answer(api, [&](Process& process) {
    if (!exists(process, device)) return int{CUDA_ERROR_INVALID_DEVICE};
    process.activate(device);
    put(context, context_of(device));
    return 0;
  });
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  static ApiFunction api{"cuDevicePrimaryCtxRelease", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxRelease_v2};
  return answer(api, [&](Process& process) {
    return exists(process, device) ? 0 : int{CUDA_ERROR_INVALID_DEVICE};
  });
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int) {
  static ApiFunction api{"cuDevicePrimaryCtxSetFlags", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuDevicePrimaryCtxSetFlags_v2};
  return answer(api, [&](Process& process) {
    return exists(process, device) ? 0 : int{CUDA_ERROR_INVALID_DEVICE};
  });
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  static ApiFunction api{"cuCtxGetCurrent", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuCtxGetCurrent};
  return answer(api, [&](Process&) {
    put(context, current());
    return context != nullptr ? 0 : int{CUDA_ERROR_INVALID_VALUE};
  });
}

CUresult cuCtxSetCurrent(CUcontext context) {
  static ApiFunction api{"cuCtxSetCurrent", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuCtxSetCurrent};
  return answer(api, [&](Process& process) { return set_current(process, context); });
}

CUresult cuCtxPushCurrent(CUcontext context) {
  static ApiFunction api{"cuCtxPushCurrent", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuCtxPushCurrent_v2};
  return answer(api, [&](Process& process) {
    if (device_of(process, context) < 0) return int{CUDA_ERROR_INVALID_CONTEXT};
    ThreadState& thread = this_thread();
    thread.context_stack.push_back(thread.has_context ? thread.device : -1);
    return set_current(process, context);
  });
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  static ApiFunction api{"cuCtxPopCurrent", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuCtxPopCurrent_v2};
  return answer(api, [&](Process& process) {
    ThreadState& thread = this_thread();
    if (!thread.has_context) return int{CUDA_ERROR_INVALID_CONTEXT};
    put(context, current());
    const int before = thread.context_stack.empty() ? -1 : thread.context_stack.back();
    if (!thread.context_stack.empty()) thread.context_stack.pop_back();
    return set_current(process, before < 0 ? nullptr : context_of(before));
  });
}

CUresult cuCtxGetDevice(CUdevice* device) {
  static ApiFunction api{"cuCtxGetDevice", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuCtxGetDevice};
  return answer(api, [&](Process&) {
    if (!this_thread().has_context) return int{CUDA_ERROR_INVALID_CONTEXT};
    put(device, this_thread().device);
    return 0;
  });
}

CUresult cuCtxGetFlags(unsigned int* flags) {
  put(flags, 0U);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext, unsigned int* version) {
  put(version, 3020U);
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() {
  static ApiFunction api{"cuCtxSynchronize", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize};
  return answer(api, [](Process& process) {
    const int code = native_code(process.model().synchronize_device(current_device()));
    process.host_functions().drain();
    return code;
  });
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  put(least, 0);
  put(greatest, -5);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  static ApiFunction api{"cuCtxGetLimit", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuCtxGetLimit};
  return answer(api, [&](Process&) {
    if (limit >= CU_LIMIT_MAX) return int{CUDA_ERROR_UNSUPPORTED_LIMIT};
    put(value, limit == CU_LIMIT_STACK_SIZE ? std::size_t{1024} : std::size_t{8} << 20);
    return 0;
  });
}

CUresult cuCtxSetLimit(CUlimit, size_t) {
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int) {
  static ApiFunction api{"cuCtxEnablePeerAccess", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuCtxEnablePeerAccess};
  return answer(api, [&](Process& process) {
    const int device = device_of(process, peer);
    if (device < 0 || device == this_thread().device) return int{CUDA_ERROR_INVALID_CONTEXT};
    return process.set_peer_access(this_thread().device, device, true)
               ? 0
               : int{CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED};
  });
}

CUresult cuProfilerStart() {
  return CUDA_SUCCESS;
}
CUresult cuProfilerStop() {
  return CUDA_SUCCESS;
}

}  // extern "C"
