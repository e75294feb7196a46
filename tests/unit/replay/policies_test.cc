#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/replay/policies/policy_factory.h"
#include "bench/replay/policies/simple_policies.h"
#include "bench/replay/policy.h"
#include "tests/unit/replay/small_traces.h"

namespace levee::replay {
namespace {

using ::testing::HasSubstr;

TEST(DriverSeconds, CreationIsApartFromMappingAgain) {
  DriverCosts costs;
  costs.created = 2;
  costs.mapped = 5;
  costs.accessed_pages = 5;
  costs.access_calls = 2;
  const DriverSeconds s = seconds_of(costs, /*first_mapped_pages=*/2);
  // Three pages mapped again: 1.5 us and 36 us each.
  EXPECT_DOUBLE_EQ(s.pessimistic, 3 * 1.5e-6 + 3 * 36e-6);
  EXPECT_DOUBLE_EQ(s.optimistic, 3 * 1.5e-6 + 2 * 36e-6 + 3 * 1e-6);
  EXPECT_DOUBLE_EQ(s.creation, 2 * 194.5e-6 + 2 * 36e-6);
}

TEST(DriverCosts, DifferenceIsFieldByField) {
  DriverCosts a;
  a.mallocs = 5;
  a.event_queries = 9;
  DriverCosts b;
  b.mallocs = 2;
  b.event_queries = 4;
  EXPECT_EQ((a - b).mallocs, 3U);
  EXPECT_EQ((a - b).event_queries, 5U);
  EXPECT_EQ((a - b).memory_calls(), 3U);
}

TEST(PlainMalloc, ReservesWholePagesAndCachesNothing) {
  PlainMalloc policy(Limits{4_MiB});
  EXPECT_TRUE(policy.allocate(0, 1_B, 0));
  EXPECT_TRUE(policy.allocate(1, 2_MiB, 0));
  EXPECT_FALSE(policy.allocate(2, 1_B, 0));
  policy.free(0);
  EXPECT_EQ(policy.reserved(), 2_MiB);
  EXPECT_EQ(policy.peak_reserved(), 4_MiB);
  EXPECT_EQ(policy.costs().mallocs, 2U);
  EXPECT_EQ(policy.costs().frees, 1U);
}

TEST(LowerBound, ReservesWhatIsLiveInWholePages) {
  LowerBound policy(Limits{4_MiB});
  EXPECT_TRUE(policy.allocate(0, 3_MiB, 0));
  EXPECT_TRUE(policy.allocate(1, 1_MiB, 0));
  EXPECT_FALSE(policy.allocate(2, 1_B, 0));
  policy.free(0);
  EXPECT_TRUE(policy.allocate(3, 3_MiB, 0));
  EXPECT_EQ(policy.peak_reserved(), 4_MiB);
}

TEST(LowerBound, ABlockThatOthersUseStaysAsLongAsActiveCountsIt) {
  // 8 MiB that another stream uses, then 6 MiB beside them, and 12 MiB once they are done.
  std::string lines = "a,1,8388608\nr,1,,5\nf,1\na,2,6291456\nf,2\n";
  for (int i = 3; i < 310; ++i) {
    const std::string id = std::to_string(i);
    lines += "a," + id + ",65536\nf," + id + "\n";
  }
  lines += "a,400,12582912\n";
  const OpTrace trace = test::ops(lines);
  LowerBound bound(Limits{});
  const ReplayResult r = test::replay(trace, bound);
  EXPECT_EQ(r.peak_live, 12_MiB);
  EXPECT_EQ(r.peak_active, 14_MiB);
  EXPECT_EQ(r.peak_reserved, 14_MiB);
}

TEST(PolicyFactory, MakesEveryPolicyItListsUnderItsName) {
  const OpTrace trace = test::ops("a,1,3145728\nf,1\n");
  for (const PolicyInfo& info : policy_list()) {
    std::string why;
    const auto policy = make_policy(info.name, trace, {}, {}, &why);
    if (policy == nullptr) {  // a peer that this build lacks says so
      EXPECT_THAT(why, HasSubstr("this build")) << info.name;
      continue;
    }
    EXPECT_EQ(policy->name(), info.name);
    const ReplayResult r = test::replay(trace, *policy);
    EXPECT_EQ(r.failures, 0U);
    EXPECT_GE(r.peak_reserved, 3_MiB) << info.name;
  }
  std::string why;
  EXPECT_EQ(make_policy("best", trace, {}, {}, &why), nullptr);
  EXPECT_THAT(why, HasSubstr("there are native"));
}

}  // namespace
}  // namespace levee::replay
