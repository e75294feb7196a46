// `Device` over one device of a GpuModel: the skin for unit, model, stress and fuzz tests and for
// the replay lab.
//
// Owns nothing; the model must outlive it. Several SimDevices, of one or of several devices, may
// share a model. Forwards each call and translates nothing: the model already answers in levee's
// types. `note_use` and `note_pool_lock` reach the judge.
#pragma once

#include "allocator/device/device.h"
#include "allocator/device/sim/gpu_model.h"

namespace levee::device::sim {

class SimDevice final : public Device {
 public:
  SimDevice(GpuModel& model, DeviceId id);

  GpuModel& model() { return model_; }

  DeviceId id() const override { return id_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<MemoryInfo> memory_info() override;
  Result<DeviceAddr> allocate(Bytes bytes) override;
  Status release(DeviceAddr addr) override;
  Result<DeviceAddr> reserve_range(Bytes bytes, Bytes alignment) override;
  Status free_range(DeviceAddr addr, Bytes bytes) override;
  Result<HandleId> create_handle(Bytes bytes) override;
  Status release_handle(HandleId handle) override;
  Status map(DeviceAddr addr, Bytes bytes, HandleId handle) override;
  Status set_access(DeviceAddr addr, Bytes bytes) override;
  Status unmap(DeviceAddr addr, Bytes bytes) override;
  Result<EventId> create_event() override;
  Result<EventId> create_event_on(DeviceId device) override;
  Status destroy_event(EventId event) override;
  Status record_event(EventId event, StreamId stream) override;
  Status query_event(EventId event) override;
  Status wait_event(StreamId stream, EventId event) override;
  Status synchronize_event(EventId event) override;
  Status synchronize_stream(StreamId stream) override;
  Status synchronize_device() override;
  Nanos now() const override { return model_.now(); }
  Result<CaptureInfo> capture_info(StreamId stream) override;
  void note_use(DeviceAddr addr, Bytes bytes, StreamId stream, UseKind kind) override;
  void note_pool_lock(bool held) override;

 private:
  DeviceId device_of(StreamId stream) const { return stream.is_foreign() ? stream.device() : id_; }

  GpuModel& model_;
  DeviceId id_;
  Capabilities capabilities_;
};

}  // namespace levee::device::sim
