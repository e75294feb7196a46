// Streams and events of the driver API.
#include "tools/simgpu/core/host_functions.h"
#include "tools/simgpu/cuda/face.h"

using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::current_device;
using levee::simgpu::native_code;
using levee::simgpu::Process;
using levee::simgpu::this_thread;
using levee::simgpu::to_stream;
using levee::simgpu::driver::answer;
using levee::simgpu::driver::put;
using levee::simgpu::driver::to_event;

namespace {

int create(Process& process, CUstream* stream, unsigned flags, int priority) {
  if (stream == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  process.activate(this_thread().device);
  levee::device::sim::StreamOptions options;
  options.non_blocking = flags == CU_STREAM_NON_BLOCKING;
  options.priority = priority > 0 ? 0 : (priority < -5 ? -5 : priority);
  const auto made = process.model().create_stream(current_device(), options);
  if (!made.ok()) return native_code(made.status());
  *stream = reinterpret_cast<CUstream>(made->value);
  return 0;
}

}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  static ApiFunction api{"cuStreamCreate", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuStreamCreate};
  return answer(api, [&](Process& process) { return create(process, stream, flags, 0); });
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  static ApiFunction api{"cuStreamCreateWithPriority", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuStreamCreateWithPriority};
  return answer(api, [&](Process& process) { return create(process, stream, flags, priority); });
}

CUresult cuStreamDestroy(CUstream stream) {
  static ApiFunction api{"cuStreamDestroy", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuStreamDestroy_v2};
  return answer(
      api, [&](Process& process) { return process.model().destroy_stream(to_stream(stream)); });
}

CUresult cuStreamQuery(CUstream stream) {
  static ApiFunction api{"cuStreamQuery", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuStreamQuery};
  return answer(api, [&](Process& process) {
    return process.model().query_stream(current_device(), to_stream(stream));
  });
}

CUresult cuStreamSynchronize(CUstream stream) {
  static ApiFunction api{"cuStreamSynchronize", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize};
  return answer(api, [&](Process& process) {
    const int code =
        native_code(process.model().synchronize_stream(current_device(), to_stream(stream)));
    process.host_functions().drain();
    return code;
  });
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  static ApiFunction api{"cuStreamWaitEvent", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent};
  return answer(api, [&](Process& process) {
    return process.model().wait_event(current_device(), to_stream(stream), to_event(event),
                                      (flags & CU_EVENT_WAIT_EXTERNAL) != 0);
  });
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  static ApiFunction api{"cuStreamGetCtx", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuStreamGetCtx};
  return answer(api, [&](Process& process) {
    const auto info = process.model().stream_info(current_device(), to_stream(stream));
    if (!info.ok()) return native_code(info.status());
    put(context,
        reinterpret_cast<CUcontext>((static_cast<std::uintptr_t>(info->device.value) + 1) * 16));
    return 0;
  });
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  static ApiFunction api{"cuStreamIsCapturing", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuStreamIsCapturing};
  return answer(api, [&](Process& process) {
    const auto info = process.model().capture_info(current_device(), to_stream(stream));
    if (!info.ok()) return native_code(info.status());
    put(status, static_cast<CUstreamCaptureStatus>(info->status));
    return 0;
  });
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* argument) {
  static ApiFunction api{"cuLaunchHostFunc", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc};
  return answer(api, [&](Process& process) {
    if (function == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    return native_code(process.host_functions().enqueue(
        current_device(), to_stream(stream), [function, argument] { function(argument); }));
  });
}

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  static ApiFunction api{"cuEventCreate", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuEventCreate};
  return answer(api, [&](Process& process) {
    if (event == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    levee::device::sim::EventOptions options;
    options.timing = (flags & CU_EVENT_DISABLE_TIMING) == 0;
    options.blocking_sync = (flags & CU_EVENT_BLOCKING_SYNC) != 0;
    const auto made = process.model().create_event(current_device(), options);
    if (!made.ok()) return native_code(made.status());
    *event = reinterpret_cast<CUevent>(made->value);
    return 0;
  });
}

CUresult cuEventDestroy(CUevent event) {
  static ApiFunction api{"cuEventDestroy", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuEventDestroy_v2};
  return answer(api,
                [&](Process& process) { return process.model().destroy_event(to_event(event)); });
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  static ApiFunction api{"cuEventRecord", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuEventRecord};
  return answer(api, [&](Process& process) {
    return process.model().record_event(to_event(event), current_device(), to_stream(stream));
  });
}

CUresult cuEventQuery(CUevent event) {
  static ApiFunction api{"cuEventQuery", ApiDomain::kDriver, CUPTI_DRIVER_TRACE_CBID_cuEventQuery};
  return answer(api,
                [&](Process& process) { return process.model().query_event(to_event(event)); });
}

CUresult cuEventSynchronize(CUevent event) {
  static ApiFunction api{"cuEventSynchronize", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize};
  return answer(api, [&](Process& process) {
    const int code = native_code(process.model().synchronize_event(to_event(event)));
    process.host_functions().drain();
    return code;
  });
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  static ApiFunction api{"cuEventElapsedTime", ApiDomain::kDriver,
                         CUPTI_DRIVER_TRACE_CBID_cuEventElapsedTime};
  return answer(api, [&](Process& process) {
    if (milliseconds == nullptr) return int{CUDA_ERROR_INVALID_VALUE};
    const auto elapsed = process.model().elapsed(to_event(start), to_event(end));
    if (!elapsed.ok()) return native_code(elapsed.status());
    *milliseconds = static_cast<float>(static_cast<double>(elapsed->value) * 1e-6);
    return 0;
  });
}

}  // extern "C"
