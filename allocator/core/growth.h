// Where new pages go, and whether they may be made: pure decisions.
//
// A pool's new pages fill empty slots of its primary zone first, then extend its end, wherever the
// fewest pages make a run that is long enough. Nothing is changed here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <levee/config.h>
#include <levee/units.h>

#include "allocator/core/space.h"

namespace levee::core {

/// A stretch of empty slots to be filled, or the zone's end to be extended.
struct FillStretch {
  std::uint32_t first_unit = 0;
  std::uint32_t units = 0;
};

struct GrowthPlan {
  ZoneIndex zone;
  std::vector<FillStretch> stretches;  ///< by address; at least one
  std::uint32_t units = 0;             ///< sum
  std::uint32_t largest_page = 1;      ///< most units that one page may have
  bool is_first = false;               ///< made before anything was given back: see `page_sizes`

  bool empty() const { return units == 0; }
};

/// Whether free bytes on a page may be a part of what is wanted. An empty function accepts all.
using PageFilter = std::function<bool(const Page&)>;

/// The fewest new units that give the zone a free run of `bytes` from a multiple of `alignment` on.
/// Empty if the zone's address range cannot hold it.
GrowthPlan plan_growth(const Space& space, ZoneIndex zone, Bytes bytes, Bytes alignment = 1_B,
                       const PageFilter& accepts = {});

/// `units` new units at the zone's lowest empty slots and its end, wherever they fall. Empty if the
/// range is full.
GrowthPlan plan_fill(const Space& space, ZoneIndex zone, std::uint32_t units);

/// The pages, in units, that a stretch is made of: powers of two, none above `largest` or a quarter
/// of the stretch, the small ones at its ends, where the blocks in it are most likely to end. While
/// nothing was given back yet (`is_first`) blocks lie one behind the other and no end of one is an
/// end of free memory: the largest as far as they go.
std::vector<std::uint32_t> page_sizes(std::uint32_t units, std::uint32_t largest,
                                      bool is_first = false);

/// Most units that a page of new memory may have when so much is reserved. What is made first (a
/// model's weights) mostly stays, and no stitch needs its pages: it gets larger ones earlier.
std::uint32_t largest_page_for(Bytes reserved, Bytes unit, const Config& config,
                               bool is_first = false);

}  // namespace levee::core
