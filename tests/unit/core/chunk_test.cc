#include "allocator/core/chunk.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

namespace levee::core {
namespace {

TEST(Chunk, TakesTheLowestRoomAtTheAlignment) {
  auto chunk = std::make_unique<Chunk>();
  chunk->reset(DeviceAddr{1ULL << 32}, ZoneIndex{0}, 0_B, kDefaultPool, StreamIndex{1});
  EXPECT_EQ(chunk->find(40, 1), 0U);
  chunk->take(0, 40);
  EXPECT_EQ(chunk->find(128, 128), 128U);
  chunk->take(128, 128);
  EXPECT_EQ(chunk->find(88, 1), 40U);
  EXPECT_EQ(chunk->find(89, 1), 256U);
  chunk->give_back(0, 40);
  EXPECT_EQ(chunk->find(128, 128), 0U);
  EXPECT_FALSE(chunk->find(Chunk::kUnits, 1).has_value());
  chunk->give_back(128, 128);
  EXPECT_EQ(chunk->longest_units, Chunk::kUnits);
  EXPECT_EQ(chunk->run_count, 1U);
}

TEST(Chunk, HoldsAsManyRunsAsRangesCanMake) {
  auto chunk = std::make_unique<Chunk>();
  chunk->reset(DeviceAddr{1ULL << 32}, ZoneIndex{0}, 0_B, kDefaultPool, StreamIndex{1});
  // The smallest ranges side by side, then every second one given back: the most runs there can be.
  std::vector<std::uint32_t> taken;
  while (const auto unit = chunk->find(33, 1)) {
    chunk->take(*unit, 33);
    taken.push_back(*unit);
  }
  for (std::size_t i = 0; i < taken.size(); i += 2) chunk->give_back(taken[i], 33);
  EXPECT_LE(chunk->run_count, Chunk::kMostRuns);
  for (std::size_t i = 1; i < taken.size(); i += 2) chunk->give_back(taken[i], 33);
  EXPECT_EQ(chunk->run_count, 1U);
  EXPECT_EQ(chunk->used_units, 0U);
}

TEST(FirstAtLeast, FindsWhatALoopFinds) {
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    const auto count = static_cast<std::uint32_t>(random() % 40);
    std::vector<std::uint16_t> numbers(count + kSearchPadding);
    // What lies in the padding must not matter.
    const std::uint32_t end = i % 2 == 0 ? 4097 : 32'768;
    for (std::uint16_t& n : numbers) n = static_cast<std::uint16_t>(random() % end);
    const auto least = static_cast<std::uint32_t>(random() % (end + 1));
    std::uint32_t expected = 0;
    while (expected < count && numbers[expected] < least) ++expected;
    ASSERT_EQ(first_at_least(numbers.data(), count, least), expected) << least;
  }
}

TEST(Chunk, LongestRunStaysExact) {
  auto chunk = std::make_unique<Chunk>();
  chunk->reset(DeviceAddr{1ULL << 32}, ZoneIndex{0}, 0_B, kDefaultPool, StreamIndex{1});
  std::mt19937 random(3);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> taken;
  for (int i = 0; i < 5000; ++i) {
    const auto units = static_cast<std::uint32_t>(33 + random() % 500);
    const auto at = chunk->find(units, 1);
    if (at && random() % 2 == 0) {
      chunk->take(*at, units);
      taken.emplace_back(*at, units);
    } else if (!taken.empty()) {
      const std::size_t k = random() % taken.size();
      chunk->give_back(taken[k].first, taken[k].second);
      taken[k] = taken.back();
      taken.pop_back();
    }
    std::uint32_t longest = 0;
    for (std::uint32_t r = 0; r < chunk->run_count; ++r) {
      longest = std::max<std::uint32_t>(longest, chunk->run_units[r]);
    }
    ASSERT_EQ(chunk->longest_units, longest);
  }
}

}  // namespace
}  // namespace levee::core
