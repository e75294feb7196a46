#include "allocator/core/space.h"

#include <gtest/gtest.h>

namespace levee::core {
namespace {

constexpr PoolIndex kPool = kDefaultPool;
constexpr PoolIndex kOther{1};

class SpaceTest : public testing::Test {
 protected:
  SpaceTest() : space_(2_MiB) {
    primary_ = space_.add_zone(DeviceAddr{1ULL << 32}, 1_GiB, kPool, ZoneRole::kPrimary);
    alias_ = space_.add_zone(DeviceAddr{2ULL << 32}, 1_GiB, kPool, ZoneRole::kAlias);
    for (std::uint32_t i = 0; i < 4; ++i) {
      pages_[i] = space_.add_page(HandleId{i + 1}, 1, kPool);
      space_.attach(pages_[i], Slot{primary_, i});
    }
  }
  Bytes offered(ZoneIndex zone) const { return space_.zone(zone).runs.total(); }

  Space space_;
  ZoneIndex primary_;
  ZoneIndex alias_;
  PageIndex pages_[4];
  const Stamp stamp_{StreamIndex{1}, 1};
};

TEST_F(SpaceTest, APageWithLiveBytesIsOnOfferThroughItsOwnerAlone) {
  // Pages 0 and 3 side by side in the alias zone.
  space_.attach(pages_[0], Slot{alias_, 0});
  space_.attach(pages_[3], Slot{alias_, 1});
  EXPECT_EQ(offered(alias_), 4_MiB);
  space_.occupy(alias_, core::Run{0_B, 3_MiB}, kPool);
  space_.validate();
  EXPECT_EQ(offered(primary_), 4_MiB) << "pages 1 and 2";
  EXPECT_EQ(offered(alias_), 1_MiB) << "the rest of page 3, through its owner";
  EXPECT_EQ(space_.lendable_units(), 2U);
  space_.vacate(alias_, core::Run{0_B, 3_MiB}, stamp_);
  space_.validate();
  EXPECT_EQ(offered(primary_), 8_MiB);
  EXPECT_EQ(offered(alias_), 4_MiB);
}

TEST_F(SpaceTest, NeighboursShareAPageAndItsLiveBytesAddUp) {
  space_.occupy(primary_, core::Run{0_B, 3_MiB}, kPool);
  space_.occupy(primary_, core::Run{3_MiB, 2_MiB}, kPool);
  EXPECT_EQ(space_.page(pages_[1]).live_bytes, (2_MiB).value);
  EXPECT_EQ(space_.used_page_bytes(), 6_MiB);
  EXPECT_EQ(space_.partly_used_pages(), 1U);
  space_.vacate(primary_, core::Run{0_B, 3_MiB}, stamp_);
  EXPECT_EQ(space_.page(pages_[1]).live_bytes, (1_MiB).value);
  EXPECT_EQ(space_.partly_used_pages(), 2U);
  space_.validate();
}

TEST_F(SpaceTest, WithheldPagesAreNowhereOnOffer) {
  space_.attach(pages_[1], Slot{alias_, 0});
  space_.withhold(pages_[1]);
  space_.validate();
  EXPECT_EQ(offered(alias_), 0_B);
  EXPECT_EQ(offered(primary_), 6_MiB);
  EXPECT_EQ(space_.zone(primary_).runs.count(), 2U);
  space_.offer(pages_[1]);
  EXPECT_EQ(offered(alias_), 2_MiB);
  EXPECT_EQ(space_.zone(primary_).runs.count(), 1U);
}

TEST_F(SpaceTest, PinnedPagesServeTheirPoolAlone) {
  const ZoneIndex theirs = space_.add_zone(DeviceAddr{3ULL << 32}, 1_GiB, kOther, ZoneRole::kAlias);
  space_.attach(pages_[2], Slot{theirs, 0});
  space_.occupy(theirs, core::Run{0_B, 1_MiB}, kOther);
  space_.pin(pages_[2], kOther);
  EXPECT_EQ(space_.held_by(kOther), 2_MiB);
  space_.vacate(theirs, core::Run{0_B, 1_MiB}, stamp_);
  space_.validate();
  EXPECT_EQ(offered(theirs), 2_MiB);
  EXPECT_EQ(offered(primary_), 6_MiB);
  EXPECT_EQ(space_.lendable_units(), 3U);
  space_.unpin_all(kOther);
  space_.validate();
  EXPECT_EQ(offered(primary_), 8_MiB);
}

TEST_F(SpaceTest, StampsGoWhenOneOwnerCoversThePage) {
  space_.occupy(primary_, core::Run{0_B, 3_MiB}, kPool);
  space_.vacate(primary_, core::Run{0_B, 3_MiB}, stamp_);
  EXPECT_EQ(space_.page(pages_[0]).stamps.size(), 1U);
  space_.occupy(primary_, core::Run{0_B, 3_MiB}, kPool);
  EXPECT_TRUE(space_.page(pages_[0]).stamps.empty());
  EXPECT_EQ(space_.page(pages_[1]).stamps.size(), 1U) << "a part of it is still anybody's";
}

TEST_F(SpaceTest, PagesOfSeveralUnitsAreHiddenAndShownWhole) {
  const PageIndex large = space_.add_page(HandleId{9}, 4, kPool);
  space_.attach(large, Slot{primary_, 4});
  space_.attach(large, Slot{alias_, 0});
  space_.occupy(primary_, core::Run{10_MiB, 1_MiB}, kPool);
  space_.validate();
  EXPECT_EQ(offered(alias_), 0_B);
  EXPECT_EQ(space_.used_page_bytes(), 8_MiB);
  space_.vacate(primary_, core::Run{10_MiB, 1_MiB}, stamp_);
  EXPECT_EQ(offered(alias_), 8_MiB);
}

using SpaceDeathTest = SpaceTest;
TEST_F(SpaceDeathTest, AZoneHoldsAPageAtMostOnce) {
  space_.attach(pages_[0], Slot{alias_, 0});
  EXPECT_DEATH(space_.attach(pages_[0], Slot{alias_, 1}), "twice into one zone");
}

TEST_F(SpaceDeathTest, TheOwningSlotStays) {
  space_.occupy(primary_, core::Run{0_B, 1_MiB}, kPool);
  EXPECT_DEATH(space_.detach(pages_[0], Slot{primary_, 0}), "owning slot");
}

}  // namespace
}  // namespace levee::core
