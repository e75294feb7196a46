#include "allocator/analysis/timeline.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace levee::analysis {
namespace {

TEST(Timeline, KeepsChangesAndDropsRepetitions) {
  Timeline t;
  t.add(10, 100, 50);
  t.add(20, 100, 50);
  t.add(30, 100, 60);
  t.finish(40);
  ASSERT_EQ(t.size(), 2U);
  EXPECT_EQ(t.time_ns(1), 30U);
  EXPECT_EQ(t.value(Series::kAllocated, 1), 60U);
  EXPECT_EQ(t.end_ns(), 40U);
}

TEST(Timeline, TimeNeverRunsBackwards) {
  Timeline t;
  t.add(10, 1, 1);
  t.add(5, 2, 2);
  t.finish(5);
  EXPECT_EQ(t.time_ns(1), 10U);
  EXPECT_EQ(t.end_ns(), 10U);
}

TEST(Timeline, WaitingBytesAreActiveBetweenTheirTwoSamples) {
  Timeline t;
  t.add(0, 100, 80);
  t.add(10, 100, 50);  // 30 freed, waiting
  t.add(20, 100, 60);
  const std::size_t done = t.mark(30);
  t.add_waiting(1, done, 30);
  t.finish(40);
  ASSERT_TRUE(t.has_waiting());
  EXPECT_EQ(t.value(Series::kActive, 0), 80U);
  EXPECT_EQ(t.value(Series::kActive, 1), 80U);
  EXPECT_EQ(t.value(Series::kActive, 2), 90U);
  EXPECT_EQ(t.value(Series::kActive, 3), 60U);
  EXPECT_EQ(t.range(Series::kActive, 0, 40).max, 90U);
}

TEST(Timeline, RebaseLiftsWhatWasCountedFromAnUnknownBase) {
  Timeline t;
  t.add(0, 0, 0);
  t.add(1, 0, static_cast<std::uint64_t>(-30));  // below the unknown base
  t.rebase(t.size(), 100, 80);
  t.add(2, 100, 60);
  t.finish(3);
  EXPECT_EQ(t.value(Series::kAllocated, 0), 80U);
  EXPECT_EQ(t.value(Series::kAllocated, 1), 50U);
  EXPECT_EQ(t.value(Series::kAllocated, 2), 60U);
}

// The waiting bytes of a few moments are in the levels of what is active, and of nothing else.
TEST(Timeline, LevelsOfActiveBytesHoldWhatWaits) {
  constexpr std::size_t kSamples = 100'003;
  for (const bool waits : {false, true}) {
    Timeline t;
    for (std::size_t i = 0; i < kSamples; ++i) t.add(i * 3, 2000, i % 1000);
    if (waits) t.add_waiting(70'000, 70'002, 500);
    t.finish(kSamples * 3);
    ASSERT_EQ(t.has_waiting(), waits);
    ASSERT_GT(t.levels().size(), 1U);
    std::size_t width = 1;
    for (const TimelineLevel& level : t.levels()) {
      width *= Timeline::kLevelFactor;
      ASSERT_EQ(level.active.max.size(), level.size());
      for (std::size_t b = 0; b < level.size(); ++b) {
        const auto begin = t.column(Series::kActive).begin();
        const auto first = begin + static_cast<std::ptrdiff_t>(b * width);
        const auto last = begin + static_cast<std::ptrdiff_t>(std::min(t.size(), (b + 1) * width));
        ASSERT_EQ(level.active.min[b], *std::min_element(first, last));
        ASSERT_EQ(level.active.max[b], *std::max_element(first, last));
      }
    }
  }
}

// A level may lose when something happened inside a bucket, never that it happened.
TEST(Timeline, LevelsHoldExactExtremesOfTheirBuckets) {
  std::mt19937_64 rng(7);
  Timeline t;
  constexpr std::size_t kSamples = 100'003;
  for (std::size_t i = 0; i < kSamples; ++i) t.add(i * 3, rng() % 1000 + 1000, rng() % 1000);
  t.finish(kSamples * 3);
  ASSERT_FALSE(t.levels().empty());
  EXPECT_LE(t.levels().back().size(), Timeline::kCoarsestBuckets);
  std::size_t width = 1;
  for (const TimelineLevel& level : t.levels()) {
    width *= Timeline::kLevelFactor;
    ASSERT_EQ(level.size(), (t.size() + width - 1) / width);
    for (std::size_t b = 0; b < level.size(); b += 97) {
      const auto first =
          t.column(Series::kReserved).begin() + static_cast<std::ptrdiff_t>(b * width);
      const auto last = t.column(Series::kReserved).begin() +
                        static_cast<std::ptrdiff_t>(std::min(t.size(), (b + 1) * width));
      EXPECT_EQ(level.time_ns[b], t.time_ns(b * width));
      EXPECT_EQ(level.reserved.min[b], *std::min_element(first, last));
      EXPECT_EQ(level.reserved.max[b], *std::max_element(first, last));
    }
  }
}

TEST(Timeline, RangeAgreesWithAScanAnywhere) {
  std::mt19937_64 rng(11);
  for (const std::size_t samples : {1U, 7U, 8U, 9U, 2049U, 20'000U}) {
    Timeline t;
    for (std::size_t i = 0; i < samples; ++i) t.add(i * 10 + 5, rng() % 500 + i % 3, rng() % 500);
    t.finish(samples * 10);
    for (int k = 0; k < 200; ++k) {
      const std::uint64_t from = rng() % (samples * 10 + 10);
      const std::uint64_t to = from + rng() % (samples * 10 + 10);
      std::uint64_t min = ~std::uint64_t{0};
      std::uint64_t max = 0;
      for (std::size_t i = t.index_at(from); i <= t.index_at(to); ++i) {
        min = std::min(min, t.value(Series::kAllocated, i));
        max = std::max(max, t.value(Series::kAllocated, i));
      }
      const Range range = t.range(Series::kAllocated, from, to);
      ASSERT_EQ(range.min, min) << samples << " samples, " << from << " to " << to;
      ASSERT_EQ(range.max, max) << samples << " samples, " << from << " to " << to;
    }
  }
}

TEST(Timeline, EmptyOneAnswersZero) {
  Timeline t;
  t.finish(5);
  EXPECT_EQ(t.range(Series::kReserved, 0, 10).max, 0U);
  EXPECT_TRUE(t.levels().empty());
}

}  // namespace
}  // namespace levee::analysis
