// One block that was handed out from a run: large ones, and small ones above 16 KiB.
//
// Owned by the allocator's arena; found by address in the block map. Blocks from slabs have no
// record of their own (see small_heap.h) unless they wait. Guarded by the pool lock.
//
//   live --free, no other stream used it--------------------------> free (record gone)
//   live --free, used on other streams--> waiting --uses passed---> free (record gone)
#pragma once

#include <cstdint>

#include <levee/ids.h>
#include <levee/snapshot.h>
#include <levee/units.h>

#include "allocator/base/small_vector.h"
#include "allocator/core/age.h"
#include "allocator/core/ids.h"
#include "allocator/core/predictor.h"
#include "allocator/core/run_index.h"
#include "allocator/core/stamp.h"

namespace levee::core {

struct Chunk;

enum class BlockKind : std::uint8_t {
  kLarge,     ///< bytes of a zone's runs
  kFragment,  ///< a small block in a zone's runs, since no page for small blocks was to be had
  kRange,     ///< bytes of a chunk
  kObject,    ///< an object of a slab; has a record only while it waits
};

struct BlockRecord {
  DeviceAddr addr;
  Bytes bytes;  ///< allocated: requested, rounded up to 512 B
  Bytes requested;
  Bytes span;  ///< bytes taken from the zone or chunk; >= bytes
  BlockKind kind = BlockKind::kLarge;
  BlockState state = BlockState::kLive;
  PoolIndex pool;
  StreamIndex stream;
  ZoneIndex zone;
  ContextId context;
  Chunk* chunk = nullptr;  ///< kRange, kObject
  /// Live: streams that also use it. Waiting: stamps that must be complete before it is free.
  base::SmallVector<StreamIndex, 2> uses;
  StampSet pending;
  Stamp freed;        ///< waiting: its own stream, when it was given back
  Stamp filed_under;  ///< waiting: the stamp whose stream's list it is in
  BlockRecord* next_waiting = nullptr;
  BlockRecord* next_fragment = nullptr;  ///< kFragment: the next one that begins in its granule
  Age::Moment birth;
  Predictor::Ticket* ticket = nullptr;  ///< of the predictor; large blocks alone

  Run run(DeviceAddr zone_base) const { return Run{addr - zone_base, span}; }
};

}  // namespace levee::core
