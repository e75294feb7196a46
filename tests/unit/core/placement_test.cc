#include "allocator/core/placement.h"

#include <gtest/gtest.h>

namespace levee::core {
namespace {

class PlacementTest : public testing::Test {
 protected:
  PlacementTest() : space_(2_MiB) {
    primary_ = space_.add_zone(DeviceAddr{1ULL << 32}, 2_GiB, kDefaultPool, ZoneRole::kPrimary);
    fill(primary_, 16);
  }
  void fill(ZoneIndex zone, std::uint32_t units) { fill_to(zone, units); }
  void fill_to(ZoneIndex zone, std::uint32_t units) {
    const auto filled = static_cast<std::uint32_t>(space_.zone(zone).slots.size());
    for (std::uint32_t i = filled; i < units; ++i) {
      space_.attach(space_.add_page(HandleId{++handles_}, 1, kDefaultPool), Slot{zone, i});
    }
  }
  std::optional<Place> choose(Bytes bytes, Lifetime lifetime, const PlaceFilter& accept = {}) {
    return choose_place(space_, SearchScope{primary_, others_}, bytes, lifetime, accept);
  }

  Space space_;
  ZoneIndex primary_;
  std::vector<ZoneIndex> others_;
  std::uint64_t handles_ = 0;
};

TEST_F(PlacementTest, LongLivedGoesToTheBottomShortLivedToTheTop) {
  EXPECT_EQ(choose(3_MiB, Lifetime::kLong)->run, (core::Run{0_B, 3_MiB}));
  EXPECT_EQ(choose(3_MiB, Lifetime::kShort)->run, (core::Run{29_MiB, 3_MiB}));
}

TEST_F(PlacementTest, WhatGoesAtOnceTakesTheShortestRunThatFits) {
  // Free: 10, 4 and 14 MiB.
  space_.occupy(primary_, core::Run{10_MiB, 2_MiB}, kDefaultPool);
  space_.occupy(primary_, core::Run{16_MiB, 2_MiB}, kDefaultPool);
  EXPECT_EQ(choose(3_MiB, Lifetime::kBrief)->run, (core::Run{13_MiB, 3_MiB}));
  EXPECT_EQ(choose(5_MiB, Lifetime::kBrief)->run, (core::Run{5_MiB, 5_MiB}));
  EXPECT_EQ(choose(11_MiB, Lifetime::kBrief)->run, (core::Run{21_MiB, 11_MiB}));
  // Where the shortest is refused, as what goes soon.
  const PlaceFilter accept = [](const Place& p) { return p.run.begin >= 16_MiB; };
  EXPECT_EQ(choose(3_MiB, Lifetime::kBrief, accept)->run, (core::Run{29_MiB, 3_MiB}));
}

TEST_F(PlacementTest, TheShortestAliasRunServesWhatThePrimaryCannot) {
  const ZoneIndex wide =
      space_.add_zone(DeviceAddr{2ULL << 32}, 1_GiB, kDefaultPool, ZoneRole::kAlias);
  const ZoneIndex narrow =
      space_.add_zone(DeviceAddr{3ULL << 32}, 1_GiB, kDefaultPool, ZoneRole::kAlias);
  fill(wide, 20);
  fill(narrow, 18);
  others_ = {wide, narrow};
  const auto place = choose(34_MiB, Lifetime::kShort);
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->zone, narrow);
  EXPECT_FALSE(choose(42_MiB, Lifetime::kLong).has_value());
}

TEST_F(PlacementTest, RefusedCandidatesAreSkipped) {
  space_.occupy(primary_, core::Run{8_MiB, 2_MiB}, kDefaultPool);
  const auto place =
      choose(4_MiB, Lifetime::kLong, [](const Place& p) { return p.run.begin >= 8_MiB; });
  ASSERT_TRUE(place.has_value());
  EXPECT_EQ(place->run, (core::Run{10_MiB, 4_MiB}));
}

TEST_F(PlacementTest, PagesInsideOfARunServeWhereItsEndsAreRefused) {
  // One run of 16 pages; the lowest four and the highest are refused.
  const PlaceFilter accept = [](const Place& p) {
    return p.run.begin >= 8_MiB && p.run.end() <= 30_MiB;
  };
  for (Lifetime lifetime : {Lifetime::kLong, Lifetime::kShort, Lifetime::kBrief}) {
    const auto place = choose(21_MiB, lifetime, accept);
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->run, (core::Run{8_MiB, 21_MiB}));
    EXPECT_FALSE(choose(23_MiB, lifetime, accept).has_value());
  }
  const auto fragment = choose_fragment(space_, SearchScope{primary_, {}}, 512_KiB, accept);
  ASSERT_TRUE(fragment.has_value());
  EXPECT_EQ(fragment->run, (core::Run{8_MiB, 512_KiB}));
}

TEST_F(PlacementTest, TheLowEndServesWhereTheHighOneIsRefused) {
  space_.occupy(primary_, core::Run{0_B, 1_MiB}, kDefaultPool);
  const PlaceFilter accept = [](const Place& p) { return p.run.end() <= 6_MiB; };
  for (Lifetime lifetime : {Lifetime::kLong, Lifetime::kShort, Lifetime::kBrief}) {
    const auto place = choose(5_MiB, lifetime, accept);
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->run, (core::Run{1_MiB, 5_MiB}));
  }
}

TEST_F(PlacementTest, AffinePlacesAreEndsOfRunsThenTheirMiddles) {
  space_.occupy(primary_, core::Run{10_MiB, 2_MiB}, kDefaultPool);  // runs [0, 10) and [12, 32)
  const SearchScope scope{primary_, others_};
  std::vector<core::Run> tried;
  const auto place = choose_affine_place(space_, scope, 5_MiB, [&](const Place& p) {
    tried.push_back(p.run);
    return false;
  });
  EXPECT_FALSE(place.has_value());
  EXPECT_EQ(tried, (std::vector<core::Run>{{27_MiB, 5_MiB},
                                           {12_MiB, 5_MiB},
                                           {5_MiB, 5_MiB},
                                           {0_B, 5_MiB},
                                           {18_MiB, 5_MiB},
                                           {2_MiB, 5_MiB}}));
  EXPECT_EQ(choose_affine_place(space_, scope, 5_MiB,
                                [](const Place& p) { return p.run.begin == 12_MiB; })
                ->run,
            (core::Run{12_MiB, 5_MiB}));
  EXPECT_FALSE(choose_affine_place(space_, SearchScope{}, 5_MiB, {}).has_value());
}

TEST_F(PlacementTest, AffinePlacesAreFew) {
  fill_to(primary_, 800);
  for (std::uint32_t i = 0; i < 800; i += 8) {
    space_.occupy(primary_, core::Run{2_MiB * i, 2_MiB}, kDefaultPool);
  }
  int tried = 0;
  const auto none =
      choose_affine_place(space_, SearchScope{primary_, {}}, 4_MiB, [&](const Place&) {
        ++tried;
        return false;
      });
  EXPECT_FALSE(none.has_value());
  EXPECT_EQ(tried, kMostAffineEnds + kMostAffineMiddles);
}

TEST_F(PlacementTest, AlignedPlacesBeginAtAMultiple) {
  space_.occupy(primary_, core::Run{0_B, 1_MiB}, kDefaultPool);
  const auto place = choose_aligned_place(space_, SearchScope{primary_, {}}, 2_MiB, 2_MiB);
  EXPECT_EQ(place->run, (core::Run{2_MiB, 2_MiB}));
}

TEST_F(PlacementTest, AFragmentIsTheShortestRun) {
  space_.occupy(primary_, core::Run{0_B, 10_MiB}, kDefaultPool);
  space_.occupy(primary_, core::Run{11_MiB, 10_MiB}, kDefaultPool);
  const auto place = choose_fragment(space_, SearchScope{primary_, {}}, 512_KiB);
  EXPECT_EQ(place->run, (core::Run{10_MiB, 512_KiB}));
}

}  // namespace
}  // namespace levee::core
