#include "allocator/core/placer.h"

#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;
using Outcome = Placer::Outcome;

Placer::Served serve(StateRig& rig, const Request& request) {
  PoolGuard guard(rig.state);
  return rig.placer.serve(request);
}

TEST(Placer, ServesFromWhatIsHeldAndCallsNoDevice) {
  StateRig rig;
  rig.free(rig.alloc(8_MiB));
  const std::uint64_t calls = rig.model.total_calls();
  const Placer::Served first = serve(rig, rig.request(3_MiB));
  ASSERT_EQ(first.outcome, Outcome::kServed);
  EXPECT_EQ(serve(rig, rig.request(6_MiB)).outcome, Outcome::kMiss);
  rig.free(first.block.addr);
  EXPECT_EQ(rig.model.total_calls(), calls);
  rig.validate();
}

TEST(Placer, AMissChangesNothing) {
  StateRig rig;
  rig.alloc(3_MiB);
  const Stats before = rig.state.counters.stats();
  EXPECT_EQ(serve(rig, rig.request(100_MiB)).outcome, Outcome::kMiss);
  EXPECT_EQ(rig.state.counters.stats().allocation[0].allocated, before.allocation[0].allocated);
  rig.validate();
}

TEST(Placer, MemoryOfAnotherStreamIsOrderedByAWaitOnTheDevice) {
  StateRig rig;
  const StreamId side = rig.stream();
  const DeviceAddr block = rig.alloc(8_MiB, side);
  rig.work(side, 5_ms);
  rig.free(block);
  const Placer::Served served = serve(rig, rig.request(8_MiB));
  ASSERT_EQ(served.outcome, Outcome::kServed);
  EXPECT_EQ(served.block.addr, block);
  EXPECT_EQ(rig.calls(CallKind::kRecordEvent), 1U);
  EXPECT_EQ(rig.calls(CallKind::kWaitEvent), 1U);
  EXPECT_EQ(rig.calls(CallKind::kSynchronizeEvent), 0U);
}

TEST(Placer, WithoutAnOrderNothingIsHandedOut) {
  StateRig rig;
  const StreamId side = rig.stream();
  rig.free(rig.alloc(8_MiB, side));
  rig.model.set_faults({device::sim::Fault::fail_every(CallKind::kRecordEvent, 1)});
  EXPECT_EQ(serve(rig, rig.request(8_MiB)).outcome, Outcome::kFailed);
  EXPECT_EQ(rig.state.counters.stats().allocation[0].current, 0);
  rig.validate();
}

TEST(Placer, ACapturingStreamTakesOnlyWhatNeedsNoWait) {
  StateRig rig;
  const StreamId side = rig.stream();
  rig.free(rig.alloc(8_MiB, side));
  Request request = rig.request(8_MiB);
  request.is_capturing = true;
  EXPECT_EQ(serve(rig, request).outcome, Outcome::kMiss);
  EXPECT_EQ(rig.calls(CallKind::kWaitEvent), 0U);
  Request own = rig.request(8_MiB, side);
  own.is_capturing = true;
  EXPECT_EQ(serve(rig, own).outcome, Outcome::kServed);
}

TEST(Placer, TakesBackLiveBlocksAlone) {
  StateRig rig;
  const DeviceAddr large = rig.alloc(4_MiB);
  const DeviceAddr range = rig.alloc(100_KiB);
  const DeviceAddr object = rig.alloc(700_B);
  PoolGuard guard(rig.state);
  for (DeviceAddr addr : {large, range, object}) {
    EXPECT_EQ(rig.placer.take_back(addr + 512_B).code(), StatusCode::kNotOwned);
    EXPECT_EQ(rig.placer.find(addr + 1_B)->addr, addr);
    EXPECT_TRUE(rig.placer.take_back(addr).ok());
    EXPECT_EQ(rig.placer.take_back(addr).code(), StatusCode::kNotOwned);
    EXPECT_FALSE(rig.placer.find(addr).has_value());
  }
}

TEST(Placer, ABlockUsedElsewhereWaitsUntilThatStreamIsDone) {
  StateRig rig;
  const StreamId side = rig.stream();
  for (Bytes bytes : {4_MiB, 100_KiB, 700_B}) {
    const DeviceAddr block = rig.alloc(bytes);
    {
      PoolGuard guard(rig.state);
      ASSERT_TRUE(rig.placer.record_use(block, rig.state.stream_index(side)).ok());
    }
    rig.work(side, 2_ms);
    rig.free(block);
    PoolGuard guard(rig.state);
    rig.placer.release_done(/*ask=*/true);
    EXPECT_EQ(rig.state.waiting.count(), 1U);
    rig.model.advance(3_ms);
    rig.placer.release_done(/*ask=*/true);
    EXPECT_TRUE(rig.state.waiting.empty());
  }
  rig.validate();
}

TEST(Placer, AnIdleStreamFreesItsBlocksAtTheFirstLook) {
  StateRig rig;
  const StreamId side = rig.stream();
  const DeviceAddr block = rig.alloc(4_MiB);
  PoolGuard guard(rig.state);
  ASSERT_TRUE(rig.placer.record_use(block, rig.state.stream_index(side)).ok());
  ASSERT_TRUE(rig.placer.take_back(block).ok());
  rig.placer.release_done(/*ask=*/true);
  EXPECT_TRUE(rig.state.waiting.empty());
}

TEST(Placer, PutBackUndoesTakeBackWithItsUses) {
  StateRig rig;
  const StreamId side = rig.stream();
  for (const auto& [bytes, kind] :
       {std::pair{4_MiB, BlockKind::kLarge}, std::pair{700_B, BlockKind::kObject}}) {
    const DeviceAddr addr = rig.alloc(bytes);
    PoolGuard guard(rig.state);
    ASSERT_TRUE(rig.placer.record_use(addr, rig.state.stream_index(side)).ok());
    Placer::Exact exact;
    exact.addr = addr;
    exact.bytes = allocated_size(bytes);
    exact.requested = bytes;
    exact.span = exact.bytes;
    exact.kind = kind;
    exact.stream = rig.state.stream_index(StreamId{0});
    exact.zone = rig.state.blocks.zone_of(addr);
    ASSERT_TRUE(rig.placer.take_back(addr).ok());
    ASSERT_EQ(rig.state.waiting.count(), 1U);
    rig.placer.put_back(exact, kDefaultPool);
    EXPECT_TRUE(rig.state.waiting.empty());
    validate_state(rig.state);
    // It is still used on the other stream.
    ASSERT_TRUE(rig.placer.take_back(addr).ok());
    EXPECT_EQ(rig.state.waiting.count(), 1U);
    rig.placer.release_done(/*ask=*/true);
  }
}

TEST(PlacerSmall, PagesForSmallBlocksMayTakeHalfOfTheSlackAndLaterAQuarter) {
  // One block, whose last page is mostly free: 0.76 % more is held than lives.
  Config config;
  const auto may_grow = [&](double slack, std::uint64_t steps) {
    config.slack = slack;
    StateRig rig(256_MiB, config);
    rig.alloc(198_MiB + 512_KiB);
    EXPECT_EQ(rig.state.space.reserved(), 200_MiB);
    for (std::uint64_t i = 0; i < steps; ++i) rig.state.age.begin_step();
    return rig.placer.may_grow_small(rig.state.pools.default_pool());
  };
  EXPECT_TRUE(may_grow(0.016, 1)) << "half is 0.8 %";
  EXPECT_FALSE(may_grow(0.015, 1));
  EXPECT_FALSE(may_grow(0.016, Age::kWarmUpSteps + 1));
  EXPECT_TRUE(may_grow(0.032, Age::kWarmUpSteps + 1)) << "a quarter is 0.8 %";
  EXPECT_FALSE(may_grow(0.030, Age::kWarmUpSteps + 1));
}

TEST(PlacerSmall, AfterTheWarmUpSmallBlocksGetNoNewPagesWhileNextToAllMemoryIsFree) {
  Config config;
  config.slack = 0.5;
  StateRig rig(256_MiB, config);
  std::vector<DeviceAddr> large;
  for (int i = 0; i < 10; ++i) large.push_back(rig.alloc(16_MiB));
  const auto small_grows_to = [&] {
    const DeviceAddr addr = rig.alloc(900_KiB);
    const Bytes reserved = rig.state.space.reserved();
    rig.free(addr);
    rig.locked([&](PoolGuard&) { return rig.placer.release_idle_chunks(); });
    return reserved;
  };
  for (std::uint64_t i = 0; i < Age::kWarmUpSteps; ++i) rig.state.age.begin_step();
  for (int i = 0; i < 9; ++i) rig.free(large[static_cast<std::size_t>(i)]);
  EXPECT_EQ(small_grows_to(), 160_MiB) << "nine tenths are free";
  for (int i = 0; i < 2; ++i) large[static_cast<std::size_t>(i)] = rig.alloc(16_MiB);
  EXPECT_EQ(small_grows_to(), 162_MiB) << "seven tenths are free";
  rig.validate();
}

}  // namespace
}  // namespace levee::core
