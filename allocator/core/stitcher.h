// How wholly free pages are brought together when no free run is long enough: one interface, three
// ways.
//
//   alias  map them again, side by side, in an alias zone; nothing is unmapped (AliasStitcher)
//   move   unmap them where they are, map them at the new place (MoveStitcher)
//   none   never (NoStitcher): grow instead
//
// `plan` is a pure decision under the pool lock. The allocator then withholds the plan's pages,
// lets `prepare` and the mapper work with the lock released, and attaches the new slots. A plan
// names at most pages that the target zone does not hold (I13).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <levee/config.h>
#include <levee/units.h>

#include "allocator/core/placement.h"
#include "allocator/core/space.h"

namespace levee::core {

struct StitchPlan {
  bool needs_zone = false;  ///< a fresh alias zone, to be made by the caller
  ZoneIndex zone;           ///< to be extended, unless a fresh one is needed
  std::uint32_t first_unit = 0;
  std::vector<PageIndex> pages;  ///< in the order they are mapped
  std::uint32_t units = 0;       ///< of all pages together
  std::uint32_t missing = 0;     ///< units to be created: before this is done, or behind it
};

/// What a stitch may draw on and where it may go.
struct StitchRequest {
  Bytes bytes;
  Bytes alignment{1};  ///< of where they begin in their zone
  SearchScope scope;   ///< of the pool that asks
  PoolIndex pool;
  std::function<bool(const Page&)> accepts;  ///< pages that may be used; empty: all
};

class Stitcher {
 public:
  virtual ~Stitcher() = default;
  virtual StitchMode mode() const = 0;
  /// Units to map for a run of `bytes`. With `missing` > 0 the free pages do not suffice.
  virtual StitchPlan plan(const Space& space, const StitchRequest& request) const = 0;
  /// Whether the pages must leave their other slots first, once their last users are done.
  virtual bool unmaps_first() const = 0;
};

std::unique_ptr<Stitcher> make_stitcher(StitchMode mode);

}  // namespace levee::core
