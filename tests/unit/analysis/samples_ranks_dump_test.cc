#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/analysis/analyze.h"
#include "allocator/analysis/dump.h"
#include "allocator/analysis/ranks.h"
#include "allocator/analysis/samples.h"
#include "tests/unit/analysis/trace_builder.h"

namespace levee::analysis {
namespace {

using test::TraceBuilder;
using testing::HasSubstr;

TEST(Samples, PeaksBetweenSamplesAreDrawnBetweenThem) {
  SampledRun run;
  run.label = "native";
  run.samples = {{100, 50, 40, 0, 0, 0}, {200, 50, 30, 90, 80, 1}};
  const TraceFacts facts = facts_from_samples(run);
  EXPECT_TRUE(facts.is_sampled);
  const Timeline& t = facts.devices[0].timeline;
  EXPECT_EQ(t.value(Series::kReserved, t.index_at(150)), 90U);
  EXPECT_EQ(t.value(Series::kAllocated, t.index_at(200)), 30U);
  ASSERT_EQ(facts.steps.size(), 2U);
  EXPECT_EQ(facts.devices[0].step_peaks[1].reserved_bytes, 90U);
  EXPECT_EQ(facts.devices[0].at_reserved_peak.free_bytes, 10U);
  EXPECT_EQ(facts.completeness.remarks.size(), 1U);
}

TEST(Samples, NoneGiveEmptyFacts) {
  const TraceFacts facts = facts_from_samples({});
  EXPECT_TRUE(facts.devices[0].timeline.empty());
}

TraceFacts rank_with(std::int32_t rank, Nanos ladder) {
  TraceBuilder trace;
  trace.mutable_header().rank = rank;
  trace.at(1_us).create(64_MiB);
  for (std::uint64_t step = 0; step < 4; ++step) {
    trace.at(Nanos{static_cast<std::int64_t>(step + 1) * 100'000'000}).step(step);
    if (step == 2 && ladder.value > 0) {
      trace.emergency(EmergencyCause::kDeviceFull, 6_MiB, 64_MiB).after(ladder);
      trace.emergency_end(true, 64_MiB, ladder);
    }
  }
  return analyze(trace);
}

TEST(Ranks, TheOneThatStallsIsNamedWithWhatItCostTheOthers) {
  const TraceFacts a = rank_with(0, 2_ms);
  const TraceFacts b = rank_with(1, 30_ms);
  const TraceFacts c = rank_with(2, 0_ms);
  const RankReport report = merge_ranks({&a, &b, &c});
  EXPECT_EQ(report.shared_steps, 3U);  // the last one is not complete
  EXPECT_EQ(report.lost_ns, 30'000'000U);
  EXPECT_EQ(report.ranks[1].cost_ns, 28'000'000U);
  EXPECT_EQ(report.ranks[1].stalled_steps, 1U);
  EXPECT_EQ(report.ranks[2].cost_ns, 0U);
  ASSERT_EQ(report.worst_steps.size(), 1U);
  EXPECT_EQ(report.worst_steps[0].number, 2U);
  EXPECT_EQ(
      report.verdict,
      "rank 1 holds the others up: in 1 step its allocator took more than 1.00 ms, and the job "
      "lost 28.0 ms to it.");
}

TEST(Ranks, QuietRanksAndRanksWithoutCommonStepsSaySo) {
  const TraceFacts a = rank_with(0, 0_ms);
  const TraceFacts b = rank_with(1, 0_ms);
  EXPECT_THAT(merge_ranks({&a, &b}).verdict, HasSubstr("No rank holds the others up"));
  TraceBuilder other;
  other.at(1_us).create(2_MiB);
  const TraceFacts c = analyze(other);
  EXPECT_THAT(merge_ranks({&a, &c}).verdict, HasSubstr("no step in common"));
}

TEST(Dump, OneLineAnEventWithNamesAndExactNumbers) {
  TraceBuilder trace;
  const ContextId phase = trace.name("a \"phase\"\nwith a line\x1b\xC2\x9B\xC2\xA7");
  const std::uint16_t pool = trace.pool(0, 3);
  trace.at(1_us).push(phase).step(4);
  trace.at(1'500_us).alloc(0x1000, 4_KiB, Bytes{4000}, pool);
  trace.at(2'000_ms).emit(EventKind::kDriverCall, 250, 2,
                          static_cast<std::uint16_t>(DriverCall::kMap) | kDriverCallFailed);
  trace.driver(DriverCall::kMap, Nanos{250}, 2_MiB).driver(DriverCall::kUnmap, Nanos{9});
  std::string text;
  DumpOptions options;
  options.header = false;
  const std::uint64_t lines = dump(trace, options, [&](std::string_view part) {
    text += part;
    return true;
  });
  EXPECT_EQ(lines, 6U);
  EXPECT_EQ(
      text,
      "+0.000001000 main phase_push \"a \\\"phase\\\"\\nwith a line\\x1b\\xc2\\x9b\xC2\xA7\"\n"
      "+0.000001000 main step_mark step=4\n"
      "+0.001500000 main alloc addr=0x1000 bytes=4096 requested=4000 device=0 stream=0x0 "
      "pool=(0,3)\n"
      "+2.000000000 main driver_call call=map ns=250 error=2 device=0 stream=0x0\n"
      "+2.000000000 main driver_call call=map ns=250 bytes=2097152 device=0 stream=0x0\n"
      "+2.000000000 main driver_call call=unmap ns=9 device=0 stream=0x0\n");
  options.max_lines = 1;
  EXPECT_EQ(dump(trace, options, [](std::string_view) { return true; }), 1U);
}

TEST(Dump, EveryKindHasAName) {
  for (int kind = 0; kind <= static_cast<int>(EventKind::kGuard); ++kind) {
    EXPECT_STRNE(kind_name(static_cast<EventKind>(kind)), "unknown") << kind;
  }
  for (int call = 0; call < static_cast<int>(DriverCall::kCount); ++call) {
    EXPECT_STRNE(call_name(static_cast<DriverCall>(call)), "unknown") << call;
  }
}

}  // namespace
}  // namespace levee::analysis
