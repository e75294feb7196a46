#include "allocator/core/stitcher.h"

#include <algorithm>

#include "allocator/core/mutants.h"

namespace levee::core {
namespace {

bool may_take(const Page& page) {
  return page.units != 0 && page.is_wholly_free() && page.withheld == 0 && !page.is_anchored() &&
         page.pinned_to.is_none();
}

struct Picked {
  std::vector<PageIndex> pages;
  std::vector<std::size_t> run_begins;  // indices into `pages`: where those of another run begin
  std::uint32_t units = 0;
};

// Wholly free pages that `avoid` does not hold, until `units` are found: those on the longest runs
// of the primary zone first, then any other.
Picked pick_pages(const Space& space, const StitchRequest& request, ZoneIndex avoid,
                  std::uint32_t units) {
  const ZoneIndex primary = request.scope.primary;
  Picked picked;
  std::vector<bool> taken(space.pages().end(), false);
  const auto take = [&](PageIndex index) {
    const Page& page = space.page(index);
    if (taken[index.value] || !may_take(page)) return;
    if (request.accepts && !request.accepts(page)) return;
    if (!avoid.is_none() && page.mapping_in(avoid) != nullptr &&
        !mutated(Mutant::kPageTwiceInZone)) {
      return;
    }
    taken[index.value] = true;
    picked.pages.push_back(index);
    picked.units += page.units;
  };
  if (picked.units < units && !primary.is_none()) {
    const Zone& zone = space.zone(primary);
    std::vector<Run> runs;
    for (std::size_t i = 0; i < zone.runs.count(); ++i) {
      if (zone.runs.at(i).size >= space.unit()) runs.push_back(zone.runs.at(i));
    }
    std::stable_sort(runs.begin(), runs.end(),
                     [](const Run& a, const Run& b) { return a.size > b.size; });
    for (const Run& run : runs) {
      picked.run_begins.push_back(picked.pages.size());
      for (Bytes at = round_up(run.begin, space.unit()); at + space.unit() <= run.end();
           at += space.unit()) {
        if (picked.units >= units) return picked;
        take(zone.slots[at / space.unit()]);
      }
    }
  }
  picked.run_begins.push_back(picked.pages.size());
  for (std::uint32_t i = 0; i < space.pages().end() && picked.units < units; ++i) {
    take(PageIndex{i});
  }
  return picked;
}

// The same pages, those of the longest run last. What is free in short pieces today is in use next
// time; what is free in one piece mostly comes back, and at the end of the zone it can be
// completed.
std::vector<PageIndex> longest_last(const Picked& picked) {
  std::vector<PageIndex> pages;
  std::size_t end = picked.pages.size();
  for (std::size_t i = picked.run_begins.size(); i-- > 0;) {
    for (std::size_t k = picked.run_begins[i]; k < end; ++k) pages.push_back(picked.pages[k]);
    end = picked.run_begins[i];
  }
  return pages;
}

// Free bytes of accepted pages at the end of a zone, from a multiple of the alignment on.
Bytes usable_tail(const Space& space, const Zone& zone, const StitchRequest& request) {
  const Bytes end = space.unit() * zone.slots.size();
  const auto run = zone.runs.run_ending_at(end);
  if (!run) return 0_B;
  Bytes begin = run->begin;
  if (request.accepts) {
    begin = end;
    while (begin > run->begin) {
      const std::uint64_t unit = (begin - 1_B) / space.unit();
      if (!request.accepts(space.page(zone.slots[unit]))) break;
      begin = std::max(run->begin, space.unit() * unit);
    }
  }
  begin = round_up(begin, request.alignment);
  return begin < end ? end - begin : 0_B;
}

// The alias zone with the longest free run at its end, and that run's length.
ZoneIndex zone_to_extend(const Space& space, const StitchRequest& request, Bytes* tail) {
  ZoneIndex best;
  *tail = 0_B;
  for (ZoneIndex index : request.scope.others) {
    const Zone& zone = space.zone(index);
    if (zone.role != ZoneRole::kAlias || zone.slots.empty()) continue;
    const Bytes usable = usable_tail(space, zone, request);
    if (usable <= *tail || usable >= request.bytes) continue;
    best = index;
    *tail = usable;
  }
  return best;
}

class AliasStitcher final : public Stitcher {
 public:
  StitchMode mode() const override { return StitchMode::kAlias; }
  bool unmaps_first() const override { return false; }

  StitchPlan plan(const Space& space, const StitchRequest& request) const override {
    Bytes tail{};
    const ZoneIndex extended = zone_to_extend(space, request, &tail);
    if (!extended.is_none()) {
      const std::uint32_t need = space.units_for(request.bytes - tail);
      StitchPlan plan;
      plan.zone = extended;
      plan.first_unit = static_cast<std::uint32_t>(space.zone(extended).slots.size());
      const Picked picked = pick_pages(space, request, extended, need);
      plan.pages = longest_last(picked);
      plan.units = picked.units;
      // Beyond the zone's addresses, also where pages are larger than needed: a fresh zone. Another
      // one with a shorter tail was tried, and lost.
      const Bytes end = space.unit() * (plan.first_unit + plan.units);
      if (plan.units >= need &&
          (end <= space.zone(extended).range_bytes || mutated(Mutant::kStitchBeyondZone))) {
        return plan;
      }
    }
    const std::uint32_t need = space.units_for(request.bytes);
    StitchPlan plan;
    plan.needs_zone = true;
    const Picked picked = pick_pages(space, request, ZoneIndex{}, need);
    plan.pages = longest_last(picked);
    plan.units = picked.units;
    plan.missing = plan.units >= need ? 0 : need - plan.units;
    return plan;
  }
};

// Moves the pages into the gap of empty slots, or behind the end, of the pool's primary zone.
class MoveStitcher final : public Stitcher {
 public:
  StitchMode mode() const override { return StitchMode::kMove; }
  bool unmaps_first() const override { return true; }

  StitchPlan plan(const Space& space, const StitchRequest& request) const override {
    StitchPlan plan;
    plan.zone = request.scope.primary;
    Bytes tail{};
    Bytes tail_begin{};
    if (plan.zone.is_none()) {
      plan.needs_zone = true;
    } else {
      const Zone& zone = space.zone(plan.zone);
      const Bytes end = space.unit() * zone.slots.size();
      tail = usable_tail(space, zone, request);
      tail_begin = end - tail;
      plan.first_unit = static_cast<std::uint32_t>(zone.slots.size());
    }
    const std::uint32_t need = space.units_for(request.bytes - std::min(tail, request.bytes));
    const Picked all = pick_pages(space, request, ZoneIndex{}, space.lendable_units());
    // Pages of the run that is to be extended stay where they are.
    for (PageIndex index : all.pages) {
      if (plan.units >= need) break;
      const Mapping* here = plan.zone.is_none() ? nullptr : space.page(index).mapping_in(plan.zone);
      if (here != nullptr && tail.value != 0 && space.unit() * here->slot.unit >= tail_begin) {
        continue;
      }
      plan.pages.push_back(index);
      plan.units += space.page(index).units;
    }
    plan.missing = plan.units >= need ? 0 : need - plan.units;
    if (!plan.needs_zone &&
        space.unit() * (plan.first_unit + plan.units) > space.zone(plan.zone).range_bytes) {
      plan.needs_zone = true;  // the zone's addresses are used up
    }
    return plan;
  }
};

class NoStitcher final : public Stitcher {
 public:
  StitchMode mode() const override { return StitchMode::kNone; }
  bool unmaps_first() const override { return false; }
  StitchPlan plan(const Space& space, const StitchRequest& request) const override {
    StitchPlan plan;
    plan.needs_zone = true;
    plan.missing = space.units_for(request.bytes);
    return plan;
  }
};

}  // namespace

std::unique_ptr<Stitcher> make_stitcher(StitchMode mode) {
  switch (mode) {
    case StitchMode::kAlias:
      return std::make_unique<AliasStitcher>();
    case StitchMode::kMove:
      return std::make_unique<MoveStitcher>();
    case StitchMode::kNone:
      return std::make_unique<NoStitcher>();
  }
  return nullptr;
}

}  // namespace levee::core
