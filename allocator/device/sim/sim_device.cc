#include "allocator/device/sim/sim_device.h"

namespace levee::device::sim {

SimDevice::SimDevice(GpuModel& model, DeviceId id) : model_(model), id_(id) {
  const DeviceConfig& config = model.device(id);
  capabilities_.name = config.name;
  capabilities_.total_memory = config.total_memory;
  capabilities_.has_vmm = config.has_vmm;
  capabilities_.vmm_granularity = config.vmm_granularity;
  capabilities_.compute_major = config.compute_major;
  capabilities_.compute_minor = config.compute_minor;
  capabilities_.judges_use = model.judge_mode() != JudgeMode::kOff;
}

// The real device makes these calls in relaxed capture mode, so that they never break a capture of
// the program; so does this.

Result<MemoryInfo> SimDevice::memory_info() {
  return model_.memory_info(id_);
}

Result<DeviceAddr> SimDevice::allocate(Bytes bytes) {
  const RelaxedCapture relaxed;
  return model_.allocate(id_, bytes);
}

Status SimDevice::release(DeviceAddr addr) {
  const RelaxedCapture relaxed;
  return model_.release(addr);
}

Result<DeviceAddr> SimDevice::reserve_range(Bytes bytes, Bytes alignment) {
  return model_.reserve_range(id_, bytes, alignment);
}

Status SimDevice::free_range(DeviceAddr addr, Bytes bytes) {
  return model_.free_range(addr, bytes);
}

Result<HandleId> SimDevice::create_handle(Bytes bytes) {
  return model_.create_handle(id_, bytes);
}

Status SimDevice::release_handle(HandleId handle) {
  return model_.release_handle(handle);
}

Status SimDevice::map(DeviceAddr addr, Bytes bytes, HandleId handle) {
  return model_.map(addr, bytes, handle);
}

Status SimDevice::set_access(DeviceAddr addr, Bytes bytes) {
  return model_.set_access(addr, bytes, id_);
}

Status SimDevice::unmap(DeviceAddr addr, Bytes bytes) {
  return model_.unmap(addr, bytes);
}

Result<EventId> SimDevice::create_event() {
  return model_.create_event(id_, EventOptions{.timing = false, .blocking_sync = false});
}

Result<EventId> SimDevice::create_event_on(DeviceId device) {
  return model_.create_event(device, EventOptions{.timing = false, .blocking_sync = false});
}

Status SimDevice::destroy_event(EventId event) {
  return model_.destroy_event(event);
}

Status SimDevice::record_event(EventId event, StreamId stream) {
  return model_.record_event(event, device_of(stream), stream.handle());
}

Status SimDevice::query_event(EventId event) {
  const RelaxedCapture relaxed;
  return model_.query_event(event);
}

Status SimDevice::wait_event(StreamId stream, EventId event) {
  return model_.wait_event(device_of(stream), stream.handle(), event);
}

Status SimDevice::synchronize_event(EventId event) {
  const RelaxedCapture relaxed;
  return model_.synchronize_event(event);
}

Status SimDevice::synchronize_stream(StreamId stream) {
  const RelaxedCapture relaxed;
  return model_.synchronize_stream(device_of(stream), stream.handle());
}

Status SimDevice::synchronize_device() {
  const RelaxedCapture relaxed;
  return model_.synchronize_device(id_);
}

Result<CaptureInfo> SimDevice::capture_info(StreamId stream) {
  return model_.capture_info(device_of(stream), stream.handle());
}

void SimDevice::note_use(DeviceAddr addr, Bytes bytes, StreamId stream, UseKind kind) {
  model_.note_use(device_of(stream), addr, bytes, stream.handle(), kind);
}

void SimDevice::note_pool_lock(bool held) {
  GpuModel::note_pool_lock(held);
}

}  // namespace levee::device::sim
