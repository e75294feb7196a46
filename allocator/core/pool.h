// Pools: the default one, and private ones for CUDA graphs and MemPool, with the regions that route
// requests to them.
//
// A pool has zones of its own over the common table of pages, and its own small blocks. A private
// pool is *captured* from its first allocation on a capturing stream until it is released: a
// graph's replay writes to its addresses whatever the allocator thinks, so its pages serve nobody
// else. Owns: the pools, their ids, use counts and settings. Guarded by the pool lock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include <levee/config.h>
#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/core/ids.h"
#include "allocator/core/placement.h"
#include "allocator/core/small_heap.h"

namespace levee::core {

struct Pool {
  Pool(PoolIndex pool_index, PoolId pool_id, Backing pool_backing, SmallRecords& records)
      : index(pool_index), id(pool_id), backing(pool_backing), small(records) {}

  PoolIndex index;
  PoolId id;
  Backing backing;                 ///< kPages or kSegments
  int use_count = 0;               ///< regions, graphs and MemPool objects that hold it
  std::uint16_t record_index = 0;  ///< number that the recorder gave it
  bool is_captured = false;
  bool is_released = false;  ///< use count went to 0; gone once nothing of it is live
  bool serves_others_on_oom = false;
  bool is_unsplit = false;       ///< each block gets pages of its own
  Bytes limit;                   ///< most bytes it may hold; 0: none
  std::uint64_t live_count = 0;  ///< blocks live or waiting
  Bytes active_bytes;            ///< of those
  ZoneIndex primary;
  ZoneIndex small_zone;    ///< pages for small blocks, apart from large ones; one of `others`
  Bytes small_refused_at;  ///< what was reserved when that zone could not grow; 0: it never failed
  Bytes refused_at;        ///< what was reserved when the device last made no page; 0: it did
  std::vector<ZoneIndex> others;  ///< alias, former and segment zones
  SmallHeap small;
  std::uint64_t stitched_units = 0;  ///< since the last rebase: what stitching costs
  std::uint32_t rebase_count = 0;

  bool is_private() const { return index != kDefaultPool; }
  SearchScope scope() const { return SearchScope{primary, others}; }
};

class PoolTable {
 public:
  PoolTable(Backing default_backing, SmallRecords& records);

  Pool& operator[](PoolIndex index) { return *pools_[index.value]; }
  const Pool& operator[](PoolIndex index) const { return *pools_[index.value]; }
  Pool& default_pool() { return *pools_[0]; }
  Pool* find(PoolId id);
  const Pool* find(PoolId id) const { return const_cast<PoolTable*>(this)->find(id); }
  Pool& find_or_add(PoolId id, Backing backing);
  /// Pre: nothing of it is live, its zones were moved away.
  void remove(PoolIndex index);

  std::uint32_t end() const { return static_cast<std::uint32_t>(pools_.size()); }
  bool is_pool(std::uint32_t i) const { return pools_[i] != nullptr; }

 private:
  SmallRecords& records_;
  std::vector<std::unique_ptr<Pool>> pools_;
  std::vector<std::uint32_t> free_;
  std::unordered_map<PoolId, PoolIndex> by_id_;
};

/// Where requests of some streams go: one begin_allocate_to_pool that has not ended.
struct Region {
  PoolId pool;
  std::function<bool(StreamId)> accepts;
};
/// Innermost last. Replaced, never changed, so that filters run without a lock on a list that
/// stays.
using RegionList = std::vector<Region>;

}  // namespace levee::core
