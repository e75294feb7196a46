// What PageWork does when the device refuses: what stays, what is told, and what is not tried.
#include "allocator/core/page_work.h"
#include "allocator/core/rebase.h"
#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

using device::Native;
using device::sim::CallKind;
using device::sim::Fault;

class PageWorkFaults : public testing::Test {
 protected:
  explicit PageWorkFaults(Config config = {}) : rig_(256_MiB, config) {}

  Pool& pool() { return rig_.state.pools.default_pool(); }
  ZoneIndex primary() {
    return *rig_.locked([&](PoolGuard& guard) {
      return rig_.pages.add_zone(guard, pool(), ZoneRole::kPrimary, 2_MiB);
    });
  }
  PageWork::Grown grow(std::vector<FillStretch> stretches, std::uint32_t largest_page = 1) {
    GrowthPlan plan;
    plan.zone = pool().primary;
    plan.largest_page = largest_page;
    for (const FillStretch& stretch : stretches) plan.units += stretch.units;
    plan.stretches = std::move(stretches);
    return rig_.locked([&](PoolGuard& guard) { return rig_.pages.grow(guard, pool(), plan); });
  }
  std::vector<PageIndex> pages() {
    std::vector<PageIndex> all;
    for (std::uint32_t i = 0; i < rig_.state.space.pages().end(); ++i) {
      if (rig_.state.space.page(PageIndex{i}).units != 0) all.push_back(PageIndex{i});
    }
    return all;
  }
  Status stitch(std::vector<PageIndex> which) {
    StitchPlan plan;
    plan.needs_zone = true;
    plan.units = static_cast<std::uint32_t>(which.size());
    plan.pages = std::move(which);
    return rig_.locked([&](PoolGuard& guard) { return rig_.pages.stitch(guard, pool(), plan); });
  }
  Result<Bytes> give_back() {
    return rig_.locked([&](PoolGuard& guard) {
      return rig_.pages.give_back(guard, rig_.pages.removable_pages(PoolIndex{}));
    });
  }
  Result<Bytes> give_back_segments() {
    return rig_.locked(
        [&](PoolGuard& guard) { return rig_.pages.give_back_segments(guard, PoolIndex{}, 1_GiB); });
  }
  Status quiesce(Stamp stamp) {
    StampSet stamps;
    stamps.add(stamp);
    return rig_.locked([&](PoolGuard& guard) { return rig_.pages.quiesce(guard, stamps); });
  }
  /// A busy stream, and the stamp of what it was given so far.
  Stamp busy_stamp() {
    const StreamId side = rig_.stream();
    rig_.work(side, 2_ms);
    return rig_.state.streams.stamp_now(rig_.state.stream_index(side));
  }
  /// Every free page is used by that stream until its work is done.
  void leave_stamp_on_pages() {
    const Stamp stamp = busy_stamp();
    for (PageIndex page : pages()) rig_.state.space.add_stamp(page, stamp);
  }
  Bytes used() { return rig_.model.memory_use(DeviceId{0}).used; }
  std::int64_t stitches() { return rig_.state.counters.stats().num_stitches; }

  StateRig rig_;
};

class PageWorkMoves : public PageWorkFaults {
 protected:
  static Config config() {
    Config move;
    move.stitch = StitchMode::kMove;
    return move;
  }
  PageWorkMoves() : PageWorkFaults(config()) {}
};

TEST_F(PageWorkFaults, WhatIsRefusedInLargePagesIsMadeInTheSmallest) {
  primary();
  rig_.model.set_faults({Fault::fail_nth(CallKind::kCreateHandle, 2)});
  const PageWork::Grown grown = grow({{0, 16}}, 4);
  EXPECT_TRUE(grown.status.ok());
  EXPECT_EQ(grown.made, 16U);
  EXPECT_EQ(pages().size(), 16U);
  EXPECT_EQ(rig_.state.space.reserved(), 32_MiB);
  EXPECT_EQ(used(), 32_MiB);
  rig_.validate();
}

TEST_F(PageWorkFaults, ARollbackReleasesNothingThatIsStillMapped) {
  primary();
  rig_.model.set_faults({Fault::fail_nth(CallKind::kMap, 3), fail_always(CallKind::kUnmap)});
  EXPECT_FALSE(grow({{0, 2}, {4, 2}}).status.ok());
  rig_.model.set_faults({});
  EXPECT_EQ(rig_.state.space.reserved(), 4_MiB) << "the pages of the first stretch";
  EXPECT_EQ(rig_.model.memory_use(DeviceId{0}).handles, 2U);
  EXPECT_EQ(rig_.model.memory_use(DeviceId{0}).mappings, 2U);
  rig_.validate();
  EXPECT_EQ(*give_back(), 4_MiB);
  EXPECT_EQ(used(), 0_B);
}

TEST_F(PageWorkFaults, ARollbackThatCannotReleaseKeepsThePage) {
  primary();
  rig_.model.set_faults(
      {Fault::fail_nth(CallKind::kMap, 3), fail_always(CallKind::kReleaseHandle)});
  EXPECT_FALSE(grow({{0, 2}, {4, 2}}).status.ok());
  rig_.model.set_faults({});
  EXPECT_EQ(rig_.state.space.reserved(), 8_MiB);
  EXPECT_EQ(rig_.model.memory_use(DeviceId{0}).handles, 4U);
  EXPECT_EQ(rig_.model.memory_use(DeviceId{0}).mappings, 0U);
  EXPECT_EQ(*give_back(), 8_MiB);
}

TEST_F(PageWorkFaults, AStitchThatIsRefusedIsNoStitch) {
  primary();
  ASSERT_TRUE(grow({{0, 4}}).status.ok());
  rig_.model.set_faults({Fault::fail_nth(CallKind::kMap, 2)});
  EXPECT_FALSE(stitch({PageIndex{0}, PageIndex{2}, PageIndex{3}}).ok());
  EXPECT_EQ(stitches(), 0);
  rig_.model.set_faults({});
  EXPECT_EQ(rig_.state.space.zone(pool().primary).runs.longest(), 8_MiB);
  rig_.validate();
}

TEST_F(PageWorkMoves, AStitchThatCannotWaitForTheLastUsersMovesNothing) {
  primary();
  ASSERT_TRUE(grow({{0, 4}}).status.ok());
  leave_stamp_on_pages();
  rig_.model.set_faults(
      {fail_always(CallKind::kSynchronizeEvent), fail_always(CallKind::kSynchronizeDevice)});
  EXPECT_FALSE(stitch({PageIndex{0}, PageIndex{2}}).ok());
  EXPECT_EQ(rig_.calls(CallKind::kUnmap), 0U);
  EXPECT_EQ(rig_.model.memory_use(DeviceId{0}).mappings, 4U);
  for (PageIndex page : pages()) EXPECT_EQ(rig_.state.space.page(page).withheld, 0U);
  rig_.model.set_faults({});
  EXPECT_TRUE(stitch({PageIndex{0}, PageIndex{2}}).ok());
  EXPECT_EQ(stitches(), 1);
  rig_.validate();
}

TEST_F(PageWorkFaults, APrimaryZoneIsCompletedOrTheFailureIsTold) {
  primary();
  ASSERT_TRUE(grow({{0, 4}}).status.ok());
  ASSERT_TRUE(stitch({PageIndex{1}}).ok());
  const std::int64_t before = stitches();
  const ZoneIndex fresh = primary();
  const auto complete = [&] {
    return rig_.locked(
        [&](PoolGuard& guard) { return rig_.pages.complete_primary(guard, pool(), pages()); });
  };
  rig_.model.set_faults({Fault::fail_nth(CallKind::kMap, 2)});
  EXPECT_FALSE(complete().ok());
  EXPECT_EQ(stitches(), before);
  rig_.model.set_faults({});
  ASSERT_TRUE(complete().ok());
  EXPECT_EQ(stitches(), before + 1);
  EXPECT_EQ(rig_.state.counters.stats().num_stitched_pages, 5);
  EXPECT_EQ(rig_.state.space.zone(fresh).runs.longest(), 8_MiB);
  rig_.validate();
}

TEST_F(PageWorkFaults, APrimaryZoneIsNotCompletedBeyondItsAddresses) {
  primary();
  ASSERT_TRUE(grow({{0, 5}}).status.ok());
  // Of 512 MiB, half of that and so on 8 are granted.
  rig_.model.set_faults({Fault::fail_window(CallKind::kReserveRange, 1, 6)});
  ASSERT_EQ(rig_.state.space.zone(primary()).range_bytes, 8_MiB);
  const std::uint64_t before = rig_.calls(CallKind::kMap);
  const Status status = rig_.locked(
      [&](PoolGuard& guard) { return rig_.pages.complete_primary(guard, pool(), pages()); });
  EXPECT_EQ(status.code, StatusCode::kOutOfMemory);
  EXPECT_EQ(rig_.calls(CallKind::kMap), before);
  rig_.validate();
}

TEST_F(PageWorkFaults, ARebaseThatFailsLeavesNoZoneBehind) {
  const ZoneIndex zone = primary();
  ASSERT_TRUE(grow({{0, 4}}).status.ok());
  const auto rebase = [&] {
    return rig_.locked([&](PoolGuard& guard) { return rig_.pages.rebase(guard, pool(), pages()); });
  };
  rig_.model.set_faults({fail_always(CallKind::kReserveRange, Native::kNotSupported)});
  EXPECT_FALSE(rebase().ok());
  EXPECT_EQ(rig_.calls(CallKind::kMap), 4U) << "nothing is mapped without addresses";
  rig_.model.set_faults({Fault::fail_nth(CallKind::kMap, 1)});
  EXPECT_FALSE(rebase().ok());
  EXPECT_EQ(rig_.calls(CallKind::kFreeRange), 1U);
  EXPECT_TRUE(pool().others.empty());
  EXPECT_EQ(pool().primary, zone);
  EXPECT_EQ(rig_.state.counters.stats().num_rebases, 0);
  rig_.validate();
}

TEST_F(PageWorkFaults, AnEventThatIsDoneNeedsNoFence) {
  const Stamp stamp = busy_stamp();
  EXPECT_TRUE(quiesce(stamp).ok());
  EXPECT_TRUE(rig_.state.streams.is_complete(stamp));
  EXPECT_EQ(rig_.calls(CallKind::kSynchronizeEvent), 1U);
  EXPECT_EQ(rig_.calls(CallKind::kSynchronizeDevice), 0U);
}

TEST_F(PageWorkFaults, AStreamThatTakesNoEventIsFenced) {
  const Stamp stamp = busy_stamp();
  rig_.model.set_faults({fail_always(CallKind::kRecordEvent, Native::kInvalidHandle)});
  EXPECT_TRUE(quiesce(stamp).ok());
  EXPECT_EQ(rig_.calls(CallKind::kSynchronizeDevice), 1U);
  EXPECT_TRUE(rig_.state.streams.is_complete(stamp));
}

TEST_F(PageWorkFaults, AWaitThatFailedCompletesNothing) {
  const Stamp first = busy_stamp();
  const Stamp second = busy_stamp();
  StampSet stamps;
  stamps.add(first);
  stamps.add(second);
  rig_.model.set_faults(
      {fail_always(CallKind::kSynchronizeEvent), fail_always(CallKind::kSynchronizeDevice)});
  EXPECT_FALSE(
      rig_.locked([&](PoolGuard& guard) { return rig_.pages.quiesce(guard, stamps); }).ok());
  EXPECT_EQ(rig_.calls(CallKind::kSynchronizeEvent), 1U) << "the second is not waited for either";
  EXPECT_FALSE(rig_.state.streams.is_complete(first));
  EXPECT_FALSE(rig_.state.streams.is_complete(second));
}

TEST_F(PageWorkFaults, AFenceThatFailsAsksNoStreamAndCompletesNothing) {
  primary();
  ASSERT_TRUE(grow({{0, 1}}).status.ok());
  leave_stamp_on_pages();
  const auto fence = [&] {
    return rig_.locked([&](PoolGuard& guard) { return rig_.pages.fence(guard); });
  };
  rig_.model.set_faults({Fault::fail_nth(CallKind::kSynchronizeDevice, 1, Native::kInvalidValue)});
  EXPECT_FALSE(fence().ok());
  EXPECT_EQ(rig_.calls(CallKind::kSynchronizeStream), 0U);
  rig_.model.set_faults(
      {Fault::fail_nth(CallKind::kSynchronizeStream, 1, Native::kIllegalAddress)});
  EXPECT_EQ(fence().code, StatusCode::kDeviceLost);
  rig_.model.set_faults({Fault::fail_nth(CallKind::kSynchronizeStream, 1, Native::kInvalidHandle)});
  EXPECT_TRUE(fence().ok()) << "a stream that is gone has no work left";
}

TEST_F(PageWorkFaults, PagesWhoseUsersCannotBeWaitedForAreNotGivenBack) {
  primary();
  ASSERT_TRUE(grow({{0, 3}}).status.ok());
  leave_stamp_on_pages();
  rig_.model.set_faults(
      {fail_always(CallKind::kSynchronizeEvent), fail_always(CallKind::kSynchronizeDevice)});
  EXPECT_FALSE(give_back().ok());
  EXPECT_EQ(rig_.calls(CallKind::kUnmap), 0U);
  EXPECT_EQ(rig_.calls(CallKind::kReleaseHandle), 0U);
  EXPECT_EQ(rig_.state.space.reserved(), 6_MiB);
  rig_.model.set_faults({});
  EXPECT_EQ(*give_back(), 6_MiB);
}

TEST_F(PageWorkFaults, WhenNoHandleGoesBackTheFirstFailureIsTold) {
  primary();
  ASSERT_TRUE(grow({{0, 2}}).status.ok());
  rig_.model.set_faults({Fault::fail_nth(CallKind::kReleaseHandle, 1, Native::kInvalidValue),
                         Fault::fail_nth(CallKind::kReleaseHandle, 2, Native::kNotPermitted)});
  const Result<Bytes> none = give_back();
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().native_code, static_cast<int>(Native::kInvalidValue));
  // One of two: that is no failure.
  rig_.model.set_faults({Fault::fail_nth(CallKind::kReleaseHandle, 1, Native::kInvalidValue)});
  EXPECT_EQ(*give_back(), 2_MiB);
  rig_.validate();
}

TEST_F(PageWorkFaults, WhenNothingCanBeUnmappedThatIsTold) {
  primary();
  ASSERT_TRUE(grow({{0, 2}}).status.ok());
  rig_.model.set_faults({Fault::fail_nth(CallKind::kUnmap, 1, Native::kInvalidValue),
                         Fault::fail_window(CallKind::kUnmap, 2, 3, Native::kNotPermitted)});
  const Result<Bytes> none = give_back();
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().native_code, static_cast<int>(Native::kInvalidValue));
  EXPECT_EQ(*give_back(), 4_MiB);
  rig_.validate();
}

class SegmentFaults : public PageWorkFaults {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(rig_.locked([&](PoolGuard& guard) {
                        return rig_.pages.add_segment(guard, pool(), 4_MiB);
                      })
                      .ok());
    }
  }
};

TEST_F(SegmentFaults, AreNotFreedUnderTheirLastUsers) {
  leave_stamp_on_pages();
  rig_.model.set_faults(
      {fail_always(CallKind::kSynchronizeEvent), fail_always(CallKind::kSynchronizeDevice)});
  EXPECT_FALSE(give_back_segments().ok());
  EXPECT_EQ(rig_.calls(CallKind::kFree), 0U);
  EXPECT_EQ(rig_.state.space.reserved(), 8_MiB);
}

TEST_F(SegmentFaults, WhenNoneGoesBackTheFirstFailureIsTold) {
  rig_.model.set_faults({Fault::fail_nth(CallKind::kFree, 1, Native::kInvalidValue),
                         Fault::fail_nth(CallKind::kFree, 2, Native::kNotPermitted)});
  const Result<Bytes> none = give_back_segments();
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().native_code, static_cast<int>(Native::kInvalidValue));
  rig_.model.set_faults({Fault::fail_nth(CallKind::kFree, 1, Native::kInvalidValue)});
  EXPECT_EQ(*give_back_segments(), 4_MiB);
  rig_.validate();
}

// A device whose allocations may begin anywhere.
class CrookedSegment : public PageWorkFaults {
 protected:
  Status add_segment() {
    return rig_.locked(
        [&](PoolGuard& guard) { return rig_.pages.add_segment(guard, pool(), 4_MiB); });
  }
  void SetUp() override {
    rig_.device.answer_allocate = [this](Bytes bytes) -> Result<DeviceAddr> {
      asked_.push_back(bytes);
      const Result<DeviceAddr> real = rig_.real.allocate(bytes + 2_MiB);
      if (!real.ok()) return real;
      last_ = *real + 1_MiB;
      return last_;
    };
    rig_.device.answer_release = [this](DeviceAddr addr) {
      released_.push_back(addr);
      return rig_.real.release(DeviceAddr{addr.value - Bytes{1_MiB}.value});
    };
  }
  std::vector<Bytes> asked_;
  std::vector<DeviceAddr> released_;
  DeviceAddr last_;
};

TEST_F(CrookedSegment, IsAskedForAgainWithRoomToAlignInside) {
  ASSERT_TRUE(add_segment().ok());
  EXPECT_EQ(asked_, (std::vector<Bytes>{4_MiB, 6_MiB}));
  EXPECT_EQ(released_.size(), 1U);
  const Zone& zone = rig_.state.space.zone(pool().others.at(0));
  EXPECT_EQ(zone.base.value % Bytes{2_MiB}.value, 0U);
  EXPECT_EQ(zone.allocation, last_);
  EXPECT_EQ(zone.allocation_bytes, 6_MiB);
  rig_.validate();
  EXPECT_EQ(*give_back_segments(), 4_MiB);
  EXPECT_EQ(released_.back(), last_);
}

TEST_F(CrookedSegment, ThatCannotBeReleasedIsAFailure) {
  rig_.model.set_faults({Fault::fail_nth(CallKind::kFree, 1, Native::kNotPermitted)});
  EXPECT_EQ(add_segment().native_code, static_cast<int>(Native::kNotPermitted));
  EXPECT_EQ(asked_.size(), 1U);
  EXPECT_EQ(rig_.state.space.reserved(), 0_B);
}

}  // namespace
}  // namespace levee::core
