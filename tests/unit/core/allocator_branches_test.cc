// Requests that miss their thread's cache, fail, or are heard of by a recorder: what only the door
// of the allocator decides.
#include <gtest/gtest.h>

#include <vector>

#include "allocator/core/thread_cache.h"
#include "tests/unit/core/notebook.h"
#include "tests/unit/core/rig.h"

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
  rig.free(rig.alloc(8_MiB));
  EXPECT_EQ(rig->stats().allocated_bytes[0].peak, static_cast<std::int64_t>(Bytes{8_MiB}.value));
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
