#include "bench/replay/op_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/replay/small_traces.h"

namespace levee::replay {
namespace {

using ::testing::HasSubstr;

TEST(OpTraceBuilder, GivesDenseIdsAndStreams) {
  OpTraceBuilder builder("t");
  builder.alloc(0xdead0000, 100_B, 0);
  builder.alloc(0xbeef0000, 200_B, 0x55aa);
  builder.record_use(0xdead0000, 0x55aa);
  builder.free(0xdead0000);
  builder.alloc(0xdead0000, 300_B, 0);
  const OpTrace trace = builder.finish();
  ASSERT_EQ(trace.ops.size(), 5U);
  EXPECT_EQ(trace.id_count, 3U);
  EXPECT_EQ(trace.stream_count, 2U);
  EXPECT_EQ(trace.ops[1].stream, 1U);
  EXPECT_EQ(trace.ops[2].kind, OpKind::kRecordUse);
  EXPECT_EQ(trace.ops[3].id, 0U);
  EXPECT_EQ(trace.ops[4].id, 2U);
  EXPECT_TRUE(trace.completeness.is_complete());
  EXPECT_EQ(trace.completeness.sentence(), "");
}

TEST(OpTraceBuilder, RepairsAndCountsWhatIsMissing) {
  OpTraceBuilder builder("t");
  builder.live_at_start(1, 3_GiB, 0);
  builder.unnamed_live_at_start(1_GiB);
  builder.free(99);
  builder.alloc(1, 10_B, 0);  // address still live: its free is missing
  builder.record_use(99, 0);
  builder.lost(17);
  const OpTrace trace = builder.finish();
  EXPECT_EQ(trace.completeness.unknown_frees, 1U);
  EXPECT_EQ(trace.completeness.repeated_ids, 1U);
  EXPECT_EQ(trace.completeness.live_at_start, 4_GiB);
  EXPECT_FALSE(trace.completeness.is_complete());
  const std::string sentence = trace.completeness.sentence();
  EXPECT_THAT(sentence, HasSubstr("2 blocks of 4.00 GiB were live already"));
  EXPECT_THAT(sentence, HasSubstr("1.00 GiB by their sum alone"));
  EXPECT_THAT(sentence, HasSubstr("lost 17 events"));
  // The older block is freed before the newer one comes.
  ASSERT_EQ(trace.ops.size(), 4U);
  EXPECT_EQ(trace.ops[2].kind, OpKind::kFree);
  EXPECT_EQ(trace.ops[2].id, 0U);
}

TEST(OpTraceBuilder, ImpossibleSizesAreLeftOutAndCounted) {
  OpTraceBuilder builder("t");
  builder.alloc(1, kMaxRequested + 1_B, 0);
  for (std::uint64_t i = 0; i < 20; ++i) builder.alloc(100 + i, kMaxRequested, 0);
  for (std::uint64_t i = 0; i < 20; ++i) builder.free(100 + i);
  const OpTrace trace = builder.finish();
  const std::uint64_t fitting = kMaxLive / kMaxRequested;
  EXPECT_EQ(trace.completeness.dropped_requests, 1 + 20 - fitting);
  EXPECT_EQ(trace.id_count, fitting);
  EXPECT_EQ(facts_of(trace).peak_live, kMaxLive);
}

TEST(OpTraceBuilder, StreamsBeyondTheLastIndexShareIt) {
  OpTraceBuilder builder("t");
  for (std::uint64_t i = 0; i < 10'000; ++i) builder.alloc(i, 1_B, i);
  builder.alloc(10'000, 1_B, 0);
  const OpTrace trace = builder.finish();
  EXPECT_EQ(trace.stream_count, 4096U);
  EXPECT_EQ(trace.ops[9'999].stream, 4095U);
  EXPECT_EQ(trace.ops[10'000].stream, 0U);
}

TEST(TraceFacts, LiveIsRoundedTo512BytesAndActiveWaitsForRecordedUses) {
  const OpTrace trace = test::ops("a,1,513\na,2,1\nr,1,,3\nf,1\na,3,512\nf,2\nf,3\n");
  const TraceFacts facts = facts_of(trace, /*event_lag=*/2);
  EXPECT_EQ(facts.peak_live, 1536_B);
  EXPECT_EQ(facts.peak_active, 2048_B);
  EXPECT_EQ(facts.allocations, 3U);
  // With a lag of no request the block is gone before the next one.
  EXPECT_EQ(facts_of(trace, 0).peak_active, 1536_B);
}

TEST(TraceFacts, AStepLastsItsWorkButNeverLessThanItsRequests) {
  // 124.8 TFLOP/s: 124.8 million MFLOP are a second.
  EXPECT_DOUBLE_EQ(step_seconds(124'800'000, 10), 1.0);
  EXPECT_DOUBLE_EQ(step_seconds(1, 1000), 8e-3);
  const OpTrace trace = test::ops("a,1,1\ns,0,124800000\na,2,1\ns,1,0\na,3,1\na,4,1\n");
  const TraceFacts facts = facts_of(trace);
  ASSERT_EQ(facts.step_seconds.size(), 2U);
  EXPECT_DOUBLE_EQ(facts.step_seconds[0], 1.0);
  EXPECT_DOUBLE_EQ(facts.step_seconds[1], 16e-6);
}

}  // namespace
}  // namespace levee::replay
