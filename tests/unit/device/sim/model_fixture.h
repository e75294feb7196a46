// What the tests of the model share: a small model whose calls cost nothing and whose findings are
// counted.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <levee/units.h>

#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/judge_rule.h"

namespace levee::device::sim {

inline constexpr DeviceId kGpu{0};
inline constexpr DeviceId kOtherGpu{1};
inline constexpr StreamId kLegacy{0};

inline ModelConfig small_config(int devices = 1) {
  ModelConfig config;
  config.devices.assign(static_cast<std::size_t>(devices), DeviceConfig{});
  for (DeviceConfig& device : config.devices) device.total_memory = 256_MiB;
  config.judge = JudgeMode::kCount;
  config.latency = LatencyTable::zero();
  return config;
}

class ModelTest : public ::testing::Test {
 protected:
  explicit ModelTest(ModelConfig config = small_config()) : model(std::move(config)) {}

  // A test that expects findings takes them with take_hazards; what is left at its end is a
  // failure.
  void TearDown() override { EXPECT_EQ(model.report(), ""); }

  std::vector<HazardKind> take_hazards() {
    std::vector<HazardKind> kinds;
    for (const Hazard& hazard : model.hazards()) kinds.push_back(hazard.kind);
    model.clear_hazards();
    return kinds;
  }

  StreamId new_stream(bool non_blocking = true, DeviceId device = kGpu) {
    return model.create_stream(device, StreamOptions{.non_blocking = non_blocking, .priority = 0})
        .value();
  }
  EventId new_event(DeviceId device = kGpu) { return model.create_event(device).value(); }

  /// Work that takes `duration` on `stream`.
  void run(StreamId stream, Nanos duration, DeviceId device = kGpu) {
    Work work;
    work.duration = duration;
    ASSERT_TRUE(model.enqueue(device, stream, CallKind::kLaunchKernel, work).ok());
  }
  void touch(StreamId stream, DeviceAddr addr, Bytes bytes, bool writes = true,
             DeviceId device = kGpu) {
    const Touch touched{addr, bytes, writes};
    Work work;
    work.touches = std::span<const Touch>(&touched, 1);
    ASSERT_TRUE(model.enqueue(device, stream, CallKind::kLaunchKernel, work).ok());
  }
  /// `later` waits for everything on `earlier`.
  void order(StreamId earlier, StreamId later, DeviceId device = kGpu) {
    const EventId event = new_event(device);
    ASSERT_TRUE(model.record_event(event, device, earlier).ok());
    ASSERT_TRUE(model.wait_event(device, later, event).ok());
    ASSERT_TRUE(model.destroy_event(event).ok());
  }

  void hand_out(StreamId stream, DeviceAddr addr, Bytes bytes, DeviceId device = kGpu) {
    model.note_use(device, addr, bytes, stream, UseKind::kHandOut);
  }
  void share(StreamId stream, DeviceAddr addr, Bytes bytes) {
    model.note_use(kGpu, addr, bytes, stream, UseKind::kShare);
  }
  void give_back(StreamId stream, DeviceAddr addr, Bytes bytes, DeviceId device = kGpu) {
    model.note_use(device, addr, bytes, stream, UseKind::kGiveBack);
  }

  /// A reserved range with each page of `handles` mapped and accessible, side by side.
  DeviceAddr map_run(const std::vector<HandleId>& handles) {
    const DeviceAddr base = model.reserve_range(kGpu, 2_MiB * handles.size(), Bytes{}).value();
    DeviceAddr at = base;
    for (const HandleId handle : handles) {
      EXPECT_TRUE(model.map(at, 2_MiB, handle).ok());
      at = at + 2_MiB;
    }
    EXPECT_TRUE(model.set_access(base, 2_MiB * handles.size(), kGpu).ok());
    return base;
  }
  std::vector<HandleId> new_pages(std::size_t count) {
    std::vector<HandleId> handles;
    for (std::size_t i = 0; i < count; ++i)
      handles.push_back(model.create_handle(kGpu, 2_MiB).value());
    return handles;
  }

  GpuModel model;
};

inline constexpr Native native_of(Status status) {
  return static_cast<Native>(status.native_code);
}

}  // namespace levee::device::sim
