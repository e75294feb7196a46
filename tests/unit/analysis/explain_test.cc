// The words of emergencies, storms and out-of-memory errors. Whole texts, since they are what a
// user reads.
#include "allocator/analysis/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/analysis/analyze.h"
#include "allocator/analysis/oom_text.h"
#include "tests/unit/analysis/trace_builder.h"

namespace levee::analysis {
namespace {

using test::TraceBuilder;
using testing::HasSubstr;

TraceFacts one_emergency(EmergencyCause cause, LadderRung useful, bool served) {
  TraceBuilder trace;
  const ContextId forward = trace.name("forward");
  trace.at(1_us).create(64_MiB).step(17).push(forward);
  trace.at(2_us).alloc(0x4000'0000, 60_MiB);
  trace.at(12_ms).emergency(cause, 6_MiB, 64_MiB);
  trace.rung(LadderRung::kOwnEvents, useful == LadderRung::kOwnEvents ? 8_MiB : 0_MiB, 12_us);
  if (useful != LadderRung::kOwnEvents && useful != LadderRung::kOutOfMemory) {
    trace.driver(DriverCall::kReleaseHandle, 2_ms, 8_MiB);
    trace.rung(useful, 8_MiB, 3_ms);
  }
  trace.at(16_ms).emergency_end(served, 64_MiB, 4_ms);
  return analyze(trace);
}

TEST(Explain, WholeTextOfAServedEmergency) {
  const TraceFacts facts =
      one_emergency(EmergencyCause::kDeviceFull, LadderRung::kCachedHandles, true);
  ASSERT_EQ(facts.emergencies.size(), 1U);
  EXPECT_EQ(emergency_text(facts, facts.emergencies[0]),
            "At 12.0 ms on device 0, a request of 6.00 MiB was served after 4.00 ms.\n"
            "Cause: the device had no more memory to give, with 64.0 MiB reserved and 60.0 MiB "
            "allocated.\n"
            "Rung 1: waited for blocks that other streams still used: nothing in 12.0 us.\n"
            "Rung 2: gave cached memory back to the device and asked anew: 8.00 MiB usable in 3.00 "
            "ms.\n"
            "Paid by step 17, forward, thread main: 4.00 ms, of which 2.00 ms in 1 driver call.\n"
            "Advice: Cached memory had to be given back to the device and taken anew, which "
            "synchronises. The run is within a few percent of the device's capacity; a slightly "
            "smaller batch avoids it.\n");
}

TEST(Explain, EveryCauseHasItsSentence) {
  const auto cause_of = [](EmergencyCause cause) {
    const TraceFacts facts = one_emergency(cause, LadderRung::kCachedHandles, true);
    return explain(facts, facts.emergencies[0]).cause;
  };
  EXPECT_THAT(cause_of(EmergencyCause::kDeviceFull), HasSubstr("the device had no more memory"));
  EXPECT_THAT(cause_of(EmergencyCause::kLimitReached), HasSubstr("limit of this process"));
  EXPECT_THAT(cause_of(EmergencyCause::kPoolLimitReached), HasSubstr("limit of one pool"));
  EXPECT_THAT(cause_of(EmergencyCause::kMapFailed), HasSubstr("could not map"));
}

TEST(Explain, AdviceFollowsTheRungThatHelped) {
  const auto advice_for = [](LadderRung rung) {
    const TraceFacts facts = one_emergency(EmergencyCause::kDeviceFull, rung, true);
    return explain(facts, facts.emergencies[0]).advice;
  };
  EXPECT_THAT(advice_for(LadderRung::kOwnEvents), HasSubstr("record_stream"));
  EXPECT_THAT(advice_for(LadderRung::kCallbacks), HasSubstr("callback"));
  EXPECT_THAT(advice_for(LadderRung::kFragments), HasSubstr("pieces"));
  EXPECT_THAT(advice_for(LadderRung::kOtherPools), HasSubstr("private pools"));
  EXPECT_THAT(advice_for(LadderRung::kCachedHandles), HasSubstr("smaller batch"));
}

TEST(Explain, AdviceFollowsTheRungThatHelpedMostWhateverCameAfterIt) {
  TraceBuilder trace;
  trace.at(1_us).create(64_MiB).alloc(0x4000'0000, 60_MiB);
  trace.at(12_ms).emergency(EmergencyCause::kDeviceFull, 6_MiB, 64_MiB);
  trace.rung(LadderRung::kOwnEvents, 8_MiB, 12_us);
  trace.rung(LadderRung::kCallbacks, 2_MiB, 12_us);
  trace.rung(LadderRung::kFragments, 0_MiB, 12_us);
  trace.at(16_ms).emergency_end(true, 64_MiB, 4_ms);
  const TraceFacts facts = analyze(trace);
  EXPECT_THAT(explain(facts, facts.emergencies[0]).advice, HasSubstr("record_stream"));
}

TEST(Explain, ARequestThatIsRefusedThoughEnoughIsFreeHasPinsToLookFor) {
  TraceBuilder trace;
  trace.at(1_us).create(64_MiB).alloc(0x4000'0000, 30_MiB);
  trace.at(12_ms).emergency(EmergencyCause::kDeviceFull, 6_MiB, 64_MiB);
  trace.at(16_ms).emergency_end(false, 64_MiB, 4_ms);
  const TraceFacts facts = analyze(trace);
  EXPECT_THAT(explain(facts, facts.emergencies[0]).advice,
              HasSubstr("34.0 MiB were free, but not in one usable piece"));
  // What it refers to is there, under the name that it gives.
  EXPECT_THAT(explain(facts, facts.emergencies[0]).advice, HasSubstr(kBetweenHeading));
  EXPECT_EQ(facts.devices[0].at_refusal.time_ns, facts.emergencies[0].begin_ns + 4'000'000);
}

// A device of 64 MiB, of which all but `free` lives, refuses 3 MiB after it got 2 MiB back.
TraceFacts refused_with(Bytes free) {
  TraceBuilder trace;
  trace.device(0, "GPU", 64_MiB);
  trace.at(1_us).create(64_MiB).alloc(0x4000'0000, 64_MiB - free);
  trace.at(12_ms).emergency(EmergencyCause::kDeviceFull, 3_MiB, 64_MiB);
  trace.at(13_ms).driver(DriverCall::kReleaseHandle, 1_ms, 2_MiB).at(14_ms).release(2_MiB);
  trace.rung(LadderRung::kCachedHandles, 2_MiB, 1_ms);
  trace.rung(LadderRung::kOutOfMemory, 0_B, 0_ns);
  trace.emit(EventKind::kOutOfMemory, (3_MiB).value, (62_MiB).value);
  trace.at(16_ms).emergency_end(false, 62_MiB, 4_ms);
  return analyze(trace);
}

TEST(Explain, ARequestThatIsRefusedWhereNearlyAllLivesIsNotToldOfFragmentation) {
  const TraceFacts facts = refused_with(4_MiB);
  const EmergencyText text = explain(facts, facts.emergencies[0]);
  EXPECT_EQ(text.advice,
            "The memory is used: 60.0 MiB of the 64.0 MiB that this process can have (93.8 %) are "
            "live. Fragmentation (2.00 MiB) is hardly why: without any, this request would be "
            "served, with 1.00 MiB left for all that follows. Save at least 1.00 MiB and what the "
            "rest of the job adds (a smaller batch or shorter sequences, activation checkpointing, "
            "a smaller optimizer state), or use a GPU with more memory.");
  EXPECT_TRUE(facts.devices[0].between.empty());
  // The end of the ladder is no attempt, and what was given back in vain makes no storm.
  EXPECT_EQ(text.rungs.size(), 1U);
  EXPECT_THAT(advice(facts), testing::Not(testing::Contains(HasSubstr("storm"))));
  EXPECT_THAT(advice(facts)[0], HasSubstr("What would help is said at the emergency of 12.0 ms."));
}

TEST(Explain, FragmentationIsWhyFromATwentiethOfWhatLives) {
  // 5 MiB free of 59: 3 MiB of them between live blocks, which is a twentieth of 59 and more.
  const TraceFacts facts = refused_with(5_MiB);
  EXPECT_THAT(explain(facts, facts.emergencies[0]).advice,
              testing::StartsWith("3.00 MiB were free, but not in one usable piece"));
  ASSERT_EQ(facts.devices[0].between.size(), 1U);
  EXPECT_EQ(facts.devices[0].between[0].pinned_bytes, 1U << 20);  // of the block's last page
}

TEST(Explain, RefusedRequestsSayHowMuchIsMissing) {
  const TraceFacts facts =
      one_emergency(EmergencyCause::kDeviceFull, LadderRung::kOutOfMemory, false);
  const EmergencyText text = explain(facts, facts.emergencies[0]);
  EXPECT_THAT(text.headline, HasSubstr("refused (out of memory)"));
  EXPECT_THAT(text.advice, HasSubstr("Save up to 2.00 MiB"));  // the device seems to have room
}

// As the error message says it: what could still be had is not missing.
TEST(Explain, WhatIsMissingCountsWhatTheDeviceOrTheLimitStillHad) {
  const auto advice_of = [](EmergencyCause cause, Bytes total, Bytes limit, Bytes requested) {
    TraceBuilder trace;
    trace.device(0, "GPU", total);
    trace.at(1_us).create(64_MiB);
    trace.emit(EventKind::kLimit, limit.value, 0);
    trace.at(2_us).alloc(0x4000'0000, 60_MiB);
    trace.at(3_us).emergency(cause, requested, 64_MiB);
    trace.rung(LadderRung::kOutOfMemory, 0_B, 1_us);
    trace.at(9_us).emergency_end(false, 64_MiB, 6_us);
    const TraceFacts facts = analyze(trace);
    EXPECT_THAT(advice(facts), testing::Not(testing::Contains(HasSubstr("storm"))));
    return explain(facts, facts.emergencies[0]).advice;
  };
  EXPECT_THAT(advice_of(EmergencyCause::kDeviceFull, 96_MiB, 0_B, 100_MiB),
              HasSubstr("save at least 64.0 MiB"));
  EXPECT_THAT(advice_of(EmergencyCause::kLimitReached, 96_MiB, 80_MiB, 100_MiB),
              HasSubstr("memory fraction of this process by at least 80.0 MiB"));
  EXPECT_THAT(advice_of(EmergencyCause::kLimitReached, 70_MiB, 80_MiB, 100_MiB),
              HasSubstr("memory fraction of this process by at least 90.0 MiB"));
  // Of the two, what is known.
  EXPECT_THAT(advice_of(EmergencyCause::kLimitReached, 96_MiB, 0_B, 100_MiB),
              HasSubstr("memory fraction of this process by at least 64.0 MiB"));
  EXPECT_THAT(advice_of(EmergencyCause::kLimitReached, 0_B, 80_MiB, 100_MiB),
              HasSubstr("memory fraction of this process by at least 80.0 MiB"));
  EXPECT_THAT(advice_of(EmergencyCause::kDeviceFull, 0_B, 0_B, 100_MiB),
              HasSubstr("save at least 96.0 MiB"));
  // Others hold what the device seems to have.
  EXPECT_THAT(advice_of(EmergencyCause::kDeviceFull, 192_MiB, 0_B, 100_MiB),
              HasSubstr("Save up to 96.0 MiB"));
}

TEST(Explain, AnEmergencyThatTheRecordCutsOffIsNotCalledServed) {
  TraceBuilder trace;
  trace.at(1_us).create(64_MiB);
  trace.at(2_us).emergency(EmergencyCause::kDeviceFull, 6_MiB, 64_MiB);
  trace.at(9_ms).alloc(0x10, 1_MiB);
  const TraceFacts facts = analyze(trace);
  EXPECT_THAT(explain(facts, facts.emergencies[0]).headline,
              HasSubstr("not finished when the record ends"));
}

TEST(Explain, ADriversAnswerIsNoOutOfMemory) {
  TraceBuilder trace;
  trace.device(0, "GPU", 64_MiB);
  trace.at(1_us).create(64_MiB).alloc(0x4000'0000, 60_MiB);
  trace.after(1_ms).emergency(EmergencyCause::kDeviceFull, 8_MiB, 64_MiB);
  trace.after(1_ms).emit(EventKind::kEmergencyEnd, 4'000'000, (60_MiB).value, 2);
  const TraceFacts facts = analyze(trace);
  const std::string text = emergency_text(facts, facts.emergencies[0]);
  EXPECT_THAT(text, HasSubstr("was refused (an error of the driver)"));
  EXPECT_THAT(text, Not(HasSubstr("out of memory")));
  EXPECT_THAT(text, Not(HasSubstr("smaller batch")));
  EXPECT_TRUE(facts.storms.empty());
}

TEST(Explain, StormsSayWhatWentBackAndWhatItCost) {
  TraceBuilder trace;
  trace.at(1_us).create(64_MiB).step(17);
  trace.at(2_us).alloc(0x4000'0000, 60_MiB);
  trace.at(12_ms).emergency(EmergencyCause::kDeviceFull, 6_MiB, 64_MiB);
  trace.driver(DriverCall::kReleaseHandle, 2_ms, 4_MiB).at(14_ms).release(4_MiB);
  trace.rung(LadderRung::kCachedHandles, 4_MiB, 3_ms);
  trace.at(16_ms).emergency_end(true, 60_MiB, 4_ms);
  trace.at(17_ms).driver(DriverCall::kCreateHandle, 1_ms, 4_MiB).at(18_ms).create(4_MiB);
  const TraceFacts facts = analyze(trace);
  EXPECT_EQ(
      storm_text(facts, facts.storms[0]),
      "step 17: 1 emergency, 4.00 MiB given back, 4.00 MiB taken again, 2 driver memory calls "
      "costing 3.00 ms; the program lost 5.00 ms; reserved fell from 64.0 MiB to 60.0 MiB.");
  EXPECT_THAT(advice(facts)[0], HasSubstr("1 storm cost 5.00 ms"));
}

// 1 GiB device: eight 48 MiB holes, largest 48, as in the public request for a fragmentation
// measure.
OomReport fragmented() {
  OomReport report;
  report.requested_bytes = 128_MiB;
  report.reserved_bytes = 1_GiB;
  report.allocated_bytes = 640_MiB;
  report.free_bytes = 384_MiB;
  report.largest_run_bytes = 48_MiB;
  report.partial_page_bytes = 384_MiB;
  report.device_total_bytes = 1_GiB;
  return report;
}

TEST(OomText, FragmentationIsOneMinusLargestOverFree) {
  const OomReport report = fragmented();
  EXPECT_DOUBLE_EQ(fragmentation_of(report), 0.875);
  EXPECT_EQ(verdict_of(report), OomVerdict::kFragmented);
  EXPECT_THAT(oom_explanation(report), HasSubstr("Verdict: fragmented."));
  EXPECT_THAT(oom_explanation(report), HasSubstr("largest run 48.0 MiB, fragmentation 0.875"));
}

TEST(OomText, TheBalanceAddsUpToTheDevice) {
  OomReport report = fragmented();
  report.waiting_bytes = 32_MiB;
  report.device_total_bytes = 2_GiB;
  report.device_free_bytes = 100_MiB;
  const OomBalance balance = balance_of(report);
  EXPECT_EQ(balance.allocated_bytes + balance.waiting_bytes + balance.free_in_levee_bytes +
                balance.elsewhere_bytes + balance.device_free_bytes,
            balance.total_bytes);
  EXPECT_EQ(balance.free_in_levee_bytes, 352U << 20);
}

TEST(OomText, VerdictsFollowFromTheNumbers) {
  OomReport full = fragmented();
  full.allocated_bytes = 1_GiB;
  full.free_bytes = 0_MiB;
  full.partial_page_bytes = 0_MiB;
  full.largest_run_bytes = 0_MiB;
  EXPECT_EQ(verdict_of(full), OomVerdict::kFull);
  EXPECT_FALSE(would_fit_after_trim(full));
  EXPECT_DOUBLE_EQ(fragmentation_of(full), 0.0);

  OomReport waiting = full;
  waiting.allocated_bytes = 800_MiB;
  waiting.waiting_bytes = 224_MiB;
  EXPECT_EQ(verdict_of(waiting), OomVerdict::kWaiting);
  EXPECT_TRUE(would_fit_after_trim(waiting));

  OomReport limit = full;
  limit.cause = EmergencyCause::kLimitReached;
  limit.limit_bytes = 1_GiB;
  EXPECT_EQ(verdict_of(limit), OomVerdict::kLimit);
  EXPECT_THAT(oom_headline(limit, DeviceId{0}), HasSubstr("may reserve at most 1.00 GiB"));

  OomReport others = full;
  others.device_total_bytes = 24_GiB;
  EXPECT_EQ(verdict_of(others), OomVerdict::kOthers);

  OomReport pools = full;
  pools.allocated_bytes = 400_MiB;
  pools.private_pool_bytes = 600_MiB;
  EXPECT_EQ(verdict_of(pools), OomVerdict::kPools);
}

// 512 MiB of which nearly all lives, as in the first forward pass of a job for a larger card.
OomReport nearly_full() {
  OomReport report;
  report.requested_bytes = 5_MiB;
  report.reserved_bytes = 508_MiB;
  report.allocated_bytes = 494_MiB;
  report.free_bytes = 14_MiB;
  report.largest_run_bytes = 1_MiB;
  report.partial_page_bytes = 14_MiB;
  report.device_free_bytes = 4_MiB;
  report.device_total_bytes = 512_MiB;
  return report;
}

TEST(OomText, WhereNearlyAllLivesFragmentationIsNotBlamed) {
  const OomReport report = nearly_full();
  EXPECT_EQ(verdict_of(report), OomVerdict::kNearlyFull);
  const std::string text = oom_explanation(report);
  EXPECT_THAT(text, HasSubstr("Verdict: full but for a little."));
  EXPECT_THAT(text, HasSubstr("494 MiB of the 512 MiB that this process can have (96.5 %) are "
                              "live. Fragmentation (14.0 MiB) is hardly why: without any, this "
                              "request would be served, with 13.0 MiB left for all that follows. "
                              "Save at least 1.00 MiB and"));
  EXPECT_THAT(text, testing::Not(HasSubstr(kBetweenHeading)));
}

TEST(OomText, FragmentationIsBlamedWhereItCouldServeAndIsMoreThanAnyAllocatorLoses) {
  // Enough for the request, and from a twentieth of what lives.
  EXPECT_TRUE(is_fragmentation_why({6'000, 100'000, 5'000, 1'000}));
  EXPECT_FALSE(is_fragmentation_why({6'001, 100'000, 5'000, 1'000}));
  EXPECT_FALSE(is_fragmentation_why({5'999, 100'000, 4'999, 1'000}));
  // Or from a gigabyte that would serve eight such requests, whatever lives.
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  EXPECT_TRUE(is_fragmentation_why({kGiB / 8, 79 * kGiB, kGiB, 0}));
  EXPECT_FALSE(is_fragmentation_why({kGiB / 8 + 1, 79 * kGiB, kGiB, 0}));
  EXPECT_FALSE(is_fragmentation_why({4096, 79 * kGiB, kGiB - 1, 0}));
  // Nothing between live blocks, nothing to blame.
  EXPECT_FALSE(is_fragmentation_why({1'000, 0, 0, 1'000}));
}

TEST(OomText, WhatIsTrulyUsedSaysWhatLacksWithoutAnyFragmentation) {
  OomReport report = nearly_full();
  report.requested_bytes = 20_MiB;
  EXPECT_EQ(verdict_of(report), OomVerdict::kFull);
  EXPECT_THAT(oom_explanation(report),
              HasSubstr("even without any fragmentation this request would lack 2.00 MiB."));
}

TEST(OomText, TheListItSpeaksOfIsNamedAsReportsNameIt) {
  EXPECT_THAT(oom_explanation(fragmented()),
              HasSubstr("lists them under \"Free bytes between live blocks\""));
}

TEST(OomText, BeginsWithPyTorchsSentence) {
  EXPECT_THAT(
      oom_text(fragmented(), DeviceId{3}),
      testing::StartsWith("CUDA out of memory. Tried to allocate 128 MiB. GPU 3 has a total "
                          "capacity of 1.00 GiB of which 0 B is free."));
}

TEST(OomText, NamesEachRungThatWasTried) {
  OomReport report = fragmented();
  report.rung_count = 2;
  report.rungs[0] = {LadderRung::kOwnEvents, 0_MiB, 5_us};
  report.rungs[1] = {LadderRung::kOtherPools, 16_MiB, 1_ms};
  EXPECT_THAT(oom_explanation(report),
              HasSubstr("Tried: waited for blocks that other streams still used (nothing in 5.00 "
                        "us); took free pages of other pools (16.0 MiB freed in 1.00 ms). After "
                        "that 0 B of 128 MiB could be had.\n"));
  // That it gave up is no attempt.
  report.rung_count = 3;
  report.rungs[2] = {LadderRung::kOutOfMemory, 0_MiB, 0_ns};
  EXPECT_THAT(oom_explanation(report), testing::Not(HasSubstr("gave up")));
  report.rung_count = 1000;  // more than the array holds: a broken caller must not break the text
  EXPECT_THAT(oom_explanation(report), HasSubstr("Tried: "));
}

// A run of a few steps may be all warm-up: nothing is said of a steady state that was not there.
TEST(Advice, ASteadyStateIsPraisedOnlyWhereThereIsOne) {
  const auto advice_after = [](std::uint64_t steps) {
    TraceBuilder trace;
    trace.at(1_us).create(8_MiB);
    trace.at(2_us).alloc(0x10, 8_MiB);
    for (std::uint64_t i = 0; i < steps; ++i) {
      trace.at(Nanos{static_cast<std::int64_t>(10'000 * (i + 1))}).step(i);
    }
    const std::vector<std::string> lines = advice(analyze(trace));
    return lines.empty() ? std::string() : lines[0];
  };
  EXPECT_THAT(advice_after(30), HasSubstr("steady state made no driver call"));
  EXPECT_THAT(advice_after(5), HasSubstr("recordings of more than 20 steps"));
}

TEST(Advice, ARefusalsOwnCallsAreNoGrowth) {
  TraceBuilder trace;
  trace.device(0, "GPU", 64_MiB);
  trace.at(1_us).create(64_MiB).alloc(0x4000'0000, 60_MiB);
  for (std::uint64_t i = 1; i <= 30; ++i) trace.after(10_ms).step(i);
  trace.after(1_ms).emergency(EmergencyCause::kDeviceFull, 8_MiB, 64_MiB);
  trace.after(1_ms).driver(DriverCall::kReleaseHandle, 2_ms, 4_MiB).after(2_ms).release(4_MiB);
  trace.rung(LadderRung::kCachedHandles, 4_MiB, 3_ms).after(1_ms);
  trace.emit(EventKind::kOutOfMemory, (8_MiB).value, (60_MiB).value);
  trace.emergency_end(false, 60_MiB, 4_ms);
  trace.after(1_ms).step(31);
  EXPECT_THAT(advice(analyze(trace)), Not(Contains(HasSubstr("sizes never settled"))));
}

// An evaluation behind the last step is no step, here as in the line about steps.
TEST(Advice, WhatFollowsTheLastMarkIsNoStep) {
  TraceBuilder trace;
  trace.at(1_us).create(64_MiB).alloc(0x4000'0000, 60_MiB);
  for (std::uint64_t i = 0; i < 30; ++i) trace.after(10_ms).emit(EventKind::kStepMark, i, 1);
  trace.after(1_ms).driver(DriverCall::kMap, 1_ms, 4_MiB);
  EXPECT_THAT(advice(analyze(trace)), Not(Contains(HasSubstr("sizes never settled"))));
  trace.after(10_ms).emit(EventKind::kStepMark, 30, 1);
  EXPECT_THAT(advice(analyze(trace)), Contains(HasSubstr("sizes never settled")));
}

TEST(Advice, NothingIsAdvisedWhereNothingWasRecorded) {
  TraceBuilder trace;
  trace.at(1_us).step(1);
  trace.mutable_coverage().ending = record::TraceEnding::kCut;
  const TraceFacts facts = analyze(trace);
  EXPECT_FALSE(has_memory(facts));
  EXPECT_THAT(advice(facts), testing::IsEmpty());
}

TEST(Advice, WhatIsMissingIsNotPraised) {
  TraceBuilder trace;
  trace.at(1_us).create(8_MiB);
  trace.at(2_us).alloc(0x10, 8_MiB);
  for (int i = 0; i < 5; ++i) trace.after(10_us).step(static_cast<std::uint64_t>(i));
  trace.mutable_coverage().ending = record::TraceEnding::kCut;
  const TraceFacts facts = analyze(trace);
  EXPECT_TRUE(has_memory(facts));
  EXPECT_THAT(advice(facts)[0], testing::StartsWith("As far as the recording goes: nothing to do"));
}

}  // namespace
}  // namespace levee::analysis
