// A device whose memory calls and synchronisations take long enough for every other thread to act
// meanwhile, and of whose memory calls a share is refused. Never sleeps: it gives way.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "tests/support/forwarding_device.h"
#include "tests/support/random.h"

namespace levee::test {

class SlowDevice final : public ForwardingDevice {
 public:
  explicit SlowDevice(device::Device& real, std::uint64_t refused_of_64 = 0)
      : ForwardingDevice(real), refused_of_64_(refused_of_64) {}

  void refuse_nothing_more() { refused_of_64_.store(0); }

  Result<device::MemoryInfo> memory_info() override {
    give_way();
    return ForwardingDevice::memory_info();
  }
  Result<DeviceAddr> allocate(Bytes bytes) override {
    if (is_refused()) return StatusCode::kOutOfMemory;
    return ForwardingDevice::allocate(bytes);
  }
  Status release(DeviceAddr addr) override {
    if (is_refused()) return Status{StatusCode::kInternal, 1};
    return ForwardingDevice::release(addr);
  }
  Result<DeviceAddr> reserve_range(Bytes bytes, Bytes alignment) override {
    if (is_refused()) return StatusCode::kOutOfMemory;
    return ForwardingDevice::reserve_range(bytes, alignment);
  }
  Status free_range(DeviceAddr addr, Bytes bytes) override {
    if (is_refused()) return Status{StatusCode::kInternal, 1};
    return ForwardingDevice::free_range(addr, bytes);
  }
  Result<HandleId> create_handle(Bytes bytes) override {
    if (is_refused()) return StatusCode::kOutOfMemory;
    return ForwardingDevice::create_handle(bytes);
  }
  Status release_handle(HandleId handle) override {
    if (is_refused()) return Status{StatusCode::kInternal, 1};
    return ForwardingDevice::release_handle(handle);
  }
  Status map(DeviceAddr addr, Bytes bytes, HandleId handle) override {
    if (is_refused()) return Status{StatusCode::kOutOfMemory, 2};
    return ForwardingDevice::map(addr, bytes, handle);
  }
  Status set_access(DeviceAddr addr, Bytes bytes) override {
    if (is_refused()) return Status{StatusCode::kInternal, 1};
    return ForwardingDevice::set_access(addr, bytes);
  }
  Status unmap(DeviceAddr addr, Bytes bytes) override {
    if (is_refused()) return Status{StatusCode::kInternal, 1};
    return ForwardingDevice::unmap(addr, bytes);
  }
  Status synchronize_event(EventId event) override {
    give_way();
    return ForwardingDevice::synchronize_event(event);
  }
  Status synchronize_stream(StreamId stream) override {
    give_way();
    return ForwardingDevice::synchronize_stream(stream);
  }
  Status synchronize_device() override {
    give_way();
    return ForwardingDevice::synchronize_device();
  }

 private:
  bool is_refused() {
    give_way();
    const std::uint64_t most = refused_of_64_.load();
    return most != 0 && draw() % 64 < most;
  }
  void give_way() {
    for (std::uint64_t i = draw() % 4 == 0 ? 20 : 1; i > 0; --i) ::sched_yield();
  }
  std::uint64_t draw() {
    const std::uint64_t at = draws_.fetch_add(1);
    return Random(at).below(1U << 20);
  }

  std::atomic<std::uint64_t> refused_of_64_;
  std::atomic<std::uint64_t> draws_{0};
};

}  // namespace levee::test
