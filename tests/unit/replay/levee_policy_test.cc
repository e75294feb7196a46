#include "bench/replay/policies/levee_policy.h"

#include <gtest/gtest.h>

#include "tests/unit/replay/small_traces.h"

namespace levee::replay {
namespace {

// Twenty blocks of 30 MiB in 600 MiB, every other one freed, then 200 MiB in one piece.
OpTrace pieces() {
  std::string lines;
  for (int i = 1; i <= 20; ++i) lines += "a," + std::to_string(i) + ",31457280\n";
  for (int i = 1; i <= 20; i += 2) lines += "f," + std::to_string(i) + "\n";
  return test::ops(lines + "a,50,209715200\nf,50\n");
}

TEST(LeveePolicy, CountsWhatTheAllocatorAsksOfTheDriver) {
  const OpTrace trace = pieces();
  LeveePolicy policy(levee_options_for(trace), Limits{602_MiB}, trace.stream_count);
  const ReplayResult r = test::replay(trace, policy);
  EXPECT_EQ(r.failures, 0U);
  EXPECT_EQ(r.emergencies, 0U);
  EXPECT_LE(r.peak_reserved, 602_MiB);
  EXPECT_GE(r.peak_reserved, 600_MiB);
  EXPECT_EQ(r.costs.created_mib, r.peak_reserved / 1_MiB);
  EXPECT_GE(policy.created_pages(), 300U);
  EXPECT_GE(r.costs.mapped, r.costs.created + 100) << "200 MiB of pages were mapped a second time";
  EXPECT_EQ(r.costs.mallocs, 0U);
}

TEST(LeveePolicy, WithoutStitchingItGrows) {
  const OpTrace trace = pieces();
  LeveeOptions options = levee_options_for(trace);
  options.config.stitch = StitchMode::kNone;
  options.label = "levee-none";
  LeveePolicy policy(options, Limits{}, trace.stream_count);
  const ReplayResult r = test::replay(trace, policy);
  EXPECT_EQ(r.policy, "levee-none");
  EXPECT_GE(r.peak_reserved, 780_MiB);
  EXPECT_EQ(r.costs.mapped, r.costs.created);
}

TEST(LeveePolicy, WithSeveralStreamsTheJudgeFindsNothing) {
  std::string lines;
  for (int i = 0; i < 2000; ++i) {
    const std::string id = std::to_string(i);
    lines +=
        "a," + id + "," + std::to_string((1 + i % 9) << 20) + "," + std::to_string(i % 3) + "\n";
    if (i % 4 == 0) lines += "r," + id + ",," + std::to_string((i + 1) % 3) + "\n";
    if (i >= 20) lines += "f," + std::to_string(i - 20) + "\n";
  }
  const OpTrace trace = test::ops(lines);
  LeveeOptions options = levee_options_for(trace);
  EXPECT_TRUE(options.models_work);
  options.judge = true;
  LeveePolicy policy(options, Limits{}, trace.stream_count);
  const ReplayResult r = test::replay(trace, policy);
  EXPECT_EQ(r.failures, 0U);
  bool judged = false;
  for (const auto& [name, value] : r.details) {
    if (name != "hazards") continue;
    judged = true;
    EXPECT_EQ(value, 0U);
  }
  EXPECT_TRUE(judged);
}

}  // namespace
}  // namespace levee::replay
