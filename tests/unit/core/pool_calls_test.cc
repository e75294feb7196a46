// Calls about private pools, through the allocator's door: use counts, settings, what is refused.
// What regions route is in pools_test.cc.
#include "tests/unit/core/rig.h"

namespace levee::core {
namespace {

const PoolId kGraphs{0, 31};

TEST(PoolCalls, EachBeginIsAUseThatAReleaseGivesBack) {
  Rig rig;
  EXPECT_EQ(rig->pool_use_count(kGraphs), 0);
  ASSERT_TRUE(rig->create_or_retain_pool(kGraphs).ok());
  ASSERT_TRUE(rig->begin_allocate_to_pool(kGraphs, {}).ok());
  EXPECT_EQ(rig->pool_use_count(kGraphs), 2);
  ASSERT_TRUE(rig->end_allocate_to_pool(kGraphs).ok());
  ASSERT_TRUE(rig->release_pool(kGraphs).ok());
  EXPECT_EQ(rig->pool_use_count(kGraphs), 1);
  ASSERT_TRUE(rig->release_pool(kGraphs).ok());
  EXPECT_EQ(rig->pool_use_count(kGraphs), 0);
  EXPECT_EQ(rig->release_pool(kGraphs).code, StatusCode::kInvalidArgument);
}

TEST(PoolCalls, TheDefaultPoolIsNobodysToTake) {
  Rig rig;
  EXPECT_EQ(rig->create_or_retain_pool(PoolId{}).code, StatusCode::kInvalidArgument);
  EXPECT_EQ(rig->begin_allocate_to_pool(PoolId{}, {}).code, StatusCode::kInvalidArgument);
  EXPECT_EQ(rig->release_pool(PoolId{}).code, StatusCode::kInvalidArgument);
}

TEST(PoolCalls, SettingsOfAPoolThatIsNoneAreRefused) {
  Rig rig;
  EXPECT_FALSE(rig->set_pool_limit(kGraphs, 1_MiB).ok());
  EXPECT_FALSE(rig->set_pool_no_split(kGraphs).ok());
  EXPECT_FALSE(rig->set_pool_use_on_oom(kGraphs, true).ok());
  EXPECT_FALSE(rig->set_pool_backing(kGraphs, Backing::kSegments).ok());
  EXPECT_FALSE(rig->end_allocate_to_pool(kGraphs).ok());
  EXPECT_FALSE(rig->checkpoint_pool(kGraphs).ok());
}

TEST(PoolCalls, AReleasedPoolIsNotRestored) {
  Rig rig;
  ASSERT_TRUE(rig->begin_allocate_to_pool(kGraphs, {}).ok());
  const DeviceAddr block = rig.alloc(4_MiB);
  ASSERT_TRUE(rig->end_allocate_to_pool(kGraphs).ok());
  const auto picture = rig->checkpoint_pool(kGraphs);
  ASSERT_TRUE(picture.ok());
  ASSERT_TRUE(rig->release_pool(kGraphs).ok());
  EXPECT_EQ(rig->restore_pool(kGraphs, **picture).code(), StatusCode::kInvalidArgument);
  rig.free(block);
  EXPECT_EQ(rig->restore_pool(kGraphs, **picture).code(), StatusCode::kInvalidArgument);
}

TEST(PoolCalls, AStreamThatIsExpectedIsAskedBeforeAnybodyWaits) {
  Rig rig;
  rig.free(rig.alloc(8_MiB));
  const StreamId side = rig.stream();
  rig->expect_stream(side);
  ASSERT_TRUE(rig.model().begin_capture(DeviceId{0}, side, device::sim::CaptureMode::kGlobal).ok());
  EXPECT_EQ(rig->trim(0_B).code(), StatusCode::kNotReady);
  const auto graph = rig.model().end_capture(DeviceId{0}, side);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(rig.model().destroy_graph(*graph).ok());
}

TEST(PoolCalls, ACaptureQueryThatFailsIsNoOutOfMemory) {
  Rig rig;
  const StreamId side = rig.stream();
  ASSERT_TRUE(rig->begin_allocate_to_pool(kGraphs, {}).ok());
  rig.model().set_faults({device::sim::Fault::fail_nth(device::sim::CallKind::kCaptureInfo, 1)});
  EXPECT_EQ(rig->allocate(1_MiB, side, nullptr).code(), StatusCode::kInternal);
  EXPECT_TRUE(rig->allocate(1_MiB, side, nullptr).ok());
  ASSERT_TRUE(rig->end_allocate_to_pool(kGraphs).ok());
}

TEST(PoolCalls, AnUnknownPoolHasNoRegionNoBlocksAndNoPicture) {
  Rig rig;
  const PoolId other{0, 32};
  ASSERT_TRUE(rig->begin_allocate_to_pool(kGraphs, {}).ok());
  const DeviceAddr block = rig.alloc(4_MiB);
  EXPECT_EQ(rig->end_allocate_to_pool(other).code, StatusCode::kInvalidArgument);
  EXPECT_TRUE(rig->pool_has_exactly(other, {}));
  EXPECT_FALSE(rig->pool_has_exactly(other, std::vector<DeviceAddr>{block}));
  EXPECT_TRUE(rig->snapshot(other).segments.empty());
  EXPECT_FALSE(rig->snapshot(kGraphs).segments.empty());
  EXPECT_EQ(*rig->trim_pool(other), 0_B);
  const auto picture = rig->checkpoint_pool(kGraphs);
  ASSERT_TRUE(picture.ok());
  ASSERT_TRUE(rig->end_allocate_to_pool(kGraphs).ok());
  ASSERT_TRUE(rig->create_or_retain_pool(other).ok());
  EXPECT_EQ(rig->restore_pool(other, **picture).code(), StatusCode::kInvalidArgument);
  rig.free(block);
  EXPECT_EQ(*rig->trim_pool(kGraphs), 4_MiB);
}

}  // namespace
}  // namespace levee::core
