#include "allocator/core/trim.h"

#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;

Result<Bytes> trim(StateRig& rig, Bytes keep, PoolIndex only = PoolIndex{}) {
  return rig.locked([&](PoolGuard& guard) {
    return trim_to(rig.state, rig.placer, rig.pages, guard, only, keep);
  });
}

TEST(Trim, GivesBackNoMoreThanIsAskedFor) {
  StateRig rig;
  const DeviceAddr kept = rig.alloc(10_MiB);
  rig.free(rig.alloc(20_MiB));
  EXPECT_EQ(*trim(rig, 26_MiB), 4_MiB);
  EXPECT_EQ(rig.state.space.reserved(), 26_MiB);
  EXPECT_EQ(*trim(rig, 0_B), 16_MiB);
  EXPECT_EQ(rig.state.space.reserved(), 10_MiB);
  EXPECT_EQ(*trim(rig, 0_B), 0_B);
  rig.validate();
  rig.free(kept);
}

TEST(Trim, KeepsTheBottomOfTheSpace) {
  StateRig rig;
  const DeviceAddr low = rig.alloc(8_MiB);
  rig.free(low);
  ASSERT_EQ(*trim(rig, 4_MiB), 4_MiB);
  EXPECT_EQ(rig.alloc(4_MiB), low);
}

TEST(Trim, WaitsForTheLastUserOfWhatItTakes) {
  StateRig rig;
  const StreamId side = rig.stream();
  const DeviceAddr block = rig.alloc(10_MiB, side);
  rig.work(side, 5_ms);
  rig.free(block);
  const Nanos before = rig.model.now();
  EXPECT_EQ(*trim(rig, 0_B), 10_MiB);
  EXPECT_GE(rig.model.now() - before, 4_ms);
  EXPECT_EQ(rig.model.hazard_count(), 0U);
}

TEST(Trim, FreesBlocksThatWaitForOtherStreamsFirst) {
  StateRig rig;
  const StreamId side = rig.stream();
  const DeviceAddr block = rig.alloc(10_MiB);
  {
    PoolGuard guard(rig.state);
    ASSERT_TRUE(rig.placer.record_use(block, rig.state.stream_index(side)).ok());
  }
  rig.work(side, 5_ms);
  rig.free(block);
  ASSERT_EQ(rig.state.waiting.count(), 1U);
  EXPECT_EQ(*trim(rig, 0_B), 10_MiB);
  EXPECT_TRUE(rig.state.waiting.empty());
}

TEST(Trim, IsRefusedWhileAStreamCaptures) {
  StateRig rig;
  rig.free(rig.alloc(10_MiB));
  const StreamId side = rig.stream();
  rig.state.stream_index(side);
  ASSERT_TRUE(rig.model.begin_capture(DeviceId{0}, side, device::sim::CaptureMode::kRelaxed).ok());
  EXPECT_EQ(trim(rig, 0_B).code(), StatusCode::kNotReady);
  const auto graph = rig.model.end_capture(DeviceId{0}, side);
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(*trim(rig, 0_B), 10_MiB);
  ASSERT_TRUE(rig.model.destroy_graph(*graph).ok());
}

TEST(Trim, OfOnePoolLeavesTheOthersTheirPages) {
  StateRig rig;
  PoolIndex pool;
  {
    PoolGuard guard(rig.state);
    pool = rig.state.pools.find_or_add(PoolId{0, 3}, Backing::kPages).index;
  }
  rig.free(rig.alloc(6_MiB));
  // Held at once, or the pool would be served with the default pool's free pages.
  const DeviceAddr held = rig.alloc(6_MiB);
  rig.free(rig.alloc(10_MiB, StreamId{0}, pool));
  rig.free(held);
  EXPECT_EQ(*trim(rig, 0_B, pool), 10_MiB);
  EXPECT_EQ(rig.state.space.reserved(), 6_MiB);
  EXPECT_EQ(rig.calls(CallKind::kReleaseHandle), 5U);
}

TEST(Trim, ThatCannotWaitForABlocksStreamsGivesNothingBack) {
  StateRig rig;
  const StreamId side = rig.stream();
  rig.free(rig.alloc(8_MiB));
  ASSERT_TRUE(rig.locked([&](PoolGuard& held) { return rig.pages.fence(held); }).ok());
  const DeviceAddr block = rig.alloc(2_MiB);
  PoolGuard guard(rig.state);
  ASSERT_TRUE(rig.placer.record_use(block, rig.state.stream_index(side)).ok());
  rig.work(side, 5_ms);
  ASSERT_TRUE(rig.placer.take_back(block).ok());
  using device::sim::Fault;
  rig.model.set_faults({Fault::fail_every(device::sim::CallKind::kSynchronizeEvent, 1),
                        Fault::fail_every(device::sim::CallKind::kSynchronizeDevice, 1)});
  EXPECT_FALSE(trim_to(rig.state, rig.placer, rig.pages, guard, PoolIndex{}, 0_B).ok());
  EXPECT_EQ(rig.state.space.reserved(), 8_MiB);
  EXPECT_EQ(rig.state.waiting.count(), 1U);
}

}  // namespace
}  // namespace levee::core
