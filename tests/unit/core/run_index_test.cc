#include "allocator/core/run_index.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace levee::core {
namespace {

Run run(std::uint64_t begin, std::uint64_t size) {
  return Run{Bytes{begin}, Bytes{size}};
}

TEST(RunIndex, NeighboursJoin) {
  RunIndex index;
  index.insert(run(0, 10));
  index.insert(run(20, 10));
  EXPECT_EQ(index.count(), 2U);
  index.insert(run(10, 10));
  ASSERT_EQ(index.count(), 1U);
  EXPECT_EQ(index.at(0), run(0, 30));
  index.validate();
}

TEST(RunIndex, ACutInTheMiddleLeavesBothEnds) {
  RunIndex index;
  index.insert(run(0, 100));
  index.cut(run(40, 20));
  ASSERT_EQ(index.count(), 2U);
  EXPECT_EQ(index.at(0), run(0, 40));
  EXPECT_EQ(index.at(1), run(60, 40));
  EXPECT_EQ(index.total(), 80_B);
  EXPECT_EQ(index.longest(), 40_B);
}

TEST(RunIndex, FitsAreTheLowestTheHighestAndTheShortest) {
  RunIndex index;
  for (const core::Run r : {run(0, 10), run(100, 50), run(200, 30), run(300, 60), run(400, 5)}) {
    index.insert(r);
  }
  EXPECT_EQ(index.at(*index.lowest_fit(20_B)), run(100, 50));
  EXPECT_EQ(index.at(*index.highest_fit(20_B)), run(300, 60));
  EXPECT_EQ(index.at(*index.best_fit(20_B)), run(200, 30));
  EXPECT_FALSE(index.lowest_fit(61_B).has_value());
  EXPECT_EQ(*index.lowest_aligned(32_B, 64_B), run(320, 32));
  EXPECT_EQ(*index.run_ending_at(150_B), run(100, 50));
  EXPECT_FALSE(index.run_ending_at(149_B).has_value());
}

TEST(RunIndexDeathTest, CuttingBytesThatAreNotFreeEndsTheProcess) {
  RunIndex index;
  index.insert(run(0, 10));
  EXPECT_DEATH(index.cut(run(5, 10)), "not free");
}

// Against a plain array of bytes.
TEST(RunIndex, AgreesWithABitmapOverRandomOperations) {
  std::mt19937 random(5);
  std::vector<bool> free(400, false);
  RunIndex index;
  for (int i = 0; i < 20'000; ++i) {
    const std::size_t begin = random() % free.size();
    const std::size_t size = 1 + random() % std::min<std::size_t>(20, free.size() - begin);
    bool all = true;
    bool none = true;
    for (std::size_t k = begin; k < begin + size; ++k) (free[k] ? none : all) = false;
    if (none) {
      index.insert(run(begin, size));
    } else if (all) {
      index.cut(run(begin, size));
    } else {
      continue;
    }
    for (std::size_t k = begin; k < begin + size; ++k) free[k] = none;
    std::size_t longest = 0;
    std::size_t current = 0;
    for (std::size_t k = 0; k < free.size(); ++k) {
      current = free[k] ? current + 1 : 0;
      longest = std::max(longest, current);
    }
    ASSERT_EQ(index.longest().value, longest);
    if (i % 500 == 0) index.validate();
  }
}

}  // namespace
}  // namespace levee::core
