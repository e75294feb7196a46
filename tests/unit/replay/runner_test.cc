#include "bench/replay/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <thread>

#include "bench/replay/policies/simple_policies.h"
#include "bench/replay/result_json.h"
#include "bench/replay/thread_team.h"
#include "tests/unit/replay/small_traces.h"

namespace levee::replay {
namespace {

using ::testing::HasSubstr;

/// Refuses every id that it is told to, and notes what it is asked.
class Scripted final : public ReplayPolicy {
 public:
  std::string name() const override { return "scripted \"one\""; }
  bool allocate(std::uint32_t id, Bytes requested, std::uint16_t stream) override {
    calls.push_back({'a', id, stream});
    if (id == refused) return false;
    reserved_ += requested;
    ++costs_.mallocs;
    return true;
  }
  void free(std::uint32_t id) override { calls.push_back({'f', id, 0}); }
  void record_use(std::uint32_t id, std::uint16_t stream) override {
    calls.push_back({'r', id, stream});
  }
  void step() override { calls.push_back({'s', 0, 0}); }
  Bytes reserved() const override { return reserved_; }
  Bytes peak_reserved() const override { return reserved_; }
  DriverCosts costs() const override { return costs_; }
  std::uint64_t emergencies() const override { return 4; }

  struct Call {
    char what;
    std::uint32_t id;
    std::uint16_t stream;
    bool operator==(const Call&) const = default;
  };
  std::vector<Call> calls;
  std::uint32_t refused = UINT32_MAX;

 private:
  Bytes reserved_{};
  DriverCosts costs_;
};

TEST(Runner, AFailedRequestIsNeitherFreedNorUsedLater) {
  const OpTrace trace = test::ops("a,1,10\na,2,20,9\nr,2,,0\nf,2\nr,1,,9\nf,1\n");
  Scripted policy;
  policy.refused = 1;
  const ReplayResult r = test::replay(trace, policy);
  EXPECT_EQ(r.failures, 1U);
  const std::vector<Scripted::Call> expected{{'a', 0, 0}, {'a', 1, 1}, {'r', 0, 1}, {'f', 0, 0}};
  EXPECT_EQ(policy.calls, expected);
}

TEST(Runner, ChargesDriverCallsToTheirStepAndWarmUpApart) {
  std::string lines = "a,1,512\n";  // before the first mark
  for (int step = 0; step < 25; ++step) {
    lines += "s," + std::to_string(step) + "\n";
    if (step != 22) lines += "a," + std::to_string(100 + step) + ",512\n";
  }
  const OpTrace trace = test::ops(lines);
  Scripted policy;
  const ReplayResult r = test::replay(trace, policy);
  EXPECT_EQ(r.steps, 25U);
  EXPECT_EQ(r.warm_steps, 5U);
  EXPECT_EQ(r.dirty_steps, 4U) << "the 23rd step makes no call";
  EXPECT_EQ(r.reserved_growth_warm, 512_B * 4);
  ASSERT_EQ(r.reserved_by_step.size(), 26U);
  EXPECT_EQ(r.reserved_by_step[0], 512_B);
  EXPECT_EQ(r.reserved_by_step[25], 512_B * 25);
  EXPECT_DOUBLE_EQ(r.warm_up_driver_seconds, 21 * 300e-6);
}

TEST(Runner, TheFirstFailureIsToldByTheNumberOfItsStep) {
  const std::string huge = "a,9," + std::to_string((64_MiB).value) + "\n";
  const auto failing = [&](const std::string& before) {
    const OpTrace trace = test::ops(before + huge);
    LowerBound bound(Limits{4_MiB});
    return test::replay(trace, bound, Limits{4_MiB});
  };
  const ReplayResult inside = failing("a,1,9\ns,6\na,2,9\ns,7\n");
  EXPECT_EQ(inside.first_failure_step, 7);
  EXPECT_EQ(inside.first_failure_where, "in step 7");
  const ReplayResult unmarked = failing("a,1,9\n");
  EXPECT_EQ(unmarked.failures, 1U);
  EXPECT_EQ(unmarked.first_failure_step, -1);
  EXPECT_EQ(unmarked.first_failure_where, "");
}

TEST(Runner, RatioIsOverActiveWhereUsesWereRecorded) {
  const OpTrace trace = test::ops("a,1,1048576\nr,1,,5\nf,1\na,2,1048576\nf,2\n");
  LowerBound bound(Limits{});
  const ReplayResult r = test::replay(trace, bound);
  EXPECT_EQ(r.peak_live, 1_MiB);
  EXPECT_EQ(r.peak_active, 2_MiB);
  EXPECT_DOUBLE_EQ(r.ratio, 1.0);
}

TEST(Runner, SeriesKeepPeaksWithinAFixedNumberOfPoints) {
  std::string lines;
  for (int i = 0; i < 10'000; ++i) {
    lines += "a,1," + std::to_string(i == 7777 ? 1 << 30 : 512) + "\nf,1\n";
  }
  const OpTrace trace = test::ops(lines);
  PlainMalloc policy(Limits{});
  const ReplayResult r = test::replay(trace, policy);
  EXPECT_LE(r.live_series.size(), kSeriesPoints);
  EXPECT_GT(r.live_series.size(), kSeriesPoints / 2);
  EXPECT_EQ(*std::max_element(r.live_series.begin(), r.live_series.end()), 1_GiB);
  EXPECT_EQ(std::count(r.live_series.begin(), r.live_series.end(), 1_GiB), 1);
}

TEST(Runner, ProgressRunsFromNoneTowardsAll) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "a,1,512\nf,1\n";
  const OpTrace trace = test::ops(lines);
  PlainMalloc policy(Limits{});
  std::vector<double> told;
  run_policy(trace, facts_of(trace), policy, {}, [&](double share) { told.push_back(share); });
  EXPECT_EQ(told.size(), 100U);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
  EXPECT_EQ(told.front(), 0.0);
}

// ---- Threads.

/// Notes which thread asks.
class Witness final : public ReplayPolicy {
 public:
  std::string name() const override { return "witness"; }
  bool allocate(std::uint32_t id, Bytes, std::uint16_t) override {
    note(id);
    return true;
  }
  void free(std::uint32_t id) override { note(id); }
  void step() override { note(99); }
  Bytes reserved() const override { return {}; }
  Bytes peak_reserved() const override { return {}; }
  DriverCosts costs() const override { return {}; }
  std::uint64_t emergencies() const override { return 0; }

  std::vector<std::uint32_t> ids;
  std::vector<std::thread::id> threads;

 private:
  void note(std::uint32_t id) {
    ids.push_back(id);
    threads.push_back(std::this_thread::get_id());
  }
};

// Three threads, known as 5, 9 and 7; the mark and the last line name none.
constexpr std::string_view kByThreeThreads =
    "a,1,512,,5\na,2,512,,9\nf,1,,,9\na,3,512,,7\ns,0\nf,2,,,5\na,4,512,,9\nf,3\n";

TEST(Runner, EachRequestIsMadeByTheThreadThatItWasRecordedFrom) {
  const OpTrace trace = test::ops(kByThreeThreads);
  ASSERT_EQ(trace.thread_count, 3U);
  Witness witness;
  const ReplayResult r =
      run_policy(trace, facts_of(trace), witness, {}, {}, ReplayThreads::kAsRecorded);
  EXPECT_EQ(r.threads, 3U);
  EXPECT_EQ(witness.ids, (std::vector<std::uint32_t>{0, 1, 0, 2, 99, 1, 3, 2}));
  const std::thread::id one = std::this_thread::get_id();
  const std::thread::id two = witness.threads[1];
  const std::thread::id three = witness.threads[3];
  EXPECT_NE(one, two);
  EXPECT_NE(one, three);
  EXPECT_NE(two, three);
  EXPECT_EQ(witness.threads,
            (std::vector<std::thread::id>{one, two, two, three, three, one, two, two}));
  EXPECT_THAT(to_json(std::span(&r, 1)), HasSubstr(R"("threads":3,)"));
}

TEST(Runner, OneThreadMakesAllRequestsIfNobodyAsksForMore) {
  const OpTrace trace = test::ops(kByThreeThreads);
  Witness witness;
  const ReplayResult r = test::replay(trace, witness);
  EXPECT_EQ(r.threads, 1U);
  EXPECT_EQ(witness.threads, std::vector<std::thread::id>(8, std::this_thread::get_id()));
  EXPECT_THAT(to_json(std::span(&r, 1)), HasSubstr(R"("threads":1,)"));
}

TEST(Runner, ProgressIsToldByTheCaller) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "a,1,512,," + std::to_string(i % 3) + "\nf,1\n";
  const OpTrace trace = test::ops(lines);
  Witness witness;
  std::vector<std::thread::id> told;
  run_policy(
      trace, facts_of(trace), witness, {},
      [&](double) { told.push_back(std::this_thread::get_id()); }, ReplayThreads::kAsRecorded);
  EXPECT_EQ(told, std::vector<std::thread::id>(100, std::this_thread::get_id()));
}

TEST(ThreadTeam, WhatIsThrownComesOutAndTheThreadGoesOn) {
  ThreadTeam team;
  for (const std::uint8_t thread : {std::uint8_t{0}, std::uint8_t{3}}) {
    EXPECT_THROW(team.run(thread, [] { throw std::runtime_error("no"); }), std::runtime_error);
    std::thread::id first;
    std::thread::id second;
    team.run(thread, [&] { first = std::this_thread::get_id(); });
    team.run(thread, [&] { second = std::this_thread::get_id(); });
    EXPECT_EQ(first, second);
    EXPECT_EQ(first == std::this_thread::get_id(), thread == 0);
  }
}

TEST(ResultJson, QuotesNamesAndListsSeries) {
  const OpTrace trace = test::ops("a,1,512\nf,1\n");
  Scripted policy;
  const ReplayResult r = test::replay(trace, policy);
  const std::string json = to_json(std::span(&r, 1));
  EXPECT_THAT(json, HasSubstr(R"("policy":"scripted \"one\"")"));
  EXPECT_THAT(json, HasSubstr(R"("emergencies":4)"));
  EXPECT_THAT(json, HasSubstr(R"("reserved_series":[512,512])"));
  EXPECT_THAT(json, HasSubstr(R"("live_series":[512,0])"));
  EXPECT_EQ(to_json({}), "[\n]\n");
}

}  // namespace
}  // namespace levee::replay
