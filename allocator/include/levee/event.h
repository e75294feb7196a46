// What levee records: one fixed 32-byte `Event` for everything that happens, in memory and,
// delta-coded, in the trace file (allocator/record/FORMAT.md gives each byte).
//
// Promises: `Event` is trivially copyable and exactly 32 bytes; the value of an EventKind never
// changes meaning, new ones are added at the end. Which of `a`, `b`, `lane`, `context` and `aux` a
// kind uses is written beside it; unused ones are 0. Every event that concerns a device has one of
// its lanes in `lane`, if only that of the default stream: readers tell devices apart by it.
// `context` may be a stack for every kind that says nothing else about it.
#pragma once

#include <cstdint>
#include <type_traits>

#include <levee/ids.h>
#include <levee/units.h>

namespace levee {

enum class EventKind : std::uint8_t {
  kNone = 0,
  kAlloc = 1,  ///< a: address; b: `pack_sizes(requested, block)`; lane; aux: pool index
  kFree = 2,   ///< a: address; b: `pack_sizes`; lane: of the block; aux: pool index.
               ///< Emitted before the bytes can be handed out again
  kFreeCompleted =
      3,  ///< a: address; b: `pack_sizes`: a block that waited for recorded uses became free
  kRecordUse = 4,     ///< a: address; lane: the stream that also uses the block
  kSegmentAlloc = 5,  ///< a: address; b: bytes reserved by one cudaMalloc-backed segment
  kSegmentFree = 6,   ///< a: address; b: bytes
  kPageCreate = 7,  ///< a: address of the first new slot; b: bytes of physical memory created; aux:
                    ///< number of pages
  kPageRelease = 8,  ///< b: bytes of physical memory given back to the device; aux: number of pages
  kStitch =
      9,  ///< a: address of the run made by mapping free pages again; b: bytes mapped; aux: pages
  kRebase = 10,  ///< a: address of the new primary range; b: bytes mapped; aux: pages
  kUnmap = 11,   ///< a: address; b: bytes of slots unmapped; aux: pages
  kDriverCall =
      12,  ///< a: duration in ns; b: bytes (0 if none); aux: `DriverCall`. A failed call has
           ///< `kDriverCallFailed` set in aux and the native error code in b. time: when it began
  kEmergencyBegin = 13,  ///< a: requested bytes; b: reserved bytes; lane; aux: `EmergencyCause`
  kEmergencyRung = 14,   ///< a: duration in ns; b: bytes made usable; aux: `LadderRung`
  kEmergencyEnd = 15,    ///< a: duration in ns; b: reserved bytes after it; aux: 1 served, 0 out of
                         ///< memory, 2 the driver refused for another reason
  kWaitInserted = 16,    ///< a: lane waited for; lane: the stream that waits; b: bytes handed over
  kPhasePush = 17,       ///< context: interned name; per thread, properly nested
  kPhasePop = 18,        ///< context: interned name
  kStepMark = 19,        ///< a: number of the step that begins (b = 0) or ends (b = 1)
  kCounters = 20,        ///< a: reserved bytes; b: allocated bytes; lane: device; a checkpoint for
                         ///< readers that skip
  kKernel =
      21,  ///< a: duration in ns; b: correlation id; context: interned name; lane. time: its start
  kMemcpy = 22,       ///< a: duration in ns; b: bytes; aux: cudaMemcpyKind; lane
  kMemset = 23,       ///< a: duration in ns; b: bytes; lane
  kLost = 24,         ///< a: number of events this thread lost before this point
  kOutOfMemory = 25,  ///< a: requested bytes; b: reserved bytes; aux: pool index
  kLimit = 26,        ///< a: limit on reserved bytes from now on; 0 = none
  kNote = 27,   ///< context: interned text for the reader of the record (recorder degraded, …)
  kGuard = 28,  ///< the driver-time guard; a: ns spent mapping pages again in its last window; b:
                ///< ns that the window lasted; lane: device; aux: `GuardChange`
};

enum class DriverCall : std::uint16_t {
  kNone = 0,
  kMalloc,
  kFree,
  kReserveRange,
  kFreeRange,
  kCreateHandle,
  kReleaseHandle,
  kMap,
  kSetAccess,
  kUnmap,
  kCreateEvent,
  kDestroyEvent,
  kRecordEvent,
  kQueryEvent,
  kWaitEvent,
  kSynchronizeEvent,
  kSynchronizeStream,
  kSynchronizeDevice,
  kMemoryInfo,
  kCaptureState,
  kCount,  // number of calls; not a call
};

/// Why the recovery ladder was entered.
enum class EmergencyCause : std::uint16_t {
  kDeviceFull = 1,    ///< the device refused memory although no limit of ours was reached
  kLimitReached,      ///< the per-process limit
  kPoolLimitReached,  ///< the limit of one pool
  kMapFailed,         ///< memory was there, but mapping it failed
};

/// What the driver-time guard tells (`Config::guard_share`).
enum class GuardChange : std::uint16_t {
  kOn = 1,     ///< stitching took more than its share for long: memory may grow instead
  kOff,        ///< nothing had to grow instead for long
  kOverruled,  ///< on, but growth would exceed its bound, a limit or the device: stitched all the
               ///< same. Told once
};

/// Rungs of the recovery ladder, in the order they are climbed.
enum class LadderRung : std::uint16_t {
  kOwnEvents = 1,  ///< wait for blocks that only wait for our own events
  kCallbacks,      ///< callbacks that asked to be told (torch's FreeMemoryCallback and ours)
  kFragments,      ///< pieces that ordinary placement keeps for other uses
  kOtherPools,     ///< free pages of other pools
  kCachedHandles,  ///< cached memory given back to the device, then asked for anew
  kOutOfMemory,    ///< nothing helped
};

/// Which device and stream an event belongs to: an index that the recorder hands out per (device,
/// stream) pair and writes down in the file. 0 = no device.
struct LaneId {
  std::uint16_t value = 0;
  friend constexpr auto operator<=>(LaneId, LaneId) = default;
};

struct Event {
  std::uint64_t time_ns = 0;  ///< on levee's Clock
  std::uint64_t a = 0;
  std::uint64_t b = 0;
  std::uint32_t context_and_kind =
      0;  ///< context (24 bits: stack, phase or text; 0 = none) << 8 | EventKind
  LaneId lane{};
  std::uint16_t aux = 0;

  constexpr EventKind kind() const { return static_cast<EventKind>(context_and_kind & 0xFF); }
  constexpr ContextId context() const { return ContextId{context_and_kind >> 8}; }
};
static_assert(sizeof(Event) == 32 && std::is_trivially_copyable_v<Event>);

inline constexpr std::uint32_t kMaxContexts = (1U << 24) - 1;
inline constexpr std::uint16_t kDriverCallFailed = 0x8000;

constexpr Event make_event(EventKind kind, Nanos time, LaneId lane, std::uint64_t a,
                           std::uint64_t b, std::uint16_t aux = 0, ContextId context = {}) {
  return Event{static_cast<std::uint64_t>(time.value),
               a,
               b,
               context.value << 8 | static_cast<std::uint32_t>(kind),
               lane,
               aux};
}

/// Requested and handed-out size of a block in one word: 44 bits of requested bytes, 20 bits of
/// rounding. Both limits are far above what exists: 16 TiB of request, and rounding stays below 1
/// MiB for every size class.
inline constexpr Bytes kMaxRequest = Bytes{(1ULL << 44) - 1};
constexpr std::uint64_t pack_sizes(Bytes requested, Bytes block) {
  return requested.value | (block - requested).value << 44;
}
constexpr Bytes requested_of(std::uint64_t packed) {
  return Bytes{packed & kMaxRequest.value};
}
constexpr Bytes block_of(std::uint64_t packed) {
  return requested_of(packed) + Bytes{packed >> 44};
}

}  // namespace levee
