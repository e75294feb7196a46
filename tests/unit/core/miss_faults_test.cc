// What a miss does when the device refuses a part of it: what is tried next, and what is told.
#include <utility>

#include "allocator/core/miss.h"
#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

using device::Native;
using device::sim::CallKind;
using device::sim::Fault;

Config config_of(double slack, StitchMode mode = StitchMode::kAlias) {
  Config config;
  config.slack = slack;
  config.stitch = mode;
  config.rebase = false;
  return config;
}

// Blocks of 6 MiB, every other one given back.
std::vector<DeviceAddr> scatter(StateRig& rig, int count, StreamId stream = StreamId{0}) {
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(rig.alloc(6_MiB, stream));
  for (std::size_t i = 0; i < blocks.size(); i += 2) rig.free(blocks[i]);
  return blocks;
}

Stats& stats(StateRig& rig) {
  return rig.state.counters.stats();
}

// ---- Order

TEST(MissFaults, WithoutAnEventOrAFenceTheFailureIsToldAndNothingIsHandedOut) {
  StateRig rig;
  const StreamId side = rig.stream();
  rig.free(rig.alloc(8_MiB, side));
  rig.model.set_faults({Fault::fail_nth(CallKind::kRecordEvent, 1, Native::kInvalidHandle),
                        Fault::fail_nth(CallKind::kSynchronizeDevice, 1, Native::kNotPermitted)});
  const Result<Block> served = rig.slow_path.serve(rig.request(8_MiB), nullptr);
  ASSERT_FALSE(served.ok());
  EXPECT_EQ(served.status().native_code, static_cast<int>(Native::kNotPermitted));
  EXPECT_EQ(stats(rig).num_emergencies, 0);
  EXPECT_EQ(rig.state.counters.active(), 0_B);
}

TEST(MissFaults, AnOrderThatFailsForWantOfMemoryIsAnEmergency) {
  StateRig rig;
  const StreamId side = rig.stream();
  rig.free(rig.alloc(8_MiB, side));
  rig.model.set_faults({Fault::fail_nth(CallKind::kRecordEvent, 1),
                        Fault::fail_nth(CallKind::kSynchronizeDevice, 1)});
  EXPECT_TRUE(rig.slow_path.serve(rig.request(8_MiB), nullptr).ok());
  EXPECT_EQ(stats(rig).num_emergencies, 1);
  EXPECT_EQ(stats(rig).num_alloc_retries, 1);
}

TEST(MissFaults, PagesOfAnIdleStreamAreRoomForEveryOther) {
  StateRig rig(256_MiB, config_of(0));
  const StreamId side = rig.stream();
  scatter(rig, 6, side);
  const Bytes before = rig.state.space.reserved();
  rig.alloc(18_MiB);
  EXPECT_EQ(rig.state.space.reserved(), before);
  EXPECT_EQ(stats(rig).num_stitches, 1);
}

// Pages of a released graph's pool are nobody's to wait for, and the device cannot be waited for
// either while another stream captures.
TEST(MissFaults, PagesOfStreamsNeverSeenAreNotStitched) {
  StateRig rig(256_MiB, config_of(0));
  const StreamId captured = rig.stream();
  rig.state.stream_index(captured);
  scatter(rig, 6);
  {
    PoolGuard guard(rig.state);
    const Stamp unknown = rig.state.streams.stamp_unknown();
    for (std::uint32_t i = 0; i < rig.state.space.pages().end(); ++i) {
      rig.state.space.add_stamp(PageIndex{i}, unknown);
    }
  }
  ASSERT_TRUE(
      rig.model.begin_capture(DeviceId{0}, captured, device::sim::CaptureMode::kRelaxed).ok());
  rig.alloc(18_MiB);
  EXPECT_EQ(stats(rig).num_stitches, 0);
  EXPECT_EQ(rig.state.space.reserved(), 54_MiB);
  const auto graph = rig.model.end_capture(DeviceId{0}, captured);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(rig.model.destroy_graph(*graph).ok());
}

TEST(MissFaults, NoPoolsLimitIsNamedWhereThereIsNone) {
  StateRig rig(256_MiB, config_of(0));
  const StreamId side = rig.stream();
  scatter(rig, 6, side);
  rig.work(side, 5_ms);
  rig.model.set_faults(
      {fail_always(CallKind::kRecordEvent), fail_always(CallKind::kSynchronizeDevice)});
  const Request request = rig.request(18_MiB);
  const Attempt attempt = rig.locked([&](PoolGuard& guard) {
    return Miss(rig.state, rig.placer, rig.pages, guard, request).attempt();
  });
  EXPECT_EQ(stats(rig).num_stitches, 1) << "it fits, and its stream cannot be ordered";
  EXPECT_EQ(attempt.end, Attempt::End::kExhausted);
  EXPECT_EQ(attempt.cause, EmergencyCause::kDeviceFull);
}

// ---- Pages for small blocks

TEST(MissFaults, APageForSmallBlocksThatIsRefusedComesFromAmongLargeOnes) {
  StateRig rig;
  const DeviceAddr large = rig.alloc(20_MiB);
  rig.model.set_faults({Fault::fail_nth(CallKind::kCreateHandle, 1)});
  EXPECT_FALSE(rig.alloc(700_B).is_null());
  EXPECT_EQ(stats(rig).num_emergencies, 0);
  Pool& pool = rig.state.pools.default_pool();
  EXPECT_EQ(pool.small_refused_at, 20_MiB) << "not asked for again until something goes back";
  rig.free(large);
  rig.validate();
}

// ---- Address ranges

TEST(MissFaults, WithoutAddressesThereIsNoPool) {
  StateRig rig;
  rig.model.set_faults({fail_always(CallKind::kReserveRange)});
  OomReport report;
  EXPECT_EQ(rig.slow_path.serve(rig.request(4_MiB), &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(report.cause, EmergencyCause::kMapFailed);
  rig.model.set_faults({fail_always(CallKind::kReserveRange, Native::kNotSupported)});
  const Result<Block> refused = rig.slow_path.serve(rig.request(4_MiB), &report);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(rig.calls(CallKind::kCreateHandle), 0U);
}

// A zone whose addresses are used up. Larger ranges are refused when it is made.
class NarrowZone : public testing::TestWithParam<StitchMode> {
 protected:
  NarrowZone() : rig_(256_MiB, config_of(0, GetParam())) {
    // 512 MiB are asked for, then half of that and so on: 8 MiB are granted.
    rig_.model.set_faults({Fault::fail_window(CallKind::kReserveRange, 1, 6)});
    first_ = rig_.alloc(8_MiB);
    rig_.model.set_faults({});
  }
  StateRig rig_;
  DeviceAddr first_;
};

TEST_P(NarrowZone, ThePoolGoesOnInANewOne) {
  ASSERT_EQ(rig_.state.space.zone(rig_.state.pools.default_pool().primary).range_bytes, 8_MiB);
  EXPECT_FALSE(rig_.alloc(8_MiB).is_null());
  EXPECT_EQ(stats(rig_).num_emergencies, 0);
  EXPECT_EQ(rig_.state.space.reserved(), 16_MiB);
  rig_.validate();
}

TEST_P(NarrowZone, AndIfThereIsNoneThatIsSaidOnce) {
  rig_.model.set_faults({fail_always(CallKind::kReserveRange)});
  const std::uint64_t before = rig_.calls(CallKind::kReserveRange);
  OomReport report;
  EXPECT_EQ(rig_.slow_path.serve(rig_.request(8_MiB), &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(report.cause, EmergencyCause::kMapFailed);
  // 512 MiB down to 8, and the ladder's last look.
  EXPECT_LE(rig_.calls(CallKind::kReserveRange) - before, 14U);
}

INSTANTIATE_TEST_SUITE_P(Stitch, NarrowZone, testing::Values(StitchMode::kAlias, StitchMode::kNone),
                         [](const auto& one) {
                           return one.param == StitchMode::kNone ? "none" : "alias";
                         });

// ---- Growth

TEST(MissFaults, GrowthThatCannotBeMappedIsToldAsThat) {
  StateRig rig;
  rig.alloc(4_MiB);
  rig.model.set_faults({fail_always(CallKind::kMap)});
  OomReport report;
  EXPECT_EQ(rig.slow_path.serve(rig.request(8_MiB), &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(report.cause, EmergencyCause::kMapFailed);
  EXPECT_EQ(rig.state.space.reserved(), 4_MiB);
  rig.validate();
}

// Who reads "out of memory" looks for memory, which is not what is missing here.
TEST(MissFaults, WhatIsNoWantOfMemoryIsToldAsTheDriverSaidIt) {
  for (const CallKind kind : {CallKind::kCreateHandle, CallKind::kMap, CallKind::kSetAccess}) {
    for (const Bytes bytes : {700_B, 8_MiB}) {
      StateRig rig;
      rig.alloc(4_MiB);
      rig.model.set_faults({fail_always(kind, Native::kNotPermitted)});
      const Result<Block> refused = rig.slow_path.serve(rig.request(bytes), nullptr);
      ASSERT_FALSE(refused.ok()) << name_of(kind);
      EXPECT_EQ(refused.status().native_code, static_cast<int>(Native::kNotPermitted));
      EXPECT_EQ(stats(rig).num_emergencies, 1) << "the ladder may have helped";
      EXPECT_EQ(stats(rig).num_ooms, 0);
      EXPECT_EQ(rig.state.space.reserved(), 4_MiB);
      rig.model.set_faults({});
      EXPECT_FALSE(rig.alloc(bytes).is_null());
      rig.validate();
    }
  }
}

TEST(MissFaults, ANewZoneThatIsRefusedIsToldAsTheDriverSaidIt) {
  for (const Native native : {Native::kNotPermitted, Native::kIllegalAddress}) {
    StateRig rig(256_MiB, config_of(0, StitchMode::kNone));
    rig.model.set_faults(
        {Fault::fail_window(CallKind::kReserveRange, 1, 5)});  // 16 MiB are granted
    rig.alloc(10_MiB);
    rig.model.set_faults({fail_always(CallKind::kReserveRange, native)});
    const Result<Block> refused = rig.slow_path.serve(rig.request(10_MiB), nullptr);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.status().native_code, static_cast<int>(native));
    EXPECT_EQ(stats(rig).num_ooms, 0);
  }
}

// Slack that could not be had is no reason; that nothing could be mapped for want of memory is.
TEST(MissFaults, WhatWasTriedForComfortIsNotTheAnswer) {
  StateRig rig(256_MiB, config_of(0.5));
  scatter(rig, 6);
  rig.model.set_faults({Fault::fail_nth(CallKind::kCreateHandle, 1, Native::kNotPermitted),
                        fail_always(CallKind::kMap)});
  Request request = rig.request(18_MiB);
  request.is_capturing = true;
  EXPECT_EQ(rig.slow_path.serve(request, nullptr).code(), StatusCode::kOutOfMemory);
}

TEST(MissFaults, AStitchThatTheDriverRefusesIsToldAsItSaid) {
  StateRig rig(36_MiB, config_of(0));
  scatter(rig, 6);
  rig.model.set_faults(
      {fail_always(CallKind::kMap, Native::kNotPermitted), fail_always(CallKind::kUnmap)});
  const Result<Block> refused = rig.slow_path.serve(rig.request(18_MiB), nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().native_code, static_cast<int>(Native::kNotPermitted));
  // Where a limit stands in the way too, that is what a person can change.
  rig.state.limits.process = 36_MiB;
  OomReport report;
  EXPECT_EQ(rig.slow_path.serve(rig.request(30_MiB), &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(report.cause, EmergencyCause::kLimitReached);
}

TEST(MissFaults, ThePartThatAStitchLacksCannotBeMapped) {
  StateRig rig(256_MiB, config_of(0));
  scatter(rig, 6);
  rig.model.set_faults({fail_always(CallKind::kMap)});
  OomReport report;
  EXPECT_EQ(rig.slow_path.serve(rig.request(40_MiB), &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(report.cause, EmergencyCause::kMapFailed);
  rig.validate();
}

TEST(MissFaults, AStitchThatIsRefusedIsGrownAround) {
  StateRig rig(256_MiB, config_of(0));
  scatter(rig, 6);
  rig.model.set_faults({Fault::fail_nth(CallKind::kMap, 1)});
  rig.alloc(18_MiB);
  EXPECT_EQ(stats(rig).num_emergencies, 0);
  EXPECT_EQ(stats(rig).num_stitches, 0);
  EXPECT_EQ(rig.state.space.reserved(), 54_MiB);
  rig.validate();
}

TEST(MissFaults, AStitchThatIsRefusedWhereNothingCanGrowIsToldAsThat) {
  StateRig rig(36_MiB, config_of(0));
  scatter(rig, 6);
  // Nor does anything go back, after which the device would be the cause.
  rig.model.set_faults({fail_always(CallKind::kMap), fail_always(CallKind::kUnmap)});
  OomReport report;
  EXPECT_EQ(rig.slow_path.serve(rig.request(18_MiB), &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(report.cause, EmergencyCause::kMapFailed);
  EXPECT_EQ(rig.calls(CallKind::kCreateHandle), 18U) << "nothing was made, since nothing fits";
}

// Whether a little more memory saves a stitch: two free runs, the longer a page short.
class Slack : public testing::Test {
 protected:
  Slack() : rig_(256_MiB, config_of(0.2)) {
    const DeviceAddr first = rig_.alloc(10_MiB);
    rig_.alloc(6_MiB);
    const DeviceAddr last = rig_.alloc(12_MiB);
    rig_.alloc(6_MiB);
    rig_.free(first);
    rig_.free(last);
  }
  StateRig rig_;
};

TEST_F(Slack, ItDoes) {
  const std::uint64_t created = rig_.calls(CallKind::kCreateHandle);
  rig_.alloc(14_MiB);
  EXPECT_EQ(rig_.calls(CallKind::kCreateHandle), created + 1);
  EXPECT_EQ(stats(rig_).num_stitches, 1) << "the page lies at the end, the run in the middle";
  rig_.validate();
}

TEST_F(Slack, AndWhereTheDeviceRefusesThereIsTheStitch) {
  rig_.model.set_faults({fail_always(CallKind::kCreateHandle)});
  rig_.alloc(14_MiB);
  EXPECT_EQ(stats(rig_).num_stitches, 1);
  EXPECT_EQ(stats(rig_).num_emergencies, 0);
  EXPECT_EQ(rig_.state.space.reserved(), 34_MiB);
}

// Pages are chosen for a stitch before slack is tried, and the lock is open then.
TEST(MissFaults, PagesThatOthersTookWhileSlackWasRefusedAreNotStitched) {
  StateRig rig(256_MiB, config_of(0.2));
  std::vector<DeviceAddr> runs;
  for (Bytes bytes : {4_MiB, 4_MiB, 12_MiB}) {
    runs.push_back(rig.alloc(bytes));
    rig.alloc(6_MiB);
  }
  for (DeviceAddr run : runs) rig.free(run);
  rig.model.set_faults({Fault::fail_nth(CallKind::kCreateHandle, 1)});
  bool is_taken = false;
  rig.device.hear_create_handle = [&] {
    if (std::exchange(is_taken, true)) return;
    PoolGuard guard(rig.state);
    EXPECT_EQ(rig.placer.serve(rig.request(4_MiB)).outcome, Placer::Outcome::kServed);
  };
  rig.alloc(16_MiB);
  EXPECT_TRUE(is_taken);
  EXPECT_EQ(stats(rig).num_stitches, 1);
  EXPECT_EQ(stats(rig).num_emergencies, 0);
  rig.validate();
}

TEST(MissFaults, ALittleMoreMemoryAtTheEndSavesTheStitch) {
  StateRig rig(256_MiB, config_of(0.2));
  const DeviceAddr first = rig.alloc(10_MiB);
  rig.alloc(12_MiB);
  const DeviceAddr last = rig.alloc(12_MiB);
  rig.free(first);
  rig.free(last);
  rig.alloc(16_MiB);
  EXPECT_EQ(stats(rig).num_stitches, 0);
  EXPECT_EQ(rig.state.space.reserved(), 38_MiB);
  rig.validate();
}

TEST(MissFaults, TheDeviceIsNotAskedForWhatWasJustTakenFromIt) {
  StateRig rig(46_MiB, config_of(0.25));
  const DeviceAddr small = rig.alloc(4_MiB);
  rig.alloc(6_MiB);
  const DeviceAddr large = rig.alloc(20_MiB);
  rig.alloc(6_MiB);
  rig.free(small);
  rig.free(large);
  // 4 of 28 MiB are missing. The device has 10, so that the 8 that would save the stitch are there
  // before, and not after.
  const std::uint64_t before = rig.calls(CallKind::kCreateHandle);
  rig.alloc(28_MiB);
  EXPECT_EQ(rig.calls(CallKind::kCreateHandle) - before, 2U);
  EXPECT_EQ(stats(rig).num_stitches, 1);
  EXPECT_EQ(rig.state.space.reserved(), 40_MiB);
}

TEST(MissFaults, GrowthInsteadOfAStitchKeepsTheGuardOn) {
  Config config = config_of(0);
  config.guard_share = 1e-9;
  config.guard_windows = 1;
  config.guard_growth = 0.5;
  StateRig rig(1_GiB, config);
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(rig.alloc(4_MiB));
  for (std::size_t i = 0; i < blocks.size(); i += 2) rig.free(blocks[i]);
  const auto miss_after = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      rig.state.age.begin_step();
      rig.model.advance(1000_ms);
    }
    rig.alloc(8_MiB);
  };
  miss_after(1);  // stitched
  miss_after(1);  // the guard goes on: grown
  ASSERT_TRUE(rig.state.guard.is_on());
  miss_after(1);  // stitched with what the account has gained
  ASSERT_EQ(stats(rig).num_stitches, 2);
  miss_after(40);  // grown: the account is empty
  ASSERT_EQ(stats(rig).num_guard_growths, 2);
  miss_after(40);
  EXPECT_TRUE(rig.state.guard.is_on()) << "40 calm steps, not 80";
}

// ---- Rebases

// Old blocks keep three runs of 6 MiB and one of 12 apart, and stitching has cost enough.
class DueRebase : public testing::Test {
 protected:
  static Config config() {
    Config made = config_of(0);
    made.rebase = true;
    return made;
  }
  DueRebase() : rig_(256_MiB, config()) {
    std::vector<DeviceAddr> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(rig_.alloc(6_MiB));
    for (std::size_t i : {0U, 2U, 4U, 6U, 7U}) rig_.free(blocks[i]);
    for (int i = 0; i < 16; ++i) {
      PoolGuard guard(rig_.state);
      rig_.state.age.begin_step();
    }
    pool().stitched_units = kStitched;
  }
  Pool& pool() { return rig_.state.pools.default_pool(); }
  static constexpr std::uint64_t kStitched = 1'000;
  StateRig rig_;
};

TEST_F(DueRebase, ServesAndIsCounted) {
  rig_.alloc(24_MiB);
  EXPECT_EQ(stats(rig_).num_rebases, 1);
  EXPECT_EQ(stats(rig_).num_stitches, 0);
  EXPECT_EQ(pool().rebase_count, 1U);
  EXPECT_EQ(pool().stitched_units, 0U);
  rig_.validate();
}

TEST_F(DueRebase, ThatIsRefusedIsStillDueAndThePagesAreStitched) {
  rig_.model.set_faults({Fault::fail_nth(CallKind::kReserveRange, 1, Native::kNotPermitted)});
  rig_.alloc(24_MiB);
  EXPECT_EQ(stats(rig_).num_rebases, 0);
  EXPECT_EQ(stats(rig_).num_stitches, 1);
  EXPECT_EQ(pool().rebase_count, 0U);
  EXPECT_EQ(pool().stitched_units, kStitched + 12);
  rig_.validate();
}

// Meanwhile somebody takes of the pages that were to be stitched.
TEST_F(DueRebase, ThatIsRefusedLeavesPagesThatOthersTookMeanwhileToThem) {
  bool is_taken = false;
  rig_.device.hear_reserve_range = [&] {
    if (std::exchange(is_taken, true)) return;
    PoolGuard guard(rig_.state);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(rig_.placer.serve(rig_.request(5_MiB)).outcome, Placer::Outcome::kServed);
    }
  };
  rig_.model.set_faults({Fault::fail_nth(CallKind::kReserveRange, 1, Native::kNotPermitted)});
  rig_.alloc(24_MiB);
  EXPECT_TRUE(is_taken);
  rig_.validate();
}

// ---- The ladder

TEST(MissFaults, AWaitThatFailsIsNoReasonToTryAgain) {
  StateRig rig(64_MiB);
  const StreamId side = rig.stream();
  const DeviceAddr small = rig.alloc(700_B);
  {
    PoolGuard guard(rig.state);
    ASSERT_TRUE(rig.placer.record_use(small, rig.state.stream_index(side)).ok());
  }
  rig.work(side, 5_ms);
  rig.free(small);
  rig.model.set_faults(
      {fail_always(CallKind::kSynchronizeEvent), fail_always(CallKind::kSynchronizeDevice)});
  EXPECT_FALSE(rig.slow_path.serve(rig.request(64_MiB), nullptr).ok());
  EXPECT_EQ(rig.calls(CallKind::kMemoryInfo), 3U)
      << "small, large, and the report: one attempt, not two";
}

TEST(MissFaults, AfterMappingFailedAFreshStartWithAllPagesIsTried) {
  StateRig rig(64_MiB, config_of(0));
  rig.free(rig.alloc(8_MiB));
  rig.model.set_faults({Fault::fail_nth(CallKind::kMap, 1)});
  EXPECT_FALSE(rig.alloc(12_MiB).is_null());
  EXPECT_EQ(stats(rig).num_emergencies, 1);
  EXPECT_EQ(stats(rig).num_alloc_retries, 1);
  rig.validate();
}

TEST(MissFaults, PagesThatCannotGoBackHelpNobody) {
  for (Backing backing : {Backing::kPages, Backing::kSegments}) {
    StateRig rig(64_MiB);
    PoolIndex asking = kDefaultPool;
    if (backing == Backing::kSegments) {
      PoolGuard guard(rig.state);
      asking = rig.state.pools.find_or_add(PoolId{0, 9}, backing).index;
    }
    rig.free(rig.alloc(40_MiB));
    rig.model.set_faults({fail_always(CallKind::kReleaseHandle, Native::kNotPermitted)});
    OomReport report;
    EXPECT_EQ(
        rig.slow_path
            .serve(rig.request(backing == Backing::kPages ? 70_MiB : 50_MiB, StreamId{0}, asking),
                   &report)
            .code(),
        StatusCode::kOutOfMemory);
    EXPECT_EQ(report.rungs[4].rung, LadderRung::kCachedHandles);
    EXPECT_EQ(report.rungs[4].freed, 0_B);
    rig.model.set_faults({});
    EXPECT_EQ(rig.state.space.reserved(), 40_MiB);
    rig.validate();
  }
}

TEST(MissFaults, ThePoolsLimitIsNamedWhereItIsWhatStandsInTheWay) {
  StateRig rig(256_MiB, config_of(0));
  PoolIndex index;
  {
    PoolGuard guard(rig.state);
    Pool& pool = rig.state.pools.find_or_add(PoolId{0, 9}, Backing::kPages);
    pool.limit = 20_MiB;
    index = pool.index;
  }
  scatter(rig, 8);  // free pages that the limit forbids
  rig.alloc(12_MiB, StreamId{0}, index);
  // Nothing goes back, after which growth would meet the limit.
  rig.model.set_faults({fail_always(CallKind::kUnmap)});
  OomReport report;
  EXPECT_EQ(rig.slow_path.serve(rig.request(12_MiB, StreamId{0}, index), &report).code(),
            StatusCode::kOutOfMemory);
  EXPECT_EQ(report.cause, EmergencyCause::kPoolLimitReached);
  EXPECT_EQ(report.limit_bytes, 20_MiB);
}

// ---- Segments

TEST(MissFaults, ASegmentThatIsRefusedIsAskedForInItsLeastSize) {
  Config config;
  config.backing = Backing::kSegments;
  StateRig rig(256_MiB, config);
  rig.model.set_faults({Fault::fail_nth(CallKind::kMalloc, 1)});
  rig.alloc(3_MiB);
  EXPECT_EQ(rig.state.space.reserved(), 4_MiB);
  EXPECT_EQ(stats(rig).num_emergencies, 0);
  // What is no want of memory is told at once.
  rig.model.set_faults({fail_always(CallKind::kMalloc, Native::kNotPermitted)});
  const std::uint64_t before = rig.calls(CallKind::kMalloc);
  const Result<Block> refused = rig.slow_path.serve(rig.request(5_MiB), nullptr);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().native_code, static_cast<int>(Native::kNotPermitted));
  EXPECT_EQ(rig.calls(CallKind::kMalloc), before + 1);
}

// ---- What others take and give back meanwhile

// The last thing before a refusal is a look, also where the driver was asked in between.
TEST(MissFaults, NobodyIsRefusedWhatWasGivenBackDuringTheLastAttempt) {
  Config config = config_of(0);
  config.backing = Backing::kSegments;
  StateRig rig(64_MiB, config);
  const DeviceAddr first = rig.alloc(30_MiB);
  rig.alloc(30_MiB);
  int asked = 0;
  rig.device.hear_memory_info = [&] {
    PoolGuard guard(rig.state);  // somebody comes in each time, and once with a block
    if (++asked == 2) {
      EXPECT_TRUE(rig.placer.take_back(first).ok());
    }
  };
  rig.alloc(30_MiB);
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(stats(rig).num_ooms, 0);
  EXPECT_EQ(stats(rig).num_alloc_retries, 1);
}

}  // namespace
}  // namespace levee::core
