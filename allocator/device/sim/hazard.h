// What the judge can find wrong with a program, as values.
#pragma once

#include <cstdint>
#include <string>

#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/device/sim/call_kind.h"

namespace levee::device::sim {

enum class JudgeRule : std::uint8_t;  // judge_rule.h

enum class HazardKind : std::uint8_t {
  kMapOverMapping,  ///< map onto an address that has a mapping
  kBadUnmap,        ///< unmap of what is not mapped, or of a part of a mapping
  kBadRelease,  ///< release of a handle or of memory that is none (a second release, for instance)
  kBadRange,    ///< free of an address range that is none, of a part of one, or while something is
                ///< mapped in it
  kBadMap,      ///< map of a dead handle, of a wrong size, or outside of a reserved range
  kBadAccess,   ///< set_access on what is not mapped as a whole
  kTouchUnmapped,       ///< bytes used where nothing is mapped
  kTouchWithoutAccess,  ///< bytes used where the mapping gives the stream's device no access
  kUnorderedUse,        ///< two streams on the same physical bytes, no order between them
  kAliasUse,   ///< the same physical bytes through two addresses, the first use not complete when
               ///< the second runs
  kLiveTwice,  ///< physical bytes handed out while they have an owner
  kGraphOverLive,  ///< a graph's replay writes bytes that have another owner
  kUnmapInUse,     ///< mapping removed, or memory freed, before its last user was known to be done
  kLeak,           ///< a handle, range or allocation still held when the model is shut down
  kBlockingUnderLock,  ///< a call that may wait for the device, made while the thread holds a pool
                       ///< lock
  kCallAfterShutdown,
  kEndlessWait,    ///< the host waits for something that does not complete
  kForeignStream,  ///< a stream or event id that is none, or was destroyed
  kCaptureBroken,  ///< a call that CUDA forbids while a stream captures
  kCount,          // number of kinds; not a kind
};

/// Short name as the enumerator says it ("unordered use"). Never null.
const char* name_of(HazardKind kind);

struct Hazard {
  HazardKind kind = HazardKind::kCount;
  JudgeRule rule{};  ///< that was broken
  DeviceId device;
  DeviceAddr addr;  ///< where; null if the hazard has no address
  Bytes bytes;
  StreamId stream;                   ///< of the later use
  StreamId other_stream;             ///< of the earlier use, if the kind has one
  DeviceAddr other_addr;             ///< address of the earlier use
  CallKind call = CallKind::kOther;  ///< the call in which it was found
  std::uint64_t sequence = 0;        ///< number of that call among all calls of the model
  Nanos time;
  std::string text;  ///< one paragraph for people: who, what, where, and which order would have
                     ///< made it right
};

enum class JudgeMode : std::uint8_t {
  kOff,    ///< nothing is tracked or reported; arguments are still checked as CUDA does. For replay
           ///< speed
  kCount,  ///< collected; see GpuModel::hazards
  kAbort,  ///< the first one is printed to stderr, with the calls before it, and ends the process
};

}  // namespace levee::device::sim
