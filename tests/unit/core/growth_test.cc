#include "allocator/core/growth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace levee::core {
namespace {

class GrowthTest : public testing::Test {
 protected:
  GrowthTest() : space_(2_MiB) {
    zone_ = space_.add_zone(DeviceAddr{1ULL << 32}, 64_MiB, kDefaultPool, ZoneRole::kPrimary);
  }
  void fill(std::uint32_t from, std::uint32_t to) {
    for (std::uint32_t i = from; i < to; ++i) {
      space_.attach(space_.add_page(HandleId{i + 1}, 1, kDefaultPool), Slot{zone_, i});
    }
  }
  Space space_;
  ZoneIndex zone_;
};

TEST_F(GrowthTest, AnEmptyZoneGrowsByTheRequest) {
  const GrowthPlan plan = plan_growth(space_, zone_, 5_MiB);
  EXPECT_EQ(plan.units, 3U);
  ASSERT_EQ(plan.stretches.size(), 1U);
  EXPECT_EQ(plan.stretches[0].first_unit, 0U);
}

TEST_F(GrowthTest, TheFreeTailIsUsed) {
  fill(0, 4);
  space_.occupy(zone_, core::Run{0_B, 5_MiB}, kDefaultPool);
  EXPECT_EQ(plan_growth(space_, zone_, 5_MiB).units, 1U);
  EXPECT_EQ(plan_growth(space_, zone_, 3_MiB + 512_B).units, 1U);
}

TEST_F(GrowthTest, AHoleIsFilledWhereThatIsLess) {
  fill(0, 2);
  fill(3, 6);  // unit 2 was given back
  space_.occupy(zone_, core::Run{0_B, 2_MiB}, kDefaultPool);
  space_.occupy(zone_, core::Run{8_MiB, 4_MiB}, kDefaultPool);
  // Free: unit 1, [hole at 2], unit 3; nothing at the end.
  const GrowthPlan plan = plan_growth(space_, zone_, 6_MiB);
  ASSERT_EQ(plan.stretches.size(), 1U);
  EXPECT_EQ(plan.stretches[0].first_unit, 2U);
  EXPECT_EQ(plan.units, 1U);
}

TEST_F(GrowthTest, PagesThatAreRefusedAreNoPartOfTheRun) {
  fill(0, 4);
  const auto but = [](std::uint32_t refused) {
    return [refused](const Page& page) { return page.handle.value != refused + 1; };
  };
  EXPECT_EQ(plan_growth(space_, zone_, 10_MiB, 1_B, but(0)).units, 2U);
  EXPECT_EQ(plan_growth(space_, zone_, 10_MiB, 1_B, but(3)).units, 5U) << "behind page 3";
  EXPECT_EQ(plan_growth(space_, zone_, 10_MiB, 1_B, but(3)).stretches[0].first_unit, 4U);
  space_.occupy(zone_, core::Run{0_B, 1_MiB}, kDefaultPool);
  EXPECT_EQ(plan_growth(space_, zone_, 10_MiB, 1_B, but(9)).units, 2U);
}

TEST_F(GrowthTest, AFullRangeHasNoPlan) {
  fill(0, 32);
  space_.occupy(zone_, core::Run{0_B, 64_MiB}, kDefaultPool);
  EXPECT_TRUE(plan_growth(space_, zone_, 2_MiB).empty());
  EXPECT_TRUE(plan_fill(space_, zone_, 1).empty());
}

TEST_F(GrowthTest, AnAlignedRunBeginsAtAPage) {
  fill(0, 2);
  space_.occupy(zone_, core::Run{0_B, 1_MiB}, kDefaultPool);
  // Three MiB are free at the end: a page more would make four, but not from a page on.
  EXPECT_EQ(plan_growth(space_, zone_, 4_MiB).units, 1U);
  EXPECT_EQ(plan_growth(space_, zone_, 4_MiB, 2_MiB).units, 1U);
  EXPECT_EQ(plan_growth(space_, zone_, 4_MiB, 2_MiB).stretches[0].first_unit, 2U);
  space_.occupy(zone_, core::Run{1_MiB, 2_MiB}, kDefaultPool);
  EXPECT_EQ(plan_growth(space_, zone_, 3_MiB).units, 1U);
  EXPECT_EQ(plan_growth(space_, zone_, 4_MiB).units, 2U);
  EXPECT_EQ(plan_growth(space_, zone_, 5_MiB).units, 2U);
  EXPECT_EQ(plan_growth(space_, zone_, 4_MiB, 2_MiB).units, 2U);
  EXPECT_EQ(plan_growth(space_, zone_, 5_MiB, 2_MiB).units, 3U);
}

TEST_F(GrowthTest, FillTakesHolesFirst) {
  fill(0, 2);
  fill(3, 4);
  const GrowthPlan plan = plan_fill(space_, zone_, 3);
  ASSERT_EQ(plan.stretches.size(), 2U);
  EXPECT_EQ(plan.stretches[0].first_unit, 2U);
  EXPECT_EQ(plan.stretches[1].first_unit, 4U);
  EXPECT_EQ(plan.stretches[1].units, 2U);
}

TEST(PageSizes, SumUpToTheStretchWithSmallOnesAtItsEnds) {
  for (std::uint32_t units : {1U, 2U, 3U, 7U, 8U, 31U, 32U, 100U, 1000U}) {
    for (std::uint32_t largest : {1U, 2U, 8U}) {
      const std::vector<std::uint32_t> sizes = page_sizes(units, largest);
      EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), 0U), units);
      EXPECT_EQ(sizes.front(), 1U);
      for (std::uint32_t size : sizes) EXPECT_LE(size, std::max(1U, std::min(largest, units / 4)));
    }
  }
  EXPECT_EQ(page_sizes(100, 1).size(), 100U);
  EXPECT_LE(page_sizes(1000, 8).size(), 130U);
}

TEST(PageSizes, PagesGrowWithWhatIsHeld) {
  Config config;
  EXPECT_EQ(largest_page_for(3_GiB, 2_MiB, config), 1U);
  EXPECT_EQ(largest_page_for(8_GiB, 2_MiB, config), 2U);
  EXPECT_EQ(largest_page_for(17_GiB, 2_MiB, config), 4U);
  EXPECT_EQ(largest_page_for(500_GiB, 2_MiB, config), 8U) << "16 MiB are the most";
  config.larger_pages_from = 0_B;
  EXPECT_EQ(largest_page_for(500_GiB, 2_MiB, config), 1U);
}

TEST(PageSizes, WhatIsMadeFirstIsMadeInLargePagesAsFarAsTheyGo) {
  EXPECT_EQ(page_sizes(5, 2, /*is_first=*/true), (std::vector<std::uint32_t>{2, 2, 1}));
  EXPECT_EQ(page_sizes(1, 2, /*is_first=*/true), (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(page_sizes(5, 2), (std::vector<std::uint32_t>{1, 1, 1, 1, 1}));
}

TEST(LargestPage, PairsComeEarlierAndEarliestWhereNothingWasFreed) {
  const Config config;
  EXPECT_EQ(largest_page_for(4_GiB - 2_MiB, 2_MiB, config), 1U);
  EXPECT_EQ(largest_page_for(4_GiB, 2_MiB, config), 2U);
  EXPECT_EQ(largest_page_for(512_MiB - 2_MiB, 2_MiB, config, /*is_first=*/true), 1U);
  EXPECT_EQ(largest_page_for(512_MiB, 2_MiB, config, /*is_first=*/true), 2U);
  EXPECT_EQ(largest_page_for(17_GiB, 2_MiB, config, /*is_first=*/true), 4U);
}

}  // namespace
}  // namespace levee::core
