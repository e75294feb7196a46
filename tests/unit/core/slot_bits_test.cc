#include "allocator/core/slot_bits.h"

#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace levee::core {
namespace {

using Runs = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

Runs runs_of(const SlotBits& bits) {
  Runs runs;
  bits.for_each_run([&](std::uint32_t first, std::uint32_t end) { runs.emplace_back(first, end); });
  return runs;
}

Runs runs_of(const SlotBits& bits, std::uint64_t least) {
  Runs runs;
  bits.for_each_run_of(
      least, [&](std::uint32_t first, std::uint32_t end) { runs.emplace_back(first, end); });
  return runs;
}

TEST(SlotBits, ARunReachesOverWordsAndToTheEnd) {
  SlotBits bits;
  bits.cover(256);
  bits.set(60, 196);
  EXPECT_EQ(runs_of(bits), (Runs{{60, 256}}));
  EXPECT_EQ(bits.run_through(60), 196U);
  EXPECT_EQ(bits.run_through(128), 196U);
  EXPECT_EQ(bits.run_through(255), 196U);
  bits.clear(128, 1);
  EXPECT_EQ(runs_of(bits), (Runs{{60, 128}, {129, 256}}));
  EXPECT_EQ(bits.run_through(127), 68U);
  EXPECT_EQ(bits.run_through(129), 127U);
}

TEST(SlotBits, BehindTheLastWordNothingIsSet) {
  SlotBits bits;
  EXPECT_FALSE(bits.is_set(0));
  EXPECT_EQ(runs_of(bits), Runs{});
  bits.cover(10);
  bits.set(9, 1);
  EXPECT_TRUE(bits.is_set(9));
  EXPECT_FALSE(bits.is_set(64));
  EXPECT_EQ(bits.run_through(9), 1U);
}

TEST(SlotBits, AgreesWithAListOfFlagsOverRandomOperations) {
  std::mt19937 random{5};
  constexpr std::uint32_t kSlots = 333;
  std::vector<bool> flags(kSlots, false);
  SlotBits bits;
  bits.cover(kSlots);
  for (int i = 0; i < 3000; ++i) {
    const auto first = static_cast<std::uint32_t>(random() % kSlots);
    const auto count = static_cast<std::uint32_t>(1 + random() % std::min(150U, kSlots - first));
    const bool value = random() % 2 == 0;
    value ? bits.set(first, count) : bits.clear(first, count);
    for (std::uint32_t k = first; k < first + count; ++k) flags[k] = value;

    Runs expected;
    std::uint32_t set = 0;
    for (std::uint32_t k = 0; k < kSlots; ++k) {
      ASSERT_EQ(bits.is_set(k), flags[k]);
      if (!flags[k]) continue;
      ++set;
      if (expected.empty() || expected.back().second != k) expected.emplace_back(k, k);
      expected.back().second = k + 1;
    }
    ASSERT_EQ(runs_of(bits), expected);
    ASSERT_EQ(bits.count(), set);
    for (const std::uint64_t least :
         {1U, 2U, 3U, 17U, 63U, 64U, 65U, 128U, 1U + static_cast<std::uint32_t>(i) % 333U}) {
      Runs long_ones;
      for (const auto& [begin, end] : expected) {
        if (end - begin >= least) long_ones.emplace_back(begin, end);
      }
      ASSERT_EQ(runs_of(bits, least), long_ones) << least;
    }
    for (const auto& [begin, end] : expected) {
      ASSERT_EQ(bits.run_through(begin), end - begin);
      ASSERT_EQ(bits.run_through((begin + end) / 2), end - begin);
      ASSERT_EQ(bits.run_through(end - 1), end - begin);
    }
  }
}

}  // namespace
}  // namespace levee::core
