// One contiguous address reservation, filled with slots from its start.
//
// A zone belongs to one pool and holds a page at most once. Its primary zone takes a pool's new
// pages at the end; alias zones hold pages that are mapped elsewhere as well; a former zone was
// primary before a rebase; a small zone, where memory allows, keeps pages for small blocks apart. A
// segment is a zone that one cudaMalloc backs: its pages are anchored. An empty slot is one whose
// page was given back; it is filled again before the end grows. Guarded by the pool lock.
#pragma once

#include <cstdint>
#include <vector>

#include <levee/units.h>

#include "allocator/core/ids.h"
#include "allocator/core/zone_runs.h"

namespace levee::core {

enum class ZoneRole : std::uint8_t { kNone, kPrimary, kSmall, kAlias, kFormer, kSegment };

struct Zone {
  ZoneIndex index;
  ZoneRole role = ZoneRole::kNone;  ///< kNone: this index is not in use
  PoolIndex pool;
  DeviceAddr base;
  Bytes range_bytes;      ///< of the reservation, or of the segment's slots
  DeviceAddr allocation;  ///< what cudaMalloc returned; null for reserved ranges
  Bytes allocation_bytes;
  std::vector<PageIndex> slots;  ///< by unit; none: empty. As long as the zone was ever filled
  std::uint32_t filled = 0;      ///< slots that are not empty
  ZoneRuns runs;

  DeviceAddr address(Bytes offset) const { return base + offset; }
  Bytes offset(DeviceAddr addr) const { return addr - base; }
  bool holds(DeviceAddr addr) const { return addr >= base && addr < base + range_bytes; }
};

}  // namespace levee::core
