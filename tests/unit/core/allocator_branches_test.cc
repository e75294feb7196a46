// Requests that miss their thread's cache, fail, or are heard of by a recorder: what only the door
// of the allocator decides.
#include <gtest/gtest.h>

#include <vector>

#include "allocator/core/thread_cache.h"
#include "tests/unit/core/notebook.h"
#include "tests/unit/core/rig.h"
#include "tests/unit/core/scripted_device.h"

namespace levee::core {
namespace {

TEST(AllocatorBranches, WhatCachesHoldGivesWayBeforeTheSlowPathIsTaken) {
  Rig rig(64_MiB);
  int slow = 0;
  AllocatorHooks hooks;
  hooks.capture_context = [&] {
    ++slow;
    return ContextId{};
  };
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < 64; ++i) blocks.push_back(rig.alloc(1_KiB));
  for (DeviceAddr addr : blocks) rig.free(addr);
  rig->set_hooks(hooks);
  const DeviceAddr page = rig.alloc(2_MiB);
  EXPECT_EQ(slow, 0);
  EXPECT_EQ(rig.reserved(), 2_MiB);
  rig.free(page);
}

TEST(AllocatorBranches, APeakOfCachedBlocksIsOverBeforeTheNextLargeOne) {
  Rig rig;
  std::vector<DeviceAddr> blocks;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 16; ++i) blocks.push_back(rig.alloc(4_KiB));
    for (DeviceAddr addr : blocks) rig.free(addr);
    blocks.clear();
  }
  const DeviceAddr large = rig.alloc(8_MiB);
  EXPECT_EQ(rig->stats().allocated_bytes[0].peak, static_cast<std::int64_t>(Bytes{8_MiB}.value));
  rig.free(large);
}

// How often the pool lock is taken is what the device is told of it.
class PoolLocks : public testing::Test {
 protected:
  void SetUp() override {
    device_.hear_pool_lock = [this](bool held) { locks_ += held ? 1 : 0; };
    Result<std::unique_ptr<Allocator>> made = make_allocator(device_, Config{}, nullptr);
    allocator_ = std::move(made.value());
  }
  DeviceAddr alloc(Bytes bytes) {
    const Result<Block> block = allocator_->allocate(bytes, StreamId{0}, nullptr);
    EXPECT_TRUE(block.ok());
    return block->addr;
  }
  static device::sim::ModelConfig model_config() {
    device::sim::ModelConfig config;
    config.report_leaks = false;
    config.judge = device::sim::JudgeMode::kCount;
    return config;
  }
  device::sim::GpuModel model_{model_config()};
  device::sim::SimDevice real_{model_, DeviceId{0}};
  ScriptedDevice device_{real_};
  std::unique_ptr<Allocator> allocator_;
  int locks_ = 0;
};

TEST_F(PoolLocks, OneRequestFillsTheStackForThoseThatFollow) {
  alloc(1_KiB);
  const int before = locks_;
  for (int i = 0; i < 8; ++i) alloc(1_KiB);
  EXPECT_LT(locks_ - before, 4) << "some tell how much is out; none comes for a block";
}

TEST_F(PoolLocks, HitsCountForTheLookAfterBlocksThatWait) {
  const DeviceAddr block = alloc(4_MiB);
  const StreamId side = *model_.create_stream(DeviceId{0});
  ASSERT_TRUE(allocator_->record_use(block, side).ok());
  ASSERT_TRUE(allocator_->free(block).ok());
  const auto waiting = [&] {
    const Stats stats = allocator_->stats();
    return stats.active_bytes[0].current - stats.allocated_bytes[0].current;
  };
  ASSERT_GT(waiting(), 0);
  // The stream is idle: a look frees the block. Every 16th request is one.
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(allocator_->free(alloc(1_KiB)).ok());
  EXPECT_EQ(waiting(), 0);
}

TEST_F(PoolLocks, WhileBlocksWaitEvery16thHitLooksAfterThemAndNoMore) {
  const DeviceAddr block = alloc(4_MiB);
  const StreamId side = *model_.create_stream(DeviceId{0});
  device::sim::Work work;
  work.duration = 60'000_ms;
  ASSERT_TRUE(model_.enqueue(DeviceId{0}, side, device::sim::CallKind::kLaunchKernel, work).ok());
  ASSERT_TRUE(allocator_->record_use(block, side).ok());
  ASSERT_TRUE(allocator_->free(block).ok());
  ASSERT_TRUE(allocator_->free(alloc(1_KiB)).ok());
  const int before = locks_;
  for (int i = 0; i < 64; ++i) ASSERT_TRUE(allocator_->free(alloc(1_KiB)).ok());
  EXPECT_GE(locks_ - before, 4);
  EXPECT_LT(locks_ - before, 24);
}

TEST(AllocatorBranches, PoolsAndStreamsAreNamedInTheRecordOnce) {
  Notebook notebook;
  device::sim::ModelConfig config;
  config.report_leaks = false;
  device::sim::GpuModel model(config);
  device::sim::SimDevice device(model, DeviceId{0});
  const StreamId side = *model.create_stream(DeviceId{0});
  {
    auto made = make_allocator(device, Config{}, &notebook);
    Allocator& allocator = **made;
    const PoolId pool{0, 9};
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(allocator.create_or_retain_pool(pool).ok());
    EXPECT_EQ(notebook.pools, std::vector<PoolId>{pool});
    ASSERT_TRUE(allocator.begin_allocate_to_pool(pool, {}).ok());
    for (int i = 0; i < 2; ++i) {
      const Result<Block> block = allocator.allocate(4_MiB, side, nullptr);
      ASSERT_TRUE(block.ok());
      ASSERT_TRUE(allocator.free(block->addr).ok());
    }
    ASSERT_TRUE(allocator.end_allocate_to_pool(pool).ok());
    EXPECT_EQ(std::count(notebook.streams.begin(), notebook.streams.end(), side), 1);
    const std::vector<Event> events = notebook.of(EventKind::kAlloc);
    ASSERT_EQ(events.size(), 2U);
    for (const Event& event : events) {
      EXPECT_EQ(event.aux, 41) << "the pool's number in the record";
      EXPECT_EQ(event.lane.value, 99 + notebook.streams.size()) << "the lane named last";
    }
  }
}

}  // namespace
}  // namespace levee::core
