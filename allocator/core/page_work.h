// Work on pages: making them, mapping them again, giving them back. The multi-step operations.
//
// Called with the growth mutex and a PoolGuard held; each opens a window in the guard for its
// device calls and closes it before it returns. Promises (P4): an operation either completes or
// leaves the space as it was; what neither completes nor can be taken back (a rollback call that
// fails as well) is kept and counted: a handle as a page without slots, a mapping as a slot that is
// never used, and both are tried again when pages are given back. Pages under work are withheld, so
// that no other thread can hand them out meanwhile. Nothing is unmapped before its last users are
// known to be done. Does not: decide what to make or to give back.
#pragma once

#include <cstdint>
#include <vector>

#include <levee/status.h>
#include <levee/units.h>

#include "allocator/core/growth.h"
#include "allocator/core/mapper.h"
#include "allocator/core/state.h"

namespace levee::core {

class PageWork {
 public:
  explicit PageWork(State& state) : state_(state), mapper_(state.device) {}

  /// What a zone's addresses have to suffice for. There may be hundreds of alias zones: as many
  /// times the memory of a large device is more than the driver has addresses for.
  enum class Reach : std::uint8_t { kWholeDevice, kPagesOfNow };
  /// Reserves addresses for a zone of the pool, `least` bytes if there are no more.
  Result<ZoneIndex> add_zone(PoolGuard& guard, Pool& pool, ZoneRole role, Bytes least,
                             Reach reach = Reach::kWholeDevice);

  struct Grown {
    Status status;
    std::uint32_t made = 0;  ///< units that the device had room for when it refused, or all
  };
  /// Creates the plan's pages and maps them.
  Grown grow(PoolGuard& guard, Pool& pool, const GrowthPlan& plan);
  /// Maps the plan's pages side by side; `plan` then says where. A fresh zone, if it wants one, has
  /// addresses for what the plan lacks as well.
  Status stitch(PoolGuard& guard, Pool& pool, StitchPlan& plan);
  /// Maps the pages, in order, into a fresh zone that becomes the pool's primary.
  Status rebase(PoolGuard& guard, Pool& pool, const std::vector<PageIndex>& order);
  /// Maps pages that the pool's primary zone does not hold behind its end.
  Status complete_primary(PoolGuard& guard, Pool& pool, const std::vector<PageIndex>& missing);
  /// One cudaMalloc for the pool.
  Status add_segment(PoolGuard& guard, Pool& pool, Bytes bytes);

  /// Waits for the last users of wholly free pages, unmaps them everywhere, gives the handles back.
  /// Returns the bytes that the device got. Pre: no capture is under way.
  Result<Bytes> give_back(PoolGuard& guard, std::vector<PageIndex> victims);
  /// Segments that nothing lives in, from all pools or one. Pre: no capture is under way.
  Result<Bytes> give_back_segments(PoolGuard& guard, PoolIndex only, Bytes at_least);
  /// Wholly free pages that may go, best ones first, of `only` or of every pool.
  std::vector<PageIndex> removable_pages(PoolIndex only) const;
  /// Waits until every stamp of the set is complete.
  Status quiesce(PoolGuard& guard, const StampSet& stamps);
  /// Waits until everything enqueued on the device so far is done.
  Status fence(PoolGuard& guard);
  /// Frees the address ranges of alias zones that hold nothing any more.
  void drop_empty_zones(PoolGuard& guard);
  /// At the allocator's end: everything unmapped, released and freed; failures are ignored.
  void tear_down(PoolGuard& guard);

 private:
  struct Stretch {
    ZoneIndex zone;
    std::uint32_t first_unit = 0;
    std::uint32_t units = 0;
  };
  std::vector<Stretch> stretches_of(const std::vector<PageIndex>& pages) const;
  /// Unmaps every slot of withheld pages. Those that could not be unmapped stay attached; returns
  /// the first refusal.
  Status unmap_everywhere(PoolGuard& guard, const std::vector<PageIndex>& pages);
  std::vector<StreamId> streams_with_memory() const;
  StampSet stamps_of(const std::vector<PageIndex>& pages) const;
  void attach(PageIndex page, Slot slot, bool usable);
  PageIndex adopt(HandleId handle, std::uint32_t units, PoolIndex pool);
  Grown grow_in_pages_of(PoolGuard& guard, Pool& pool, const GrowthPlan& plan,
                         std::uint32_t largest_page);
  Status map_behind(PoolGuard& guard, ZoneIndex zone, const std::vector<PageIndex>& order);
  Bytes bytes_of(const std::vector<PageIndex>& pages) const;
  void forget_zone(Pool& pool, ZoneIndex zone);

  State& state_;
  Mapper mapper_;
};

}  // namespace levee::core
