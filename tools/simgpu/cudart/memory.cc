// Memory of the device and of the host, and what an address is.
#include <cstring>

#include "tools/simgpu/core/work.h"
#include "tools/simgpu/cudart/face.h"

using levee::Bytes;
using levee::DeviceId;
using levee::device::sim::CallKind;
using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::current_device;
using levee::simgpu::HostKind;
using levee::simgpu::HostRange;
using levee::simgpu::native_code;
using levee::simgpu::Process;
using levee::simgpu::this_thread;
using levee::simgpu::to_addr;
using levee::simgpu::cudart::answer;
using levee::simgpu::cudart::put;

namespace {

int allocate(Process& process, void** pointer, std::size_t bytes) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  process.activate(this_thread().device);
  if (bytes == 0) return 0;
  const auto made = process.model().allocate(current_device(), Bytes{bytes});
  if (!made.ok()) return native_code(made.status());
  *pointer = reinterpret_cast<void*>(made->value);
  return 0;
}

int allocate_host(Process& process, void** pointer, std::size_t bytes, unsigned flags,
                  HostKind kind) {
  if (pointer == nullptr) return cudaErrorInvalidValue;
  *pointer = nullptr;
  if (const auto status =
          process.model().note_call(CallKind::kHostAlloc, current_device(), Bytes{bytes});
      !status.ok()) {
    return native_code(status);
  }
  if (bytes == 0) return 0;
  *pointer = process.host_memory().allocate(Bytes{bytes}, kind, flags, this_thread().device);
  return *pointer != nullptr ? 0 : int{cudaErrorMemoryAllocation};
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  static ApiFunction api{"cudaMalloc", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020};
  return answer(api, [&](Process& process) { return allocate(process, pointer, bytes); });
}

cudaError_t cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  static ApiFunction api{"cudaMallocPitch", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMallocPitch_v3020};
  return answer(api, [&](Process& process) {
    const std::size_t row = (width + 511) / 512 * 512;
    put(pitch, row);
    return allocate(process, pointer, row * height);
  });
}

cudaError_t cudaFree(void* pointer) {
  static ApiFunction api{"cudaFree", ApiDomain::kRuntime, CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020};
  return answer(api, [&](Process& process) {
    process.activate(this_thread().device);
    // Managed memory is freed by the same call; it is host memory here.
    const auto host = process.host_memory().find(pointer);
    if (host && host->kind == HostKind::kManaged &&
        host->base == reinterpret_cast<std::uintptr_t>(pointer)) {
      const int code =
          native_code(process.model().note_call(CallKind::kFree, current_device(), host->bytes));
      if (code == 0) process.host_memory().free(pointer);
      return code;
    }
    return native_code(process.model().release(to_addr(pointer)));
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  static ApiFunction api{"cudaMemGetInfo", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemGetInfo_v3020};
  return answer(api, [&](Process& process) {
    process.activate(this_thread().device);
    const auto info = process.model().memory_info(current_device());
    if (!info.ok()) return native_code(info.status());
    put(free, std::size_t{info->free.value});
    put(total, std::size_t{info->total.value});
    return 0;
  });
}

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned int flags) {
  static ApiFunction api{"cudaMallocManaged", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMallocManaged_v6000};
  return answer(api, [&](Process& process) {
    if (bytes == 0) return int{cudaErrorInvalidValue};
    return allocate_host(process, pointer, bytes, flags, HostKind::kManaged);
  });
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  static ApiFunction api{"cudaHostAlloc", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaHostAlloc_v3020};
  return answer(api, [&](Process& process) {
    return allocate_host(process, pointer, bytes, flags, HostKind::kPinned);
  });
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  static ApiFunction api{"cudaMallocHost", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMallocHost_v3020};
  return answer(api, [&](Process& process) {
    return allocate_host(process, pointer, bytes, 0, HostKind::kPinned);
  });
}

cudaError_t cudaFreeHost(void* pointer) {
  static ApiFunction api{"cudaFreeHost", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaFreeHost_v3020};
  return answer(api, [&](Process& process) {
    const auto status = process.model().note_call(CallKind::kHostFree, current_device());
    if (!status.ok() || pointer == nullptr) return native_code(status);
    return process.host_memory().free(pointer) ? 0 : int{cudaErrorInvalidValue};
  });
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  static ApiFunction api{"cudaHostRegister", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaHostRegister_v4000};
  return answer(api, [&](Process& process) {
    if (pointer == nullptr || bytes == 0) return int{cudaErrorInvalidValue};
    const auto status =
        process.model().note_call(CallKind::kHostRegister, current_device(), Bytes{bytes});
    if (!status.ok()) return native_code(status);
    return process.host_memory().add(pointer, Bytes{bytes}, flags, this_thread().device)
               ? 0
               : int{cudaErrorHostMemoryAlreadyRegistered};
  });
}

cudaError_t cudaHostUnregister(void* pointer) {
  static ApiFunction api{"cudaHostUnregister", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaHostUnregister_v4000};
  return answer(api, [&](Process& process) {
    const auto status = process.model().note_call(CallKind::kHostUnregister, current_device());
    if (!status.ok()) return native_code(status);
    return process.host_memory().remove(pointer) ? 0 : int{cudaErrorHostMemoryNotRegistered};
  });
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* pointer, unsigned int) {
  static ApiFunction api{"cudaHostGetDevicePointer", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaHostGetDevicePointer_v3020};
  return answer(api, [&](Process& process) {
    if (device_pointer == nullptr || !process.host_memory().find(pointer))
      return int{cudaErrorInvalidValue};
    *device_pointer = pointer;
    return 0;
  });
}

cudaError_t cudaHostGetFlags(unsigned int* flags, void* pointer) {
  static ApiFunction api{"cudaHostGetFlags", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaHostGetFlags_v3020};
  return answer(api, [&](Process& process) {
    const auto found = process.host_memory().find(pointer);
    if (!found || flags == nullptr) return int{cudaErrorInvalidValue};
    *flags = found->flags;
    return 0;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  static ApiFunction api{"cudaPointerGetAttributes", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaPointerGetAttributes_v4000};
  return answer(api, [&](Process& process) {
    if (attributes == nullptr) return int{cudaErrorInvalidValue};
    std::memset(attributes, 0, sizeof *attributes);
    void* const address = const_cast<void*>(pointer);
    const auto info = process.model().find(to_addr(pointer));
    if (info.kind != levee::device::sim::MemoryKind::kNone &&
        info.kind != levee::device::sim::MemoryKind::kReserved) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->device = info.device.value;
      attributes->devicePointer = address;
      return 0;
    }
    if (const auto host = process.host_memory().find(pointer)) {
      attributes->type =
          host->kind == HostKind::kManaged ? cudaMemoryTypeManaged : cudaMemoryTypeHost;
      attributes->device = host->device;
      attributes->devicePointer = address;
      attributes->hostPointer = address;
      return 0;
    }
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = address;
    return 0;
  });
}

cudaError_t cudaMemAdvise(const void*, size_t, cudaMemoryAdvise, cudaMemLocation) {
  static ApiFunction api{"cudaMemAdvise", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemAdvise_v8000};
  return answer(api, [](Process&) { return 0; });
}

cudaError_t cudaMemPrefetchAsync(const void*, size_t, cudaMemLocation, unsigned int, cudaStream_t) {
  static ApiFunction api{"cudaMemPrefetchAsync", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaMemPrefetchAsync_v8000};
  return answer(api, [](Process&) { return 0; });
}

}  // extern "C"
