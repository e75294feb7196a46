#include "allocator/core/rebase.h"

#include <algorithm>
#include <cmath>

namespace levee::core {
namespace {

// Chosen by the study in README: early, while a program still finds its shape, a rebase pays back
// soonest. Later nobody knows what comes: what stitching has cost is as much as a rebase costs
// before one is bought.
constexpr double kEarlyShare = 0.05;
constexpr double kLateShare = 1.0;
constexpr std::uint64_t kLeastAge = 3;
// Without marks nobody knows where the first step ends: a model that is built may ask for ten times
// the memory it then holds.
constexpr std::uint64_t kLeastAgeUnmarked = 10;

// What lives that long is part of the program: in eight steps nine of ten random blocks are gone
// even where a block lives for three steps on average.
constexpr std::uint64_t kStayingSteps = 8;

bool holds_old_block(const State& state, const Chunk& chunk, std::uint64_t steps) {
  for (const Slab* slab : chunk.slab_of_cell) {
    // Objects have no birth of their own: a slab that never got empty stands for its oldest.
    if (slab != nullptr && slab->live_count > 0 && state.age.is_old(slab->birth, steps))
      return true;
  }
  for (const BlockRecord* range : chunk.range_at) {
    if (range != nullptr && state.age.is_old(range->birth, steps)) return true;
  }
  return false;
}

std::vector<bool> pages_of_old_blocks(const State& state, std::uint64_t steps = Age::kOldSteps) {
  std::vector<bool> old(state.space.pages().end(), false);
  const auto mark = [&](ZoneIndex zone, Run run) {
    state.space.for_each_page(zone, run, [&](PageIndex page) { old[page.value] = true; });
  };
  for (std::uint32_t i = 0; i < state.space.zone_end(); ++i) {
    if (!state.space.is_zone(i)) continue;
    const Zone& zone = state.space.zone(ZoneIndex{i});
    if (zone.slots.empty()) continue;
    state.blocks.for_each(
        zone.base, state.space.unit() * zone.slots.size(),
        [&](const BlockRecord& block) {
          if (state.age.is_old(block.birth, steps)) mark(zone.index, block.run(zone.base));
        },
        [&](const Chunk& chunk) {
          if (holds_old_block(state, chunk, steps))
            mark(zone.index, Run{chunk.zone_offset, kChunkBytes});
        });
  }
  return old;
}

bool may_be_mapped_again(const Page& page, const Pool& pool) {
  return page.units != 0 && !page.is_anchored() && page.withheld == 0 && page.pinned_to.is_none() &&
         page.holder == pool.index;
}

}  // namespace

bool is_rebase_due(const State& state, const Pool& pool) {
  const std::uint64_t age = state.age.now();
  const std::uint64_t least = state.age.steps() > 0 ? kLeastAge : kLeastAgeUnmarked;
  if (!state.config.rebase || age < least) return false;
  const double share = age <= Age::kWarmUpSteps ? kEarlyShare : kLateShare;
  // What two rebases did not cure, more of them will hardly: each next one has to be worth more.
  const double times = std::pow(4.0, std::max<std::uint32_t>(pool.rebase_count, 1) - 1);
  const std::uint64_t units = state.space.reserved() / state.space.unit();
  return static_cast<double>(pool.stitched_units) > times * share * static_cast<double>(units);
}

bool is_rebase_useful(const State& state, const Pool& pool, Bytes bytes) {
  if (pool.primary.is_none()) return false;
  const Zone& zone = state.space.zone(pool.primary);
  const Bytes longest = zone.runs.longest();
  if (longest >= bytes) return false;
  const std::vector<bool> old = pages_of_old_blocks(state);
  const Bytes unit = state.space.unit();
  const auto is_free = [&](std::size_t u) {
    return !zone.slots[u].is_none() && state.space.page(zone.slots[u]).is_wholly_free();
  };
  const auto is_old = [&](std::size_t u) {
    return !zone.slots[u].is_none() && old[zone.slots[u].value];
  };
  // Free stretches that touch a page of a long-lived block, the longest excepted: it is there
  // already.
  Bytes kept_apart{};
  for (std::size_t u = 0; u < zone.slots.size();) {
    if (!is_free(u)) {
      ++u;
      continue;
    }
    std::size_t v = u;
    while (v < zone.slots.size() && is_free(v)) ++v;
    const bool touches = (u > 0 && is_old(u - 1)) || (v < zone.slots.size() && is_old(v));
    const Bytes length = unit * (v - u);
    if (touches && length + unit * 2 <= longest) kept_apart += length;
    u = v;
  }
  return kept_apart * 2 >= bytes - longest;
}

std::vector<PageIndex> choose_rebase_pages(const State& state, const Pool& pool) {
  std::vector<bool> skip = pages_of_old_blocks(state);
  std::vector<PageIndex> order;
  const auto take = [&](PageIndex index) {
    if (skip[index.value] || !may_be_mapped_again(state.space.page(index), pool)) return;
    skip[index.value] = true;
    order.push_back(index);
  };
  for (PageIndex index : state.space.zone(pool.primary).slots) {
    if (!index.is_none()) take(index);
  }
  for (std::uint32_t i = 0; i < state.space.pages().end(); ++i) take(PageIndex{i});
  return order;
}

std::vector<PageIndex> choose_missing_pages(const State& state, const Pool& pool) {
  std::vector<PageIndex> missing;
  if (pool.primary.is_none()) return missing;
  const std::vector<bool> stays = pages_of_old_blocks(state, kStayingSteps);
  const auto is_for_small = [&](const Page& page) {
    return !pool.small_zone.is_none() && page.mapping_in(pool.small_zone) != nullptr;
  };
  for (std::uint32_t i = 0; i < state.space.pages().end(); ++i) {
    const Page& page = state.space.page(PageIndex{i});
    if (stays[i] || !may_be_mapped_again(page, pool) || is_for_small(page) ||
        page.mapping_in(pool.primary) != nullptr) {
      continue;
    }
    missing.push_back(PageIndex{i});
  }
  return missing;
}

}  // namespace levee::core
