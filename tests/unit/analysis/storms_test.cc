#include "allocator/analysis/storms.h"

#include <gtest/gtest.h>

#include "allocator/analysis/analyze.h"
#include "tests/unit/analysis/trace_builder.h"

namespace levee::analysis {
namespace {

using test::TraceBuilder;

// Step 3 runs dry: 4 MiB go back, 8 MiB are taken again.
void add_storm(TraceBuilder& trace) {
  trace.emergency(EmergencyCause::kDeviceFull, 6_MiB, 64_MiB);
  trace.after(1_ms).driver(DriverCall::kReleaseHandle, 2_ms, 4_MiB).after(2_ms).release(4_MiB);
  trace.rung(LadderRung::kCachedHandles, 4_MiB, 3_ms).after(1_ms);
  trace.emergency_end(true, 60_MiB, 4_ms);
  trace.after(1_ms).driver(DriverCall::kCreateHandle, 5_ms, 4_MiB).after(5_ms).create(4_MiB);
}

TEST(Storms, EmergencyAndReacquisitionAreOneCluster) {
  TraceBuilder trace;
  trace.at(1_us).create(64_MiB).step(3);
  trace.at(10_ms);
  add_storm(trace);
  const TraceFacts facts = analyze(trace);
  ASSERT_EQ(facts.storms.size(), 1U);
  const Storm& storm = facts.storms[0];
  EXPECT_EQ(storm.emergencies, 1U);
  EXPECT_EQ(storm.released_bytes, 4U << 20);
  EXPECT_EQ(storm.reacquired_bytes, 4U << 20);
  EXPECT_EQ(storm.driver_calls, 2U);
  EXPECT_EQ(storm.driver_ns, 7'000'000U);
  EXPECT_EQ(storm.stall_ns, 9'000'000U);  // 4 ms of ladder, 5 ms of creation after it
  EXPECT_EQ(storm.reserved_before_bytes, 64U << 20);
  EXPECT_EQ(storm.reserved_min_bytes, 60U << 20);
  EXPECT_EQ(storm.reserved_end_bytes, 64U << 20);
  EXPECT_EQ(facts.emergencies[0].storm, 0U);
  EXPECT_EQ(facts.emergencies[0].released_bytes, 4U << 20);
}

TEST(Storms, DistanceAndAnotherStepSeparateThem) {
  TraceBuilder trace;
  trace.at(1_us).create(64_MiB).step(1);
  trace.at(10_ms);
  add_storm(trace);
  trace.after(50_ms);
  add_storm(trace);  // near: the same storm
  trace.after(1000_ms);
  add_storm(trace);  // far, but in the same step: still the same
  trace.after(1_ms).step(2);
  trace.after(1000_ms);
  add_storm(trace);
  const TraceFacts facts = analyze(trace);
  ASSERT_EQ(facts.storms.size(), 2U);
  EXPECT_EQ(facts.storms[0].emergencies, 3U);
  EXPECT_EQ(facts.storms[1].emergencies, 1U);
  EXPECT_EQ(facts.emergencies[3].storm, 1U);
}

TEST(Storms, OrdinaryGrowthAfterwardsIsNotReacquisition) {
  TraceBuilder trace;
  trace.at(1_us).create(64_MiB).step(1);
  trace.at(10_ms);
  add_storm(trace);
  trace.after(1_ms).driver(DriverCall::kCreateHandle, 5_ms, 32_MiB).after(5_ms).create(32_MiB);
  const TraceFacts facts = analyze(trace);
  ASSERT_EQ(facts.storms.size(), 1U);
  EXPECT_EQ(facts.storms[0].reacquired_bytes, 4U << 20);
  EXPECT_EQ(facts.storms[0].driver_calls, 2U);
}

// A request that is refused, after 4 MiB were given back for it in vain.
void add_refusal(TraceBuilder& trace) {
  trace.emergency(EmergencyCause::kDeviceFull, 6_MiB, 64_MiB);
  trace.after(1_ms).driver(DriverCall::kReleaseHandle, 2_ms, 4_MiB).after(2_ms).release(4_MiB);
  trace.rung(LadderRung::kCachedHandles, 4_MiB, 3_ms).after(1_ms);
  trace.emergency_end(false, 60_MiB, 4_ms);
}

TEST(Storms, RefusalsAloneAreNone) {
  TraceBuilder trace;
  trace.device(1, "Second GPU", 24_GiB);
  const LaneId second = trace.lane(1, 0);
  trace.at(1_us).on_lane(LaneId{1}).create(64_MiB).step(1);
  trace.at(10_ms);
  add_refusal(trace);
  trace.on_lane(second);
  add_storm(trace);  // another device's, between them
  trace.on_lane(LaneId{1});
  add_refusal(trace);
  trace.after(1_ms).step(2).after(1000_ms);
  add_storm(trace);
  add_refusal(trace);  // near one that was served: a part of its storm
  const TraceFacts facts = analyze(trace);
  ASSERT_EQ(facts.emergencies.size(), 5U);
  ASSERT_EQ(facts.storms.size(), 2U);
  EXPECT_EQ(facts.storms[0].device, 1U);
  EXPECT_EQ(facts.storms[1].emergencies, 2U);
  EXPECT_EQ(facts.emergencies[0].storm, kNone);
  EXPECT_EQ(facts.emergencies[1].storm, 0U);
  EXPECT_EQ(facts.emergencies[2].storm, kNone);
  EXPECT_EQ(facts.emergencies[3].storm, 1U);
  EXPECT_EQ(facts.emergencies[4].storm, 1U);
}

TEST(Storms, EachDeviceHasItsOwn) {
  TraceBuilder trace;
  trace.device(1, "Second GPU", 24_GiB);
  const LaneId second = trace.lane(1, 0);
  const std::uint32_t other = trace.thread("other");
  trace.at(1_us).create(64_MiB);
  trace.on_lane(second).create(64_MiB);
  trace.at(10_ms).on_lane(LaneId{1});
  add_storm(trace);
  trace.on_lane(second).on_thread(other);
  add_storm(trace);
  const TraceFacts facts = analyze(trace);
  ASSERT_EQ(facts.storms.size(), 2U);
  EXPECT_EQ(facts.storms[0].device, 0U);
  EXPECT_EQ(facts.storms[1].device, 1U);
  EXPECT_EQ(facts.emergencies[1].storm, 1U);
}

}  // namespace
}  // namespace levee::analysis
