#include "allocator/core/page_miss.h"

#include <utility>

#include "allocator/core/rebase.h"
#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;

TEST(PageMiss, CreatesWhatLiveBytesNeedAndNoMore) {
  StateRig rig;
  rig.alloc(5_MiB);
  EXPECT_EQ(rig.state.space.reserved(), 6_MiB);
  rig.alloc(3_MiB);
  EXPECT_EQ(rig.state.space.reserved(), 8_MiB);
  EXPECT_EQ(rig.state.counters.stats().num_emergencies, 0);
}

TEST(PageMiss, StitchesFreePagesBeforeItBuysMore) {
  Config config;
  config.slack = 0;
  StateRig rig(256_MiB, config);
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(rig.alloc(6_MiB));
  for (std::size_t i : {0U, 2U, 4U}) rig.free(blocks[i]);
  const std::uint64_t created = rig.calls(CallKind::kCreateHandle);
  rig.alloc(18_MiB);
  EXPECT_EQ(rig.calls(CallKind::kCreateHandle), created);
  EXPECT_EQ(rig.state.counters.stats().num_stitches, 1);
  rig.validate();
}

TEST(PageMiss, MemoryMadeBeforeAnythingIsGivenBackComesInLargerPages) {
  Config config;
  config.larger_pages_from = 128_MiB;  // pages of two units: from 64 MiB on, and first from 8
  const auto pages_of_the_second_16_mib = [&](bool is_something_freed) {
    StateRig rig(256_MiB, config);
    rig.alloc(16_MiB);
    EXPECT_EQ(rig.calls(CallKind::kCreateHandle), 8U) << "of one unit each";
    // As much as was ever asked for lives, or twice as much was asked for.
    rig.state.age.pass_bytes((is_something_freed ? 64_MiB : 16_MiB).value, (16_MiB).value);
    rig.alloc(16_MiB);
    return rig.calls(CallKind::kCreateHandle) - 8;
  };
  EXPECT_EQ(pages_of_the_second_16_mib(false), 4U);
  EXPECT_EQ(pages_of_the_second_16_mib(true), 8U);
}

TEST(PageMiss, NearTheLimitFirstPagesAreSmallToo) {
  Config config;
  config.larger_pages_from = 128_MiB;
  StateRig rig(256_MiB, config);
  rig.state.limits.process = 40_MiB;
  rig.alloc(32_MiB);
  const std::uint64_t before = rig.calls(CallKind::kCreateHandle);
  rig.alloc(8_MiB);
  EXPECT_EQ(rig.calls(CallKind::kCreateHandle) - before, 4U);
}

// What growth was to complete is free until then, and whoever comes first has it.
TEST(PageMiss, MemoryThatOthersTakeDuringGrowthIsGrownAnew) {
  StateRig rig;
  rig.free(rig.alloc(8_MiB));
  rig.alloc(5_MiB);  // 3 MiB are free behind it, and two pages more make 7
  bool is_taken = false;
  rig.device.hear_create_handle = [&] {
    if (std::exchange(is_taken, true)) return;
    PoolGuard guard(rig.state);
    EXPECT_EQ(rig.placer.serve(rig.request(1_MiB + 512_KiB)).outcome, Placer::Outcome::kServed);
  };
  rig.alloc(6_MiB);
  EXPECT_TRUE(is_taken);
  EXPECT_EQ(rig.state.counters.stats().num_emergencies, 0);
  EXPECT_EQ(rig.state.space.reserved(), 14_MiB);
  rig.validate();
}

TEST(PageMiss, WithoutStitchingItGrows) {
  Config config;
  config.stitch = StitchMode::kNone;
  StateRig rig(256_MiB, config);
  const DeviceAddr first = rig.alloc(6_MiB);
  rig.alloc(6_MiB);
  rig.free(first);
  rig.alloc(8_MiB);
  EXPECT_EQ(rig.state.space.reserved(), 20_MiB);
}

// Nine pages are free in three places, and a request needs eleven in one.
class ShortOfPages : public testing::Test {
 protected:
  static constexpr int kLate = Age::kWarmUpSteps + 1;
  explicit ShortOfPages(double slack = 0) : rig_(256_MiB, config(slack)) {
    for (int i = 0; i < 6; ++i) blocks_.push_back(rig_.alloc(6_MiB));
    for (std::size_t i : {0U, 2U, 4U}) rig_.free(blocks_[i]);
    mapped_before_ = rig_.calls(CallKind::kMap);
  }
  static Config config(double slack) {
    Config made;
    made.slack = slack;
    made.rebase = false;
    return made;
  }
  void after_steps(int count) {
    for (int i = 0; i < count; ++i) rig_.state.age.begin_step();
  }
  std::uint64_t mapped() const { return rig_.calls(CallKind::kMap) - mapped_before_; }
  const Stats& stats() { return rig_.state.counters.stats(); }

  StateRig rig_;
  std::vector<DeviceAddr> blocks_;
  std::uint64_t mapped_before_ = 0;
};

TEST_F(ShortOfPages, LateWhatAStitchLacksIsMadeBehindItAndMappedOnce) {
  after_steps(kLate);
  rig_.alloc(22_MiB);
  EXPECT_EQ(rig_.state.space.reserved(), 40_MiB);
  EXPECT_EQ(stats().num_stitches, 1);
  EXPECT_EQ(stats().num_stitched_pages, 9);
  EXPECT_EQ(mapped(), 9U + 2U);
  rig_.validate();
}

TEST_F(ShortOfPages, EarlyItIsMadeInThePrimaryZone) {
  after_steps(kLate - 1);
  rig_.alloc(22_MiB);
  EXPECT_EQ(rig_.state.space.reserved(), 40_MiB);
  EXPECT_EQ(stats().num_stitched_pages, 11);
  EXPECT_EQ(mapped(), 2U + 11U);
  const Zone& primary = rig_.state.space.zone(rig_.state.pools.default_pool().primary);
  EXPECT_EQ(primary.slots.size(), 20U);
  rig_.validate();
}

TEST_F(ShortOfPages, WithSeveralStreamsItIsMadeThereLateToo) {
  after_steps(kLate);
  rig_.free(rig_.alloc(6_MiB, rig_.stream()));
  const auto primary_pages = [&] {
    return rig_.state.space.zone(rig_.state.pools.default_pool().primary).slots.size();
  };
  const std::size_t before = primary_pages();
  rig_.alloc(22_MiB);
  EXPECT_EQ(stats().num_stitches, 1);
  EXPECT_GT(primary_pages(), before);
  rig_.validate();
}

TEST_F(ShortOfPages, WherePagesAreMovedWhatLacksIsMadeFirst) {
  Config moves = config(0);
  moves.stitch = StitchMode::kMove;
  StateRig rig(256_MiB, moves);
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(rig.alloc(6_MiB));
  for (std::size_t i : {0U, 2U, 4U}) rig.free(blocks[i]);
  for (int i = 0; i < kLate; ++i) rig.state.age.begin_step();
  rig.alloc(22_MiB);
  EXPECT_EQ(rig.state.space.reserved(), 40_MiB);
  const Zone& primary = rig.state.space.zone(rig.state.pools.default_pool().primary);
  ASSERT_EQ(primary.slots.size(), 29U);
  EXPECT_EQ(primary.slots[18], PageIndex{18}) << "the last two made, then the nine moved";
  rig.validate();
}

TEST_F(ShortOfPages, WhatWasMadeBehindAStitchIsExtendedAsAnyOther) {
  after_steps(kLate);
  rig_.free(rig_.alloc(22_MiB));
  rig_.free(blocks_[1]);
  rig_.alloc(28_MiB);
  EXPECT_EQ(rig_.state.space.reserved(), 40_MiB);
  EXPECT_EQ(stats().num_stitched_pages, 9 + 3);
  rig_.validate();
}

TEST_F(ShortOfPages, WhatTheDeviceRefusesBehindAStitchIsAnEmergencyThatIsServed) {
  after_steps(kLate);
  rig_.model.set_faults({device::sim::Fault::fail_nth(CallKind::kCreateHandle, 1)});
  rig_.alloc(22_MiB);
  EXPECT_EQ(stats().num_emergencies, 1);
  rig_.validate();
}

TEST_F(ShortOfPages, ALimitThatIsSetWhileItStitchesHolds) {
  after_steps(kLate);
  bool is_set = false;
  rig_.device.hear_reserve_range = [&] {
    if (std::exchange(is_set, true)) return;
    PoolGuard guard(rig_.state);
    rig_.state.limits.process = rig_.state.space.reserved();
  };
  static_cast<void>(rig_.slow_path.serve(rig_.request(22_MiB), nullptr).ok());
  EXPECT_TRUE(is_set);
  EXPECT_LE(rig_.state.space.reserved(), rig_.state.limits.process);
}

TEST_F(ShortOfPages, WhatTheDeviceRefusesIsStitchedForOnce) {
  after_steps(kLate);
  rig_.model.set_faults({fail_always(CallKind::kCreateHandle)});
  Request request = rig_.request(22_MiB);
  request.is_capturing = true;  // nothing may be given back meanwhile
  EXPECT_FALSE(rig_.slow_path.serve(request, nullptr).ok());
  const std::uint64_t mapped_once = mapped();
  EXPECT_FALSE(rig_.slow_path.serve(request, nullptr).ok());
  EXPECT_EQ(mapped(), mapped_once);
  rig_.validate();
}

TEST_F(ShortOfPages, ADeviceThatIsLostBehindAStitchIsNoEmergency) {
  after_steps(kLate);
  rig_.model.set_faults(
      {device::sim::Fault::fail_nth(CallKind::kCreateHandle, 1, device::Native::kIllegalAddress)});
  EXPECT_EQ(rig_.slow_path.serve(rig_.request(22_MiB), nullptr).code(), StatusCode::kDeviceLost);
  EXPECT_EQ(stats().num_stitches, 1);
  EXPECT_EQ(stats().num_emergencies, 0);
}

TEST_F(ShortOfPages, WhatCannotBeMappedBehindAStitchIsAnEmergencyThatIsServed) {
  after_steps(kLate);
  rig_.model.set_faults({device::sim::Fault::fail_nth(CallKind::kMap, 10)});
  rig_.alloc(22_MiB);
  EXPECT_EQ(stats().num_emergencies, 1);
  rig_.validate();
}

// The pages are on offer while what lacks is made, and whoever comes first has them.
TEST_F(ShortOfPages, PagesThatOthersTakeMeanwhileAreMadeAnew) {
  after_steps(kLate);
  bool is_taken = false;
  rig_.device.hear_create_handle = [&] {
    if (std::exchange(is_taken, true)) return;
    PoolGuard guard(rig_.state);
    EXPECT_EQ(rig_.placer.serve(rig_.request(4_MiB)).outcome, Placer::Outcome::kServed);
  };
  rig_.alloc(22_MiB);
  EXPECT_TRUE(is_taken);
  EXPECT_EQ(stats().num_emergencies, 0);
  EXPECT_EQ(rig_.state.space.reserved(), 44_MiB);
  rig_.validate();
}

class ShortOfPagesWithSlack : public ShortOfPages {
 protected:
  ShortOfPagesWithSlack() : ShortOfPages(0.5) {}
};

TEST_F(ShortOfPagesWithSlack, TheWholeRunIsMadeWhereTheSlackPaysForIt) {
  after_steps(kLate);
  rig_.state.age.pass_bytes((36_MiB).value, (36_MiB).value);  // live bytes have just grown
  rig_.alloc(22_MiB);
  EXPECT_EQ(stats().num_stitches, 0);
  EXPECT_EQ(rig_.state.space.reserved(), 58_MiB);
}

TEST_F(ShortOfPagesWithSlack, NotInAProgramThatIsSettled) {
  after_steps(kLate);
  rig_.alloc(22_MiB);
  EXPECT_EQ(stats().num_stitches, 1);
  EXPECT_EQ(rig_.state.space.reserved(), 40_MiB);
}

TEST_F(ShortOfPagesWithSlack, NorWhereTheLimitIsNearer) {
  after_steps(kLate);
  rig_.state.age.pass_bytes((36_MiB).value, (36_MiB).value);
  rig_.state.limits.process = 56_MiB;
  rig_.alloc(22_MiB);
  EXPECT_EQ(stats().num_stitches, 1);
  EXPECT_EQ(rig_.state.space.reserved(), 40_MiB);
}

// Pages free in pairs between blocks that stay, and a request that only a stitch or growth serves.
class GuardTest : public testing::Test {
 protected:
  static Config config() {
    Config made;
    made.slack = 0;
    made.rebase = false;
    made.guard_share = 1e-9;  // any stitch is above it
    made.guard_windows = 1;
    made.guard_growth = 0.5;
    return made;
  }
  static void scatter(StateRig& rig) {
    std::vector<DeviceAddr> blocks;
    for (int i = 0; i < 16; ++i) blocks.push_back(rig.alloc(4_MiB));
    for (std::size_t i = 0; i < blocks.size(); i += 2) rig.free(blocks[i]);
  }
  // A step whose miss is stitched: at the next one the guard goes on.
  static void go_on(StateRig& rig) {
    take_a_step(rig);
    rig.alloc(8_MiB);
    ASSERT_EQ(rig.state.counters.stats().num_stitches, 1);
  }
  static void take_a_step(StateRig& rig) {
    rig.state.age.begin_step();
    rig.model.advance(1000_ms);
  }
};

TEST_F(GuardTest, GrowsInsteadOfStitchingWhileOn) {
  StateRig rig(1_GiB, config());
  scatter(rig);
  go_on(rig);
  const Bytes before = rig.state.space.reserved();
  take_a_step(rig);
  rig.alloc(8_MiB);
  EXPECT_EQ(rig.state.counters.stats().num_guard_entries, 1);
  EXPECT_EQ(rig.state.counters.stats().num_guard_growths, 1);
  EXPECT_EQ(rig.state.counters.stats().num_stitches, 1);
  EXPECT_GT(rig.state.space.reserved(), before);
  rig.validate();
}

TEST_F(GuardTest, StitchesAllTheSameWhereTheDeviceIsNearlyFull) {
  StateRig rig(72_MiB, config());  // a sixteenth has to stay free, and 8 MiB are
  scatter(rig);
  go_on(rig);
  take_a_step(rig);
  rig.alloc(8_MiB);
  EXPECT_EQ(rig.state.counters.stats().num_guard_entries, 1);
  EXPECT_EQ(rig.state.counters.stats().num_guard_growths, 0);
  EXPECT_EQ(rig.state.counters.stats().num_stitches, 2);
  EXPECT_EQ(rig.state.counters.stats().num_emergencies, 0);
  EXPECT_EQ(rig.state.space.reserved(), 64_MiB);
}

TEST_F(GuardTest, StitchesAllTheSameAtALimit) {
  StateRig rig(1_GiB, config());
  rig.state.limits.process = 66_MiB;
  scatter(rig);
  go_on(rig);
  take_a_step(rig);
  rig.alloc(8_MiB);
  EXPECT_EQ(rig.state.counters.stats().num_stitches, 2);
  EXPECT_EQ(rig.state.counters.stats().num_emergencies, 0);
}

TEST_F(GuardTest, HoldsNoMoreThanItsBound) {
  Config bounded = config();
  bounded.guard_growth = 0.1;  // of a peak of 64 MiB
  StateRig rig(1_GiB, bounded);
  scatter(rig);
  go_on(rig);
  take_a_step(rig);
  rig.alloc(8_MiB);
  EXPECT_LE(rig.state.space.reserved(), 70_MiB);
  EXPECT_EQ(rig.state.counters.stats().num_stitches, 2);
}

TEST_F(GuardTest, ADeviceThatRefusesGrowthIsStitchedOn) {
  StateRig rig(1_GiB, config());
  scatter(rig);
  go_on(rig);
  take_a_step(rig);
  device::sim::Fault fault = device::sim::Fault::fail_nth(CallKind::kCreateHandle, 1);
  fault.times = 100;
  rig.model.set_faults({fault});
  rig.alloc(8_MiB);
  EXPECT_EQ(rig.state.counters.stats().num_stitches, 2);
  EXPECT_EQ(rig.state.counters.stats().num_emergencies, 0);
  rig.validate();
}

TEST_F(GuardTest, PagesThatARebaseLeftOutComeBackToThePrimaryZone) {
  StateRig rig(1_GiB, config());
  scatter(rig);
  Pool& pool = rig.state.pools.default_pool();
  for (int i = 0; i < 4; ++i) rig.state.age.begin_step();
  const Status rebased = rig.locked([&](PoolGuard& guard) {
    return rig.pages.rebase(guard, pool, choose_rebase_pages(rig.state, pool));
  });
  ASSERT_TRUE(rebased.ok());
  EXPECT_EQ(choose_missing_pages(rig.state, pool).size(), 16U) << "those of blocks that stayed";
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(rig.alloc(4_MiB));
  for (std::size_t i = 0; i < blocks.size(); i += 2) rig.free(blocks[i]);
  go_on(rig);
  take_a_step(rig);
  rig.alloc(8_MiB);
  EXPECT_EQ(rig.state.counters.stats().num_guard_entries, 1);
  EXPECT_TRUE(choose_missing_pages(rig.state, pool).empty());
  EXPECT_EQ(rig.state.counters.stats().num_guard_growths, 1);
  rig.validate();
}

}  // namespace
}  // namespace levee::core
