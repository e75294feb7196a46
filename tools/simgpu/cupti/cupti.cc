// Stand-in libcupti.so.13: the activity and callback APIs as profilers in PyTorch (kineto) and
// levee's own collector use them.
//
// Prototypes are those of CUPTI's headers, which the compiler checks. Hardware counters, PC
// sampling and the range profiler are not here: those functions answer by unmodelled.cc that they
// are not supported.
#include <cupti.h>

#include <cstdint>

#include "tools/simgpu/core/activity.h"
#include "tools/simgpu/core/call.h"
#include "tools/simgpu/core/errors.h"
#include "tools/simgpu/core/process.h"
#include "tools/simgpu/cupti/client.h"
#include "tools/simgpu/cupti/records.h"
#include "tools/simgpu/simgpu_abi.h"

using levee::simgpu::Process;
using levee::simgpu::to_stream;
using levee::simgpu::cupti::client;

namespace activity = levee::simgpu::activity;

namespace {

template <typename T>
CUptiResult put(T* to, const T& value) {
  if (to == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *to = value;
  return CUPTI_SUCCESS;
}

}  // namespace

extern "C" {

// ---- The library

CUptiResult cuptiGetVersion(uint32_t* version) {
  return put(version, std::uint32_t{CUPTI_API_VERSION});
}

CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  if (text == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  switch (result) {
    case CUPTI_SUCCESS:
      *text = "CUPTI_SUCCESS";
      break;
    case CUPTI_ERROR_INVALID_PARAMETER:
      *text = "CUPTI_ERROR_INVALID_PARAMETER";
      break;
    case CUPTI_ERROR_NOT_INITIALIZED:
      *text = "CUPTI_ERROR_NOT_INITIALIZED";
      break;
    case CUPTI_ERROR_MAX_LIMIT_REACHED:
      *text = "CUPTI_ERROR_MAX_LIMIT_REACHED";
      break;
    case CUPTI_ERROR_INVALID_KIND:
      *text = "CUPTI_ERROR_INVALID_KIND";
      break;
    case CUPTI_ERROR_QUEUE_EMPTY:
      *text = "CUPTI_ERROR_QUEUE_EMPTY";
      break;
    case CUPTI_ERROR_NOT_SUPPORTED:
      *text = "CUPTI_ERROR_NOT_SUPPORTED";
      break;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
      break;
    default:
      *text = "CUPTI_ERROR_UNKNOWN";
      break;
  }
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetErrorMessage(CUptiResult result, const char** text) {
  return cuptiGetResultString(result, text);
}

CUptiResult cuptiGetLastError() {
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  return put(timestamp, client().times().to_client(levee::Nanos{simgpu_now_ns()}));
}

CUptiResult cuptiFinalize() {
  client().reset();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t* device) {
  // A context's handle is 16 times (device + 1), see cuda/context.cc.
  const auto value = reinterpret_cast<std::uintptr_t>(context);
  return put(device, static_cast<std::uint32_t>(value == 0 ? 0 : value / 16 - 1));
}

CUptiResult cuptiGetContextId(CUcontext context, uint32_t* id) {
  return put(id, static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(context) / 16));
}

CUptiResult cuptiGetStreamId(CUcontext, CUstream stream, uint32_t* id) {
  Process* process = Process::get();
  if (process == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  const auto info =
      process->model().stream_info(levee::simgpu::current_device(), to_stream(stream));
  return info.ok() ? put(id, info->number) : CUPTI_ERROR_INVALID_STREAM;
}

CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t, uint32_t* id) {
  return cuptiGetStreamId(context, stream, id);
}

// ---- Activity

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  if (request == nullptr || complete == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  client().set_buffers(request, complete);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  return client().enable(kind, true);
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  return client().enable(kind, false);
}
CUptiResult cuptiActivityEnableContext(CUcontext, CUpti_ActivityKind kind) {
  return client().enable(kind, true);
}
CUptiResult cuptiActivityDisableContext(CUcontext, CUpti_ActivityKind kind) {
  return client().enable(kind, false);
}
CUptiResult cuptiActivityEnableAndDump(CUpti_ActivityKind kind) {
  return client().enable(kind, true);
}

CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t on) {
  client().enable_call(false, cbid, on != 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId cbid, uint8_t on) {
  client().enable_call(true, cbid, on != 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t) {
  return client().flush();
}
CUptiResult cuptiActivityFlush(CUcontext, uint32_t, uint32_t) {
  return client().flush();
}

CUptiResult cuptiActivityFlushPeriod(uint32_t milliseconds) {
  client().set_flush_period(milliseconds);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid_bytes,
                                       CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  std::size_t at = 0;
  if (*record != nullptr) {
    at = static_cast<std::size_t>(reinterpret_cast<std::uint8_t*>(*record) - buffer);
    at += levee::simgpu::cupti::size_of((*record)->kind);
  }
  if (at >= valid_bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* next = reinterpret_cast<CUpti_Activity*>(buffer + at);
  if (levee::simgpu::cupti::size_of(next->kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  *record = next;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  return put(dropped, std::size_t{0});
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t*, void*) {
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute, size_t* bytes, void* value) {
  if (bytes == nullptr || value == nullptr || *bytes < sizeof(std::size_t))
    return CUPTI_ERROR_INVALID_PARAMETER;
  *static_cast<std::size_t*>(value) =
      std::size_t{8} << 20;  // the sizes and limits of device buffers, which are not used
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc function) {
  if (function == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  client().times().set_clock(function);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                   uint64_t id) {
  if (kind <= CUPTI_EXTERNAL_CORRELATION_KIND_INVALID ||
      kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  activity::push_external(static_cast<std::uint32_t>(kind), id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                  uint64_t* id) {
  if (kind <= CUPTI_EXTERNAL_CORRELATION_KIND_INVALID ||
      kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE) {
    return CUPTI_ERROR_INVALID_PARAMETER;
  }
  return activity::pop_external(static_cast<std::uint32_t>(kind), id) ? CUPTI_SUCCESS
                                                                      : CUPTI_ERROR_QUEUE_EMPTY;
}

CUptiResult cuptiActivityEnableLatencyTimestamps(uint8_t) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableLaunchAttributes(uint8_t) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t) {
  return CUPTI_SUCCESS;
}

// ---- Callbacks

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char** name) {
  using levee::simgpu::ApiDomain;
  if (name == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = levee::simgpu::call_name(
      domain == CUPTI_CB_DOMAIN_DRIVER_API ? ApiDomain::kDriver : ApiDomain::kRuntime, cbid);
  if (*name == nullptr) *name = "a function that was not called";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                           void* user) {
  return client().subscribe(subscriber, callback, user);
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  return client().unsubscribe(subscriber);
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  return client().enable_callback(subscriber, domain, cbid, enable != 0);
}

CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                              CUpti_CallbackDomain domain) {
  return client().enable_domain(subscriber, domain, enable != 0);
}

CUptiResult cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle subscriber) {
  const CUptiResult first =
      client().enable_domain(subscriber, CUPTI_CB_DOMAIN_RUNTIME_API, enable != 0);
  return first == CUPTI_SUCCESS
             ? client().enable_domain(subscriber, CUPTI_CB_DOMAIN_DRIVER_API, enable != 0)
             : first;
}

}  // extern "C"
