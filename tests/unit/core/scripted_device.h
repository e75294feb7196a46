// A device that passes every call on to another one, unless a test has set a function that answers
// in its place, or that hears of it.
#pragma once

#include <functional>

#include "tests/support/forwarding_device.h"

namespace levee::core {

class ScriptedDevice final : public test::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;

  std::function<Result<device::CaptureInfo>(StreamId)> answer_capture_info;
  std::function<Result<DeviceAddr>(Bytes)> answer_allocate;
  std::function<Status(DeviceAddr)> answer_release;
  std::function<void()> hear_memory_info;
  std::function<void()> hear_reserve_range;
  std::function<void()> hear_create_handle;
  std::function<void(Bytes, StreamId, device::UseKind)> hear_use;
  std::function<void(bool)> hear_pool_lock;

  Result<device::MemoryInfo> memory_info() override {
    if (hear_memory_info) hear_memory_info();
    return ForwardingDevice::memory_info();
  }
  Result<DeviceAddr> allocate(Bytes bytes) override {
    return answer_allocate ? answer_allocate(bytes) : ForwardingDevice::allocate(bytes);
  }
  Status release(DeviceAddr addr) override {
    return answer_release ? answer_release(addr) : ForwardingDevice::release(addr);
  }
  Result<DeviceAddr> reserve_range(Bytes bytes, Bytes alignment) override {
    if (hear_reserve_range) hear_reserve_range();
    return ForwardingDevice::reserve_range(bytes, alignment);
  }
  Result<HandleId> create_handle(Bytes bytes) override {
    if (hear_create_handle) hear_create_handle();
    return ForwardingDevice::create_handle(bytes);
  }
  Result<device::CaptureInfo> capture_info(StreamId stream) override {
    return answer_capture_info ? answer_capture_info(stream)
                               : ForwardingDevice::capture_info(stream);
  }
  void note_use(DeviceAddr addr, Bytes bytes, StreamId stream, device::UseKind kind) override {
    if (hear_use) hear_use(bytes, stream, kind);
    ForwardingDevice::note_use(addr, bytes, stream, kind);
  }
  void note_pool_lock(bool held) override {
    if (hear_pool_lock) hear_pool_lock(held);
    ForwardingDevice::note_pool_lock(held);
  }
};

}  // namespace levee::core
