// Memory of the driver API: allocations, virtual memory, copies, and what a pointer is.
#include <cstring>

#include "tools/simgpu/core/work.h"
#include "tools/simgpu/cuda/face.h"

using levee::Bytes;
using levee::DeviceAddr;
using levee::DeviceId;
using levee::device::sim::Access;
using levee::device::sim::AddressInfo;
using levee::device::sim::CallKind;
using levee::device::sim::MemoryKind;
using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::Copy;
using levee::simgpu::current_device;
using levee::simgpu::Fill;
using levee::simgpu::HostKind;
using levee::simgpu::native_code;
using levee::simgpu::Process;
using levee::simgpu::this_thread;
using levee::simgpu::driver::answer;
using levee::simgpu::driver::exists;
using levee::simgpu::driver::put;
using levee::simgpu::driver::to_addr;
using levee::simgpu::driver::to_handle;
using levee::simgpu::driver::to_pointer;

namespace {

/// Device memory of this process is all that the stand-in's handles can be; anything else is
/// refused as a driver without it does.
int check_properties(const Process& process, const CUmemAllocationProp* properties) {
  if (properties == nullptr || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!exists(process, properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  const unsigned handles = properties->requestedHandleTypes;
  if ((handles & ~unsigned{CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR}) != 0)
    return CUDA_ERROR_NOT_SUPPORTED;
  return 0;
}

int copy(Process& process, void* to, const void* from, std::size_t bytes, CUstream stream,
         bool is_async) {
  Copy what;
  what.to = to;
  what.from = from;
  what.width = bytes;
  what.stream = stream;
  what.is_async = is_async;
  return levee::simgpu::copy(process, what);
}

int fill(Process& process, CUdeviceptr to, std::uint32_t pattern, std::size_t pattern_bytes,
         std::size_t count, CUstream stream, bool is_async) {
  Fill what;
  what.to = to_pointer(to);
  what.pattern = pattern;
  what.pattern_bytes = pattern_bytes;
  what.width = count * pattern_bytes;
  what.stream = stream;
  what.is_async = is_async;
  return levee::simgpu::fill(process, what);
}

/// One attribute of a pointer. CUDA_ERROR_INVALID_VALUE for memory that CUDA does not know.
int pointer_attribute(Process& process, void* data, CUpointer_attribute which,
                      CUdeviceptr pointer) {
  const AddressInfo info = process.model().find(DeviceAddr{pointer});
  const bool is_device = info.kind != MemoryKind::kNone && info.kind != MemoryKind::kReserved;
  const auto host = is_device ? std::nullopt : process.host_memory().find(to_pointer(pointer));
  if (!is_device && !host) return CUDA_ERROR_INVALID_VALUE;
  const bool is_managed = host && host->kind == HostKind::kManaged;
  const int device = is_device ? info.device.value : host->device;
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<std::uintptr_t*>(data) = (static_cast<std::uintptr_t>(device) + 1) * 16;
      return 0;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) =
          is_device || is_managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return 0;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(data) = pointer;
      return 0;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (is_device) return CUDA_ERROR_INVALID_VALUE;
      *static_cast<void**>(data) = to_pointer(pointer);
      return 0;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(data) = is_managed ? 1 : 0;
      return 0;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = device;
      return 0;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(data) = is_device ? info.base.value : host->base;
      return 0;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<std::size_t*>(data) = is_device ? info.bytes.value : host->bytes.value;
      return 0;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *static_cast<unsigned*>(data) = 1;
      return 0;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = is_device ? info.base.value : host->base;
      return 0;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      *static_cast<unsigned*>(data) = 0;
      return 0;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *static_cast<unsigned long long*>(data) = 0;
      return 0;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *static_cast<unsigned*>(data) = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
      return 0;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<void**>(data) = nullptr;
      return 0;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      *static_cast<std::size_t*>(data) = is_device ? info.bytes.value : host->bytes.value;
      return 0;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      *static_cast<CUdeviceptr*>(data) = is_device ? info.base.value : host->base;
      return 0;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace

extern "C" {

// ---- Whole allocations

CUresult cuMemGetInfo(size_t* free, size_t* total) {
  static ApiFunction api{"cuMemGetInfo", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemGetInfo_v2};
  return answer(api, [&](Process& process) {
    const auto info = process.model().memory_info(current_device());
    if (!info.ok()) return native_code(info.status());
    put(free, std::size_t{info->free.value});
    put(total, std::size_t{info->total.value});
    return 0;
  });
}

CUresult cuMemAlloc(CUdeviceptr* pointer, size_t bytes) {
  static ApiFunction api{"cuMemAlloc", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2};
  return answer(api, [&](Process& process) {
    if (pointer == nullptr || bytes == 0) return int{CUDA_ERROR_INVALID_VALUE};
    const auto made = process.model().allocate(current_device(), Bytes{bytes});
    if (!made.ok()) return native_code(made.status());
    *pointer = made->value;
    return 0;
  });
}

CUresult cuMemFree(CUdeviceptr pointer) {
  static ApiFunction api{"cuMemFree", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2};
  return answer(api, [&](Process& process) { return process.model().release(to_addr(pointer)); });
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr pointer) {
  static ApiFunction api{"cuMemGetAddressRange", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemGetAddressRange_v2};
  return answer(api, [&](Process& process) {
    const AddressInfo info = process.model().find(to_addr(pointer));
    if (info.kind == MemoryKind::kNone) return int{CUDA_ERROR_NOT_FOUND};
    // Inside a reservation CUDA tells the reservation, mapped or not.
    const bool is_range = !info.range_base.is_null();
    put(base, CUdeviceptr{is_range ? info.range_base.value : info.base.value});
    put(bytes, std::size_t{is_range ? info.range_bytes.value : info.bytes.value});
    return 0;
  });
}

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned int flags) {
  static ApiFunction api{"cuMemHostAlloc", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemHostAlloc};
  return answer(api, [&](Process& process) {
    if (pointer == nullptr || bytes == 0) return int{CUDA_ERROR_INVALID_VALUE};
    const auto status =
        process.model().note_call(CallKind::kHostAlloc, current_device(), Bytes{bytes});
    if (!status.ok()) return native_code(status);
    *pointer = process.host_memory().allocate(Bytes{bytes}, HostKind::kPinned, flags,
                                              this_thread().device);
    return *pointer != nullptr ? 0 : int{CUDA_ERROR_OUT_OF_MEMORY};
  });
}

CUresult cuMemFreeHost(void* pointer) {
  static ApiFunction api{"cuMemFreeHost", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemFreeHost};
  return answer(api, [&](Process& process) {
    const auto status = process.model().note_call(CallKind::kHostFree, current_device());
    if (!status.ok()) return native_code(status);
    return process.host_memory().free(pointer) ? 0 : int{CUDA_ERROR_INVALID_VALUE};
  });
}

CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  static ApiFunction api{"cuMemHostRegister", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemHostRegister_v2};
  return answer(api, [&](Process& process) {
    const auto status =
        process.model().note_call(CallKind::kHostRegister, current_device(), Bytes{bytes});
    if (!status.ok()) return native_code(status);
    return process.host_memory().add(pointer, Bytes{bytes}, flags, this_thread().device)
               ? 0
               : int{CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED};
  });
}

CUresult cuMemHostUnregister(void* pointer) {
  static ApiFunction api{"cuMemHostUnregister", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemHostUnregister};
  return answer(api, [&](Process& process) {
    const auto status = process.model().note_call(CallKind::kHostUnregister, current_device());
    if (!status.ok()) return native_code(status);
    return process.host_memory().remove(pointer) ? 0 : int{CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED};
  });
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute which, CUdeviceptr pointer) {
  static ApiFunction api{"cuPointerGetAttribute", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuPointerGetAttribute};
  return answer(api, [&](Process& process) {
    return data != nullptr ? pointer_attribute(process, data, which, pointer)
                           : int{CUDA_ERROR_INVALID_VALUE};
  });
}

CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* which, void** data,
                                CUdeviceptr pointer) {
  static ApiFunction api{"cuPointerGetAttributes", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuPointerGetAttributes};
  return answer(api, [&](Process& process) {
    for (unsigned i = 0; i < count; ++i) {
      // The plural answers zeros where the singular fails.
      if (pointer_attribute(process, data[i], which[i], pointer) != 0) {
        const bool is_wide = which[i] != CU_POINTER_ATTRIBUTE_MEMORY_TYPE &&
                             which[i] != CU_POINTER_ATTRIBUTE_IS_MANAGED &&
                             which[i] != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL &&
                             which[i] != CU_POINTER_ATTRIBUTE_MAPPED;
        std::memset(data[i], 0, is_wide ? 8 : 4);
      }
    }
    return 0;
  });
}

// ---- Virtual memory

CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp* properties,
                                       CUmemAllocationGranularity_flags) {
  static ApiFunction api{"cuMemGetAllocationGranularity", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemGetAllocationGranularity};
  return answer(api, [&](Process& process) {
    if (bytes == nullptr || properties == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    const int device =
        properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? properties->location.id : 0;
    if (!exists(process, device)) return int{CUDA_ERROR_INVALID_DEVICE};
    *bytes = process.model().device(DeviceId{device}).vmm_granularity.value;
    return 0;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* pointer, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long) {
  static ApiFunction api{"cuMemAddressReserve", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemAddressReserve};
  return answer(api, [&](Process& process) {
    if (pointer == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    const auto made =
        process.model().reserve_range(current_device(), Bytes{bytes}, Bytes{alignment});
    if (!made.ok()) return native_code(made.status());
    *pointer = made->value;
    return 0;
  });
}

CUresult cuMemAddressFree(CUdeviceptr pointer, size_t bytes) {
  static ApiFunction api{"cuMemAddressFree", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemAddressFree};
  return answer(api, [&](Process& process) {
    return process.model().free_range(to_addr(pointer), Bytes{bytes});
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) {
  static ApiFunction api{"cuMemCreate", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemCreate};
  return answer(api, [&](Process& process) {
    if (handle == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    if (const int code = check_properties(process, properties); code != 0) return code;
    process.activate(properties->location.id);
    const auto made =
        process.model().create_handle(DeviceId{properties->location.id}, Bytes{bytes});
    if (!made.ok()) return native_code(made.status());
    *handle = made->value;
    return 0;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  static ApiFunction api{"cuMemRelease", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemRelease};
  return answer(
      api, [&](Process& process) { return process.model().release_handle(to_handle(handle)); });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* pointer) {
  static ApiFunction api{"cuMemRetainAllocationHandle", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemRetainAllocationHandle};
  return answer(api, [&](Process& process) {
    const auto made = process.model().retain_handle(levee::simgpu::to_addr(pointer));
    if (!made.ok()) return native_code(made.status());
    put(handle, CUmemGenericAllocationHandle{made->value});
    return 0;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  static ApiFunction api{"cuMemGetAllocationPropertiesFromHandle", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemGetAllocationPropertiesFromHandle};
  return answer(api, [&](Process& process) {
    const auto device = process.model().handle_device(to_handle(handle));
    if (!device.ok()) return native_code(device.status());
    if (properties == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    std::memset(properties, 0, sizeof *properties);
    properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties->location.id = device->value;
    return 0;
  });
}

CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
  static ApiFunction api{"cuMemMap", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemMap};
  return answer(api, [&](Process& process) {
    if (offset != 0)
      return int{
          CUDA_ERROR_INVALID_VALUE};  // so does the driver: handles are mapped from their start
    return native_code(process.model().map(to_addr(pointer), Bytes{bytes}, to_handle(handle)));
  });
}

CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  static ApiFunction api{"cuMemUnmap", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemUnmap};
  return answer(
      api, [&](Process& process) { return process.model().unmap(to_addr(pointer), Bytes{bytes}); });
}

CUresult cuMemSetAccess(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  static ApiFunction api{"cuMemSetAccess", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemSetAccess};
  return answer(api, [&](Process& process) {
    if (access == nullptr || count == 0) return int{CUDA_ERROR_INVALID_VALUE};
    for (std::size_t i = 0; i < count; ++i) {
      if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
          !exists(process, access[i].location.id)) {
        return int{CUDA_ERROR_INVALID_VALUE};
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      const Access rights = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                ? Access::kReadWrite
                            : access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ ? Access::kRead
                                                                               : Access::kNone;
      const int code = native_code(process.model().set_access(
          to_addr(pointer), Bytes{bytes}, DeviceId{access[i].location.id}, rights));
      if (code != 0) return code;
    }
    return 0;
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                        CUdeviceptr pointer) {
  static ApiFunction api{"cuMemGetAccess", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemGetAccess};
  return answer(api, [&](Process& process) {
    if (flags == nullptr || location == nullptr || !exists(process, location->id))
      return int{CUDA_ERROR_INVALID_VALUE};
    switch (process.model().access_of(to_addr(pointer), DeviceId{location->id})) {
      case Access::kReadWrite:
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        break;
      case Access::kRead:
        *flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
        break;
      case Access::kNone:
        *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
        break;
    }
    return 0;
  });
}

// ---- Copies and fills

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  static ApiFunction api{"cuMemcpy", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemcpy};
  return answer(api, [&](Process& process) {
    return copy(process, to_pointer(to), to_pointer(from), bytes, nullptr, false);
  });
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  static ApiFunction api{"cuMemcpyAsync", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync};
  return answer(api, [&](Process& process) {
    return copy(process, to_pointer(to), to_pointer(from), bytes, stream, true);
  });
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, size_t bytes) {
  static ApiFunction api{"cuMemcpyHtoD", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2};
  return answer(api, [&](Process& process) {
    return copy(process, to_pointer(to), from, bytes, nullptr, false);
  });
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  static ApiFunction api{"cuMemcpyHtoDAsync", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2};
  return answer(api, [&](Process& process) {
    return copy(process, to_pointer(to), from, bytes, stream, true);
  });
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, size_t bytes) {
  static ApiFunction api{"cuMemcpyDtoH", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2};
  return answer(api, [&](Process& process) {
    return copy(process, to, to_pointer(from), bytes, nullptr, false);
  });
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  static ApiFunction api{"cuMemcpyDtoHAsync", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2};
  return answer(api, [&](Process& process) {
    return copy(process, to, to_pointer(from), bytes, stream, true);
  });
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  static ApiFunction api{"cuMemcpyDtoD", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2};
  return answer(api, [&](Process& process) {
    return copy(process, to_pointer(to), to_pointer(from), bytes, nullptr, false);
  });
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  static ApiFunction api{"cuMemcpyDtoDAsync", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2};
  return answer(api, [&](Process& process) {
    return copy(process, to_pointer(to), to_pointer(from), bytes, stream, true);
  });
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t count) {
  static ApiFunction api{"cuMemsetD8", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2};
  return answer(
      api, [&](Process& process) { return fill(process, to, value, 1, count, nullptr, false); });
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  static ApiFunction api{"cuMemsetD8Async", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async};
  return answer(api,
                [&](Process& process) { return fill(process, to, value, 1, count, stream, true); });
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  static ApiFunction api{"cuMemsetD16Async", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async};
  return answer(api,
                [&](Process& process) { return fill(process, to, value, 2, count, stream, true); });
}

CUresult cuMemsetD32(CUdeviceptr to, unsigned int value, size_t count) {
  static ApiFunction api{"cuMemsetD32", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuMemsetD32_v2};
  return answer(
      api, [&](Process& process) { return fill(process, to, value, 4, count, nullptr, false); });
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, size_t count, CUstream stream) {
  static ApiFunction api{"cuMemsetD32Async", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async};
  return answer(api,
                [&](Process& process) { return fill(process, to, value, 4, count, stream, true); });
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr to, cuuint32_t value, unsigned int) {
  static ApiFunction api{"cuStreamWriteValue32", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuStreamWriteValue32_v2};
  return answer(api,
                [&](Process& process) { return fill(process, to, value, 4, 1, stream, true); });
}

}  // extern "C"
