#include "allocator/core/space.h"

#include <algorithm>
#include <bit>

#include "allocator/base/check.h"
#include "allocator/core/mutants.h"

namespace levee::core {

// Consecutive pages of one zone are mostly consecutive in another zone too, so hiding or showing
// them costs one operation on that zone's runs, not one for each page.
class Space::Intervals {
 public:
  Intervals(Space& space, bool show) : space_(space), show_(show) {}
  Intervals(const Intervals&) = delete;
  Intervals& operator=(const Intervals&) = delete;
  ~Intervals() {
    for (const Item& item : items_) apply(item);
  }

  void add(ZoneIndex zone, Run run) {
    for (std::size_t i = items_.size(); i-- > 0;) {
      Item& item = items_[i];
      if (item.zone != zone) continue;
      if (item.run.end() == run.begin) {
        item.run.size += run.size;
        return;
      }
      break;
    }
    if (items_.size() == kMost) {
      // The oldest is the least likely to grow.
      apply(items_.front());
      std::move(items_.begin() + 1, items_.end(), items_.begin());
      items_.pop_back();
    }
    items_.push_back(Item{zone, run});
  }

 private:
  struct Item {
    ZoneIndex zone;
    Run run;
  };
  static constexpr std::size_t kMost = 12;

  void apply(const Item& item) {
    RunIndex& runs = space_.zones_[item.zone.value]->runs.prompt();
    if (show_) {
      runs.insert(item.run);
    } else {
      runs.cut(item.run);
    }
  }

  Space& space_;
  bool show_;
  base::SmallVector<Item, kMost> items_;
};

namespace {
bool is_deferred(ZoneRole role) {
  return role == ZoneRole::kAlias || role == ZoneRole::kFormer;
}

// Where the counts would begin anew they stop, one below the other: a page with more slots than
// prompt ones has deferred zones to tell.
constexpr std::uint16_t kMostCounted = 0xFFFF;

void count_slot(Page& page, std::uint32_t mapping, bool is_prompt) {
  if (page.slot_count < kMostCounted) ++page.slot_count;
  if (is_prompt) {
    if (page.prompt_slots < kMostCounted - 1) ++page.prompt_slots;
    page.prompt_at = mapping;
  }
  page.note_hearers();
}
}  // namespace

Space::Space(Bytes unit) : unit_(unit), unit_log2_(std::countr_zero(unit.value)) {
  LEVEE_CHECK(std::has_single_bit(unit.value), "slots of ", unit, " bytes");
}

inline bool Space::may_be_visible(const Page& page, const Mapping& mapping) const {
  if (!mapping.usable) return false;
  if (page.pinned_to.is_none() || mutated(Mutant::kLendCaptured)) return true;
  return zones_[mapping.slot.zone.value]->pool == page.pinned_to;
}

bool Space::is_visible(const Page& page, const Mapping& mapping) const {
  return page.withheld == 0 && may_be_visible(page, mapping);
}

ZoneIndex Space::add_zone(DeviceAddr base, Bytes range_bytes, PoolIndex pool, ZoneRole role) {
  ZoneIndex index;
  if (free_zones_.empty()) {
    index.value = static_cast<std::uint32_t>(zones_.size());
    zones_.push_back(std::make_unique<Zone>());
  } else {
    index.value = free_zones_.back();
    free_zones_.pop_back();
  }
  Zone& zone = *zones_[index.value];
  zone = Zone{};
  zone.index = index;
  zone.role = role;
  zone.pool = pool;
  zone.base = base;
  zone.range_bytes = range_bytes;
  zone.runs = ZoneRuns(*this, untold_, is_deferred(role));
  return index;
}

void Space::remove_zone(ZoneIndex index) {
  Zone& zone = *zones_[index.value];
  LEVEE_CHECK_EQ(zone.filled, 0U, "a zone goes while pages are mapped in it");
  LEVEE_CHECK_EQ(zone.runs.count(), 0U);
  zone = Zone{};
  free_zones_.push_back(index.value);
}

void Space::move_zone(ZoneIndex index, PoolIndex pool, ZoneRole role) {
  Zone& zone = *zones_[index.value];
  // Pages that are pinned to a pool show in its zones alone.
  tell_deferred();
  zone.pool = pool;
  zone.role = role;
  set_deferred(zone, is_deferred(role));
}

void Space::set_deferred(Zone& zone, bool is_deferred) {
  if (zone.runs.is_deferred() == is_deferred) return;
  RunIndex held;
  if (is_deferred) {
    held = zone.runs.defer();
    zone.runs.cover(static_cast<std::uint32_t>(zone.slots.size()));
  } else {
    zone.runs.undefer();
  }
  std::size_t run = 0;
  for (std::uint64_t unit = 0; unit < zone.slots.size();) {
    if (zone.slots[unit].is_none()) {
      ++unit;
      continue;
    }
    Page& page = pages_[zone.slots[unit]];
    const Mapping mapping = *page.mapping_in(zone.index);
    const Run whole = extent(page, mapping);
    unit = mapping.slot.unit + page.units;
    count_prompt(page);
    if (!is_deferred) continue;
    page.is_shown_deferred = page.is_wholly_free() && page.withheld == 0;
    if (page.is_wholly_free()) {
      show_slot(page, mapping, page.is_shown_deferred);
      continue;
    }
    // What is free on a page in use is its owner's.
    while (run < held.count() && held.at(run).end() <= whole.begin) ++run;
    for (std::size_t i = run; i < held.count() && held.at(i).begin < whole.end(); ++i) {
      const Bytes begin = std::max(held.at(i).begin, whole.begin);
      const Bytes end = std::min(held.at(i).end(), whole.end());
      zone.runs.insert_own(Run{begin, end - begin});
    }
  }
}

PageIndex Space::add_page(HandleId handle, std::uint32_t units, PoolIndex holder) {
  const PageIndex index = pages_.add(handle, units, holder);
  Page& page = pages_[index];
  page.holder = PoolIndex{};
  set_holder(page, holder);
  reserved_units_ += units;
  if (is_lendable(page)) lendable_units_ += units;
  page.is_shown_deferred = true;  // of none
  untold_.reserve(pages_.end());
  return index;
}

void Space::remove_page(PageIndex index) {
  Page& page = pages_[index];
  LEVEE_CHECK(page.is_wholly_free(), "a page with live bytes goes");
  LEVEE_CHECK(page.mappings.empty(), "a mapped page goes");
  tell_deferred();  // the list must not name it any more
  if (is_lendable(page)) lendable_units_ -= page.units;
  reserved_units_ -= page.units;
  held_units_[page.holder.value] -= page.units;
  pages_.remove(index);
}

void Space::set_holder(Page& page, PoolIndex pool) {
  if (page.holder == pool) return;
  if (pool.value >= held_units_.size()) held_units_.resize(pool.value + 1, 0);
  if (!page.holder.is_none()) held_units_[page.holder.value] -= page.units;
  held_units_[pool.value] += page.units;
  page.holder = pool;
}

void Space::show_slot(const Page& page, const Mapping& mapping, bool shown) {
  if (shown && !is_visible(page, mapping)) return;
  ZoneRuns& runs = zones_[mapping.slot.zone.value]->runs;
  if (!runs.is_deferred()) {
    if (shown) {
      runs.prompt().insert(extent(page, mapping));
    } else if (is_visible(page, mapping)) {
      runs.prompt().cut(extent(page, mapping));
    }
  } else if (shown) {
    runs.show(mapping.slot.unit, page.units);
  } else {
    runs.hide(mapping.slot.unit, page.units);
  }
}

void Space::show_page(PageIndex index, Page& page, bool shown) {
  list_untold(index, page);
  if (page.prompt_slots == 1) return show_slot(page, page.mappings[page.prompt_at], shown);
  if (page.prompt_slots == 0) return;
  for (const Mapping& mapping : page.mappings) {
    if (zones_[mapping.slot.zone.value]->runs.is_deferred()) continue;
    show_slot(page, mapping, shown);
  }
}

void Space::count_prompt(Page& page) const {
  page.slot_count = 0;
  page.prompt_slots = 0;
  page.note_hearers();
  for (std::uint32_t i = 0; i < page.mappings.size(); ++i) {
    count_slot(page, i, !zones_[page.mappings[i].slot.zone.value]->runs.is_deferred());
  }
}

void Space::attach(PageIndex index, Slot first, bool usable) {
  Page& page = pages_[index];
  Zone& zone = *zones_[first.zone.value];
  if (!mutated(Mutant::kPageTwiceInZone)) {
    LEVEE_CHECK(page.mapping_in(first.zone) == nullptr, "a page is mapped twice into one zone");
  }
  const std::size_t end = std::size_t{first.unit} + page.units;
  if (zone.slots.size() < end) zone.slots.resize(end);
  for (std::size_t unit = first.unit; unit < end; ++unit) {
    LEVEE_CHECK(zone.slots[unit].is_none(), "slot ", unit, " is taken");
    zone.slots[unit] = index;
  }
  zone.filled += page.units;
  if (!page.is_untold) tell_deferred(page);
  page.mappings.push_back(Mapping{first, usable});
  count_slot(page, static_cast<std::uint32_t>(page.mappings.size() - 1), !zone.runs.is_deferred());
  if (!zone.runs.is_deferred()) {
    if (page.is_wholly_free()) show_slot(page, page.mappings.back(), /*shown=*/true);
    return;
  }
  zone.runs.cover(static_cast<std::uint32_t>(end));
  // As the others of its slots: where they lag behind they are told of together.
  if (page.is_shown_deferred && may_be_visible(page, page.mappings.back())) {
    zone.runs.show(first.unit, page.units);
  }
}

void Space::detach(PageIndex index, Slot first) {
  Page& page = pages_[index];
  Zone& zone = *zones_[first.zone.value];
  for (std::size_t i = 0; i < page.mappings.size(); ++i) {
    const Mapping mapping = page.mappings[i];
    if (mapping.slot != first) continue;
    LEVEE_CHECK(page.owner != first.zone, "the owning slot of a page with live bytes goes");
    tell_deferred(page);
    if (page.is_wholly_free()) show_slot(page, mapping, /*shown=*/false);
    page.mappings.erase_unordered(i);
    count_prompt(page);
    for (std::uint32_t unit = first.unit; unit < first.unit + page.units; ++unit) {
      zone.slots[unit] = PageIndex{};
    }
    zone.filled -= page.units;
    while (!zone.slots.empty() && zone.slots.back().is_none()) zone.slots.pop_back();
    return;
  }
  LEVEE_UNREACHABLE("the page has no mapping at unit ", first.unit);
}

void Space::set_usable(PageIndex index, ZoneIndex zone_index, bool usable) {
  Page& page = pages_[index];
  for (Mapping& mapping : page.mappings) {
    if (mapping.slot.zone != zone_index || mapping.usable == usable) continue;
    tell_deferred(page);
    if (page.is_wholly_free()) show_slot(page, mapping, /*shown=*/false);
    mapping.usable = usable;
    if (page.is_wholly_free()) show_slot(page, mapping, /*shown=*/true);
  }
}

void Space::withhold(PageIndex index) {
  Page& page = pages_[index];
  LEVEE_CHECK(page.is_wholly_free(), "a page with live bytes cannot be withheld");
  if (page.withheld == 0) {
    if (is_lendable(page)) lendable_units_ -= page.units;
    show_page(index, page, /*shown=*/false);
  }
  ++page.withheld;
}

void Space::offer(PageIndex index) {
  Page& page = pages_[index];
  LEVEE_CHECK_GT(page.withheld, 0U);
  if (--page.withheld > 0) return;
  if (is_lendable(page)) lendable_units_ += page.units;
  show_page(index, page, /*shown=*/true);
}

void Space::pin(PageIndex index, PoolIndex pool) {
  Page& page = pages_[index];
  if (page.pinned_to == pool) return;
  LEVEE_CHECK(page.pinned_to.is_none(), "a page is pinned to two pools");
  LEVEE_CHECK(!page.is_wholly_free(), "a page is pinned before anything lives on it");
  tell_deferred(page);  // they would not hear of it once it is free again
  set_pinned(page, pool);
}

void Space::unpin_all(PoolIndex pool) {
  for (std::uint32_t i = 0; i < pages_.end(); ++i) {
    Page& page = pages_[PageIndex{i}];
    if (page.units == 0 || page.pinned_to != pool) continue;
    if (!page.is_wholly_free()) {
      tell_deferred(page);
      set_pinned(page, PoolIndex{});
      continue;
    }
    withhold(PageIndex{i});
    tell_deferred(page);  // those of the pool, as long as they are told apart
    set_pinned(page, PoolIndex{});
    offer(PageIndex{i});
  }
}

void Space::change_holder(PoolIndex from, PoolIndex to) {
  unpin_all(from);
  for (std::uint32_t i = 0; i < pages_.end(); ++i) {
    Page& page = pages_[PageIndex{i}];
    if (page.units != 0 && page.holder == from) set_holder(page, to);
  }
}

void Space::list_untold(PageIndex index, Page& page) {
  if ((page.hearers & Page::kDeferredUnlisted) == 0) return;
  page.is_untold = true;
  page.note_hearers();
  untold_.push_back(index);
}

void Space::on_change(PageIndex index, Page& page, const Zone& owner, Intervals& intervals) {
  list_untold(index, page);
  if ((page.hearers & hearers_beside(owner) & ~Page::kDeferredUnlisted) != 0) {
    tell_prompt(page, owner.index, intervals);
  }
}

// Hiding or showing a page that has just changed between free and in use, wherever else it is
// mapped in prompt zones.
void Space::tell_prompt(const Page& page, ZoneIndex owner, Intervals& intervals) const {
  if (mutated(Mutant::kNoAliasHide)) return;
  const auto tell = [&](const Mapping& mapping) {
    if (mapping.slot.zone == owner || !is_visible(page, mapping)) return;
    intervals.add(mapping.slot.zone, extent(page, mapping));
  };
  if (page.prompt_slots == 1) return tell(page.mappings[page.prompt_at]);
  for (const Mapping& mapping : page.mappings) {
    if (!zones_[mapping.slot.zone.value]->runs.is_deferred()) tell(mapping);
  }
}

void Space::tell_deferred(Page& page) {
  const bool shown = page.is_wholly_free() && page.withheld == 0;
  if (page.is_shown_deferred == shown) return;
  page.is_shown_deferred = shown;
  const std::uint32_t units = page.units;
  for (const Mapping& mapping : page.mappings) {
    ZoneRuns& runs = zones_[mapping.slot.zone.value]->runs;
    if (!runs.is_deferred()) continue;
    if (!shown) {
      if (!mutated(Mutant::kNoAliasHide)) runs.hide(mapping.slot.unit, units);
    } else if (may_be_visible(page, mapping)) {
      runs.show(mapping.slot.unit, units);
    }
  }
}

void Space::tell_deferred() {
  for (PageIndex index : untold_) {
    Page& page = pages_[index];
    page.is_untold = false;
    page.note_hearers();
    tell_deferred(page);
  }
  untold_.clear();
}

// In a deferred zone the bytes of a page that it owns are kept beside the bits of its slots.
void Space::take_own(Zone& zone, const Page& page, Run part, Bytes page_end) {
  if (page.live_bytes != 0) return zone.runs.cut_own(part);
  const Bytes page_begin = page_end - unit_ * page.units;
  zone.runs.insert_own(Run{page_begin, part.begin - page_begin});
  zone.runs.insert_own(Run{part.end(), page_end - part.end()});
}

void Space::give_own(Zone& zone, const Page& page, Run part, Bytes page_end) {
  if (page.live_bytes != 0) return zone.runs.insert_own(part);
  const Bytes page_begin = page_end - unit_ * page.units;
  zone.runs.cut_own(Run{page_begin, part.begin - page_begin});
  zone.runs.cut_own(Run{part.end(), page_end - part.end()});
}

// ---- The two below are where a large block spends its time, page by page. Only the first and the
// last page can be covered in part; those between change from free to full and back.

// `part(page, piece, page_end)` for the first and the last page where the run covers a piece of
// them, and between the two `whole(unit, end)` for what is covered from `unit` on, up to the page
// that ends beyond `end`; it returns where it stopped.
template <typename Part, typename Whole>
void Space::split(const Zone& zone, Run run, Part&& part, Whole&& whole) const {
  const PageIndex* slots = zone.slots.data();
  const std::uint64_t last_unit = run.end().value >> unit_log2_;  // the first that is not full
  std::uint64_t unit = first_unit(zone, run);
  Bytes at = run.begin;
  const auto split_off = [&] {
    const PageIndex index = slots[unit];
    unit += pages_[index].units;
    const Bytes page_end = Bytes{unit << unit_log2_};
    part(index, Run{at, std::min(page_end, run.end()) - at}, page_end);
    at = page_end;
  };
  if (at.value != unit << unit_log2_) split_off();
  unit = whole(unit, last_unit);
  at = std::max(at, Bytes{unit << unit_log2_});
  if (at < run.end()) split_off();
}

struct Space::Taken {
  std::uint32_t held = 0;  // units that the pool did not hold before
  std::uint32_t used = 0;
  std::uint32_t lent = 0;  // units that no stitch may take any more
};

Bytes Space::occupy(ZoneIndex zone_index, Run run, PoolIndex pool) {
  Zone& zone = *zones_[zone_index.value];
  if (!zone.runs.is_deferred()) zone.runs.prompt().cut(run);
  Taken taken;
  Intervals hidden(*this, /*show=*/false);
  split(
      zone, run,
      [&](PageIndex index, Run part, Bytes page_end) {
        take_part(zone, index, part, page_end, pool, hidden, taken);
      },
      [&](std::uint64_t unit, std::uint64_t end) {
        return take_whole(zone, unit, end, pool, hidden, taken);
      });
  lendable_units_ -= taken.lent;
  used_units_ += taken.used;
  return unit_ * taken.held;
}

// Pages from `unit` on, wholly free, that end below `end`. Returns where they end.
std::uint64_t Space::take_whole(const Zone& zone, std::uint64_t unit, std::uint64_t end,
                                PoolIndex pool, Intervals& hidden, Taken& taken) {
  const std::uint8_t hearers = hearers_beside(zone);
  const ZoneIndex owner = zone.index;
  const PageIndex* slots = zone.slots.data();
  Page* const pages = &pages_[PageIndex{0}];  // in a register: what is stored below is not it
  const int unit_log2 = unit_log2_;
  const std::uint64_t first = unit;
  std::uint32_t bound = 0;
  while (unit < end) {
    const PageIndex index = slots[unit];
    Page& page = pages[index.value];
    const std::uint32_t units = page.units;
    if (unit + units > end) break;
    LEVEE_DCHECK_EQ(page.live_bytes, 0U, "a page in use is on offer as a whole");
    LEVEE_DCHECK_EQ(page.withheld, 0U, "a withheld page was on offer");
    unit += units;
    page.live_bytes = std::uint64_t{units} << unit_log2;
    page.owner = owner;
    // One owner over the whole page, ordered after all earlier ones: whoever comes after this owner
    // is ordered after them as well.
    page.stamps.clear();
    if (page.is_bound) [[unlikely]]
      bound += units;
    if (page.holder != pool) [[unlikely]] {
      set_holder(page, pool);
      taken.held += units;
    }
    if ((page.hearers & hearers) != 0) on_change(index, page, zone, hidden);
  }
  const auto whole = static_cast<std::uint32_t>(unit - first);
  taken.used += whole;
  taken.lent += whole - bound;
  return unit;
}

void Space::take_part(Zone& zone, PageIndex index, Run part, Bytes page_end, PoolIndex pool,
                      Intervals& hidden, Taken& taken) {
  Page& page = pages_[index];
  if (zone.runs.is_deferred()) take_own(zone, page, part, page_end);
  const std::uint64_t live = page.live_bytes;
  page.live_bytes = live + part.size.value;
  const bool is_full = page.live_bytes == unit_.value * page.units;
  if (live != 0) {
    if (is_full) --partly_used_pages_;
    return;
  }
  LEVEE_DCHECK_EQ(page.withheld, 0U, "a withheld page was on offer");
  taken.used += page.units;
  if (!page.is_bound) taken.lent += page.units;
  page.owner = zone.index;
  if (page.holder != pool) {
    set_holder(page, pool);
    taken.held += page.units;
  }
  if (!is_full) ++partly_used_pages_;
  on_change(index, page, zone, hidden);
}

struct Space::Given {
  std::uint32_t unused = 0;
  std::uint32_t lendable = 0;
};

void Space::vacate(ZoneIndex zone_index, Run run, std::span<const Stamp> stamps) {
  Zone& zone = *zones_[zone_index.value];
  if (mutated(Mutant::kNoStamp)) stamps = {};
  Given given;
  {
    Intervals shown(*this, /*show=*/true);
    split(
        zone, run,
        [&](PageIndex index, Run part, Bytes page_end) {
          give_part(zone, index, part, page_end, stamps, shown, given);
        },
        [&](std::uint64_t unit, std::uint64_t end) {
          return give_whole(zone, unit, end, stamps, shown, given);
        });
  }
  lendable_units_ += given.lendable;
  used_units_ -= given.unused;
  if (!zone.runs.is_deferred()) zone.runs.prompt().insert(run);
}

// The reverse of `take_whole`.
std::uint64_t Space::give_whole(const Zone& zone, std::uint64_t unit, std::uint64_t end,
                                std::span<const Stamp> stamps, Intervals& shown, Given& given) {
  const std::uint8_t hearers = hearers_beside(zone);
  const PageIndex* slots = zone.slots.data();
  Page* const pages = &pages_[PageIndex{0}];  // in a register: what is stored below is not it
  const int unit_log2 = unit_log2_;
  const bool is_lone = stamps.size() == 1;
  const Stamp lone = is_lone ? stamps[0] : Stamp{};
  const std::uint64_t first = unit;
  std::uint32_t bound = 0;
  while (unit < end) {
    const PageIndex index = slots[unit];
    Page& page = pages[index.value];
    const std::uint32_t units = page.units;
    if (unit + units > end) break;
    LEVEE_DCHECK_EQ(page.live_bytes, std::uint64_t{units} << unit_log2,
                    "more bytes given back than were handed out");
    unit += units;
    page.live_bytes = 0;
    page.owner = ZoneIndex{};
    if (is_lone && page.stamps.empty()) [[likely]] {
      page.stamps.add_first(lone);
    } else {
      page.stamps.add_all(stamps);
    }
    if (!is_lendable_if_free(page)) [[unlikely]]
      bound += units;
    if ((page.hearers & hearers) != 0) on_change(index, page, zone, shown);
  }
  const auto whole = static_cast<std::uint32_t>(unit - first);
  given.unused += whole;
  given.lendable += whole - bound;
  return unit;
}

void Space::give_part(Zone& zone, PageIndex index, Run part, Bytes page_end,
                      std::span<const Stamp> stamps, Intervals& shown, Given& given) {
  Page& page = pages_[index];
  LEVEE_DCHECK_GE(page.live_bytes, part.size.value, "more bytes given back than were handed out");
  page.stamps.add_all(stamps);
  const bool was_full = page.live_bytes == unit_.value * page.units;
  page.live_bytes -= part.size.value;
  if (zone.runs.is_deferred()) give_own(zone, page, part, page_end);
  if (page.live_bytes != 0) {
    if (was_full) ++partly_used_pages_;
    return;
  }
  if (!was_full) --partly_used_pages_;
  given.unused += page.units;
  page.owner = ZoneIndex{};
  if (is_lendable_if_free(page)) given.lendable += page.units;
  on_change(index, page, zone, shown);
}

// Whether a deferred zone was told of a slot, or will be.
void Space::validate_slot(const Page& page, const Mapping& mapping) const {
  const Zone& zone = *zones_[mapping.slot.zone.value];
  const bool shown = page.is_shown_deferred && may_be_visible(page, mapping);
  for (std::uint32_t unit = mapping.slot.unit; unit < mapping.slot.unit + page.units; ++unit) {
    LEVEE_CHECK_EQ(zone.runs.bits().is_set(unit), shown, "slot ", unit, " of zone ",
                   zone.index.value, " is not as it was told");
  }
  if (page.is_shown_deferred != (page.is_wholly_free() && page.withheld == 0)) {
    LEVEE_CHECK(page.is_untold, "a page changed and nobody will tell zone ", zone.index.value);
  }
}

void Space::validate() const {
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;
  std::uint64_t lendable = 0;
  std::uint32_t partly = 0;
  std::size_t untold = 0;
  std::vector<std::uint64_t> held(held_units_.size(), 0);
  for (std::uint32_t i = 0; i < pages_.end(); ++i) {
    const Page& page = pages_[PageIndex{i}];
    if (page.units == 0) continue;
    const std::uint64_t page_size = page.units * unit_.value;
    LEVEE_CHECK_LE(page.live_bytes, page_size, "page ", i, " holds more than its size");
    reserved += page.units;
    held[page.holder.value] += page.units;
    if (page.live_bytes != 0) used += page.units;
    if (page.live_bytes != 0 && page.live_bytes != page_size) ++partly;
    if (is_lendable(page)) lendable += page.units;
    LEVEE_CHECK_EQ(page.live_bytes == 0, page.owner.is_none(), "page ", i, " and its owner");
    if (page.is_untold) ++untold;
    std::uint32_t prompt = 0;
    for (const Mapping& mapping : page.mappings) {
      if (!zones_[mapping.slot.zone.value]->runs.is_deferred()) ++prompt;
    }
    const auto slots = std::min<std::size_t>(page.mappings.size(), kMostCounted);
    const auto prompt_slots = std::min<std::uint32_t>(prompt, kMostCounted - 1);
    LEVEE_CHECK_EQ(prompt_slots, page.prompt_slots, "slots of page ", i, " in prompt zones");
    LEVEE_CHECK_EQ(slots, page.slot_count, "slots of page ", i);
    Page fresh = page;
    fresh.note_hearers();
    LEVEE_CHECK_EQ(fresh.hearers, page.hearers, "who hears of page ", i);
    LEVEE_CHECK_EQ(page.is_bound, page.is_anchored() || !page.pinned_to.is_none(), "page ", i);
    if (prompt == 1) {
      const ZoneIndex zone = page.mappings[page.prompt_at].slot.zone;
      LEVEE_CHECK(!zones_[zone.value]->runs.is_deferred(), "page ", i, " and its prompt zone");
    }
    if (!page.owner.is_none()) {
      const Mapping* owner = page.mapping_in(page.owner);
      LEVEE_CHECK(owner != nullptr && owner->usable, "page ", i, " is owned by no slot of it");
    }
    for (std::size_t a = 0; a < page.mappings.size(); ++a) {
      const Mapping& mapping = page.mappings[a];
      const Zone& zone = *zones_[mapping.slot.zone.value];
      for (std::size_t b = 0; b < a; ++b) {
        LEVEE_CHECK(page.mappings[b].slot.zone != mapping.slot.zone, "page ", i,
                    " is mapped twice into zone ", mapping.slot.zone.value);
      }
      for (std::uint32_t u = 0; u < page.units; ++u) {
        LEVEE_CHECK(zone.slots.at(mapping.slot.unit + u) == PageIndex{i}, "slot and page ", i,
                    " disagree");
      }
      // On offer where, and only where, it may be.
      const Run whole = extent(page, mapping);
      if (zone.runs.is_deferred()) {
        validate_slot(page, mapping);
      } else if (page.is_wholly_free()) {
        const bool offered = zone.runs.contains(whole);
        LEVEE_CHECK_EQ(offered, is_visible(page, mapping), "page ", i, " on offer in zone ",
                       mapping.slot.zone.value);
      } else if (mapping.slot.zone != page.owner) {
        for (std::size_t r = 0; r < zone.runs.count(); ++r) {
          const Run run = zone.runs.at(r);
          LEVEE_CHECK(run.end() <= whole.begin || whole.end() <= run.begin, "page ", i,
                      " has live bytes and is on offer through another slot");
        }
      }
    }
  }
  for (std::uint32_t zi = 0; zi < zones_.size(); ++zi) {
    const Zone& zone = *zones_[zi];
    if (zone.role == ZoneRole::kNone) continue;
    zone.runs.validate();
    std::uint32_t filled = 0;
    for (std::size_t unit = 0; unit < zone.slots.size(); ++unit) {
      if (zone.slots[unit].is_none()) continue;
      ++filled;
      const Page& page = pages_[zone.slots[unit]];
      LEVEE_CHECK(page.mapping_in(zone.index) != nullptr, "slot ", unit, " of a page not mapped");
    }
    LEVEE_CHECK_EQ(filled, zone.filled, "filled slots of zone ", zi);
    LEVEE_CHECK_LE(zone.slots.size() * unit_.value, zone.range_bytes.value, "zone ", zi);
    // Free bytes on the pages that this zone owns or offers are exactly its runs; those on the
    // pages that a deferred zone owns are its own bytes.
    const bool is_deferred = zone.runs.is_deferred();
    std::uint64_t free_bytes = 0;
    for (std::size_t unit = 0; unit < zone.slots.size();) {
      const PageIndex index = zone.slots[unit];
      if (index.is_none()) {
        ++unit;
        continue;
      }
      const Page& page = pages_[index];
      const Mapping* mapping = page.mapping_in(zone.index);
      if (page.owner == zone.index ||
          (!is_deferred && page.is_wholly_free() && is_visible(page, *mapping))) {
        free_bytes += page.units * unit_.value - page.live_bytes;
      }
      unit += page.units;
    }
    LEVEE_CHECK_EQ(free_bytes, (is_deferred ? zone.runs.own().total() : zone.runs.total()).value,
                   "free bytes of zone ", zi);
    if (!is_deferred) continue;
    for (std::size_t r = 0; r < zone.runs.own().count(); ++r) {
      for_each_page(zone.index, zone.runs.own().at(r), [&](PageIndex index) {
        LEVEE_CHECK(pages_[index].owner == zone.index, "zone ", zi, " has bytes of page ",
                    index.value, ", which it does not own");
      });
    }
  }
  LEVEE_CHECK_EQ(untold, untold_.size(), "pages to tell of");
  for (PageIndex index : untold_) LEVEE_CHECK(pages_[index].is_untold, "a page is listed twice");
  LEVEE_CHECK_EQ(reserved, reserved_units_, "units reserved");
  LEVEE_CHECK_EQ(used, used_units_, "units used");
  LEVEE_CHECK_EQ(lendable, lendable_units_, "units lendable");
  LEVEE_CHECK_EQ(partly, partly_used_pages_, "pages partly used");
  for (std::size_t p = 0; p < held.size(); ++p) {
    LEVEE_CHECK_EQ(held[p], held_units_[p], "units held by pool ", p);
  }
}

}  // namespace levee::core
