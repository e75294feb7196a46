// An allocator on a model of a GPU that ends the process at the first hazard: what the tests here
// share.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "allocator/core/make_allocator.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"

namespace levee::core {

class Rig {
 public:
  explicit Rig(Bytes capacity = 1_GiB, Config config = {},
               device::sim::JudgeMode judge = device::sim::JudgeMode::kAbort)
      : model_(model_config(capacity, judge)), device_(model_, DeviceId{0}) {
    Result<std::unique_ptr<Allocator>> made = make_allocator(device_, config, nullptr);
    allocator_ = std::move(made.value());
  }
  Allocator& operator*() { return *allocator_; }
  Allocator* operator->() { return allocator_.get(); }
  device::sim::GpuModel& model() { return model_; }
  std::uint64_t calls(device::sim::CallKind kind) const { return model_.calls(kind); }

  StreamId stream() {
    return *model_.create_stream(DeviceId{0}, {.non_blocking = true, .priority = 0});
  }
  /// A kernel that keeps the stream busy.
  void work(StreamId stream, Nanos duration) {
    device::sim::Work work;
    work.duration = duration;
    ASSERT_TRUE(
        model_.enqueue(DeviceId{0}, stream, device::sim::CallKind::kLaunchKernel, work).ok());
  }
  DeviceAddr alloc(Bytes bytes, StreamId stream = StreamId{0}) {
    const Result<Block> block = allocator_->allocate(bytes, stream);
    EXPECT_TRUE(block.ok()) << bytes.value << " bytes";
    return block.ok() ? block->addr : DeviceAddr{};
  }
  void free(DeviceAddr addr) { EXPECT_TRUE(allocator_->free(addr).ok()); }
  Bytes reserved() {
    return Bytes{static_cast<std::uint64_t>(allocator_->stats().reserved_bytes[0].current)};
  }
  /// Gives everything back, as the owner of a real allocator does before it ends it.
  void end() {
    if (allocator_ == nullptr) return;
    for (const SnapshotSegment& segment : allocator_->snapshot().segments) {
      for (const SnapshotBlock& block : segment.blocks) {
        if (block.state == BlockState::kLive) free(block.addr);
      }
    }
    allocator_.reset();
  }
  ~Rig() { end(); }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

 private:
  static device::sim::ModelConfig model_config(Bytes capacity, device::sim::JudgeMode judge) {
    device::sim::ModelConfig config;
    config.devices[0].total_memory = capacity;
    config.judge = judge;
    return config;
  }
  device::sim::GpuModel model_;
  device::sim::SimDevice device_;
  std::unique_ptr<Allocator> allocator_;
};

}  // namespace levee::core
