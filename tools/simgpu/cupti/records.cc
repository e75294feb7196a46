#include "tools/simgpu/cupti/records.h"

#include <unistd.h>

#include <cstring>

namespace levee::simgpu::cupti {
namespace {

using activity::Record;
using activity::RecordType;
using activity::SyncType;
using device::sim::WorkKind;

/// One context per device, numbered from 1.
std::uint32_t context_of(int device) {
  return static_cast<std::uint32_t>(device) + 1;
}

std::uint8_t memory_kind(std::uint8_t place) {
  switch (static_cast<activity::MemoryPlace>(place)) {
    case activity::MemoryPlace::kPageable:
      return CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE;
    case activity::MemoryPlace::kPinned:
      return CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
    case activity::MemoryPlace::kDevice:
      return CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    case activity::MemoryPlace::kManaged:
      return CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
    case activity::MemoryPlace::kUnknown:
      return CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN;
  }
  return CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN;
}

/// Fields that all pieces of work have.
template <typename T>
void write_work(const Record& record, TimeMap* times, T* out) {
  out->kind = kind_of(record);
  out->start = times->to_client(record.start);
  out->end = times->to_client(record.end);
  out->deviceId = static_cast<std::uint32_t>(record.device);
  out->contextId = context_of(record.device);
  out->streamId = record.stream_number;
  out->correlationId = record.correlation;
  out->graphNodeId = record.node;
  out->graphId = static_cast<std::uint32_t>(record.graph);
}

void write_kernel(const Record& record, TimeMap* times, CUpti_ActivityKernel10* out) {
  write_work(record, times, out);
  out->completed = out->end;
  out->registersPerThread = 32;
  out->gridX = static_cast<std::int32_t>(record.grid[0]);
  out->gridY = static_cast<std::int32_t>(record.grid[1]);
  out->gridZ = static_cast<std::int32_t>(record.grid[2]);
  out->blockX = static_cast<std::int32_t>(record.block[0]);
  out->blockY = static_cast<std::int32_t>(record.block[1]);
  out->blockZ = static_cast<std::int32_t>(record.block[2]);
  out->dynamicSharedMemory = static_cast<std::int32_t>(record.dynamic_shared);
  out->name = record.name;
  out->queued = CUPTI_TIMESTAMP_UNKNOWN;
  out->submitted = CUPTI_TIMESTAMP_UNKNOWN;
}

void write_copy(const Record& record, TimeMap* times, CUpti_ActivityMemcpy6* out) {
  write_work(record, times, out);
  switch (record.work) {
    case WorkKind::kMemcpyHostToDevice:
      out->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
      break;
    case WorkKind::kMemcpyDeviceToHost:
      out->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
      break;
    case WorkKind::kMemcpyDeviceToDevice:
      out->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
      break;
    default:
      out->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOH;
      break;
  }
  out->srcKind = memory_kind(record.from_kind);
  out->dstKind = memory_kind(record.to_kind);
  out->flags = record.is_async ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  out->bytes = record.bytes;
  out->copyCount = 1;
}

void write_peer_copy(const Record& record, TimeMap* times, CUpti_ActivityMemcpyPtoP4* out) {
  write_work(record, times, out);
  out->copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  out->srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  out->dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  out->flags = record.is_async ? CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
  out->bytes = record.bytes;
  out->srcDeviceId = static_cast<std::uint32_t>(record.from_device);
  out->srcContextId = context_of(record.from_device);
  out->dstDeviceId = static_cast<std::uint32_t>(record.to_device);
  out->dstContextId = context_of(record.to_device);
}

void write_fill(const Record& record, TimeMap* times, CUpti_ActivityMemset4* out) {
  write_work(record, times, out);
  out->value = record.value;
  out->bytes = record.bytes;
  out->memoryKind = memory_kind(record.to_kind);
  out->flags = record.is_async ? CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC : CUPTI_ACTIVITY_FLAG_NONE;
}

void write_call(const Record& record, TimeMap* times, CUpti_ActivityAPI* out) {
  out->kind = kind_of(record);
  out->cbid = record.cbid;
  out->start = times->to_client(record.start);
  out->end = times->to_client(record.end);
  out->processId = static_cast<std::uint32_t>(getpid());
  out->threadId = record.thread;
  out->correlationId = record.correlation;
  out->returnValue = static_cast<std::uint32_t>(record.result);
}

CUpti_ActivitySynchronizationType sync_type(SyncType type) {
  switch (type) {
    case SyncType::kEvent:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE;
    case SyncType::kStreamWaitEvent:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
    case SyncType::kStream:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
    case SyncType::kContext:
      return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE;
  }
  return CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN;
}

void write_sync(const Record& record, TimeMap* times, CUpti_ActivitySynchronization2* out) {
  out->kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  out->type = sync_type(record.sync);
  out->start = times->to_client(record.start);
  out->end = times->to_client(record.end);
  out->correlationId = record.correlation;
  out->contextId = context_of(record.device);
  const bool has_stream =
      record.sync == SyncType::kStream || record.sync == SyncType::kStreamWaitEvent;
  out->streamId = has_stream ? record.stream_number : CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  out->cudaEventId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
}

void write_external(const Record& record, CUpti_ActivityExternalCorrelation* out) {
  out->kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  out->externalKind = static_cast<CUpti_ExternalCorrelationKind>(record.external_kind);
  out->externalId = record.external_id;
  out->correlationId = record.correlation;
}

}  // namespace

CUpti_ActivityKind kind_of(const Record& record) {
  switch (record.type) {
    case RecordType::kCall:
      return record.is_driver ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME;
    case RecordType::kExternalId:
      return CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    case RecordType::kSynchronisation:
      return CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
    case RecordType::kWork:
      break;
  }
  switch (record.work) {
    case WorkKind::kKernel:
      return CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    case WorkKind::kMemcpyHostToDevice:
    case WorkKind::kMemcpyDeviceToHost:
    case WorkKind::kMemcpyDeviceToDevice:
    case WorkKind::kMemcpyHostToHost:
      return CUPTI_ACTIVITY_KIND_MEMCPY;
    case WorkKind::kMemcpyPeer:
      return CUPTI_ACTIVITY_KIND_MEMCPY2;
    case WorkKind::kMemset:
      return CUPTI_ACTIVITY_KIND_MEMSET;
    default:
      return CUPTI_ACTIVITY_KIND_INVALID;
  }
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    default:
      return 0;
  }
}

void write(const Record& record, TimeMap* times, std::uint8_t* to) {
  const CUpti_ActivityKind kind = kind_of(record);
  std::memset(to, 0, size_of(kind));
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return write_call(record, times, reinterpret_cast<CUpti_ActivityAPI*>(to));
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return write_external(record, reinterpret_cast<CUpti_ActivityExternalCorrelation*>(to));
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return write_sync(record, times, reinterpret_cast<CUpti_ActivitySynchronization2*>(to));
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return write_kernel(record, times, reinterpret_cast<CUpti_ActivityKernel10*>(to));
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return write_copy(record, times, reinterpret_cast<CUpti_ActivityMemcpy6*>(to));
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return write_peer_copy(record, times, reinterpret_cast<CUpti_ActivityMemcpyPtoP4*>(to));
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return write_fill(record, times, reinterpret_cast<CUpti_ActivityMemset4*>(to));
    default:
      return;
  }
}

}  // namespace levee::simgpu::cupti
