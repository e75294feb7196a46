#include "allocator/core/growth.h"

#include <algorithm>
#include <bit>

namespace levee::core {
namespace {

// A maximal stretch of a zone in which every slot is empty or a free run continues across it:
// filling its empty slots would make it one free run.
struct Chain {
  std::uint64_t begin = 0;  // bytes
  std::uint64_t end = 0;
  std::vector<FillStretch> empty;
};

// Free runs (of accepted pages) and empty stretches by address, joined where they touch. The last
// chain also holds the room behind the zone's end, as an empty stretch.
std::vector<Chain> chains_of(const Space& space, const Zone& zone, const PageFilter& accepts) {
  const std::uint64_t unit = space.unit().value;
  std::vector<Chain> chains;
  std::size_t run = 0;
  const std::uint64_t limit = zone.range_bytes.value / unit;
  const auto add = [&](std::uint64_t begin, std::uint64_t end, bool is_empty) {
    if (chains.empty() || chains.back().end != begin) chains.push_back(Chain{begin, begin, {}});
    chains.back().end = end;
    if (is_empty) {
      chains.back().empty.push_back(FillStretch{static_cast<std::uint32_t>(begin / unit),
                                                static_cast<std::uint32_t>((end - begin) / unit)});
    }
  };
  const auto add_run = [&](std::uint64_t begin, std::uint64_t end) {
    if (!accepts) return add(begin, end, false);
    for (std::uint64_t at = begin; at < end;) {
      const std::uint64_t next = std::min(end, (at / unit + 1) * unit);
      if (accepts(space.page(zone.slots[at / unit]))) add(at, next, false);
      at = next;
    }
  };
  const auto runs_below = [&](std::uint64_t offset) {
    while (run < zone.runs.count() && zone.runs.at(run).begin.value < offset) {
      add_run(zone.runs.at(run).begin.value, zone.runs.at(run).end().value);
      ++run;
    }
  };
  if (zone.filled < zone.slots.size()) {
    for (std::uint64_t u = 0; u < zone.slots.size(); ++u) {
      if (!zone.slots[u].is_none()) continue;
      std::uint64_t v = u;
      while (v < zone.slots.size() && zone.slots[v].is_none()) ++v;
      runs_below(u * unit);
      add(u * unit, v * unit, true);
      u = v;
    }
  }
  runs_below(zone.slots.size() * unit);
  if (zone.slots.size() < limit) add(zone.slots.size() * unit, limit * unit, true);
  return chains;
}

// Fewest empty units inside [begin, begin + bytes) over every window of the chain that starts at
// its begin, or right behind a byte that is not on offer: windows that start at an empty stretch's
// boundaries or the chain's start, or end at such a boundary, are enough.
struct Window {
  std::uint64_t begin = 0;
  std::uint32_t units = 0;
};

std::uint32_t empty_units_in(const Chain& chain, std::uint64_t begin, std::uint64_t end,
                             std::uint64_t unit) {
  std::uint32_t units = 0;
  for (const FillStretch& stretch : chain.empty) {
    const std::uint64_t first = std::max<std::uint64_t>(stretch.first_unit, begin / unit);
    const std::uint64_t last = std::min<std::uint64_t>(
        std::uint64_t{stretch.first_unit} + stretch.units, (end + unit - 1) / unit);
    if (first < last) units += static_cast<std::uint32_t>(last - first);
  }
  return units;
}

std::optional<Window> best_window(const Chain& chain, std::uint64_t bytes, std::uint64_t unit,
                                  std::uint64_t alignment) {
  if (chain.end - chain.begin < bytes) return std::nullopt;
  std::optional<Window> best;
  const auto consider = [&](std::uint64_t unaligned) {
    const std::uint64_t begin = (unaligned + alignment - 1) / alignment * alignment;
    if (begin < chain.begin || begin + bytes > chain.end) return;
    const Window window{begin, empty_units_in(chain, begin, begin + bytes, unit)};
    if (!best || window.units < best->units) best = window;
  };
  consider(chain.begin);
  for (const FillStretch& stretch : chain.empty) {
    const std::uint64_t first = stretch.first_unit * unit;
    const std::uint64_t last = first + stretch.units * unit;
    consider(last);                             // starts behind the stretch
    if (last >= bytes) consider(last - bytes);  // ends with it
    if (first >= bytes) consider(first - bytes);
    consider(first);
  }
  return best;
}

GrowthPlan plan_window(ZoneIndex zone, const Chain& chain, std::uint64_t begin, std::uint64_t end,
                       std::uint64_t unit) {
  GrowthPlan plan;
  plan.zone = zone;
  for (const FillStretch& stretch : chain.empty) {
    const std::uint64_t first = std::max<std::uint64_t>(stretch.first_unit, begin / unit);
    const std::uint64_t last = std::min<std::uint64_t>(
        std::uint64_t{stretch.first_unit} + stretch.units, (end + unit - 1) / unit);
    if (first >= last) continue;
    plan.stretches.push_back(
        FillStretch{static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(last - first)});
    plan.units += static_cast<std::uint32_t>(last - first);
  }
  return plan;
}

}  // namespace

GrowthPlan plan_growth(const Space& space, ZoneIndex index, Bytes bytes, Bytes alignment,
                       const PageFilter& accepts) {
  const Zone& zone = space.zone(index);
  const std::uint64_t unit = space.unit().value;
  const Chain* best_chain = nullptr;
  std::optional<Window> best;
  const std::vector<Chain> chains = chains_of(space, zone, accepts);
  for (const Chain& chain : chains) {
    const std::optional<Window> window = best_window(chain, bytes.value, unit, alignment.value);
    if (window && window->units > 0 && (!best || window->units < best->units)) {
      best = window;
      best_chain = &chain;
    }
  }
  if (!best) return GrowthPlan{};
  return plan_window(index, *best_chain, best->begin, best->begin + bytes.value, unit);
}

GrowthPlan plan_fill(const Space& space, ZoneIndex index, std::uint32_t units) {
  const Zone& zone = space.zone(index);
  GrowthPlan plan;
  plan.zone = index;
  for (const Chain& chain : chains_of(space, zone, {})) {
    for (const FillStretch& stretch : chain.empty) {
      if (plan.units == units) return plan;
      const std::uint32_t take = std::min(stretch.units, units - plan.units);
      plan.stretches.push_back(FillStretch{stretch.first_unit, take});
      plan.units += take;
    }
  }
  return plan.units == units ? plan : GrowthPlan{};
}

std::vector<std::uint32_t> page_sizes(std::uint32_t units, std::uint32_t largest, bool is_first) {
  const std::uint32_t share = is_first ? units : units / 4;
  const std::uint32_t most = std::bit_floor(std::max(1U, std::min(largest, share)));
  std::vector<std::uint32_t> sizes;
  std::uint32_t rest = units;
  // Up: 1, 2, 4, ... below the largest; then the largest; then what remains, down.
  for (std::uint32_t size = 1; size < most && !is_first; size *= 2) {
    sizes.push_back(size);
    rest -= size;
  }
  for (std::uint32_t size = most; size > 0; size /= 2) {
    for (; rest >= size; rest -= size) sizes.push_back(size);
  }
  return sizes;
}

std::uint32_t largest_page_for(Bytes reserved, Bytes unit, const Config& config, bool is_first) {
  if (config.larger_pages_from.value == 0) return 1;
  // Pages of two units, the first step, cost the ratio nothing half as early, or from a sixteenth
  // on where memory is made for the first time: tried on the traces in README.
  const std::uint64_t pairs_from = config.larger_pages_from.value / (is_first ? 16 : 2);
  const std::uint64_t share = std::max<std::uint64_t>(
      2 * reserved.value / config.larger_pages_from.value, reserved.value >= pairs_from ? 2 : 1);
  const std::uint64_t most = std::max<std::uint64_t>(1, config.largest_page / unit);
  return static_cast<std::uint32_t>(std::bit_floor(std::clamp<std::uint64_t>(share, 1, most)));
}

}  // namespace levee::core
