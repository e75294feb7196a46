// The state of a recording at one point, as a value: what a keyframe holds.
#pragma once

#include <cstdint>
#include <vector>

#include <levee/event.h>
#include <levee/ids.h>
#include <levee/units.h>

namespace levee::record {

/// Memory of one device at one moment.
struct DeviceCounters {
  DeviceId device;
  Bytes reserved;
  Bytes allocated;
  Bytes active;  ///< allocated plus freed blocks that wait for recorded uses
  Bytes requested;
  Bytes limit;  ///< on reserved bytes; 0 = none
  bool is_exact =
      true;  ///< false after lost events, until the allocator says what is right (kCounters)
  friend bool operator==(const DeviceCounters&, const DeviceCounters&) = default;
};

struct LiveBlock {
  DeviceAddr addr;
  Bytes bytes;
  Bytes requested_bytes;
  LaneId lane;
  std::uint16_t pool = 0;
  ContextId context;
  Nanos allocated_at;
  bool has_uses = false;    ///< used on other streams: will wait after its free
  bool is_waiting = false;  ///< given back, waiting for a recorded use
  friend bool operator==(const LiveBlock&, const LiveBlock&) = default;
};

struct OpenPhase {
  std::uint32_t thread = 0;
  ContextId context;
  Nanos since;
  friend bool operator==(const OpenPhase&, const OpenPhase&) = default;
};

/// Everything that events before some point add up to. A file that has dropped its oldest blocks
/// starts with one.
struct TraceState {
  Nanos time;
  std::vector<DeviceCounters> devices;
  std::vector<LiveBlock> live;  ///< by address
  bool live_is_complete =
      true;  ///< false where there were too many live blocks, or events were lost
  std::vector<OpenPhase> phases;  ///< by thread, outermost first
  std::uint64_t step = 0;         ///< number of the step that runs; 0 = none was marked
};

}  // namespace levee::record
