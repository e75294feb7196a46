#include "allocator/analysis/addr_map.h"

#include <random>
#include <unordered_map>

#include <gtest/gtest.h>

namespace levee::analysis {
namespace {

TEST(AddrMap, AgreesWithAStandardMapOverRandomOperations) {
  std::mt19937_64 rng(3);
  AddrMap map;
  std::unordered_map<std::uint64_t, std::uint32_t> expected;
  for (std::uint32_t i = 0; i < 200'000; ++i) {
    const std::uint64_t addr =
        (rng() % 3000 + 1) * 512;  // few keys, so that they collide and recur
    const auto known = expected.find(addr);
    const std::uint32_t before = known == expected.end() ? AddrMap::kAbsent : known->second;
    ASSERT_EQ(map.find(addr), before);
    if (rng() % 2 == 0) {
      ASSERT_EQ(map.put(addr, i), before);
      expected[addr] = i;
    } else {
      ASSERT_EQ(map.erase(addr), before);
      expected.erase(addr);
    }
    ASSERT_EQ(map.size(), expected.size());
  }
}

TEST(AddrMap, AddressZeroIsNoKey) {
  AddrMap map;
  EXPECT_EQ(map.put(0, 1), AddrMap::kAbsent);
  EXPECT_EQ(map.find(0), AddrMap::kAbsent);
  EXPECT_EQ(map.erase(0), AddrMap::kAbsent);
  EXPECT_EQ(map.size(), 0U);
}

}  // namespace
}  // namespace levee::analysis
