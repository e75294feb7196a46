#include "bench/replay/id_table.h"

#include <gtest/gtest.h>

#include <unordered_map>

#include "bench/replay/generators/seeded_random.h"

namespace levee::replay {
namespace {

TEST(IdTable, FindsWhatWasPutAndNotTaken) {
  IdTable table;
  EXPECT_EQ(table.find(0), IdTable::kNone);
  EXPECT_EQ(table.put(0, 7), IdTable::kNone);
  EXPECT_EQ(table.put(0, 8), 7U);
  EXPECT_EQ(table.find(0), 8U);
  EXPECT_EQ(table.size(), 1U);
  EXPECT_EQ(table.take(0), 8U);
  EXPECT_EQ(table.take(0), IdTable::kNone);
  EXPECT_EQ(table.size(), 0U);
}

TEST(IdTable, AgreesWithAMapOverRandomCallsWithCollidingKeys) {
  IdTable table;
  std::unordered_map<std::uint64_t, std::uint32_t> reference;
  SeededRandom random(5);
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    // Few keys, far apart by a power of two: long probes, and removals from their middle.
    const std::uint64_t key = std::uint64_t{random.below(3000)} << 32;
    if (random.below(5) < 3) {
      const auto [it, fresh] = reference.try_emplace(key, i);
      const std::uint32_t before = fresh ? IdTable::kNone : std::exchange(it->second, i);
      ASSERT_EQ(table.put(key, i), before);
    } else {
      const auto it = reference.find(key);
      const std::uint32_t expected = it == reference.end() ? IdTable::kNone : it->second;
      ASSERT_EQ(table.find(key), expected);
      ASSERT_EQ(table.take(key), expected);
      reference.erase(key);
    }
    ASSERT_EQ(table.size(), reference.size());
  }
  for (const auto& [key, id] : reference) EXPECT_EQ(table.find(key), id);
}

}  // namespace
}  // namespace levee::replay
