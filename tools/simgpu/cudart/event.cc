// Events.
#include "tools/simgpu/core/host_functions.h"
#include "tools/simgpu/cudart/face.h"

using levee::device::sim::EventOptions;
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
using levee::simgpu::cudart::to_cuda;
using levee::simgpu::cudart::to_event;

namespace {

int create(Process& process, cudaEvent_t* event, unsigned flags) {
  if (event == nullptr) return cudaErrorInvalidValue;
  if ((flags & cudaEventInterprocess) != 0 && (flags & cudaEventDisableTiming) == 0)
    return cudaErrorInvalidValue;
  process.activate(this_thread().device);
  EventOptions options;
  options.timing = (flags & cudaEventDisableTiming) == 0;
  options.blocking_sync = (flags & cudaEventBlockingSync) != 0;
  const auto made = process.model().create_event(current_device(), options);
  if (!made.ok()) return native_code(made.status());
  *event = to_cuda(*made);
  return 0;
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  static ApiFunction api{"cudaEventCreate", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaEventCreate_v3020};
  return answer(api, [&](Process& process) { return create(process, event, 0); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  static ApiFunction api{"cudaEventCreateWithFlags", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaEventCreateWithFlags_v3020};
  return answer(api, [&](Process& process) { return create(process, event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  static ApiFunction api{"cudaEventDestroy", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaEventDestroy_v3020};
  return answer(api,
                [&](Process& process) { return process.model().destroy_event(to_event(event)); });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  static ApiFunction api{"cudaEventRecord", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020};
  return answer(api, [&](Process& process) {
    return process.model().record_event(to_event(event), current_device(), to_stream(stream));
  });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  static ApiFunction api{"cudaEventRecordWithFlags", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaEventRecordWithFlags_v11010};
  return answer(api, [&](Process& process) {
    return process.model().record_event(to_event(event), current_device(), to_stream(stream),
                                        (flags & cudaEventRecordExternal) != 0);
  });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  static ApiFunction api{"cudaEventQuery", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020};
  return answer(api, [&](Process& process) {
    const int code = native_code(process.model().query_event(to_event(event)));
    if (code == 0) process.host_functions().drain();
    return code;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  static ApiFunction api{"cudaEventSynchronize", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020};
  return answer(api, [&](Process& process) {
    SyncScope scope(process, SyncType::kEvent, nullptr);
    const int code = native_code(process.model().synchronize_event(to_event(event)));
    process.host_functions().drain();
    return code;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  static ApiFunction api{"cudaEventElapsedTime", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaEventElapsedTime_v3020};
  return answer(api, [&](Process& process) {
    if (milliseconds == nullptr) return int{cudaErrorInvalidValue};
    const auto elapsed = process.model().elapsed(to_event(start), to_event(end));
    if (!elapsed.ok()) return native_code(elapsed.status());
    *milliseconds = static_cast<float>(static_cast<double>(elapsed->value) * 1e-6);
    return 0;
  });
}

}  // extern "C"
