// A device that passes every call on to another one: the base of devices that count or answer in
// tests, each of which overrides the calls that it is about.
#pragma once

#include "allocator/device/device.h"

namespace levee::test {

class ForwardingDevice : public device::Device {
 public:
  explicit ForwardingDevice(device::Device& real) : real_(real) {}

  DeviceId id() const override { return real_.id(); }
  const device::Capabilities& capabilities() const override { return real_.capabilities(); }
  Result<device::MemoryInfo> memory_info() override { return real_.memory_info(); }
  Result<DeviceAddr> allocate(Bytes bytes) override { return real_.allocate(bytes); }
  Status release(DeviceAddr addr) override { return real_.release(addr); }
  Result<DeviceAddr> reserve_range(Bytes bytes, Bytes alignment) override {
    return real_.reserve_range(bytes, alignment);
  }
  Status free_range(DeviceAddr addr, Bytes bytes) override { return real_.free_range(addr, bytes); }
  Result<HandleId> create_handle(Bytes bytes) override { return real_.create_handle(bytes); }
  Status release_handle(HandleId handle) override { return real_.release_handle(handle); }
  Status map(DeviceAddr addr, Bytes bytes, HandleId handle) override {
    return real_.map(addr, bytes, handle);
  }
  Status set_access(DeviceAddr addr, Bytes bytes) override { return real_.set_access(addr, bytes); }
  Status unmap(DeviceAddr addr, Bytes bytes) override { return real_.unmap(addr, bytes); }
  Result<EventId> create_event() override { return real_.create_event(); }
  Result<EventId> create_event_on(DeviceId device) override {
    return real_.create_event_on(device);
  }
  Status destroy_event(EventId event) override { return real_.destroy_event(event); }
  Status record_event(EventId event, StreamId stream) override {
    return real_.record_event(event, stream);
  }
  Status query_event(EventId event) override { return real_.query_event(event); }
  Status wait_event(StreamId stream, EventId event) override {
    return real_.wait_event(stream, event);
  }
  Status synchronize_event(EventId event) override { return real_.synchronize_event(event); }
  Status synchronize_stream(StreamId stream) override { return real_.synchronize_stream(stream); }
  Status synchronize_device() override { return real_.synchronize_device(); }
  Nanos now() const override { return real_.now(); }
  Result<device::CaptureInfo> capture_info(StreamId stream) override {
    return real_.capture_info(stream);
  }
  void note_use(DeviceAddr addr, Bytes bytes, StreamId stream, device::UseKind kind) override {
    real_.note_use(addr, bytes, stream, kind);
  }
  void note_pool_lock(bool held) override { real_.note_pool_lock(held); }

 private:
  device::Device& real_;
};

}  // namespace levee::test
