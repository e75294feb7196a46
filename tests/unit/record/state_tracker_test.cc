#include "allocator/record/state_tracker.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace levee::record {
namespace {

Event event(EventKind kind, std::int64_t time, std::uint64_t a, std::uint64_t b,
            LaneId lane = LaneId{1}, ContextId context = {}) {
  return make_event(kind, Nanos{time}, lane, a, b, 0, context);
}

class StateTrackerTest : public ::testing::Test {
 protected:
  StateTrackerTest() {
    tracker.set_lane_device(LaneId{1}, DeviceId{0});
    tracker.set_lane_device(LaneId{2}, DeviceId{1});
  }
  const DeviceCounters& device(std::size_t i = 0) const { return tracker.devices()[i]; }
  StateTracker tracker;
};

TEST_F(StateTrackerTest, AllocationAndFreeAddUpPerDevice) {
  tracker.apply(event(EventKind::kPageCreate, 1, 0x1000, 4096), 0);
  tracker.apply(event(EventKind::kAlloc, 2, 0x1000, pack_sizes(100_B, 512_B)), 0);
  tracker.apply(event(EventKind::kAlloc, 3, 0x9000, pack_sizes(512_B, 512_B), LaneId{2}), 0);
  EXPECT_EQ(device(0).reserved, 4096_B);
  EXPECT_EQ(device(0).allocated, 512_B);
  EXPECT_EQ(device(0).requested, 100_B);
  EXPECT_EQ(device(1).allocated, 512_B);
  EXPECT_EQ(device(1).reserved, 0_B);
  tracker.apply(event(EventKind::kFree, 4, 0x1000, pack_sizes(100_B, 512_B)), 0);
  EXPECT_EQ(device(0).allocated, 0_B);
  EXPECT_EQ(device(0).active, 0_B);
  EXPECT_EQ(tracker.live_count(), 1U);
}

TEST_F(StateTrackerTest, ABlockWithRecordedUsesIsActiveUntilItsFreeCompletes) {
  const auto sizes = pack_sizes(512_B, 512_B);
  tracker.apply(event(EventKind::kAlloc, 1, 0x1000, sizes), 0);
  tracker.apply(event(EventKind::kRecordUse, 2, 0x1000, 0, LaneId{2}), 0);
  tracker.apply(event(EventKind::kFree, 3, 0x1000, sizes), 0);
  EXPECT_EQ(device().allocated, 0_B);
  EXPECT_EQ(device().active, 512_B);
  EXPECT_TRUE(tracker.is_live(0x1000));
  tracker.apply(event(EventKind::kFreeCompleted, 4, 0x1000, sizes), 0);
  EXPECT_EQ(device().active, 0_B);
  EXPECT_FALSE(tracker.is_live(0x1000));
}

TEST_F(StateTrackerTest, AFreeThatArrivesLateDoesNotTakeTheNextBlockAway) {
  const auto sizes = pack_sizes(512_B, 512_B);
  tracker.apply(event(EventKind::kAlloc, 1, 0x1000, sizes), 0);
  tracker.apply(event(EventKind::kAlloc, 10, 0x1000, sizes), 1);  // the free at 9 comes after it
  tracker.apply(event(EventKind::kFree, 9, 0x1000, sizes), 0);
  EXPECT_TRUE(tracker.is_live(0x1000));
  EXPECT_EQ(device().allocated, 512_B);
}

TEST_F(StateTrackerTest, CountersNeverWrapAndAreSetRightAfterALoss) {
  tracker.apply(event(EventKind::kCounters, 1, 999, 999), 0);
  EXPECT_EQ(device().reserved, 0_B) << "without a loss the events are the truth";
  tracker.apply(event(EventKind::kLost, 2, 10, 0, LaneId{0}), 0);
  tracker.apply(event(EventKind::kFree, 3, 0x1000, pack_sizes(512_B, 512_B)), 0);
  EXPECT_EQ(device().allocated, 0_B);
  tracker.apply(event(EventKind::kCounters, 4, 4096, 1024), 0);
  EXPECT_EQ(device().reserved, 4096_B);
  EXPECT_EQ(device().allocated, 1024_B);
  EXPECT_FALSE(tracker.snapshot(Nanos{5}).live_is_complete);
  tracker.apply(event(EventKind::kAlloc, 6, 0x2000, UINT64_MAX), 0);
  tracker.apply(event(EventKind::kAlloc, 7, 0x3000, UINT64_MAX), 0);
  tracker.apply(event(EventKind::kPageCreate, 8, 0, UINT64_MAX), 0);
  EXPECT_EQ(device().reserved, Bytes{UINT64_MAX}) << "stops at the largest value";
}

TEST_F(StateTrackerTest, PhasesStepsAndLimitsAreKept) {
  tracker.apply(event(EventKind::kPhasePop, 1, 0, 0, LaneId{0}, ContextId{9}),
                7);  // closes nothing
  tracker.apply(event(EventKind::kPhasePush, 2, 0, 0, LaneId{0}, ContextId{3}), 7);
  tracker.apply(event(EventKind::kPhasePush, 3, 0, 0, LaneId{0}, ContextId{4}), 7);
  tracker.apply(event(EventKind::kPhasePush, 4, 0, 0, LaneId{0}, ContextId{5}), 2);
  tracker.apply(event(EventKind::kPhasePop, 5, 0, 0, LaneId{0}, ContextId{4}), 7);
  tracker.apply(event(EventKind::kStepMark, 6, 42, 0, LaneId{0}), 7);
  EXPECT_EQ(tracker.snapshot(Nanos{6}, 100).step, 42U);
  // The end of 41 is the beginning of 42.
  tracker.apply(event(EventKind::kStepMark, 6, 41, 1, LaneId{0}), 7);
  tracker.apply(event(EventKind::kLimit, 7, 1 << 20, 0, LaneId{2}), 7);
  const TraceState state = tracker.snapshot(Nanos{8});
  ASSERT_EQ(state.phases.size(), 2U);
  EXPECT_EQ(state.phases[0], (OpenPhase{2, ContextId{5}, Nanos{4}}));
  EXPECT_EQ(state.phases[1], (OpenPhase{7, ContextId{3}, Nanos{2}}));
  EXPECT_EQ(state.step, 42U);
  EXPECT_EQ(state.devices[1].limit, 1_MiB);
}

TEST_F(StateTrackerTest, TheLargestBlocksAreKeptWhenThereAreTooMany) {
  for (std::uint64_t i = 1; i <= 100; ++i) {
    tracker.apply(event(EventKind::kAlloc, 1, i << 20, pack_sizes(Bytes{i}, Bytes{512 * i})), 0);
  }
  const TraceState state = tracker.snapshot(Nanos{1}, 10);
  EXPECT_FALSE(state.live_is_complete);
  ASSERT_EQ(state.live.size(), 10U);
  EXPECT_EQ(state.live.front().requested_bytes, 91_B);
}

TEST_F(StateTrackerTest, AStateGoesOnFromASnapshot) {
  const auto sizes = pack_sizes(512_B, 512_B);
  tracker.apply(event(EventKind::kAlloc, 1, 0x1000, sizes), 0);
  tracker.apply(event(EventKind::kRecordUse, 2, 0x1000, 0), 0);
  tracker.apply(event(EventKind::kFree, 3, 0x1000, sizes), 0);
  tracker.apply(event(EventKind::kPhasePush, 3, 0, 0, LaneId{0}, ContextId{3}), 1);
  StateTracker second(tracker.snapshot(Nanos{4}));
  second.set_lane_device(LaneId{1}, DeviceId{0});
  second.apply(event(EventKind::kFreeCompleted, 5, 0x1000, sizes), 0);
  EXPECT_EQ(second.devices()[0].active, 0_B);
  EXPECT_EQ(second.snapshot(Nanos{6}).phases.size(), 1U);
}

TEST(LiveTable, AgreesWithAMapOverRandomOperations) {
  std::mt19937_64 random(11);
  LiveTable table;
  std::map<std::uint64_t, std::uint64_t> naive;
  for (int i = 0; i < 200'000; ++i) {
    const std::uint64_t addr = (1 + random() % 3000) * 512;
    LiveTable::Entry* entry = table.find(addr);
    ASSERT_EQ(entry != nullptr, naive.contains(addr));
    if (entry != nullptr) {
      ASSERT_EQ(entry->packed_sizes, naive[addr]);
    }
    if (random() % 2 == 0) {
      table.find_or_insert(addr).packed_sizes = naive[addr] = random();
    } else if (entry != nullptr) {
      table.erase(entry);
      naive.erase(addr);
    }
    ASSERT_EQ(table.size(), naive.size());
  }
  std::size_t visited = 0;
  table.for_each([&](const LiveTable::Entry& entry) {
    ++visited;
    EXPECT_TRUE(naive.contains(entry.addr));
  });
  EXPECT_EQ(visited, naive.size());
}

}  // namespace
}  // namespace levee::record
