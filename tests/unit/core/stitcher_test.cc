#include "allocator/core/stitcher.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace levee::core {
namespace {

class StitcherTest : public testing::Test {
 protected:
  StitcherTest() : space_(2_MiB) {
    primary_ = space_.add_zone(DeviceAddr{1ULL << 32}, 1_GiB, kDefaultPool, ZoneRole::kPrimary);
    for (std::uint32_t i = 0; i < 10; ++i) {
      space_.attach(space_.add_page(HandleId{i + 1}, 1, kDefaultPool), Slot{primary_, i});
    }
    // Live: pages 2 and 7. Free runs of two, four and two pages.
    space_.occupy(primary_, core::Run{4_MiB, 2_MiB}, kDefaultPool);
    space_.occupy(primary_, core::Run{14_MiB, 2_MiB}, kDefaultPool);
  }
  StitchPlan plan(Bytes bytes) const {
    StitchRequest request;
    request.bytes = bytes;
    request.scope = SearchScope{primary_, others_};
    request.pool = kDefaultPool;
    return make_stitcher(StitchMode::kAlias)->plan(space_, request);
  }

  Space space_;
  ZoneIndex primary_;
  std::vector<ZoneIndex> others_;
};

TEST_F(StitcherTest, FreePagesOfTheLongestRunsGoSideBySide) {
  const StitchPlan p = plan(11_MiB);
  EXPECT_TRUE(p.needs_zone);
  EXPECT_EQ(p.units, 6U);
  EXPECT_EQ(p.missing, 0U);
  const std::vector<PageIndex> ends = {PageIndex{3}, PageIndex{4}, PageIndex{5}, PageIndex{6}};
  ASSERT_EQ(p.pages.size(), 6U);
  EXPECT_TRUE(std::equal(ends.begin(), ends.end(), p.pages.begin() + 2))
      << "the run of four in one piece, where it can be completed";
}

TEST_F(StitcherTest, SaysWhatIsMissing) {
  EXPECT_EQ(plan(20_MiB).missing, 2U);
}

TEST_F(StitcherTest, AnAliasZoneIsExtendedWithPagesItDoesNotHold) {
  const ZoneIndex alias =
      space_.add_zone(DeviceAddr{2ULL << 32}, 1_GiB, kDefaultPool, ZoneRole::kAlias);
  space_.attach(PageIndex{3}, Slot{alias, 0});
  space_.attach(PageIndex{4}, Slot{alias, 1});
  others_ = {alias};
  const StitchPlan p = plan(9_MiB);
  EXPECT_FALSE(p.needs_zone);
  EXPECT_EQ(p.zone, alias);
  EXPECT_EQ(p.first_unit, 2U);
  EXPECT_EQ(p.units, 3U);
  for (PageIndex page : p.pages) EXPECT_EQ(space_.page(page).mapping_in(alias), nullptr);
}

TEST_F(StitcherTest, ATailOfPagesThatAreRefusedIsNotExtended) {
  const ZoneIndex alias =
      space_.add_zone(DeviceAddr{2ULL << 32}, 1_GiB, kDefaultPool, ZoneRole::kAlias);
  space_.attach(PageIndex{3}, Slot{alias, 0});
  space_.attach(PageIndex{4}, Slot{alias, 1});
  others_ = {alias};
  StitchRequest request;
  request.bytes = 9_MiB;
  request.scope = SearchScope{primary_, others_};
  request.pool = kDefaultPool;
  for (StitchMode mode : {StitchMode::kAlias, StitchMode::kMove}) {
    const auto stitcher = make_stitcher(mode);
    request.accepts = [](const Page& page) {
      return page.handle.value != 5 && page.handle.value < 9;
    };
    const StitchPlan none = stitcher->plan(space_, request);
    for (PageIndex page : none.pages) EXPECT_TRUE(request.accepts(space_.page(page)));
    EXPECT_GE(none.units + none.missing, 5U) << "nothing of a tail";
    EXPECT_TRUE(none.needs_zone || none.first_unit == 10U);
  }
  // Page 3 alone is refused: of the tail there is page 4.
  request.accepts = [](const Page& page) { return page.handle.value != 4; };
  const StitchPlan one = make_stitcher(StitchMode::kAlias)->plan(space_, request);
  EXPECT_FALSE(one.needs_zone);
  EXPECT_EQ(one.units, 4U);
}

TEST_F(StitcherTest, PagesOfTheRunThatAMoveExtendsStayWhereTheyAre) {
  // Free at the end of the zone: pages 8 and 9.
  StitchRequest request;
  request.bytes = 17_MiB;
  request.scope = SearchScope{primary_, others_};
  request.pool = kDefaultPool;
  const StitchPlan p = make_stitcher(StitchMode::kMove)->plan(space_, request);
  ASSERT_FALSE(p.needs_zone);
  EXPECT_EQ(p.first_unit, 10U);
  EXPECT_EQ(p.units, 6U) << "all others that are free";
  EXPECT_EQ(p.missing, 1U);
  for (PageIndex page : p.pages) EXPECT_LT(page.value, 8U);
}

TEST_F(StitcherTest, LiveWithheldAndPinnedPagesAreLeftAlone) {
  space_.withhold(PageIndex{0});
  for (PageIndex page : plan(12_MiB).pages) {
    EXPECT_NE(page, PageIndex{0});
    EXPECT_NE(page, PageIndex{2});
    EXPECT_NE(page, PageIndex{7});
  }
}

TEST_F(StitcherTest, AnExtensionStaysInsideTheZonesAddresses) {
  // The free pages are of four units each; the alias zone has addresses for two and a half of them.
  const ZoneIndex wide =
      space_.add_zone(DeviceAddr{3ULL << 32}, 1_GiB, kDefaultPool, ZoneRole::kPrimary);
  std::vector<PageIndex> pages;
  for (std::uint32_t i = 0; i < 8; ++i) {
    pages.push_back(space_.add_page(HandleId{100 + i}, 4, kDefaultPool));
    space_.attach(pages.back(), Slot{wide, 4 * i});
  }
  const ZoneIndex alias =
      space_.add_zone(DeviceAddr{2ULL << 32}, 20_MiB, kDefaultPool, ZoneRole::kAlias);
  space_.attach(pages[7], Slot{alias, 0});
  others_ = {alias};
  StitchRequest request;
  request.bytes = 17_MiB;
  request.scope = SearchScope{wide, others_};
  request.pool = kDefaultPool;
  for (std::uint32_t i = 0; i < 8; i += 2) {
    space_.occupy(wide, core::Run{8_MiB * i, 2_MiB}, kDefaultPool);
  }
  const StitchPlan p = make_stitcher(StitchMode::kAlias)->plan(space_, request);
  EXPECT_TRUE(p.needs_zone);
  EXPECT_GE(p.units, 9U);
}

TEST_F(StitcherTest, NoneNeverStitches) {
  StitchRequest request;
  request.bytes = 6_MiB;
  request.scope = SearchScope{primary_, {}};
  EXPECT_EQ(make_stitcher(StitchMode::kNone)->plan(space_, request).missing, 3U);
}

}  // namespace
}  // namespace levee::core
