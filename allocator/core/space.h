// All zones over the one table of pages: who owns which page, and which bytes are on offer where.
//
// Owns: zones with their slots and free runs, the page table, and the counts of units by state.
// Promises: a byte is on offer in at most one zone that can hand it out without conflict: a page
// with live bytes is on offer through its owner alone (I7, I14); a zone holds a page once (I13); a
// page that is withheld or pinned to a captured pool is on offer nowhere, or in that pool alone
// (I16); no operation calls the device. Does not: choose where to place, order streams, or map.
// Guarded by the pool lock. Cost: `occupy` and `vacate` walk the pages under the bytes, about 2 ns
// each, and one more for a page with slots in deferred zones; plus one interval operation for each
// stretch of pages that is hidden or shown in a prompt zone that does not own it.
//
//   wholly free --occupy through slot s--> owned by s, other slots hidden
//        ^                                     |
//        +--- last live byte vacated: shown ---+
//
// Deferred zones (zone_runs.h) are told which pages are theirs to offer when one of them is read,
// all pages that changed since at once. What a page's deferred zones believe is one bit of the
// page, since none is told without the others: their bits change nowhere else.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/core/ids.h"
#include "allocator/core/page_table.h"
#include "allocator/core/stamp.h"
#include "allocator/core/zone.h"

namespace levee::core {

class Space {
 public:
  /// `unit` is the granularity of slots, 2 MiB on every device known so far. Pre: a power of two.
  explicit Space(Bytes unit);

  Bytes unit() const { return unit_; }
  std::uint32_t units_for(Bytes bytes) const {
    return static_cast<std::uint32_t>((bytes.value + unit_.value - 1) / unit_.value);
  }

  // Zones. References stay valid while zones are added.
  ZoneIndex add_zone(DeviceAddr base, Bytes range_bytes, PoolIndex pool, ZoneRole role);
  /// Pre: every slot is empty.
  void remove_zone(ZoneIndex index);
  Zone& zone(ZoneIndex index) { return *zones_[index.value]; }
  const Zone& zone(ZoneIndex index) const { return *zones_[index.value]; }
  std::uint32_t zone_end() const { return static_cast<std::uint32_t>(zones_.size()); }
  bool is_zone(std::uint32_t i) const { return zones_[i]->role != ZoneRole::kNone; }
  /// Gives a zone, with what is on offer in it, to another pool. Pre: no byte of it is live, or its
  /// pages are held by the new pool from now on.
  void move_zone(ZoneIndex index, PoolIndex pool, ZoneRole role);

  // Pages.
  PageIndex add_page(HandleId handle, std::uint32_t units, PoolIndex holder);
  /// Pre: wholly free, not mapped anywhere.
  void remove_page(PageIndex index);
  const Page& page(PageIndex index) const { return pages_[index]; }
  const PageTable& pages() const { return pages_; }
  Bytes page_bytes(PageIndex index) const { return unit_ * pages_[index].units; }

  // Slots.
  /// The page is now mapped at `first`. Fills the zone up to there with empty slots if it is
  /// shorter.
  void attach(PageIndex page, Slot first, bool usable = true);
  void detach(PageIndex page, Slot first);
  /// A mapping that a failed operation left half done is complete after all, or no longer.
  void set_usable(PageIndex page, ZoneIndex zone, bool usable);

  // Offer.
  /// Takes a wholly free page off every run until `offer`, so that work can be done on it unlocked.
  void withhold(PageIndex page);
  void offer(PageIndex page);
  /// Pages that count as held by `from` count as held by `to` from now on, and are pinned no more.
  void change_holder(PoolIndex from, PoolIndex to);
  /// From now on the page serves `pool` alone; `unpin_all` ends it.
  void pin(PageIndex page, PoolIndex pool);
  void unpin_all(PoolIndex pool);

  // Bytes.
  /// Hands out `run`. Pre: it is on offer in the zone, and its new owner's stream was ordered after
  /// every stamp of `for_each_stamp`. Pages that one block covers whole forget their stamps.
  /// Returns the bytes of pages that `pool` now holds and did not hold before.
  Bytes occupy(ZoneIndex zone, Run run, PoolIndex pool);
  void vacate(ZoneIndex zone, Run run, Stamp stamp) { vacate(zone, run, {&stamp, 1}); }
  void vacate(ZoneIndex zone, Run run, std::span<const Stamp> stamps);

  void add_stamp(PageIndex page, Stamp stamp) { pages_[page].stamps.add(stamp); }

  template <typename F>
  void for_each_page(ZoneIndex zone, Run run, F&& f) const {
    const Zone& z = *zones_[zone.value];
    std::uint64_t unit = first_unit(z, run);
    const std::uint64_t last = (run.end().value - 1) >> unit_log2_;
    while (unit <= last) {
      const PageIndex index = z.slots[unit];
      unit += pages_[index].units;
      f(index);
    }
  }
  template <typename F>
  void for_each_stamp(ZoneIndex zone, Run run, F&& f) const {
    for_each_page(zone, run, [&](PageIndex index) {
      for (Stamp stamp : pages_[index].stamps) f(stamp);
    });
  }

  /// Whether `f` says yes to every stamp of the run's pages; stops at the first no.
  template <typename F>
  bool all_stamps(ZoneIndex zone, Run run, F&& f) const {
    const Zone& z = *zones_[zone.value];
    const std::uint64_t last = (run.end().value - 1) >> unit_log2_;
    for (std::uint64_t unit = first_unit(z, run); unit <= last;) {
      const Page& page = pages_[z.slots[unit]];
      for (Stamp stamp : page.stamps) {
        if (!f(stamp)) return false;
      }
      unit += page.units;
    }
    return true;
  }

  // Counts, exact.
  Bytes reserved() const { return unit_ * reserved_units_; }
  /// Bytes of pages with live bytes on them.
  Bytes used_page_bytes() const { return unit_ * used_units_; }
  std::uint32_t partly_used_pages() const { return partly_used_pages_; }
  /// Wholly free pages that a stitch may take: on offer to all, mappable elsewhere.
  std::uint32_t lendable_units() const { return lendable_units_; }
  /// Bytes of pages that count as reserved by `pool`.
  Bytes held_by(PoolIndex pool) const {
    return pool.value < held_units_.size() ? unit_ * held_units_[pool.value] : 0_B;
  }

  /// Brings all deferred zones up to date; done by whoever reads one of them.
  void tell_deferred();

  /// Every invariant, including what is not told yet; tells nothing.
  void validate() const;

 private:
  // Where the page begins that the run's first byte is on. Those behind it begin where it ends.
  std::uint64_t first_unit(const Zone& zone, Run run) const {
    const std::uint64_t unit = run.begin.value >> unit_log2_;
    const Page& page = pages_[zone.slots[unit]];
    return page.units == 1 ? unit : page.mapping_in(zone.index)->slot.unit;
  }
  class Intervals;  // joins neighbouring intervals before they are hidden or shown

  bool is_visible(const Page& page, const Mapping& mapping) const;
  /// Once the page is not withheld.
  bool may_be_visible(const Page& page, const Mapping& mapping) const;
  void tell_prompt(const Page& page, ZoneIndex owner, Intervals& intervals) const;
  void tell_deferred(Page& page);
  // The page has changed between wholly free and in use, and has slots elsewhere.
  void on_change(PageIndex index, Page& page, const Zone& owner, Intervals& intervals);
  static std::uint8_t hearers_beside(const Zone& owner) {
    return Page::kDeferredUnlisted | (owner.runs.is_deferred() ? Page::kAPrompt : Page::kPrompts);
  }
  void list_untold(PageIndex index, Page& page);
  void count_prompt(Page& page) const;
  /// A wholly free page is on offer, or no longer, in all zones where it may be: in prompt ones at
  /// once.
  void show_page(PageIndex index, Page& page, bool shown);
  void show_slot(const Page& page, const Mapping& mapping, bool shown);
  void set_deferred(Zone& zone, bool is_deferred);
  bool is_lendable(const Page& page) const {
    return page.is_wholly_free() && is_lendable_if_free(page);
  }
  bool is_lendable_if_free(const Page& page) const { return page.withheld == 0 && !page.is_bound; }
  void set_pinned(Page& page, PoolIndex pool) {
    page.pinned_to = pool;
    page.is_bound = page.is_anchored() || !pool.is_none();
  }
  template <typename Part, typename Whole>
  void split(const Zone& zone, Run run, Part&& part, Whole&& whole) const;
  struct Taken;
  void take_part(Zone& zone, PageIndex index, Run part, Bytes page_end, PoolIndex pool,
                 Intervals& hidden, Taken& taken);
  std::uint64_t take_whole(const Zone& zone, std::uint64_t unit, std::uint64_t end, PoolIndex pool,
                           Intervals& hidden, Taken& taken);
  struct Given;
  std::uint64_t give_whole(const Zone& zone, std::uint64_t unit, std::uint64_t end,
                           std::span<const Stamp> stamps, Intervals& shown, Given& given);
  void give_part(Zone& zone, PageIndex index, Run part, Bytes page_end,
                 std::span<const Stamp> stamps, Intervals& shown, Given& given);
  void take_own(Zone& zone, const Page& page, Run part, Bytes page_end);
  void give_own(Zone& zone, const Page& page, Run part, Bytes page_end);
  void validate_slot(const Page& page, const Mapping& mapping) const;
  void set_holder(Page& page, PoolIndex pool);
  Run extent(const Page& page, const Mapping& mapping) const {
    return Run{unit_ * mapping.slot.unit, unit_ * page.units};
  }

  Bytes unit_;
  int unit_log2_;
  std::vector<std::unique_ptr<Zone>> zones_;
  std::vector<std::uint32_t> free_zones_;
  PageTable pages_;
  std::vector<PageIndex> untold_;          // pages whose deferred zones lag behind; room for all
  std::vector<std::uint64_t> held_units_;  // by pool
  std::uint64_t reserved_units_ = 0;
  std::uint64_t used_units_ = 0;
  std::uint32_t lendable_units_ = 0;
  std::uint32_t partly_used_pages_ = 0;
};

}  // namespace levee::core
