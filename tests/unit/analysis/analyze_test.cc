#include "allocator/analysis/analyze.h"

#include <gtest/gtest.h>

#include "tests/unit/analysis/trace_builder.h"

namespace levee::analysis {
namespace {

using test::TraceBuilder;

std::uint64_t reserved_at(const TraceFacts& facts, std::uint64_t time_ns) {
  const Timeline& t = facts.devices[0].timeline;
  return t.value(Series::kReserved, t.index_at(time_ns));
}
std::uint64_t allocated_at(const TraceFacts& facts, std::uint64_t time_ns) {
  const Timeline& t = facts.devices[0].timeline;
  return t.value(Series::kAllocated, t.index_at(time_ns));
}

TEST(Analyze, CurvesFollowPagesAndBlocks) {
  TraceBuilder trace;
  trace.at(1_us).create(8_MiB);
  trace.at(2_us).alloc(0x1000'0000, 3_MiB, 3_MiB);
  trace.at(3_us).alloc(0x2000'0000, 1_MiB, Bytes{1'000'000});
  trace.at(4_us).free(0x1000'0000, 3_MiB);
  trace.at(5_us).release(2_MiB);
  const TraceFacts facts = analyze(trace);
  EXPECT_EQ(reserved_at(facts, 1000), 8U << 20);
  EXPECT_EQ(allocated_at(facts, 3500), 4U << 20);
  EXPECT_EQ(allocated_at(facts, 4000), 1U << 20);
  EXPECT_EQ(reserved_at(facts, 9000), 6U << 20);
  EXPECT_EQ(facts.devices[0].allocations, 2U);
  EXPECT_EQ(facts.devices[0].small_allocations, 1U);
  EXPECT_EQ(facts.devices[0].frees, 1U);
  EXPECT_EQ(facts.devices[0].at_allocated_peak.rounding_bytes, (1U << 20) - 1'000'000U);
  EXPECT_TRUE(facts.completeness.remarks.empty());
}

// A phase may be older than the event that recording began with; the time axis begins with it.
TEST(Analyze, TheAxisBeginsWithTheEarliestEvent) {
  TraceBuilder trace;
  trace.mutable_header().start = 5_us;
  trace.mutable_header().start_unix_ns = 1'000'005'000;
  trace.at(2_us).create(8_MiB).alloc(0x10, 4_MiB);
  trace.at(7_us).free(0x10, 4_MiB);
  const TraceFacts facts = analyze(trace);
  EXPECT_EQ(facts.start_ns, 2000U);
  EXPECT_EQ(facts.start_unix_ns, 1'000'002'000);

  TraceBuilder later;
  later.mutable_header().start = 5_us;
  later.at(9_us).create(8_MiB);
  EXPECT_EQ(analyze(later).start_ns, 5000U);
}

TEST(Analyze, SegmentsCountAsReserved) {
  TraceBuilder trace;
  trace.at(1_us).emit(EventKind::kSegmentAlloc, 0x7000, 20 << 20);
  trace.at(2_us).emit(EventKind::kSegmentFree, 0x7000, 20 << 20);
  const TraceFacts facts = analyze(trace);
  EXPECT_EQ(reserved_at(facts, 1000), 20U << 20);
  EXPECT_EQ(reserved_at(facts, 2000), 0U);
}

TEST(Analyze, BlocksWithUsesElsewhereStayActiveUntilTheyComplete) {
  TraceBuilder trace;
  const LaneId side = trace.lane(0, 0x77);
  trace.at(1_us).create(8_MiB);
  trace.at(2_us).alloc(0x10, 4_MiB);
  trace.at(3_us).on_lane(side).emit(EventKind::kRecordUse, 0x10, 0);
  trace.at(4_us).on_lane(LaneId{1}).free(0x10, 4_MiB);
  trace.at(6_us).emit(EventKind::kFreeCompleted, 0x10, pack_sizes(4_MiB, 4_MiB));
  trace.at(7_us).alloc(0x10, 2_MiB);
  const TraceFacts facts = analyze(trace);
  const Timeline& t = facts.devices[0].timeline;
  EXPECT_EQ(t.value(Series::kAllocated, t.index_at(5000)), 0U);
  EXPECT_EQ(t.value(Series::kActive, t.index_at(5000)), 4U << 20);
  EXPECT_EQ(t.value(Series::kActive, t.index_at(6500)), 0U);
  EXPECT_EQ(t.value(Series::kActive, t.index_at(7000)), 2U << 20);
}

// As where a part of the record is damaged: what was never seen to come cannot go.
TEST(Analyze, WhatGoesWithoutHavingComeTakesNothingAway) {
  TraceBuilder trace;
  trace.at(1_us).create(8_MiB).alloc(0x10, 2_MiB);
  trace.at(2_us).free(0x20, 4_MiB);
  trace.at(3_us).release(16_MiB);
  trace.at(4_us).create(4_MiB);
  const TraceFacts facts = analyze(trace);
  const Timeline& t = facts.devices[0].timeline;
  EXPECT_EQ(facts.completeness.unmatched_frees, 1U);
  EXPECT_EQ(t.value(Series::kAllocated, t.index_at(2000)), 0U);
  EXPECT_EQ(t.value(Series::kReserved, t.index_at(3000)), 0U);
  EXPECT_EQ(t.value(Series::kReserved, t.index_at(4000)), 4U << 20);
  EXPECT_EQ(facts.devices[0].at_allocated_peak.allocated_bytes, 2U << 20);
}

TEST(Analyze, StepsTakeTheCallsAndPeaksOfTheirTime) {
  TraceBuilder trace;
  trace.at(1_us).create(8_MiB).step(0);
  trace.at(2_us).driver(DriverCall::kCreateHandle, 100_us, 2_MiB);
  trace.at(200_us).alloc(0x10, 4_MiB).free(0x10, 4_MiB);
  trace.at(300_us).step(1).step(1);  // two places mark the same step
  trace.at(310_us).alloc(0x20, 6_MiB);
  trace.at(320_us).driver(DriverCall::kRecordEvent, 1_us);
  const TraceFacts facts = analyze(trace);
  ASSERT_EQ(facts.steps.size(), 2U);
  EXPECT_EQ(facts.steps[0].duration_ns(), 299'000U);
  EXPECT_EQ(facts.steps[0].memory_calls, 1U);
  EXPECT_EQ(facts.steps[0].driver_ns, 100'000U);
  EXPECT_TRUE(facts.steps[0].is_complete);
  EXPECT_FALSE(facts.steps[1].is_complete);
  EXPECT_EQ(facts.steps[1].memory_calls, 0U);
  EXPECT_EQ(facts.steps[1].driver_calls, 1U);
  EXPECT_EQ(facts.devices[0].step_peaks[0].allocated_bytes, 4U << 20);
  EXPECT_EQ(facts.devices[0].step_peaks[1].allocated_bytes, 6U << 20);
  EXPECT_EQ(facts.step_text(facts.step_at(310'000)), "step 1");
  EXPECT_EQ(facts.step_text(facts.step_at(500)), "before the first step");
}

TEST(Analyze, PhasesNestPerThreadAndKnowTheirPeaks) {
  TraceBuilder trace;
  const ContextId train = trace.name("train");
  const ContextId forward = trace.name("forward");
  const std::uint32_t other = trace.thread("backward");
  trace.at(1_us).create(64_MiB);
  trace.at(2_us).push(train).alloc(0x10, 4_MiB);
  trace.at(3_us).push(forward).alloc(0x20, 8_MiB).free(0x20, 8_MiB);
  trace.at(4_us).on_thread(other).alloc(0x30, 2_MiB);
  trace.at(5_us).on_thread(0).pop(train);  // closes forward as well: its pop was lost
  AnalysisOptions options;
  options.keep_blocks = true;
  const TraceFacts facts = analyze(trace, options);
  ASSERT_EQ(facts.blocks.size(), 3U);
  EXPECT_EQ(facts.phase_path(facts.blocks[0].phase), "train");
  EXPECT_EQ(facts.phase_path(facts.blocks[1].phase), "train/forward");
  EXPECT_EQ(facts.phase_path(facts.blocks[2].phase), "outside any phase");
  ASSERT_EQ(facts.spans.size(), 2U);
  const PhaseNode& inner = facts.phases[facts.blocks[1].phase];
  EXPECT_EQ(inner.total_ns, 2000U);
  EXPECT_EQ(inner.peak_bytes, 12U << 20);
  EXPECT_EQ(inner.peak_rise_bytes, 8U << 20);
}

// Outer 300 MiB; inner 300 MiB absolute and 200 MiB above its start; the inner one leaves the outer
// as it was.
TEST(Analyze, ScopedPeaksNest) {
  TraceBuilder trace;
  const ContextId outer = trace.name("outer");
  const ContextId inner = trace.name("inner");
  trace.at(1_us).create(512_MiB).push(outer);
  trace.at(2_us).alloc(0x10, 100_MiB);
  trace.at(3_us).push(inner);
  trace.at(4_us).alloc(0x20, 200_MiB);
  trace.at(5_us).free(0x20, 200_MiB);
  trace.at(6_us).pop(inner);
  trace.at(7_us).free(0x10, 100_MiB);
  trace.at(8_us).pop(outer);
  const TraceFacts facts = analyze(trace);
  ASSERT_EQ(facts.phases.size(), 3U);
  EXPECT_EQ(facts.phases[1].peak_bytes, 300U << 20);
  EXPECT_EQ(facts.phases[2].peak_bytes, 300U << 20);
  EXPECT_EQ(facts.phases[2].peak_rise_bytes, 200U << 20);
}

TEST(Analyze, HoldersOfThePeakAreListedByPhaseAndStack) {
  TraceBuilder trace;
  const ContextId a = trace.name("a");
  const ContextId stack =
      trace.name("model.py:10 forward\ntrain.py:5 step\nmain.py:1 main\nrun.py:9 run",
                 record::ContextKind::kStack);
  trace.at(1_us).create(64_MiB).push(a);
  trace.at(2_us).alloc(0x10, 4_MiB, {}, 0, stack).alloc(0x20, 8_MiB, {}, 0, stack);
  trace.at(3_us).pop(a).alloc(0x30, 1_MiB);
  const TraceFacts facts = analyze(trace);
  const DeviceFacts& device = facts.devices[0];
  ASSERT_EQ(device.holders_by_phase.size(), 2U);
  EXPECT_EQ(device.holders_by_phase[0].origin, "a");
  EXPECT_EQ(device.holders_by_phase[0].bytes, 12U << 20);
  EXPECT_EQ(device.holders_by_phase[0].blocks, 2U);
  ASSERT_EQ(device.holders_by_stack.size(), 2U);
  EXPECT_EQ(device.holders_by_stack[0].origin,
            "model.py:10 forward < train.py:5 step < main.py:1 main");
  EXPECT_EQ(device.holders_by_stack[1].origin.substr(0, 9), "no stack:");
}

// What a list of holders leaves out is one more entry, so that the bytes add up.
TEST(Analyze, HoldersBeyondTheMostAreOneEntry) {
  TraceBuilder trace;
  trace.at(1_us).create(64_MiB);
  for (std::uint64_t i = 0; i < 6; ++i) {
    const ContextId phase = trace.name("phase" + std::to_string(i));
    trace.push(phase).alloc(0x10 + i, Bytes{(8 - i) << 20}).pop(phase);
  }
  AnalysisOptions options;
  options.max_holders = 4;
  const TraceFacts facts = analyze(trace, options);
  const std::vector<Holder>& held = facts.devices[0].holders_by_phase;
  ASSERT_EQ(held.size(), 5U);
  EXPECT_EQ(held[4].origin, "others (2 places)");
  EXPECT_EQ(held[4].bytes, 7U << 20);
  EXPECT_EQ(held[4].blocks, 2U);
  std::uint64_t sum = 0;
  for (const Holder& one : held) sum += one.bytes;
  EXPECT_EQ(sum, facts.devices[0].at_allocated_peak.allocated_bytes);
}

TEST(Analyze, StartsFromTheStateOfAFileThatBeginsInTheMiddle) {
  TraceBuilder trace;
  trace.mutable_coverage().dropped_events = 12;
  record::TraceState& state = trace.mutable_state();
  record::DeviceCounters counters;
  counters.device = DeviceId{0};
  counters.reserved = 32_MiB;
  counters.allocated = 5_MiB;
  state.devices.push_back(counters);
  record::LiveBlock block;
  block.addr = DeviceAddr{0x10};
  block.bytes = 5_MiB;
  block.requested_bytes = 5_MiB;
  block.lane = LaneId{1};
  state.live.push_back(block);
  state.step = 41;
  trace.at(100_us).free(0x10, 5_MiB);
  trace.at(110_us).step(42);
  const TraceFacts facts = analyze(trace);
  EXPECT_EQ(reserved_at(facts, 100'000), 32U << 20);
  EXPECT_EQ(facts.devices[0].timeline.range(Series::kAllocated, 0, 200'000).max, 5U << 20);
  EXPECT_EQ(allocated_at(facts, 100'000), 0U);
  EXPECT_EQ(facts.completeness.unmatched_frees, 0U);
  ASSERT_EQ(facts.steps.size(), 2U);
  EXPECT_EQ(facts.steps[0].number, 41U);
  ASSERT_EQ(facts.completeness.remarks.size(), 1U);
  EXPECT_NE(facts.completeness.remarks[0].find("oldest 12 events were overwritten"),
            std::string::npos);
}

TEST(Analyze, FirstCheckpointLiftsWhatCameBeforeIt) {
  TraceBuilder trace;
  trace.mutable_coverage().dropped_events = 1;
  trace.at(1_us).free(0x10, 3_MiB);
  trace.at(2_us).emit(EventKind::kCounters, 16 << 20, 5 << 20);
  trace.at(3_us).alloc(0x20, 1_MiB);
  const TraceFacts facts = analyze(trace);
  EXPECT_EQ(allocated_at(facts, 1000), 5U << 20);
  EXPECT_EQ(reserved_at(facts, 1000), 16U << 20);
  EXPECT_EQ(allocated_at(facts, 3000), 6U << 20);
  EXPECT_EQ(facts.completeness.unmatched_frees, 1U);
}

TEST(Analyze, WithoutAnyCheckpointSizesAreRelativeAndItSaysSo) {
  TraceBuilder trace;
  trace.mutable_coverage().dropped_events = 1;
  trace.at(1_us).free(0x10, 3_MiB);
  trace.at(2_us).alloc(0x20, 1_MiB);
  const TraceFacts facts = analyze(trace);
  EXPECT_EQ(allocated_at(facts, 1000), 0U);
  EXPECT_EQ(allocated_at(facts, 2000), 1U << 20);
  EXPECT_NE(facts.completeness.remarks[0].find("relative to the lowest point"), std::string::npos);
}

TEST(Analyze, LostEventsMakeTheNextCheckpointTheTruth) {
  TraceBuilder trace;
  trace.at(1_us).create(16_MiB).alloc(0x10, 4_MiB);
  trace.at(2_us).emit(EventKind::kCounters, 999, 999);  // nothing lost yet: not believed
  trace.at(3_us).emit(EventKind::kLost, 5, 0);
  trace.at(4_us).emit(EventKind::kCounters, 32 << 20, 9 << 20);
  const TraceFacts facts = analyze(trace);
  EXPECT_EQ(reserved_at(facts, 2000), 16U << 20);
  EXPECT_EQ(reserved_at(facts, 4000), 32U << 20);
  EXPECT_EQ(allocated_at(facts, 4000), 9U << 20);
}

TEST(Analyze, AnAddressAllocatedTwiceMeansThatAFreeIsMissing) {
  TraceBuilder trace;
  trace.at(1_us).create(16_MiB).alloc(0x10, 4_MiB);
  trace.at(2_us).alloc(0x10, 2_MiB);
  const TraceFacts facts = analyze(trace);
  EXPECT_EQ(allocated_at(facts, 2000), 2U << 20);
  EXPECT_EQ(facts.completeness.overwritten_blocks, 1U);
}

TEST(Analyze, DevicesAreKeptApart) {
  TraceBuilder trace;
  trace.device(1, "Second GPU", 24_GiB);
  const LaneId second = trace.lane(1, 0);
  trace.at(1_us).create(16_MiB).alloc(0x10, 4_MiB);
  trace.at(2_us).on_lane(second).create(2_MiB).alloc(0x9000'0000, 1_MiB);
  const TraceFacts facts = analyze(trace);
  ASSERT_EQ(facts.devices.size(), 2U);
  EXPECT_EQ(facts.devices[0].at_allocated_peak.allocated_bytes, 4U << 20);
  EXPECT_EQ(facts.devices[1].at_allocated_peak.allocated_bytes, 1U << 20);
  EXPECT_EQ(facts.devices[1].timeline.range(Series::kReserved, 0, 9000).max, 2U << 20);
}

TEST(Analyze, ActivityGoesToTheLaneOfItsStreamByBegin) {
  TraceBuilder trace;
  const ContextId gemm = trace.name("gemm", record::ContextKind::kKernel);
  const LaneId side = trace.lane(0, 0x77);
  trace.at(10_us).kernel(5_us, gemm, 1);
  trace.at(12_us).on_lane(side).emit(EventKind::kMemcpy, 2000, 4096, 1);
  AnalysisOptions options;
  const TraceFacts facts = analyze(trace, options);
  ASSERT_EQ(facts.lanes.size(), 2U);
  EXPECT_EQ(facts.name_of(facts.lanes[0].intervals[0].name), "gemm");
  EXPECT_EQ(facts.lanes[1].stream, 0x77U);
  EXPECT_EQ(facts.lanes[1].intervals[0].value, 4096U);
  options.read_activity = false;
  EXPECT_TRUE(analyze(trace, options).lanes.empty());
}

TEST(Analyze, EmptyTraceHasFactsToo) {
  const TraceBuilder trace;
  const TraceFacts facts = analyze(trace);
  EXPECT_EQ(facts.devices.size(), 1U);
  EXPECT_TRUE(facts.devices[0].timeline.empty());
  EXPECT_TRUE(facts.emergencies.empty());
}

// An optimizer marks the ends of steps: three calls are three steps, the first of them from the
// start.
TEST(Steps, MarksAtTheEndCountWhatCameBeforeTheFirst) {
  TraceBuilder trace;
  trace.at(1_us).create(4_MiB).driver(DriverCall::kCreateHandle, 1_us);
  trace.at(2_us).emergency(EmergencyCause::kDeviceFull, 2_MiB, 4_MiB);
  trace.after(1_us).emergency_end(true, 4_MiB, 500_ns);
  trace.at(10_us).emit(EventKind::kStepMark, 1, 1);
  trace.at(12_us).driver(DriverCall::kMap, 1_us).driver(DriverCall::kMap, 1_us);
  trace.at(20_us).emit(EventKind::kStepMark, 2, 1);
  trace.at(30_us).emit(EventKind::kStepMark, 3, 1);
  trace.at(31_us).driver(DriverCall::kUnmap, 1_us);
  const TraceFacts facts = analyze(trace);
  ASSERT_EQ(facts.steps.size(), 4U);
  EXPECT_TRUE(facts.marks_end_steps);
  const auto last = static_cast<std::uint32_t>(facts.steps.size() - 1);
  EXPECT_EQ(facts.step_text(last - 1), "step " + std::to_string(facts.steps[last - 1].number));
  EXPECT_EQ(facts.step_text(last), "after step " + std::to_string(facts.steps[last - 1].number));
  std::vector<std::uint64_t> numbers;
  std::vector<std::uint64_t> calls;
  std::vector<bool> complete;
  for (const Step& step : facts.steps) {
    numbers.push_back(step.number);
    calls.push_back(step.memory_calls);
    complete.push_back(step.is_complete);
  }
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{1, 2, 3, 4}));
  EXPECT_EQ(calls, (std::vector<std::uint64_t>{1, 2, 0, 1}));
  // Where the first began is not marked, and the last never ended.
  EXPECT_EQ(complete, (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ(facts.steps[0].emergencies, 1U);
  EXPECT_EQ(facts.steps[0].emergency_ns, 500U);
  EXPECT_EQ(facts.emergencies[0].step, 0U);
}

TEST(Steps, MarksAtTheBeginningLeaveSetUpOutside) {
  TraceBuilder trace;
  trace.at(1_us).create(4_MiB).driver(DriverCall::kCreateHandle, 1_us);
  trace.at(10_us).step(1).at(20_us).step(2);
  const TraceFacts facts = analyze(trace);
  ASSERT_EQ(facts.steps.size(), 2U);
  EXPECT_FALSE(facts.marks_end_steps);
  EXPECT_EQ(facts.steps[0].number, 1U);
  EXPECT_EQ(facts.steps[0].memory_calls, 0U);
}

TEST(Analyze, AFailedDriverCallIsCountedAndMovesNoBytes) {
  TraceBuilder trace;
  trace.at(1_us).create(64_MiB).driver(DriverCall::kMap, 2_us, 2_MiB).after(5_us);
  trace.emit(EventKind::kDriverCall, 250, 2,
             static_cast<std::uint16_t>(DriverCall::kMap) | kDriverCallFailed);
  const TraceFacts facts = analyze(trace);
  EXPECT_EQ(facts.driver.failed, 1U);
  EXPECT_EQ(facts.devices[0].driver.failed, 1U);
  ASSERT_EQ(facts.driver_calls.size(), 2U);
  EXPECT_FALSE(facts.driver_calls[0].failed);
  EXPECT_EQ(facts.driver_calls[0].bytes, (2_MiB).value);
  EXPECT_TRUE(facts.driver_calls[1].failed);
  EXPECT_EQ(facts.driver_calls[1].bytes, 0U) << "its second number is CUDA's error";
}

TEST(Facts, AThreadThatTheRecordDoesNotNameHasItsNumber) {
  TraceBuilder trace;
  const std::uint32_t nameless = trace.thread("");
  trace.at(1_us).create(64_MiB).on_thread(nameless).alloc(0x10, 512_B);
  const TraceFacts facts = analyze(trace);
  EXPECT_EQ(facts.thread_name(0), "main");
  EXPECT_EQ(facts.os_thread(0), 100U);
  EXPECT_EQ(facts.thread_name(nameless), "thread 101");
  EXPECT_EQ(facts.os_thread(nameless), 101U);
  EXPECT_EQ(facts.thread_name(55), "thread #55");
  EXPECT_EQ(facts.os_thread(55), 55U);
}

}  // namespace
}  // namespace levee::analysis
