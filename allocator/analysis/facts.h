// What analysis finds in a trace: plain values that reports, views and exports are made of.
//
// Owns nothing but data. Promises: all times are nanoseconds on levee's clock
// (`TraceFacts::start_ns` is the origin that people are shown), all sizes bytes, all indices valid
// within the same `TraceFacts`; `kNone` says "no such thing". Everything here can be made again
// from the file alone.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <levee/event.h>
#include <levee/ids.h>

#include "allocator/analysis/timeline.h"

namespace levee::analysis {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};
inline constexpr std::uint64_t kStillLive = ~std::uint64_t{0};
inline constexpr std::size_t kDriverCallCount = static_cast<std::size_t>(DriverCall::kCount);

/// Calls of the driver, by kind and in sum.
struct DriverTotals {
  std::array<std::uint64_t, kDriverCallCount> calls{};
  std::array<std::uint64_t, kDriverCallCount> ns{};
  std::uint64_t failed = 0;
  std::uint64_t total_calls() const;
  std::uint64_t total_ns() const;
  /// Calls that take, give back, map or unmap memory: those a silent steady state does not make.
  std::uint64_t memory_calls() const;
  std::uint64_t memory_ns() const;
};
bool is_memory_call(DriverCall call);
/// Calls that take physical memory from the device.
bool takes_memory(DriverCall call);

/// One node of the tree of phases: a name under a parent. Node 0 is "outside any phase".
struct PhaseNode {
  std::uint32_t parent = kNone;
  ContextId name;
  std::uint32_t depth = 0;
  std::uint64_t entries = 0;
  std::uint64_t total_ns = 0;
  std::uint64_t allocations = 0;
  std::uint64_t allocated_bytes = 0;  ///< handed out directly in it, in sum
  std::uint64_t driver_ns = 0;
  std::uint64_t emergencies = 0;
  std::uint64_t peak_bytes = 0;  ///< most allocated while it was open, on any one device
  std::uint64_t peak_rise_bytes =
      0;  ///< the same above what was allocated when it began, largest of all entries
};

struct PhaseSpan {
  std::uint32_t node = 0;
  std::uint32_t thread = 0;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
};

/// One block from allocation to free.
struct BlockRecord {
  std::uint64_t addr = 0;
  std::uint64_t bytes = 0;
  std::uint64_t requested_bytes = 0;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = kStillLive;
  ContextId context;        ///< stack, if recorded
  std::uint32_t phase = 0;  ///< node of the phase tree
  std::uint32_t thread = 0;
  LaneId lane;
  std::uint16_t pool = 0;
  bool is_live_at(std::uint64_t time_ns) const { return begin_ns <= time_ns && time_ns < end_ns; }
};

struct EmergencyRung {
  LadderRung rung = LadderRung::kOutOfMemory;
  std::uint64_t usable_bytes = 0;
  std::uint64_t duration_ns = 0;
};

enum class EmergencyOutcome : std::uint8_t {
  kServed,
  kOutOfMemory,
  kFailed,  ///< the driver refused, for another reason than want of memory
  kUnknown  /* the record ends inside it */
};

struct Emergency {
  std::uint64_t begin_ns = 0;
  std::uint64_t duration_ns = 0;
  std::uint32_t device = 0;  ///< index into TraceFacts::devices
  std::uint64_t requested_bytes = 0;
  std::uint64_t reserved_before_bytes = 0;
  std::uint64_t reserved_after_bytes = 0;
  std::uint64_t allocated_bytes = 0;  ///< when it began
  std::uint64_t waiting_bytes =
      0;  ///< when it began: freed, but another stream's use had not passed
  EmergencyCause cause = EmergencyCause::kDeviceFull;
  EmergencyOutcome outcome = EmergencyOutcome::kUnknown;
  std::vector<EmergencyRung> rungs;
  std::uint64_t driver_calls = 0;  ///< made by its thread while it lasted
  std::uint64_t driver_ns = 0;
  std::uint64_t released_bytes = 0;  ///< given back to the device by its thread while it lasted
  std::uint64_t limit_bytes = 0;     ///< limit in force; 0 = none recorded
  LaneId lane;
  std::uint32_t thread = 0;
  std::uint32_t step = kNone;  ///< index into TraceFacts::steps
  std::uint32_t phase = 0;
  ContextId context;
  std::uint32_t storm =
      kNone;  ///< index into TraceFacts::storms; none: refused, and nothing near it served
};

/// Emergencies and the re-acquisition that follows them, as one cluster.
struct Storm {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint32_t device = 0;
  std::uint32_t first_emergency = 0;
  std::uint32_t emergencies = 0;
  std::uint64_t released_bytes = 0;
  std::uint64_t reacquired_bytes = 0;
  std::uint64_t driver_calls = 0;
  std::uint64_t driver_ns = 0;
  std::uint64_t stall_ns =
      0;  ///< emergencies plus driver memory calls outside them: what the program lost
  std::uint64_t reserved_before_bytes = 0;
  std::uint64_t reserved_min_bytes = 0;
  std::uint64_t reserved_end_bytes = 0;
  std::uint32_t first_step = kNone;
  std::uint32_t last_step = kNone;
};

struct Step {
  std::uint64_t number = 0;
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t driver_calls = 0;
  std::uint64_t driver_ns = 0;
  std::uint64_t memory_calls = 0;
  std::uint64_t memory_ns = 0;
  std::uint32_t emergencies = 0;
  std::uint64_t emergency_ns = 0;
  std::uint64_t allocations = 0;
  bool is_complete = false;  ///< both its ends are marked; the last one ends with the record
  std::uint64_t duration_ns() const { return end_ns - begin_ns; }
};

struct StepPeak {
  std::uint64_t reserved_bytes = 0;
  std::uint64_t allocated_bytes = 0;
};

/// Where the bytes of one moment are. reserved = allocated + waiting + free, and
/// free = partial pages + rest; `rounding_bytes` is the part of allocated that nobody asked for.
struct MemoryMoment {
  std::uint64_t time_ns = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t requested_bytes = 0;
  std::uint64_t rounding_bytes = 0;
  std::uint64_t waiting_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t partial_page_bytes = 0;  ///< free bytes on pages that also hold live bytes
  std::uint64_t private_pool_bytes = 0;  ///< allocated by private pools
  std::uint32_t step = kNone;
};

/// Who holds memory at one moment: blocks with the same origin.
struct Holder {
  std::string origin;
  std::uint64_t bytes = 0;
  std::uint64_t blocks = 0;
};

/// Blocks of one origin that keep pages nearly empty.
struct Pin {
  std::string origin;
  std::uint64_t blocks = 0;
  std::uint64_t block_bytes = 0;
  std::uint64_t pinned_bytes = 0;  ///< free bytes on the pages they keep
  std::uint64_t oldest_ns = 0;     ///< age of the oldest at that moment
};

/// The GPU idle while the allocator was in the driver or in its ladder.
struct IdleGap {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t allocator_ns = 0;  ///< part of it that the allocator was busy
  std::uint32_t device = 0;
  std::uint32_t step = kNone;
};

struct IdleTotals {
  std::uint64_t kernel_ns = 0;     ///< some kernel, copy or memset was running
  std::uint64_t idle_ns = 0;       ///< none was, between the first and the last
  std::uint64_t allocator_ns = 0;  ///< part of idle that the allocator was busy
};

struct Interval {
  std::uint64_t begin_ns = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t value = 0;  ///< kernels: correlation id; copies and memsets: bytes
  ContextId name;
  EventKind kind = EventKind::kKernel;
  std::uint16_t aux = 0;
};

/// What ran on one stream, by begin.
struct ActivityLane {
  LaneId lane;
  std::uint32_t device = 0;
  std::uint64_t stream = 0;
  std::vector<Interval> intervals;
};

struct DriverCallRecord {
  std::uint64_t begin_ns = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t bytes = 0;
  std::uint32_t thread = 0;
  std::uint16_t device = 0;  ///< index into TraceFacts::devices
  DriverCall call = DriverCall::kNone;
  bool failed = false;
};

struct OutOfMemory {
  std::uint64_t time_ns = 0;
  std::uint64_t requested_bytes = 0;
  std::uint64_t reserved_bytes = 0;
  std::uint32_t device = 0;
  std::uint32_t step = kNone;
};

struct Note {
  std::uint64_t time_ns = 0;
  std::string text;
};

struct DeviceFacts {
  DeviceId device;
  std::string name;
  std::uint64_t total_bytes = 0;
  Timeline timeline;
  DriverTotals driver;
  std::uint64_t allocations = 0;
  std::uint64_t frees = 0;
  std::uint64_t small_allocations = 0;  ///< of up to 1 MiB
  std::uint64_t stitches = 0;
  std::uint64_t stitched_bytes = 0;
  std::uint64_t rebases = 0;
  std::uint64_t waits = 0;  ///< stream-side waits inserted
  std::uint64_t created_bytes = 0;
  std::uint64_t released_bytes = 0;
  std::uint64_t limit_bytes = 0;
  std::vector<StepPeak> step_peaks;  ///< by step
  std::uint32_t warm_step = kNone;   ///< first step after warm-up; kNone if the run is too short
  MemoryMoment at_reserved_peak;
  MemoryMoment at_allocated_peak;
  MemoryMoment at_largest_slack;         ///< of the time between the first and the last step
  std::vector<Holder> holders_by_phase;  ///< at the allocated peak, largest first
  std::vector<Holder> holders_by_stack;
  std::vector<Pin> pins;  ///< at the largest slack, largest first
  /// The last request that was refused for where free bytes lay, and what lived on their pages.
  MemoryMoment at_refusal;
  std::vector<Pin> between;  ///< empty if there was none
  IdleTotals idle;
};

/// A (device, stream) pair that events name.
struct LaneFacts {
  std::uint32_t device = 0;  ///< index into TraceFacts::devices
  std::uint64_t stream = 0;
};

struct ThreadFacts {
  std::uint32_t index = 0;
  std::uint64_t os_id = 0;
  std::string name;
};

/// What the file covers, in words that a report can print as they are.
struct Completeness {
  bool is_whole = true;
  std::uint64_t lost_events = 0;
  std::uint64_t dropped_events = 0;
  std::uint64_t damaged_blocks = 0;
  std::uint64_t unmatched_frees = 0;     ///< of blocks whose allocation is not in the record
  std::uint64_t overwritten_blocks = 0;  ///< allocated again without a recorded free
  std::vector<std::string> remarks;      ///< one sentence for each thing that is missing
};

struct TraceFacts {
  // Where it comes from.
  std::string path;
  std::string label;
  std::string program;
  std::string host;
  std::string levee_version;
  std::uint32_t pid = 0;
  std::int32_t rank = -1;
  std::int32_t world_size = -1;
  std::string launch;  ///< the same text in all ranks of one launch; empty = not known
  bool is_modelled = false;
  bool is_sampled = false;  ///< made of samples of an allocator that is not levee's
  std::int64_t start_unix_ns = 0;
  std::uint64_t start_ns = 0;
  std::uint64_t end_ns = 0;
  std::uint64_t events = 0;
  Completeness completeness;

  std::vector<DeviceFacts> devices;
  std::vector<Step> steps;
  /// Marks end steps (an optimizer's): the first step is what came before the first mark, and the
  /// last entry what came after the last, a step that never ended.
  bool marks_end_steps = false;
  /// How many steps the program made: all that have one's begin, or an end where marks end them.
  std::size_t ended_steps() const {
    return steps.size() - (marks_end_steps && !steps.empty() ? 1 : 0);
  }
  std::vector<Emergency> emergencies;
  std::vector<Storm> storms;
  std::vector<OutOfMemory> out_of_memory;
  std::vector<PhaseNode> phases;  ///< node 0 is outside any phase
  std::vector<PhaseSpan> spans;   ///< by begin
  std::vector<ActivityLane> lanes;
  std::vector<IdleGap> idle_gaps;              ///< those with allocator time, longest first
  std::vector<BlockRecord> blocks;             ///< by begin; empty if not asked for
  std::vector<DriverCallRecord> driver_calls;  ///< by begin
  std::vector<Note> notes;
  std::vector<ThreadFacts> threads;   ///< by index
  std::vector<LaneFacts> lane_table;  ///< by lane id
  std::vector<PoolId> pools;          ///< by pool index
  DriverTotals driver;

  std::map<std::uint32_t, std::string>
      names;  ///< text of each context that something here refers to

  std::uint64_t duration_ns() const { return end_ns - start_ns; }
  /// "" for 0 and for ids without a text.
  const std::string& name_of(ContextId id) const;
  /// "train/forward/attention"; "outside any phase" for node 0.
  std::string phase_path(std::uint32_t node) const;
  std::string thread_name(std::uint32_t index) const;
  /// What the system called the thread; its index if that is not known.
  std::uint64_t os_thread(std::uint32_t index) const;
  /// "step 17", "after step 17" for what follows the last mark where marks end steps, "before the
  /// first step", or "" where there are no steps.
  std::string step_text(std::uint32_t step) const;
  std::uint32_t device_of(LaneId lane) const;
  std::uint64_t stream_of(LaneId lane) const;
  PoolId pool_of(std::uint16_t index) const;
  const ThreadFacts* find_thread(std::uint32_t index) const;
  /// Index of the step that holds at `time_ns`, or kNone.
  std::uint32_t step_at(std::uint64_t time_ns) const;
};

}  // namespace levee::analysis
