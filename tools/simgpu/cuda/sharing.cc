// The driver's side of memory that processes share: IPC handles, and handles of physical memory as
// file descriptors.
#include <cstdint>
#include <cstring>

#include "tools/simgpu/core/shared_memory.h"
#include "tools/simgpu/cuda/face.h"

using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::Process;
using levee::simgpu::SharedHandle;
using levee::simgpu::driver::answer;
using levee::simgpu::driver::to_event;
using levee::simgpu::driver::to_handle;
using levee::simgpu::driver::to_pointer;

namespace {

template <typename Handle>
SharedHandle from_cuda(const Handle& handle) {
  static_assert(sizeof(Handle) == sizeof(SharedHandle));
  SharedHandle out;
  std::memcpy(static_cast<void*>(&out), &handle, sizeof out);
  return out;
}

}  // namespace

extern "C" {

CUresult cuMemExportToShareableHandle(void* descriptor, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long) {
  static ApiFunction api{"cuMemExportToShareableHandle", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemExportToShareableHandle};
  return answer(api, [&](Process& process) {
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return int{CUDA_ERROR_NOT_SUPPORTED};
    return levee::simgpu::export_handle(process, to_handle(handle), static_cast<int*>(descriptor));
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* descriptor,
                                        CUmemAllocationHandleType type) {
  static ApiFunction api{"cuMemImportFromShareableHandle", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuMemImportFromShareableHandle};
  return answer(api, [&](Process& process) {
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return int{CUDA_ERROR_NOT_SUPPORTED};
    if (handle == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    levee::HandleId made;
    const int code = levee::simgpu::import_handle(
        process, static_cast<int>(reinterpret_cast<std::intptr_t>(descriptor)), &made);
    if (code == 0) *handle = made.value;
    return code;
  });
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr pointer) {
  static ApiFunction api{"cuIpcGetMemHandle", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuIpcGetMemHandle};
  return answer(api, [&](Process& process) {
    if (handle == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    SharedHandle made;
    const int code = levee::simgpu::share_allocation(process, to_pointer(pointer), &made);
    if (code == 0) std::memcpy(handle, &made, sizeof made);
    return code;
  });
}

CUresult cuIpcOpenMemHandle(CUdeviceptr* pointer, CUipcMemHandle handle, unsigned int) {
  static ApiFunction api{"cuIpcOpenMemHandle", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuIpcOpenMemHandle_v2};
  return answer(api, [&](Process& process) {
    if (pointer == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    void* opened = nullptr;
    const int code = levee::simgpu::open_allocation(process, from_cuda(handle), &opened);
    if (code == 0) *pointer = reinterpret_cast<CUdeviceptr>(opened);
    return code;
  });
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  static ApiFunction api{"cuIpcCloseMemHandle", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuIpcCloseMemHandle};
  return answer(api, [&](Process& process) {
    return levee::simgpu::close_allocation(process, to_pointer(pointer));
  });
}

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  static ApiFunction api{"cuIpcGetEventHandle", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuIpcGetEventHandle};
  return answer(api, [&](Process& process) {
    if (handle == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    SharedHandle made;
    const int code = levee::simgpu::share_event(process, to_event(event), &made);
    if (code == 0) std::memcpy(handle, &made, sizeof made);
    return code;
  });
}

CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  static ApiFunction api{"cuIpcOpenEventHandle", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuIpcOpenEventHandle};
  return answer(api, [&](Process& process) {
    if (event == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    levee::EventId made;
    const int code = levee::simgpu::open_event(process, from_cuda(handle), &made);
    if (code == 0) *event = reinterpret_cast<CUevent>(made.value);
    return code;
  });
}

}  // extern "C"
