#include "allocator/core/page_work.h"

#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;
using device::sim::Fault;

GrowthPlan plan_of(ZoneIndex zone, std::uint32_t first, std::uint32_t units) {
  GrowthPlan plan;
  plan.zone = zone;
  plan.stretches = {{first, units}};
  plan.units = units;
  return plan;
}

class PageWorkTest : public testing::Test {
 protected:
  Pool& pool() { return rig_.state.pools.default_pool(); }
  ZoneIndex primary() {
    return *rig_.locked([&](PoolGuard& guard) {
      return rig_.pages.add_zone(guard, pool(), ZoneRole::kPrimary, 2_MiB);
    });
  }
  PageWork::Grown grow(const GrowthPlan& plan) {
    return rig_.locked([&](PoolGuard& guard) { return rig_.pages.grow(guard, pool(), plan); });
  }
  std::vector<PageIndex> pages() {
    std::vector<PageIndex> all;
    for (std::uint32_t i = 0; i < rig_.state.space.pages().end(); ++i) {
      if (rig_.state.space.page(PageIndex{i}).units != 0) all.push_back(PageIndex{i});
    }
    return all;
  }
  StateRig rig_;
};

TEST_F(PageWorkTest, GrowthMakesMapsAndOffersPages) {
  const ZoneIndex zone = primary();
  EXPECT_TRUE(grow(plan_of(zone, 0, 3)).status.ok());
  EXPECT_EQ(rig_.state.space.reserved(), 6_MiB);
  EXPECT_EQ(rig_.state.space.zone(zone).runs.longest(), 6_MiB);
  EXPECT_EQ(rig_.calls(CallKind::kCreateHandle), 3U);
  EXPECT_EQ(rig_.calls(CallKind::kSetAccess), 1U);
  rig_.validate();
}

TEST_F(PageWorkTest, GrowthThatFailsIsTakenBackWhicheverCallItIs) {
  const ZoneIndex zone = primary();
  for (CallKind kind : {CallKind::kCreateHandle, CallKind::kMap, CallKind::kSetAccess}) {
    rig_.model.set_faults({Fault::fail_nth(kind, kind == CallKind::kSetAccess ? 1 : 2)});
    EXPECT_FALSE(grow(plan_of(zone, 0, 3)).status.ok());
    rig_.model.set_faults({});
    EXPECT_EQ(rig_.state.space.reserved(), 0_B);
    EXPECT_EQ(rig_.model.memory_use(DeviceId{0}).handles, 0U);
    EXPECT_EQ(rig_.model.memory_use(DeviceId{0}).mappings, 0U);
    rig_.validate();
  }
}

TEST_F(PageWorkTest, WhatARollbackCannotTakeBackIsKeptAndGivenBackLater) {
  const ZoneIndex zone = primary();
  rig_.model.set_faults({Fault::fail_nth(CallKind::kCreateHandle, 3),
                         Fault::fail_every(CallKind::kReleaseHandle, 1)});
  const PageWork::Grown grown = grow(plan_of(zone, 0, 4));
  EXPECT_EQ(grown.made, 2U);
  rig_.model.set_faults({});
  EXPECT_EQ(rig_.state.space.reserved(), 4_MiB);
  EXPECT_EQ(rig_.state.space.zone(zone).runs.longest(), 0_B);
  rig_.validate();
  const Result<Bytes> freed = rig_.locked([&](PoolGuard& guard) {
    return rig_.pages.give_back(guard, rig_.pages.removable_pages(PoolIndex{}));
  });
  EXPECT_EQ(*freed, 4_MiB);
  EXPECT_EQ(rig_.model.memory_use(DeviceId{0}).handles, 0U);
}

TEST_F(PageWorkTest, AStitchMapsPagesAgainSideBySide) {
  const ZoneIndex zone = primary();
  ASSERT_TRUE(grow(plan_of(zone, 0, 5)).status.ok());
  StitchPlan plan;
  plan.needs_zone = true;
  plan.pages = {PageIndex{4}, PageIndex{0}, PageIndex{2}};
  plan.units = 3;
  const Status status =
      rig_.locked([&](PoolGuard& guard) { return rig_.pages.stitch(guard, pool(), plan); });
  ASSERT_TRUE(status.ok());
  ASSERT_EQ(pool().others.size(), 1U);
  EXPECT_EQ(rig_.state.space.zone(pool().others[0]).runs.longest(), 6_MiB);
  EXPECT_EQ(rig_.state.space.reserved(), 10_MiB);
  EXPECT_EQ(rig_.calls(CallKind::kUnmap), 0U);
  EXPECT_EQ(rig_.state.counters.stats().num_stitched_pages, 3);
  rig_.validate();
}

TEST_F(PageWorkTest, AStitchSaysWhereItIsAndKeepsAddressesForWhatItLacks) {
  const ZoneIndex zone = primary();
  ASSERT_TRUE(grow(plan_of(zone, 0, 3)).status.ok());
  StitchPlan plan;
  plan.needs_zone = true;
  plan.pages = {PageIndex{2}, PageIndex{0}};
  plan.units = 2;
  plan.missing = 40;
  ASSERT_TRUE(
      rig_.locked([&](PoolGuard& guard) { return rig_.pages.stitch(guard, pool(), plan); }).ok());
  ASSERT_EQ(pool().others.size(), 1U);
  EXPECT_FALSE(plan.needs_zone);
  EXPECT_EQ(plan.zone, pool().others[0]);
  EXPECT_EQ(plan.first_unit, 0U);
  EXPECT_EQ(rig_.state.space.zone(plan.zone).range_bytes, 84_MiB);
  rig_.validate();
}

TEST_F(PageWorkTest, ARebaseIsAllOrNothing) {
  const ZoneIndex zone = primary();
  ASSERT_TRUE(grow(plan_of(zone, 0, 4)).status.ok());
  const auto rebase = [&] {
    return rig_.locked([&](PoolGuard& guard) { return rig_.pages.rebase(guard, pool(), pages()); });
  };
  rig_.model.set_faults({Fault::fail_nth(CallKind::kMap, 3)});
  EXPECT_FALSE(rebase().ok());
  rig_.model.set_faults({});
  EXPECT_EQ(pool().primary, zone);
  EXPECT_EQ(rig_.model.memory_use(DeviceId{0}).mappings, 4U);
  ASSERT_TRUE(rebase().ok());
  EXPECT_NE(pool().primary, zone);
  EXPECT_EQ(rig_.state.space.zone(zone).role, ZoneRole::kFormer);
  EXPECT_EQ(rig_.model.memory_use(DeviceId{0}).mappings, 8U);
  rig_.validate();
}

TEST_F(PageWorkTest, PagesThatCannotBeUnmappedStay) {
  const ZoneIndex zone = primary();
  ASSERT_TRUE(grow(plan_of(zone, 0, 3)).status.ok());
  const auto give_back = [&] {
    return rig_.locked([&](PoolGuard& guard) {
      return rig_.pages.give_back(guard, rig_.pages.removable_pages(PoolIndex{}));
    });
  };
  // The stretch as a whole, then the first page of it.
  rig_.model.set_faults({Fault::fail_window(CallKind::kUnmap, 1, 2)});
  EXPECT_EQ(*give_back(), 4_MiB);
  rig_.model.set_faults({});
  EXPECT_EQ(rig_.state.space.reserved(), 2_MiB);
  rig_.validate();
  EXPECT_EQ(*give_back(), 2_MiB);
}

TEST_F(PageWorkTest, RemovablePagesAreFreeOnesTheTopFirst) {
  const ZoneIndex zone = primary();
  ASSERT_TRUE(grow(plan_of(zone, 0, 4)).status.ok());
  rig_.state.space.occupy(zone, core::Run{2_MiB, 2_MiB}, kDefaultPool);
  const std::vector<PageIndex> removable = rig_.pages.removable_pages(PoolIndex{});
  EXPECT_EQ(removable, (std::vector<PageIndex>{PageIndex{3}, PageIndex{2}, PageIndex{0}}));
  EXPECT_TRUE(rig_.pages.removable_pages(PoolIndex{7}).empty());
}

TEST_F(PageWorkTest, ASegmentComesAndGoesWhole) {
  const Status added =
      rig_.locked([&](PoolGuard& guard) { return rig_.pages.add_segment(guard, pool(), 6_MiB); });
  ASSERT_TRUE(added.ok());
  EXPECT_EQ(rig_.calls(CallKind::kMalloc), 1U);
  EXPECT_EQ(rig_.calls(CallKind::kMap), 0U);
  EXPECT_EQ(rig_.state.space.reserved(), 6_MiB);
  rig_.validate();
  const Result<Bytes> freed = rig_.locked(
      [&](PoolGuard& guard) { return rig_.pages.give_back_segments(guard, PoolIndex{}, 1_B); });
  EXPECT_EQ(*freed, 6_MiB);
  EXPECT_EQ(rig_.model.memory_use(DeviceId{0}).used, 0_B);
}

TEST_F(PageWorkTest, AFenceCompletesEveryStampButNotDuringACapture) {
  const StreamId side = rig_.stream();
  rig_.work(side, 3_ms);
  const Stamp stamp = rig_.state.streams.stamp_now(rig_.state.stream_index(side));
  ASSERT_TRUE(rig_.model.begin_capture(DeviceId{0}, side, device::sim::CaptureMode::kRelaxed).ok());
  const auto fence = [&] {
    return rig_.locked([&](PoolGuard& guard) { return rig_.pages.fence(guard); });
  };
  EXPECT_EQ(fence().code, StatusCode::kNotReady);
  const auto graph = rig_.model.end_capture(DeviceId{0}, side);
  ASSERT_TRUE(graph.ok());
  EXPECT_FALSE(rig_.state.streams.is_complete(stamp));
  EXPECT_TRUE(fence().ok());
  EXPECT_TRUE(rig_.state.streams.is_complete(stamp));
  ASSERT_TRUE(rig_.model.destroy_graph(*graph).ok());
}

}  // namespace
}  // namespace levee::core
