// A device that counts and times the calls made to the one behind it, and records each.
//
// A decorator: forwards every call unchanged. Owns: the count and the time of calls. While
// recording is on each call becomes a kDriverCall event, with the context that `SlowPathContext`
// has named for the thread. Notes for a judging device are forwarded if `is_judging`, and cost a
// test otherwise. Thread safety: as Device. Cost: two clock reads a call, each call being a
// microsecond at least.
#pragma once

#include <atomic>
#include <cstdint>

#include <levee/event.h>
#include <levee/ids.h>

#include "allocator/device/device.h"
#include "allocator/record/recorder.h"

namespace levee::core {

class ObservedDevice final : public device::Device {
 public:
  ObservedDevice(device::Device& device, record::Recorder* recorder);

  std::int64_t call_count() const { return calls_.load(std::memory_order_relaxed); }
  std::int64_t time_ns() const { return time_ns_.load(std::memory_order_relaxed); }
  bool is_judging() const { return is_judging_; }

  DeviceId id() const override { return device_.id(); }
  const device::Capabilities& capabilities() const override { return device_.capabilities(); }
  Result<device::MemoryInfo> memory_info() override;
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
  Nanos now() const override { return device_.now(); }
  Result<device::CaptureInfo> capture_info(StreamId stream) override;
  void note_use(DeviceAddr addr, Bytes bytes, StreamId stream, device::UseKind kind) override {
    device_.note_use(addr, bytes, stream, kind);
  }
  void note_pool_lock(bool held) override { device_.note_pool_lock(held); }

  /// Of the device's default stream: for events about the device as a whole.
  LaneId lane() const { return lane_; }

 private:
  template <typename Call>
  auto observe(DriverCall kind, Bytes bytes, Call&& call);
  void finish(DriverCall kind, Nanos began, Bytes bytes, Status status);

  device::Device& device_;
  record::Recorder* recorder_;
  LaneId lane_;
  bool is_judging_;
  std::atomic<std::int64_t> calls_{0};
  std::atomic<std::int64_t> time_ns_{0};
};

/// Names the place in the program on whose behalf this thread calls the device, while it lives.
class SlowPathContext {
 public:
  explicit SlowPathContext(ContextId context) : previous_(current_) { current_ = context; }
  ~SlowPathContext() { current_ = previous_; }
  SlowPathContext(const SlowPathContext&) = delete;
  SlowPathContext& operator=(const SlowPathContext&) = delete;
  static ContextId current() { return current_; }

 private:
  static thread_local ContextId current_;
  ContextId previous_;
};

}  // namespace levee::core
