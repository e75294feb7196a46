#include "allocator/core/waiting_list.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/core/rig.h"
#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;

TEST(RecordUse, AnotherStreamsUseKeepsTheBlockUntilItIsDone) {
  Rig rig;
  const StreamId side = rig.stream();
  const DeviceAddr block = rig.alloc(32_MiB);
  ASSERT_TRUE(rig->record_use(block, side).ok());
  rig.work(side, 50_ms);
  rig.free(block);
  const Stats waiting = rig->stats();
  EXPECT_EQ(waiting.allocated_bytes[0].current, 0);
  EXPECT_EQ(waiting.active_bytes[0].current, static_cast<std::int64_t>((32_MiB).value));
  rig.model().advance_past_all_work();
  for (int i = 0; i < 64; ++i) rig.free(rig.alloc(1_KiB));
  EXPECT_EQ(rig->stats().active_bytes[0].current, 0);
  rig->validate();
}

TEST(RecordUse, OneSlowStreamHoldsBackOnlyWhatItUses) {
  // One block waits for a stream that is busy for long; twenty wait for one that is done at once.
  Rig rig(1_GiB);
  const StreamId slow = rig.stream();
  const StreamId fast = rig.stream();
  const DeviceAddr stuck = rig.alloc(4_MiB);
  ASSERT_TRUE(rig->record_use(stuck, slow).ok());
  rig.work(slow, Nanos{60'000'000'000});
  rig.free(stuck);
  for (int i = 0; i < 20; ++i) {
    const DeviceAddr block = rig.alloc(40_MiB);
    ASSERT_TRUE(rig->record_use(block, fast).ok());
    rig.work(fast, 10_us);
    rig.free(block);
    rig.model().advance(1_ms);
    for (int k = 0; k < 33; ++k) rig.free(rig.alloc(1_KiB));
  }
  EXPECT_LE(rig.reserved(), 100_MiB);
  EXPECT_EQ(rig.calls(CallKind::kSynchronizeEvent), 0U);
}

TEST(RecordUse, NoEventIsAskedForForEachFree) {
  Rig rig;
  const StreamId side = rig.stream();
  for (int i = 0; i < 400; ++i) {
    const DeviceAddr block = rig.alloc(64_KiB);
    ASSERT_TRUE(rig->record_use(block, side).ok());
    rig.free(block);
  }
  EXPECT_LE(rig.calls(CallKind::kQueryEvent), 120U);
  EXPECT_LE(rig.calls(CallKind::kRecordEvent), 60U);
}

TEST(RecordUse, RecoveryFindsTheWaitingBlockAndTakesIt) {
  Rig rig(1000_MiB);
  const StreamId side = rig.stream();
  const DeviceAddr kept = rig.alloc(620_MiB);
  const DeviceAddr waiting = rig.alloc(376_MiB);
  ASSERT_TRUE(rig->record_use(waiting, side).ok());
  rig.work(side, 20_ms);
  rig.free(waiting);
  const DeviceAddr z = rig.alloc(370_MiB);
  EXPECT_FALSE(z.is_null());
  rig->validate();
  rig.free(z);
  rig.free(kept);
}

TEST(RecordUse, SmallObjectsWaitToo) {
  Rig rig;
  const StreamId side = rig.stream();
  const DeviceAddr object = rig.alloc(1_KiB);
  ASSERT_TRUE(rig->record_use(object, side).ok());
  rig.work(side, 50_ms);
  rig.free(object);
  rig->validate();
  EXPECT_NE(rig.alloc(1_KiB), object);
  EXPECT_EQ(rig->free(object).code(), StatusCode::kNotOwned);
}

TEST(RecordUse, OfNothingIsRefused) {
  Rig rig;
  EXPECT_EQ(rig->record_use(DeviceAddr{123}, StreamId{0}).code, StatusCode::kNotOwned);
}

TEST(WaitingList, UnderAStreamThatNothingWaitsForThereIsNothing) {
  StateRig rig;
  EXPECT_EQ(rig.state.waiting.take_done(StreamIndex{4000}, rig.state.streams), nullptr);
  EXPECT_EQ(rig.state.waiting.take_done(StreamIndex{0}, rig.state.streams), nullptr);
}

}  // namespace
}  // namespace levee::core
