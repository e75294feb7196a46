#include "allocator/analysis/idle.h"

#include <gtest/gtest.h>

#include "allocator/analysis/analyze.h"
#include "tests/unit/analysis/trace_builder.h"

namespace levee::analysis {
namespace {

using test::TraceBuilder;

TEST(Idle, SpansJoinWhereTheyTouch) {
  const std::vector<Span> joined = join_spans({{5, 9}, {0, 2}, {2, 3}, {6, 7}, {4, 4}});
  EXPECT_EQ(joined, (std::vector<Span>{{0, 3}, {5, 9}}));
}

TEST(Idle, AGapIsChargedWithTheAllocatorTimeInsideIt) {
  TraceBuilder trace;
  const ContextId gemm = trace.name("gemm", record::ContextKind::kKernel);
  const LaneId side = trace.lane(0, 1);
  trace.at(0_us).kernel(10_us, gemm);
  trace.at(5_us).on_lane(side).kernel(15_us, gemm);  // 0 to 20 us: busy on one stream or the other
  trace.at(15_us).on_lane(LaneId{1}).driver(DriverCall::kCreateHandle, 15_us);  // 15 to 30
  trace.at(25_us).driver(DriverCall::kMap, 10_us);                              // overlaps, to 35
  trace.at(50_us).kernel(10_us, gemm);
  trace.at(70_us).kernel(10_us, gemm);
  const TraceFacts facts = analyze(trace);
  const IdleTotals& idle = facts.devices[0].idle;
  EXPECT_EQ(idle.kernel_ns, 40'000U);
  EXPECT_EQ(idle.idle_ns, 40'000U);
  EXPECT_EQ(idle.allocator_ns, 15'000U);  // 20 to 35 us
  ASSERT_EQ(facts.idle_gaps.size(), 1U);
  EXPECT_EQ(facts.idle_gaps[0].begin_ns, 20'000U);
  EXPECT_EQ(facts.idle_gaps[0].end_ns, 50'000U);
}

}  // namespace
}  // namespace levee::analysis
