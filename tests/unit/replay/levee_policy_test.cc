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

TEST(LeveePolicy, ReservesWhatItHoldsOfEitherKind) {
  for (Backing backing : {Backing::kPages, Backing::kSegments}) {
    LeveeOptions options;
    options.config.backing = backing;
    LeveePolicy policy(options, Limits{64_MiB}, /*stream_count=*/1);
    EXPECT_TRUE(policy.allocate(0, 40_MiB, 0));
    EXPECT_EQ(policy.reserved(), 40_MiB);
    EXPECT_EQ(policy.costs().mallocs, backing == Backing::kSegments ? 1U : 0U);
    EXPECT_FALSE(policy.allocate(1, 128_MiB, 0));
    policy.free(0);
    EXPECT_TRUE(policy.allocator().trim(0_B).ok());
    EXPECT_EQ(policy.reserved(), 0_B);
    EXPECT_EQ(policy.costs().frees, backing == Backing::kSegments ? 1U : 0U);
    EXPECT_TRUE(policy.allocate(0, 50_MiB, 0));
    EXPECT_EQ(policy.reserved(), 50_MiB);
    EXPECT_EQ(policy.peak_reserved(), 50_MiB);
  }
}

// A block waits until the work of the other stream is done, kHostAhead requests after it came.
TEST(LeveePolicy, EventsAreDoneWhenTheWorkBeforeThemIs) {
  LeveeOptions options;
  options.models_work = true;
  LeveePolicy policy(options, Limits{}, /*stream_count=*/2);
  const auto active = [&] {
    return Bytes{static_cast<std::uint64_t>(policy.allocator().stats().active_bytes[0].current)};
  };
  ASSERT_TRUE(policy.allocate(1, 4_MiB, 1));
  ASSERT_TRUE(policy.allocate(0, 64_MiB, 0));
  policy.record_use(0, 1);
  policy.free(0);
  const auto ask = [&](std::uint64_t times) {
    for (std::uint64_t i = 0; i < times; ++i) {
      ASSERT_TRUE(policy.allocate(2, 4_MiB, 0));
      policy.free(2);
    }
  };
  ask(kHostAhead - 10);
  EXPECT_EQ(active(), 68_MiB);
  ask(kHostAhead);
  EXPECT_EQ(active(), 4_MiB);
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

// A side stream takes each block that the main stream has just given back, and the reverse.
OpTrace ping_pong(int idle) {
  std::string lines;
  int id = 0;
  for (int i = 0; i < 40; ++i) {
    for (int stream : {0, 1}) {
      const std::string block = std::to_string(++id);
      lines += "a," + block + ",67108864," + std::to_string(stream) + "\nf," + block + "\n";
      for (int k = 0; k < idle; ++k) {
        const std::string small = std::to_string(++id);
        lines += "a," + small + ",512,0\nf," + small + "\n";
      }
    }
  }
  return test::ops(lines);
}

TEST(LeveePolicy, EarlyWaitsAreThoseForWhatIsNotDone) {
  const OpTrace at_once = ping_pong(0);
  LeveeOptions options = levee_options_for(at_once);
  options.config.stream_affinity = false;
  LeveePolicy anywhere(options, Limits{}, at_once.stream_count);
  const EarlyWaits w = test::replay(at_once, anywhere).early_waits;
  EXPECT_EQ(w.side_allocations, 40U);
  EXPECT_EQ(w.side_early, 40U);
  EXPECT_EQ(w.side_fresh, 40U);
  EXPECT_EQ(w.main_early, 39U);
  EXPECT_EQ(w.main_fresh, 39U);
  EXPECT_DOUBLE_EQ(w.side_pct(), 100.0);
}

TEST(LeveePolicy, AWaitForWhatIsDoneIsNotEarly) {
  const OpTrace later = ping_pong(kHostAhead + 1);
  LeveeOptions options = levee_options_for(later);
  options.config.stream_affinity = false;
  LeveePolicy anywhere(options, Limits{}, later.stream_count);
  const EarlyWaits w = test::replay(later, anywhere).early_waits;
  // The event is recorded when the memory changes hands, behind the latest small request of the
  // main stream; the side stream's work is long done by then.
  EXPECT_EQ(w.side_early, 40U);
  EXPECT_EQ(w.side_fresh, 0U);
  EXPECT_EQ(w.main_early, 0U);
}

TEST(LeveePolicy, AffinityKeepsSideStreamsOffFreshMemory) {
  std::string lines = "a,0,1073741824,0\nf,0\n";
  for (int i = 1; i <= 2000; ++i) {
    const std::string id = std::to_string(i);
    lines += "a," + id + ",67108864," + (i % 10 == 0 ? "1" : "0") + "\nf," + id + "\n";
  }
  const OpTrace trace = test::ops(lines);
  LeveeOptions options = levee_options_for(trace);
  LeveePolicy affine(options, Limits{}, trace.stream_count);
  const ReplayResult r = test::replay(trace, affine);
  EXPECT_EQ(r.early_waits.side_allocations, 200U);
  EXPECT_LE(r.early_waits.side_early, 2U);
  EXPECT_EQ(r.peak_reserved, 1_GiB);
  options.config.stream_affinity = false;
  LeveePolicy anywhere(options, Limits{}, trace.stream_count);
  EXPECT_GE(test::replay(trace, anywhere).early_waits.side_early, 190U);
}

}  // namespace
}  // namespace levee::replay
