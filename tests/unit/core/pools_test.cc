// Private pools: routing, sharing of pages, captures, checkpoints, limits, segments.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/core/rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;
const PoolId kPool{0, 7};
const PoolId kInner{0, 8};

TEST(Pools, InnermostRegionWinsAndOnlyForItsStreams) {
  Rig rig;
  const StreamId mine = rig.stream();
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, [](StreamId) { return true; }).ok());
  ASSERT_TRUE(rig->begin_allocate_to_pool(kInner, [=](StreamId s) { return s == mine; }).ok());
  EXPECT_EQ(rig->allocate(1_MiB, mine, nullptr)->pool, kInner);
  EXPECT_EQ(rig->allocate(1_MiB, StreamId{0}, nullptr)->pool, kPool);
  ASSERT_TRUE(rig->end_allocate_to_pool(kInner).ok());
  EXPECT_EQ(rig->allocate(5_MiB, mine, nullptr)->pool, kPool);
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
  EXPECT_EQ(rig->allocate(5_MiB, mine, nullptr)->pool, PoolId{});
  EXPECT_FALSE(rig->end_allocate_to_pool(kPool).ok());
  rig->validate();
}

TEST(Pools, AUserPoolAndTheDefaultShareFreePages) {
  Rig rig(128_MiB);
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, {}).ok());
  rig.free(rig.alloc(60_MiB));
  rig.free(rig.alloc(70_MiB));
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
  // Everything that the device has, although the pool still exists.
  const DeviceAddr all = rig.alloc(128_MiB);
  EXPECT_FALSE(all.is_null());
  rig->validate();
  rig.free(all);
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, {}).ok());
  rig.free(rig.alloc(120_MiB));
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
}

TEST(Pools, CapturedPagesServeNobodyElseUntilTheReleaseAndTheFence) {
  Rig rig(64_MiB);
  const StreamId captured = rig.stream();
  const StreamId launch = rig.stream();
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, [=](StreamId s) { return s == captured; }).ok());
  ASSERT_TRUE(
      rig.model().begin_capture(DeviceId{0}, captured, device::sim::CaptureMode::kGlobal).ok());
  const DeviceAddr inside = rig.alloc(40_MiB, captured);
  rig.work(captured, 5_ms);
  rig.free(inside);
  const auto graph = rig.model().end_capture(DeviceId{0}, captured);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
  EXPECT_EQ(rig->allocate(40_MiB, StreamId{0}, nullptr).code(), StatusCode::kOutOfMemory);
  const auto exec = rig.model().instantiate(*graph);
  ASSERT_TRUE(rig.model().launch_graph(DeviceId{0}, launch, *exec).ok());
  ASSERT_TRUE(rig->release_pool(kPool).ok());
  const std::uint64_t fences = rig.calls(CallKind::kSynchronizeDevice);
  const DeviceAddr after = rig.alloc(60_MiB);
  EXPECT_FALSE(after.is_null());
  EXPECT_EQ(rig.calls(CallKind::kSynchronizeDevice), fences + 1);
  rig->validate();
  rig.free(after);
  EXPECT_TRUE(rig.model().destroy_exec(*exec).ok());
  EXPECT_TRUE(rig.model().destroy_graph(*graph).ok());
}

TEST(Pools, APictureComesBackAtTheSameAddresses) {
  Rig rig;
  const StreamId captured = rig.stream();
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, [=](StreamId s) { return s == captured; }).ok());
  ASSERT_TRUE(
      rig.model().begin_capture(DeviceId{0}, captured, device::sim::CaptureMode::kGlobal).ok());
  const DeviceAddr large = rig.alloc(10_MiB, captured);
  const DeviceAddr range = rig.alloc(100_KiB, captured);
  const DeviceAddr object = rig.alloc(700_B, captured);
  const auto picture = rig->checkpoint_pool(kPool);
  ASSERT_TRUE(picture.ok());
  for (DeviceAddr addr : {large, range, object}) rig.free(addr);
  const DeviceAddr other = rig.alloc(3_MiB, captured);
  const auto delta = rig->restore_pool(kPool, **picture);
  ASSERT_TRUE(delta.ok());
  EXPECT_EQ(delta->freed, std::vector<DeviceAddr>{other});
  EXPECT_EQ(delta->allocated.size(), 3U);
  const std::vector<DeviceAddr> expected = {range, large, object};
  EXPECT_TRUE(rig->pool_has_exactly(kPool, expected));
  EXPECT_FALSE(rig->pool_has_exactly(kPool, std::vector<DeviceAddr>{large}));
  rig->validate();
  EXPECT_TRUE(rig.model().end_capture(DeviceId{0}, captured).ok());
}

TEST(Pools, APoolsLimitHoldsAndTheReportNamesIt) {
  Rig rig;
  ASSERT_TRUE(rig->create_or_retain_pool(kPool).ok());
  ASSERT_TRUE(rig->set_pool_limit(kPool, 20_MiB).ok());
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, {}).ok());
  rig.alloc(16_MiB);
  OomReport report;
  EXPECT_EQ(rig->allocate(8_MiB, StreamId{0}, &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(report.cause, EmergencyCause::kPoolLimitReached);
  EXPECT_EQ(report.limit_bytes, 20_MiB);
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
  EXPECT_TRUE(rig->allocate(8_MiB, StreamId{0}, nullptr).ok());
}

TEST(Pools, ServesOthersOnOomOnlyIfItSaysSo) {
  for (bool serves : {false, true}) {
    Rig rig(64_MiB);
    ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, {}).ok());
    const DeviceAddr pin = rig.alloc(63_MiB);
    const DeviceAddr hole = pin;
    rig.alloc(600_KiB);
    rig.free(hole);
    ASSERT_TRUE(rig->set_pool_use_on_oom(kPool, serves).ok());
    ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
    // 62 MiB of free pages, and a part of one more that only the pool's own addresses reach.
    EXPECT_EQ(rig->allocate(63_MiB, StreamId{0}, nullptr).ok(), serves);
    rig->validate();
  }
}

TEST(Pools, AnUnsplitPoolGivesEachBlockPagesOfItsOwn) {
  Rig rig;
  ASSERT_TRUE(rig->create_or_retain_pool(kPool).ok());
  ASSERT_TRUE(rig->set_pool_no_split(kPool).ok());
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, {}).ok());
  const DeviceAddr a = rig.alloc(1_KiB);
  const DeviceAddr b = rig.alloc(3_MiB);
  EXPECT_EQ(a.value % (2_MiB).value, 0U);
  EXPECT_EQ(b.value % (2_MiB).value, 0U);
  EXPECT_EQ(rig.reserved(), 6_MiB);
  rig->validate();
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
}

TEST(Segments, AreWholeAllocationsThatCanBeShared) {
  Config config;
  config.backing = Backing::kSegments;
  Rig rig(1_GiB, config);
  const DeviceAddr block = rig.alloc(30_MiB);
  const Result<Block> base = rig->base_allocation(block + 1_MiB);
  ASSERT_TRUE(base.ok());
  EXPECT_GE(base->bytes, 30_MiB);
  EXPECT_EQ(rig.calls(CallKind::kMap), 0U);
  rig.free(block);
  ASSERT_TRUE(rig->trim(0_B).ok());
  EXPECT_EQ(rig.reserved(), 0_B);
  EXPECT_EQ(rig.model().memory_use(DeviceId{0}).used, 0_B);
}

TEST(Segments, OnePoolCanHaveThemBesidePages) {
  Rig rig(256_MiB);
  ASSERT_TRUE(rig->create_or_retain_pool(kPool).ok());
  ASSERT_TRUE(rig->set_pool_backing(kPool, Backing::kSegments).ok());
  rig.free(rig.alloc(200_MiB));
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, {}).ok());
  // The pages of the default pool have to go first: the ladder's last rung.
  const DeviceAddr shared = rig.alloc(128_MiB);
  EXPECT_TRUE(rig->base_allocation(shared).ok());
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
  EXPECT_EQ(rig->base_allocation(rig.alloc(10_MiB)).code(), StatusCode::kUnsupported);
  rig->validate();
}

}  // namespace
}  // namespace levee::core
