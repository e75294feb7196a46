// What memory looks like at one moment: every range held, cut into blocks that tile it without gap
// or overlap.
//
// A snapshot is a value; it holds no lock and no reference into the allocator. Aliases do not
// appear twice: a page that is mapped at several addresses is listed under the slot that owns it,
// or under its primary slot while it is free, so that the sum of `SnapshotSegment::bytes` that are
// mapped equals `reserved_bytes`.
#pragma once

#include <cstdint>
#include <vector>

#include <levee/ids.h>
#include <levee/stats.h>
#include <levee/units.h>

namespace levee {

enum class BlockState : std::uint8_t {
  kLive,     ///< handed out
  kWaiting,  ///< given back, but another stream's recorded use has not passed
  kFree,     ///< can be handed out
};

struct SnapshotBlock {
  DeviceAddr addr;
  Bytes bytes;            ///< after rounding
  Bytes requested_bytes;  ///< 0 unless live or waiting
  StreamId stream;        ///< of the allocation; for free bytes, of the last free
  BlockState state = BlockState::kFree;
  ContextId context;  ///< where it was allocated, if recorded
};

struct SnapshotSegment {
  DeviceAddr addr;
  Bytes bytes;      ///< sum of its blocks
  StreamId stream;  ///< of the first allocation in it
  PoolId pool;
  bool is_small = false;  ///< serves requests of up to 1 MiB
  bool is_pages = false;  ///< made of mapped pages (torch: "expandable"); else one cudaMalloc
  std::vector<SnapshotBlock> blocks;  ///< by address; tile [addr, addr + bytes)
};

struct Snapshot {
  DeviceId device;
  std::vector<SnapshotSegment> segments;
  Stats stats;  ///< taken at the same moment
};

}  // namespace levee
