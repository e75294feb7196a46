// Prompt and deferred zones over the same pages, against a list of live blocks and nothing else.
#include "allocator/core/zone_runs.h"

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/core/space.h"

namespace levee::core {
namespace {

constexpr PoolIndex kPool = kDefaultPool;
constexpr Bytes kGrain = 512_KiB;  // of blocks; a unit has four

/// A space, and what it should offer: worked out from the blocks each time.
class Model {
 public:
  struct Live {
    ZoneIndex zone;
    core::Run run;
  };

  explicit Model(std::uint32_t seed) : random_(seed), space_(2_MiB) {
    add_zone(ZoneRole::kPrimary);
    for (int i = 0; i < 60; ++i) {
      const std::uint32_t units = below(5) == 0 ? 2 : 1;
      const PageIndex page = space_.add_page(HandleId{std::uint64_t(i) + 1}, units, kPool);
      pages_.push_back(page);
      attach(page, zones_[0]);
    }
    for (int i = 0; i < 5; ++i) add_zone(i == 4 ? ZoneRole::kFormer : ZoneRole::kAlias);
  }

  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
  Space& space() { return space_; }
  ZoneIndex any_zone() { return zones_[below(static_cast<std::uint32_t>(zones_.size()))]; }
  ZoneIndex primary() const { return zones_[0]; }
  ZoneIndex deferred_zone() {
    return zones_[1 + below(static_cast<std::uint32_t>(zones_.size() - 1))];
  }

  void attach(PageIndex page, ZoneIndex zone) {
    if (space_.page(page).mapping_in(zone) != nullptr) return;
    const auto end = static_cast<std::uint32_t>(space_.zone(zone).slots.size());
    space_.attach(page, Slot{zone, end}, /*usable=*/below(30) != 0);
  }
  void attach_some() {
    const ZoneIndex zone = deferred_zone();
    for (int i = 0; i < 10; ++i) attach(any_page(), zone);
  }
  void detach_one() {
    const PageIndex page = any_page();
    const ZoneIndex zone = deferred_zone();
    const Mapping* mapping = space_.page(page).mapping_in(zone);
    if (mapping == nullptr || space_.page(page).owner == zone) return;
    space_.detach(page, mapping->slot);
  }
  void withhold_or_offer() {
    const PageIndex page = any_page();
    if (space_.page(page).withheld != 0) return space_.offer(page);
    if (space_.page(page).is_wholly_free()) space_.withhold(page);
  }
  void toggle_usable() {
    const PageIndex page = any_page();
    const ZoneIndex zone = deferred_zone();
    const Mapping* mapping = space_.page(page).mapping_in(zone);
    if (mapping == nullptr || space_.page(page).owner == zone) return;
    space_.set_usable(page, zone, !mapping->usable);
  }

  /// A piece of one of the zone's runs is taken.
  void occupy(ZoneIndex zone) {
    const std::vector<core::Run> runs = expected(zone);
    if (runs.empty()) return;
    const core::Run run = runs[below(static_cast<std::uint32_t>(runs.size()))];
    const auto grains = static_cast<std::uint32_t>(run.size / kGrain);
    const std::uint32_t first = below(grains);
    const std::uint32_t count = 1 + below(std::min(grains - first, 24U));
    const core::Run taken{run.begin + kGrain * first, kGrain * count};
    space_.occupy(zone, taken, kPool);
    live_.push_back(Live{zone, taken});
  }
  void vacate() {
    if (live_.empty()) return;
    std::swap(live_[below(static_cast<std::uint32_t>(live_.size()))], live_.back());
    const Live gone = live_.back();
    live_.pop_back();
    space_.vacate(gone.zone, gone.run, Stamp{StreamIndex{1}, 1});
  }
  void change_role() {
    const ZoneIndex zone = any_zone();
    const bool deferred = space_.zone(zone).runs.is_deferred();
    space_.move_zone(zone, kPool, deferred ? ZoneRole::kPrimary : ZoneRole::kFormer);
  }

  std::vector<core::Run> expected(ZoneIndex index) const {
    const Zone& zone = space_.zone(index);
    const std::uint64_t per_unit = space_.unit() / kGrain;
    std::vector<bool> free(zone.slots.size() * per_unit, false);
    for (std::uint64_t g = 0; g < free.size(); ++g) {
      const PageIndex page = zone.slots[g / per_unit];
      if (page.is_none() || space_.page(page).withheld != 0) continue;
      if (!space_.page(page).mapping_in(index)->usable) continue;
      const ZoneIndex owner = owner_of(page);
      free[g] = owner.is_none() || owner == index;
    }
    for (const Live& live : live_) {
      if (live.zone != index) continue;
      for (std::uint64_t g = live.run.begin / kGrain; kGrain * g < live.run.end(); ++g) {
        free[g] = false;
      }
    }
    std::vector<core::Run> runs;
    for (std::uint64_t g = 0; g < free.size(); ++g) {
      if (!free[g]) continue;
      if (runs.empty() || runs.back().end() != kGrain * g) runs.push_back({kGrain * g, 0_B});
      runs.back().size += kGrain;
    }
    return runs;
  }

  /// The two questions that a deferred zone answers as it is, asked in any order.
  void check_answers(ZoneIndex index) {
    const std::vector<core::Run> runs = expected(index);
    const ZoneRuns& have = space_.zone(index).runs;
    for (int i = 0; i < 8; ++i) {
      const Bytes size = kGrain * (1 + below(48));
      std::optional<core::Run> best;
      for (const core::Run& run : runs) {
        if (run.size >= size && (!best || run.size < best->size)) best = run;
      }
      ASSERT_EQ(have.best_run(size), best) << size.value;
      if (best) {
        ASSERT_TRUE(have.may_have(size)) << "the bound is too low";
      }
      Bytes at = kGrain * below(160);
      if (i % 2 == 0) at = space_.unit() * space_.zone(index).slots.size();
      if (i % 4 == 1 && !runs.empty()) {
        at = runs[below(static_cast<std::uint32_t>(runs.size()))].end();
      }
      std::optional<core::Run> ends;
      for (const core::Run& run : runs) {
        if (run.end() == at) ends = run;
      }
      ASSERT_EQ(have.run_ending_at(at), ends) << at.value;
    }
  }
  void check(ZoneIndex index) {
    if (below(2) == 0) {
      ASSERT_NO_FATAL_FAILURE(check_answers(index));
    }
    const std::vector<core::Run> runs = expected(index);
    const ZoneRuns& have = space_.zone(index).runs;
    Bytes longest{};
    for (const core::Run& run : runs) longest = std::max(longest, run.size);
    ASSERT_TRUE(have.may_have(longest)) << "the bound is too low";
    ASSERT_EQ(have.count(), runs.size());
    for (std::size_t i = 0; i < runs.size(); ++i) ASSERT_EQ(have.at(i), runs[i]);
    ASSERT_EQ(have.longest(), longest);
    ASSERT_FALSE(have.may_have(longest + 1_B)) << "after a look the bound is exact";
  }
  void check_all() {
    for (ZoneIndex zone : zones_) check(zone);
  }

 private:
  void add_zone(ZoneRole role) {
    zones_.push_back(space_.add_zone(DeviceAddr{(zones_.size() + 1) << 32}, 2_GiB, kPool, role));
  }
  PageIndex any_page() { return pages_[below(static_cast<std::uint32_t>(pages_.size()))]; }
  ZoneIndex owner_of(PageIndex page) const {
    for (const Live& live : live_) {
      const Mapping* mapping = space_.page(page).mapping_in(live.zone);
      if (mapping == nullptr) continue;
      const Bytes begin = space_.unit() * mapping->slot.unit;
      if (live.run.begin < begin + space_.page_bytes(page) && begin < live.run.end()) {
        return live.zone;
      }
    }
    return ZoneIndex{};
  }

  std::mt19937 random_;
  Space space_;
  std::vector<ZoneIndex> zones_;
  std::vector<PageIndex> pages_;
  std::vector<Live> live_;
};

// Reads are rare, so that changes pile up in between; `expected` reads nothing of the runs.
TEST(ZoneRuns, BothKindsAgreeWithTheListOfBlocksWheneverTheyAreRead) {
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    Model model(seed);
    for (int i = 0; i < 4000; ++i) {
      const std::uint32_t what = model.below(100);
      if (what < 44) {
        model.occupy(model.below(4) == 0 ? model.deferred_zone() : model.primary());
      } else if (what < 88) {
        model.vacate();
      } else if (what < 91) {
        model.withhold_or_offer();
      } else if (what < 93) {
        model.toggle_usable();
      } else if (what < 95) {
        model.attach_some();
      } else if (what < 97) {
        model.detach_one();
      } else if (what < 98) {
        model.change_role();
      } else {
        model.space().validate();
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", operation " << i);
        if (model.below(2) == 0) {
          ASSERT_NO_FATAL_FAILURE(model.check_answers(model.any_zone()));
        } else if (model.below(3) == 0) {
          ASSERT_NO_FATAL_FAILURE(model.check_all());
        } else {
          ASSERT_NO_FATAL_FAILURE(model.check(model.any_zone()));
        }
        model.space().validate();
      }
    }
  }
}

class DeferredTest : public testing::Test {
 protected:
  DeferredTest() : space_(2_MiB) {
    primary_ = space_.add_zone(DeviceAddr{1ULL << 32}, 1_GiB, kPool, ZoneRole::kPrimary);
    alias_ = space_.add_zone(DeviceAddr{2ULL << 32}, 1_GiB, kPool, ZoneRole::kAlias);
    for (std::uint32_t i = 0; i < 8; ++i) {
      pages_[i] = space_.add_page(HandleId{i + 1}, 1, kPool);
      space_.attach(pages_[i], Slot{primary_, i});
      if (i % 2 == 0) space_.attach(pages_[i], Slot{alias_, i / 2});
    }
  }
  const ZoneRuns& runs() const { return space_.zone(alias_).runs; }

  Space space_;
  ZoneIndex primary_;
  ZoneIndex alias_;
  PageIndex pages_[8];
  const Stamp stamp_{StreamIndex{1}, 1};
};

TEST_F(DeferredTest, WhatChangesIsToldWithTheNextRead) {
  space_.occupy(primary_, core::Run{0_B, 2_MiB}, kPool);
  EXPECT_TRUE(runs().bits().is_set(0)) << "not told yet";
  EXPECT_FALSE(runs().may_have(8_MiB + 1_B));
  EXPECT_FALSE(runs().bits().is_set(0)) << "any read tells";
  EXPECT_EQ(runs().longest(), 6_MiB);
}

TEST_F(DeferredTest, APageThatIsFreeAgainCostsNothing) {
  EXPECT_EQ(runs().longest(), 8_MiB);
  space_.occupy(primary_, core::Run{0_B, 2_MiB}, kPool);
  space_.vacate(primary_, core::Run{0_B, 2_MiB}, stamp_);
  space_.tell_deferred();
  EXPECT_TRUE(runs().bits().is_set(0));
  space_.validate();
}

TEST_F(DeferredTest, APageThatWentFromOneZoneToAnotherIsOnOfferThereAlone) {
  space_.occupy(alias_, core::Run{0_B, 1_MiB}, kPool);
  EXPECT_EQ(runs().total(), 7_MiB);
  space_.vacate(alias_, core::Run{0_B, 1_MiB}, stamp_);
  space_.occupy(primary_, core::Run{0_B, 1_MiB}, kPool);
  space_.validate();
  EXPECT_EQ(runs().total(), 6_MiB);
  EXPECT_EQ(space_.zone(primary_).runs.total(), 15_MiB);
}

TEST_F(DeferredTest, APinnedPageIsOnOfferNowhereElseHoweverLateItIsTold) {
  constexpr PoolIndex kOther{1};
  const ZoneIndex theirs =
      space_.add_zone(DeviceAddr{3ULL << 32}, 1_GiB, kOther, ZoneRole::kPrimary);
  space_.attach(pages_[0], Slot{theirs, 0});
  EXPECT_EQ(runs().total(), 8_MiB);
  space_.occupy(theirs, core::Run{0_B, 1_MiB}, kOther);
  space_.pin(pages_[0], kOther);
  space_.vacate(theirs, core::Run{0_B, 1_MiB}, stamp_);
  space_.validate();
  EXPECT_EQ(runs().total(), 6_MiB);
  space_.unpin_all(kOther);
  space_.validate();
  EXPECT_EQ(runs().total(), 8_MiB);
}

TEST_F(DeferredTest, TheBoundKeepsUpWithBytesBesideSlots) {
  // Half of slot 1 stays free beside slots 2 and 3, and none of it is told.
  space_.occupy(alias_, core::Run{2_MiB, 1_MiB}, kPool);
  EXPECT_EQ(runs().longest(), 5_MiB);
  EXPECT_FALSE(runs().may_have(5_MiB + 1_B));
  space_.occupy(primary_, core::Run{0_B, 2_MiB}, kPool);
  EXPECT_EQ(runs().longest(), 5_MiB);
  space_.vacate(primary_, core::Run{0_B, 2_MiB}, stamp_);
  space_.vacate(alias_, core::Run{2_MiB, 1_MiB}, stamp_);
  EXPECT_TRUE(runs().may_have(8_MiB));
  EXPECT_EQ(runs().longest(), 8_MiB);
}

TEST_F(DeferredTest, TheBoundCountsSlotsOnBothSidesOfBytesThatComeBack) {
  space_.occupy(alias_, core::Run{2_MiB, 1_MiB}, kPool);
  space_.occupy(alias_, core::Run{3_MiB, 1_MiB}, kPool);
  EXPECT_EQ(runs().longest(), 4_MiB) << "slots 2 and 3";
  space_.vacate(alias_, core::Run{3_MiB, 1_MiB}, stamp_);
  EXPECT_TRUE(runs().may_have(5_MiB)) << "and half of slot 1 before them";
  space_.occupy(alias_, core::Run{3_MiB, 3_MiB}, kPool);
  EXPECT_EQ(runs().longest(), 2_MiB);
  space_.vacate(alias_, core::Run{2_MiB, 1_MiB}, stamp_);
  EXPECT_TRUE(runs().may_have(3_MiB)) << "half of slot 1 behind slot 0";
  EXPECT_EQ(runs().longest(), 3_MiB);
}

TEST_F(DeferredTest, TheBoundCountsSlotsBehindBytesThatTheNewOnesJoin) {
  space_.occupy(alias_, core::Run{2_MiB, 1_MiB}, kPool);
  space_.occupy(alias_, core::Run{3_MiB, 512_KiB}, kPool);
  space_.occupy(alias_, core::Run{3_MiB + 512_KiB, 512_KiB}, kPool);
  space_.vacate(alias_, core::Run{3_MiB + 512_KiB, 512_KiB}, stamp_);
  EXPECT_EQ(runs().longest(), 4_MiB + 512_KiB) << "before slots 2 and 3";
  space_.vacate(alias_, core::Run{3_MiB, 512_KiB}, stamp_);
  EXPECT_TRUE(runs().may_have(5_MiB)) << "which these touch through the others alone";
  space_.validate();
}

// Alias zones come as long as no two requests want the same pages; no count of them may begin anew.
TEST(ZoneRuns, APageInVeryManyZonesIsHiddenFromAllOfThem) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the search for each zone among the page's takes very long";
#endif
  constexpr std::uint32_t kZones = 1U << 16;  // with the primary one more than a count of 16 bits
  Space space(2_MiB);
  const PageIndex page = space.add_page(HandleId{1}, 1, kPool);
  const auto add = [&](ZoneRole role) {
    const DeviceAddr base{(space.zone_end() + 1ULL) << 21};
    const ZoneIndex zone = space.add_zone(base, 2_MiB, kPool, role);
    space.attach(page, Slot{zone, 0});
    return zone;
  };
  const ZoneIndex primary = add(ZoneRole::kPrimary);
  ZoneIndex alias;
  for (std::uint32_t i = 0; i < kZones; ++i) alias = add(ZoneRole::kAlias);
  EXPECT_EQ(space.zone(alias).runs.total(), 2_MiB);
  space.occupy(primary, core::Run{0_B, 2_MiB}, kPool);
  EXPECT_EQ(space.zone(alias).runs.total(), 0_B) << "handed out twice";
  space.vacate(primary, core::Run{0_B, 2_MiB}, Stamp{StreamIndex{1}, 1});
  EXPECT_EQ(space.zone(alias).runs.total(), 2_MiB);
}

TEST_F(DeferredTest, TheListOfWhatIsUntoldNamesNoPageTwiceAndNoneThatIsGone) {
  // Nobody reads for long: the list is checked to name each page once.
  for (int i = 0; i < 1000; ++i) {
    space_.occupy(primary_, core::Run{0_B, 16_MiB}, kPool);
    space_.vacate(primary_, core::Run{0_B, 16_MiB}, stamp_);
  }
  space_.validate();
  space_.withhold(pages_[0]);
  space_.detach(pages_[0], Slot{primary_, 0});
  space_.detach(pages_[0], Slot{alias_, 0});
  space_.offer(pages_[0]);
  space_.remove_page(pages_[0]);
  space_.validate();
  // The same index for another page, which is in no deferred zone.
  EXPECT_EQ(space_.add_page(HandleId{9}, 1, kPool), pages_[0]);
  space_.attach(pages_[0], Slot{primary_, 0});
  space_.validate();
  EXPECT_EQ(runs().total(), 6_MiB);
  EXPECT_EQ(space_.zone(primary_).runs.total(), 16_MiB);
}

using DeferredDeathTest = DeferredTest;

TEST_F(DeferredDeathTest, BytesOfAPageThatAnotherZoneOwnsAreNotTaken) {
  space_.occupy(primary_, core::Run{0_B, 1_MiB}, kPool);
  EXPECT_DEATH(space_.occupy(alias_, core::Run{1_MiB, 1_MiB}, kPool), "not free");
}

}  // namespace
}  // namespace levee::core
