// The real allocator of the CUDA toolkit, and the model of the driver's pool.
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/replay/peers/cub_policy.h"
#include "bench/replay/policies/stream_pool_model.h"
#include "tests/unit/replay/small_traces.h"

namespace levee::replay {
namespace {

std::unique_ptr<ReplayPolicy> cub(std::string_view name, Limits limits = {}) {
  std::string why;
  auto policy = make_cub(name, limits, &why);
  EXPECT_EQ(policy == nullptr, !why.empty());
  return policy;
}

TEST(Cub, RoundsToItsBinsAndCachesThem) {
  const auto policy = cub("cub");
  if (policy == nullptr) GTEST_SKIP() << "this build has no headers of CUB";
  const ReplayResult r =
      test::replay(test::ops("a,1,50331648\nf,1\na,2,67108864\nf,2\na,3,67108865\nf,3\n"), *policy);
  EXPECT_EQ(r.peak_reserved, 192_MiB) << "64 MiB, used twice, and 128 MiB";
  EXPECT_EQ(r.costs.mallocs, 2U);
  EXPECT_EQ(r.costs.event_records, 3U) << "one event a free";
}

TEST(Cub, AsItComesLargeRequestsGoToTheDriver) {
  const auto policy = cub("cub-default");
  if (policy == nullptr) GTEST_SKIP() << "this build has no headers of CUB";
  const ReplayResult r = test::replay(test::ops("a,1,50331648\nf,1\na,2,50331648\nf,2\n"), *policy);
  EXPECT_EQ(r.costs.mallocs, 2U);
  EXPECT_EQ(r.costs.frees, 2U);
}

TEST(Cub, FullDeviceMakesItGiveItsCacheBack) {
  const auto policy = cub("cub", Limits{128_MiB});
  if (policy == nullptr) GTEST_SKIP() << "this build has no headers of CUB";
  const ReplayResult r = test::replay(test::ops("a,1,67108864\nf,1\na,2,134217728\n"), *policy);
  EXPECT_EQ(r.failures, 0U);
  EXPECT_EQ(r.emergencies, 1U);
}

TEST(StreamPool, SplitsMergesAndGrowsBy32MiB) {
  StreamPoolModel policy(Limits{});
  const ReplayResult r = test::replay(
      test::ops("a,1,10485760\na,2,10485760\nf,1\nf,2\na,3,33554432\nf,3\na,4,1\n"), policy);
  EXPECT_EQ(r.peak_reserved, 32_MiB);
  EXPECT_EQ(r.costs.mallocs, 1U);
}

TEST(StreamPool, AnotherStreamWaitsForTheEvent) {
  StreamPoolModel policy(Limits{});
  std::string lines = "a,1,33554432,0\nf,1\na,2,33554432,7\nf,2\n";
  EXPECT_EQ(test::replay(test::ops(lines), policy).peak_reserved, 64_MiB);
  StreamPoolModel later(Limits{});
  lines = "a,1,33554432,0\nf,1\n";
  for (int i = 10; i < 400; ++i) {
    const std::string id = std::to_string(i);
    lines += "a," + id + ",512,0\nf," + id + "\n";
  }
  const ReplayResult r = test::replay(test::ops(lines + "a,2,33554432,7\n"), later);
  EXPECT_EQ(r.peak_reserved, 64_MiB) << "small blocks of stream 0 took a part of the first segment";
}

TEST(StreamPool, AFullDeviceGivesFreeSegmentsBack) {
  StreamPoolModel policy(Limits{96_MiB});
  const ReplayResult r =
      test::replay(test::ops("a,1,33554432\na,2,33554432\nf,1\na,3,67108864\n"), policy);
  EXPECT_EQ(r.failures, 0U);
  EXPECT_EQ(r.emergencies, 1U);
  EXPECT_EQ(r.costs.frees, 1U);
}

TEST(StreamPool, AFullDeviceIsWaitedForOnce) {
  StreamPoolModel policy(Limits{32_MiB});
  const ReplayResult waiting =
      test::replay(test::ops("a,1,33554432,0\nr,1,,7\nf,1\na,2,33554432,0\n"), policy);
  EXPECT_EQ(waiting.failures, 0U);
  EXPECT_EQ(waiting.emergencies, 1U);
  EXPECT_EQ(waiting.costs.synchronisations, 1U);
  // A part of a segment is not given back, and after the wait it is any stream's.
  StreamPoolModel parts(Limits{32_MiB});
  const ReplayResult r =
      test::replay(test::ops("a,1,16777216,0\na,2,16777216,0\nf,1\na,3,16777216,7\n"), parts);
  EXPECT_EQ(r.failures, 0U);
  EXPECT_EQ(r.emergencies, 1U);
  EXPECT_EQ(r.costs.frees, 0U);
}

TEST(StreamPool, WhatNoDeviceHasIsRefused) {
  StreamPoolModel policy(Limits{32_MiB});
  EXPECT_FALSE(policy.allocate(0, 64_MiB, 0));
  EXPECT_EQ(policy.reserved(), 0_B);
}

TEST(StreamPool, FreeNeighboursAreOneInWhicheverOrderTheyCome) {
  for (const char* order : {"f,2\nf,3\nf,1\n", "f,3\nf,2\nf,4\n", "f,1\nf,3\nf,2\n"}) {
    StreamPoolModel policy(Limits{});
    const std::string lines = "a,1,8388608\na,2,8388608\na,3,8388608\na,4,8388608\n";
    const ReplayResult r = test::replay(test::ops(lines + order + "a,5,25165824\n"), policy);
    EXPECT_EQ(r.peak_reserved, 32_MiB) << order;
  }
}

TEST(StreamPool, TheRestOfABlockJoinsWhatIsBehindIt) {
  StreamPoolModel policy(Limits{});
  // 10, 10 and 12 MiB; the first becomes 5 and 5, and all but the first 5 are one again.
  const ReplayResult r = test::replay(
      test::ops("a,1,10485760\na,2,10485760\nf,1\na,3,5242880\nf,2\na,4,28311552\n"), policy);
  EXPECT_EQ(r.peak_reserved, 32_MiB);
}

}  // namespace
}  // namespace levee::replay
