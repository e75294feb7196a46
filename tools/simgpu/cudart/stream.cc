// Streams and what is enqueued on them besides work: waits, host functions, queries.
#include "tools/simgpu/core/host_functions.h"
#include "tools/simgpu/cudart/face.h"

using levee::device::sim::StreamOptions;
using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::current_device;
using levee::simgpu::native_code;
using levee::simgpu::Process;
using levee::simgpu::this_thread;
using levee::simgpu::to_stream;
using levee::simgpu::activity::SyncScope;
using levee::simgpu::activity::SyncType;
using levee::simgpu::cudart::answer;
using levee::simgpu::cudart::put;
using levee::simgpu::cudart::to_cuda;
using levee::simgpu::cudart::to_event;

namespace {

int create(Process& process, cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr) return cudaErrorInvalidValue;
  if ((flags & ~unsigned{cudaStreamNonBlocking}) != 0) return cudaErrorInvalidValue;
  process.activate(this_thread().device);
  StreamOptions options;
  options.non_blocking = flags == cudaStreamNonBlocking;
  // CUDA takes any number and uses the nearest priority there is.
  options.priority = priority > 0 ? 0 : (priority < -5 ? -5 : priority);
  const auto made = process.model().create_stream(current_device(), options);
  if (!made.ok()) return native_code(made.status());
  *stream = to_cuda(*made);
  return 0;
}

template <typename T, typename Get>
int tell(Process& process, cudaStream_t stream, T* to, Get get) {
  const auto info = process.model().stream_info(current_device(), to_stream(stream));
  if (!info.ok()) return native_code(info.status());
  put(to, static_cast<T>(get(*info)));
  return 0;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  static ApiFunction api{"cudaStreamCreate", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamCreate_v3020};
  return answer(api, [&](Process& process) { return create(process, stream, 0, 0); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  static ApiFunction api{"cudaStreamCreateWithFlags", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamCreateWithFlags_v5000};
  return answer(api, [&](Process& process) { return create(process, stream, flags, 0); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  static ApiFunction api{"cudaStreamCreateWithPriority", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamCreateWithPriority_v5050};
  return answer(api, [&](Process& process) { return create(process, stream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  static ApiFunction api{"cudaStreamDestroy", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamDestroy_v5050};
  return answer(
      api, [&](Process& process) { return process.model().destroy_stream(to_stream(stream)); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  static ApiFunction api{"cudaStreamQuery", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamQuery_v3020};
  return answer(api, [&](Process& process) {
    const int code = native_code(process.model().query_stream(current_device(), to_stream(stream)));
    if (code == 0) process.host_functions().drain();
    return code;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  static ApiFunction api{"cudaStreamSynchronize", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020};
  return answer(api, [&](Process& process) {
    SyncScope scope(process, SyncType::kStream, stream);
    const int code =
        native_code(process.model().synchronize_stream(current_device(), to_stream(stream)));
    process.host_functions().drain();
    return code;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  static ApiFunction api{"cudaStreamWaitEvent", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020};
  return answer(api, [&](Process& process) {
    SyncScope scope(process, SyncType::kStreamWaitEvent, stream);
    return native_code(process.model().wait_event(current_device(), to_stream(stream),
                                                  to_event(event),
                                                  (flags & cudaEventWaitExternal) != 0));
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  static ApiFunction api{"cudaStreamGetPriority", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamGetPriority_v5050};
  return answer(api, [&](Process& process) {
    return tell(process, stream, priority, [](const auto& info) { return info.options.priority; });
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  static ApiFunction api{"cudaStreamGetFlags", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamGetFlags_v5050};
  return answer(api, [&](Process& process) {
    return tell(process, stream, flags, [](const auto& info) {
      return info.options.non_blocking ? cudaStreamNonBlocking : cudaStreamDefault;
    });
  });
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  static ApiFunction api{"cudaStreamGetId", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamGetId_v12000};
  return answer(api, [&](Process& process) {
    return tell(process, stream, id, [](const auto& info) { return info.number; });
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  static ApiFunction api{"cudaStreamGetDevice", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamGetDevice_v12080};
  return answer(api, [&](Process& process) {
    return tell(process, stream, device, [](const auto& info) { return info.device.value; });
  });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, size_t, unsigned int) {
  static ApiFunction api{"cudaStreamAttachMemAsync", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamAttachMemAsync_v6000};
  return answer(api, [](Process&) { return 0; });
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t, cudaStream_t) {
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  static ApiFunction api{"cudaLaunchHostFunc", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaLaunchHostFunc_v10000};
  return answer(api, [&](Process& process) {
    if (function == nullptr) return int{cudaErrorInvalidValue};
    return native_code(process.host_functions().enqueue(
        current_device(), to_stream(stream), [function, argument] { function(argument); }));
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                  void* argument, unsigned int) {
  static ApiFunction api{"cudaStreamAddCallback", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamAddCallback_v5000};
  return answer(api, [&](Process& process) {
    if (callback == nullptr) return int{cudaErrorInvalidValue};
    return native_code(process.host_functions().enqueue(
        current_device(), to_stream(stream),
        [stream, callback, argument] { callback(stream, cudaSuccess, argument); }));
  });
}

}  // extern "C"
