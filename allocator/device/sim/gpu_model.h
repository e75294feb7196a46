// The model of the GPUs of one process, as far as an allocator, PyTorch and a profiler can tell,
// and the judge of their use.
//
// Owns: devices with their capacity, physical memory and address space; streams, events, captures,
// graphs; the virtual clock; counts of every call; the hazards found. It has two skins: `SimDevice`
// (behind `Device`) and tools/simgpu (behind the CUDA ABI). README.md in allocator/device says what
// it promises, what it does not model, and what counts as ordered.
//
// Promises: a call answers as CUDA does, with CUDA's error number in `Status::native_code`; a call
// that fails has changed nothing but counters and time (and, where CUDA says so, the capture it
// broke). Ids are never used twice. Work has no effect of its own; it takes time, touches bytes and
// can call back. Does not: compute, model contention between streams, or write anything anywhere.
// Thread safety: every method may be called from any thread; one mutex guards everything, `now()`
// takes none. Callbacks run with no lock held, on a thread that is inside a call of the model.
// Costs: about 50 ns for a call that changes little; memory calls O(pages touched); with the judge,
// a use of n bytes costs O(log) per 2 MiB. Nothing scans all streams, pages or events, except
// device-wide synchronisation (streams of the device).
//
// Ids: a stream, event, graph and handle id is unique in the process and names its device. Where a
// call takes a device and a stream, the device is the caller's current one; it matters for the
// stream ids 0 and 1 (legacy default stream) and 2 (per-thread default stream) alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <levee/ids.h>
#include <levee/status.h>
#include <levee/units.h>

#include "allocator/device/device.h"
#include "allocator/device/native_status.h"
#include "allocator/device/sim/call_kind.h"
#include "allocator/device/sim/fault_plan.h"
#include "allocator/device/sim/hazard.h"
#include "allocator/device/sim/latency_table.h"

namespace levee::device::sim {

// ---- Configuration

struct DeviceConfig {
  std::string name = "Simulated GPU (levee simgpu, values are zeros)";
  Bytes total_memory = 80_GiB;
  Bytes used_by_others{};  ///< by other processes, at the start; see set_used_by_others
  Bytes context_bytes{};   ///< taken by this process's context once it makes its first call
  bool has_vmm = true;
  Bytes vmm_granularity = 2_MiB;  ///< a multiple of 2 MiB
  int compute_major = 8;
  int compute_minor = 0;
};

enum class ClockMode : std::uint8_t {
  kManual,  ///< time moves by advance(), by the cost of calls and by blocking calls alone
  kHost,    ///< besides, one to one with CLOCK_MONOTONIC, where it also starts
};

enum class AddressSpaceMode : std::uint8_t {
  kNumbers,  ///< addresses are numbers from 0x7_0000_0000 up; nothing is reserved on the host
  kReal,     ///< addresses are reserved host addresses (no access), so that none is ever a host
             ///< pointer as well
};

struct ModelConfig {
  std::vector<DeviceConfig> devices = {DeviceConfig{}};
  ClockMode clock = ClockMode::kManual;
  AddressSpaceMode address_space = AddressSpaceMode::kNumbers;
  JudgeMode judge = JudgeMode::kAbort;
  /// Every piece of work goes through the model, so that an owner's use ends with the last work on
  /// its stream. Otherwise (tests that note uses and enqueue nothing) an owner is taken to work
  /// until it gives back.
  bool sees_all_work = false;
  bool report_leaks = true;  ///< shut_down() and the destructor report what is still held
  Nanos endless_wait{600'000'000'000};  ///< a blocking call that would wait longer is a
                                        ///< kEndlessWait and returns kTimeout
  LatencyTable latency = LatencyTable::published();
};

// ---- Work

enum class WorkKind : std::uint8_t {
  kKernel,
  kMemcpyHostToDevice,
  kMemcpyDeviceToHost,
  kMemcpyDeviceToDevice,
  kMemcpyPeer,
  kMemcpyHostToHost,
  kMemset,
  kHostFunction,
  kEmpty,       ///< a node or marker without duration
  kChildGraph,  ///< in lists of nodes alone
  kEventRecord,
  kEventWait,
};

/// Bytes that a piece of work touches, for the judge.
struct Touch {
  DeviceAddr addr;
  Bytes bytes;
  bool writes = true;
};

struct Work {
  WorkKind kind = WorkKind::kKernel;
  Nanos duration{};
  const char* name = "";          ///< must live as long as the model
  Bytes bytes{};                  ///< moved or set, for records
  std::uint64_t correlation = 0;  ///< handed on to records
  std::span<const Touch> touches{};
  /// Programmatic dependent launch: may start before the work ahead of it in its stream has
  /// completed.
  bool overlaps_predecessor = false;
  /// When the last of those that it meets outside of this model (ranks of other processes, whose
  /// clocks start where this one does) is ready: having begun, it waits for that, and then takes
  /// its duration. 0: it meets nobody. A capturing stream does not look at it.
  Nanos meets_at{};
  /// Called on the calling thread before the enqueue returns; on a capturing stream instead at
  /// every launch of the graph.
  std::function<void()> effect{};
  /// Called when the work completes in virtual time, in stream order; see run_due().
  std::function<void()> on_complete{};
};

/// One completed piece of work, for profilers.
struct ActivityRecord {
  DeviceId device;
  StreamId stream;  ///< for nodes of a graph: the stream it was launched in
  WorkKind kind = WorkKind::kKernel;
  const char* name = "";
  Nanos start;
  Nanos end;
  Bytes bytes;
  std::uint64_t correlation =
      0;                    ///< of the launch; for nodes of a graph that of the graph's launch
  std::uint64_t graph = 0;  ///< executable graph id, or 0
  std::uint64_t node = 0;   ///< node id inside the graph, or 0
};

// ---- Memory

enum class MemoryKind : std::uint8_t {
  kNone,        ///< no simulated device's address
  kReserved,    ///< inside a reserved range, nothing mapped
  kMapped,      ///< a mapping of a handle
  kAllocation,  ///< cudaMalloc
  kAsync,       ///< cudaMallocAsync
  kImported,    ///< another process's, opened here; takes nothing of the device's account
};

/// What an address belongs to.
struct AddressInfo {
  MemoryKind kind = MemoryKind::kNone;
  DeviceId device;  ///< of the physical memory; of the range if nothing is mapped
  DeviceAddr base;  ///< of the allocation, mapping or reserved range
  Bytes bytes;
  HandleId handle;        ///< with kMapped
  DeviceAddr range_base;  ///< of the reserved range; null for allocations
  Bytes range_bytes;
  bool accessible = false;  ///< by its own device
};

enum class Access : std::uint8_t { kNone, kRead, kReadWrite };

/// Physical memory of one device, as this process holds it.
struct MemoryUse {
  Bytes total;
  Bytes used;  ///< by this process: handles, allocations, stream-ordered pools, context
  Bytes peak_used;
  Bytes used_by_others;
  Bytes free;    ///< total - used - used_by_others, at least 0
  Bytes mapped;  ///< sum over mappings: counts a handle once for each address it is mapped at
  std::uint64_t handles = 0;  ///< alive: released ones count while they are mapped
  std::uint64_t mappings = 0;
  std::uint64_t ranges = 0;       ///< reserved address ranges
  std::uint64_t allocations = 0;  ///< cudaMalloc
};

/// The stream-ordered pool of a device (cudaMallocAsync).
struct AsyncPoolUse {
  Bytes reserved;
  Bytes reserved_high;
  Bytes used;
  Bytes used_high;
  Bytes release_threshold;
};

// ---- Streams, events, capture, graphs

struct StreamOptions {
  bool non_blocking = false;  ///< no implicit order with the legacy default stream
  int priority = 0;           ///< kept and told; changes no timing
};

struct StreamInfo {
  StreamId id;  ///< 0, 1 and 2 resolved to the stream they stand for
  DeviceId device;
  StreamOptions options;
  std::uint32_t number = 0;  ///< small, unique in the process, as a profiler shows it; the legacy
                             ///< stream of device 0 is 7
  bool is_legacy = false;
  bool is_per_thread = false;
};

struct EventOptions {
  bool timing = true;
  bool blocking_sync = false;
};

enum class CaptureMode : std::uint8_t {
  kGlobal = 0,
  kThreadLocal = 1,
  kRelaxed = 2
};  // cudaStreamCaptureMode

struct GraphId {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(GraphId, GraphId) = default;
};
struct GraphNodeId {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(GraphNodeId, GraphNodeId) = default;
};
struct ExecId {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(ExecId, ExecId) = default;
};

struct GraphNodeInfo {
  GraphNodeId id;
  WorkKind kind = WorkKind::kEmpty;
  const char* name = "";
  std::vector<GraphNodeId> dependencies;
};

struct CaptureDetails {
  CaptureStatus status = CaptureStatus::kNone;
  std::uint64_t id = 0;
  GraphId graph;                          ///< being built
  std::vector<GraphNodeId> dependencies;  ///< of the next node captured on the stream
};

/// The calling thread's capture mode is relaxed in its scope, in every model; not a call. What an
/// allocator does around calls that would otherwise end captures of the program.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  CaptureMode before_;
};

class GpuModel {
 public:
  explicit GpuModel(ModelConfig config);
  ~GpuModel();  ///< shut_down() first, if nobody called it
  GpuModel(const GpuModel&) = delete;
  GpuModel& operator=(const GpuModel&) = delete;

  // ---- Devices
  int device_count() const;
  const DeviceConfig& device(DeviceId device) const;  ///< the device must exist
  Result<MemoryInfo> memory_info(DeviceId device);    ///< cudaMemGetInfo
  void set_used_by_others(
      DeviceId device, Bytes bytes);  ///< other processes; may exceed what is free, which is then 0
  MemoryUse memory_use(DeviceId device) const;  ///< not a call of the driver: no count, no time
  /// From now on every call on this device fails with this (sticky) error.
  void lose_device(DeviceId device, Native error);

  // ---- Clock
  Nanos now() const;  ///< lock-free; never goes back
  /// Where the model keeps what its clock is ahead of CLOCK_MONOTONIC, in ns, to be read
  /// atomically; null where it is not that clock plus a number.
  const std::int64_t* clock_ahead() const;
  void advance(Nanos by);  ///< the host is busy, or asleep, for this long
  /// Moves the clock to the end of everything enqueued (late events aside). No call, no order:
  /// nothing becomes *known* done.
  void advance_past_all_work();
  /// From now on calls and waits really take the time that they are modelled to take (the calling
  /// thread sleeps, holding the model), or no longer. For a profiler that watches with a clock of
  /// the host. In ClockMode::kHost alone.
  void set_paced(bool paced);

  // ---- Calls that the model only counts and times
  /// Counts and times a call, consults faults, capture legality and the pool lock. For calls whose
  /// effect is somebody else's (host allocations, attributes, modules). `bytes` for the latency
  /// table.
  Status note_call(CallKind kind, DeviceId device, Bytes bytes = {});

  // ---- Whole allocations
  Result<DeviceAddr> allocate(
      DeviceId device, Bytes bytes);  ///< cudaMalloc. 256-byte aligned; small ones share 2 MiB
  Status release(DeviceAddr addr);    ///< cudaFree: waits for all streams of the memory's device;
                                      ///< null is fine; frees kAsync too
  Result<DeviceAddr> allocate_async(DeviceId device, Bytes bytes,
                                    StreamId stream);      ///< cudaMallocAsync, default pool
  Status release_async(DeviceAddr addr, StreamId stream);  ///< cudaFreeAsync
  Status trim_async_pool(DeviceId device, Bytes keep);     ///< cudaMemPoolTrimTo
  /// Memory of another process, opened here (cudaIpcOpenMemHandle): an address for it. What it
  /// takes of the device is the other process's account. A multiple of 2 MiB.
  Result<DeviceAddr> import_allocation(DeviceId device, Bytes bytes);
  Status close_import(DeviceAddr addr);  ///< cudaIpcCloseMemHandle: waits as `release` does
  AsyncPoolUse async_pool_use(DeviceId device) const;
  Status set_async_pool_threshold(DeviceId device, Bytes bytes);
  Status reset_async_pool_peaks(DeviceId device);

  // ---- Virtual memory. Sizes and addresses are multiples of the granularity
  /// `alignment` 0 or a power of two.
  /// `device` is the one whose granularity and account are meant; the range can hold memory of any.
  Result<DeviceAddr> reserve_range(DeviceId device, Bytes bytes, Bytes alignment);
  Status free_range(DeviceAddr addr, Bytes bytes);
  Result<HandleId> create_handle(DeviceId device, Bytes bytes);
  /// A handle of memory that another process made (cuMemImportFromShareableHandle); as above.
  Result<HandleId> import_handle(DeviceId device, Bytes bytes);
  Status release_handle(HandleId handle);  ///< one reference; the memory goes when no reference and
                                           ///< no mapping is left
  Result<HandleId> retain_handle(DeviceAddr addr);  ///< one more reference to what is mapped there
  Result<Bytes> handle_bytes(HandleId handle) const;          ///< no call
  Result<DeviceId> handle_device(HandleId handle) const;      ///< no call
  Status map(DeviceAddr addr, Bytes bytes, HandleId handle);  ///< of the whole handle
  Status unmap(DeviceAddr addr, Bytes bytes);                 ///< of one or many whole mappings
  /// For one or many whole mappings, side by side.
  Status set_access(DeviceAddr addr, Bytes bytes, DeviceId device,
                    Access access = Access::kReadWrite);
  Access access_of(DeviceAddr addr, DeviceId device) const;  ///< no call
  AddressInfo find(DeviceAddr addr) const;                   ///< no call; O(log)
  bool is_device_memory(DeviceAddr addr,
                        Bytes bytes) const;  ///< no call: everything in it is allocated or mapped
  /// Where the bytes are physically, piece by piece, for a store of their contents; empty if some
  /// of them are nowhere. No call.
  struct PhysicalSpan {
    std::uint64_t serial = 0;  ///< of the physical memory; never used twice
    Bytes offset;
    Bytes bytes;
  };
  std::vector<PhysicalSpan> physical_spans(DeviceAddr addr, Bytes bytes) const;
  /// Size of the physical memory at an address: of small allocations the 2 MiB that they share.
  std::optional<Bytes> physical_bytes(DeviceAddr addr) const;
  /// The whole memory of a handle; none if there is no such handle. No call.
  std::optional<PhysicalSpan> physical_of(HandleId handle) const;
  /// Told of physical memory that goes (by serial), with the model's lock held: it must not call
  /// the model.
  void set_memory_gone_hook(std::function<void(std::uint64_t serial)> hook);

  // ---- Streams
  Result<StreamId> create_stream(DeviceId device, StreamOptions options = {});
  Status destroy_stream(StreamId stream);  ///< legal with work pending, which completes
  Result<StreamInfo> stream_info(DeviceId device, StreamId stream) const;  ///< no call
  /// When work that is enqueued now would start: what a rank tells those it meets (Work::meets_at).
  Result<Nanos> ready_at(DeviceId device, StreamId stream) const;  ///< no call
  Status query_stream(DeviceId device, StreamId stream);
  Status synchronize_stream(DeviceId device, StreamId stream);
  Status synchronize_device(DeviceId device);

  // ---- Work
  /// Enqueues one piece of work; `call` says by which call (launch, memcpy, memset, host function).
  /// A blocking call (kMemcpy, kMemset) also waits for the stream. On a capturing stream it becomes
  /// a node.
  Status enqueue(DeviceId device, StreamId stream, CallKind call, const Work& work);
  /// One piece of work that all these streams take part in: it starts when the last is ready and
  /// ends on all of them at once, so that each is ordered after all of them.
  struct StreamOn {
    DeviceId device;
    StreamId stream;
  };
  Status enqueue_together(std::span<const StreamOn> streams, CallKind call, const Work& work);

  // ---- Events
  Result<EventId> create_event(DeviceId device, EventOptions options = {});
  Status destroy_event(EventId event);
  /// `external`: inside a capture a node that records at launch, instead of a captured dependency
  /// (as for wait_event).
  Status record_event(EventId event, DeviceId device, StreamId stream, bool external = false);
  Status wait_event(DeviceId device, StreamId stream, EventId event, bool external = false);
  Status query_event(
      EventId event);  ///< kNotReady until it completed; one that was never recorded is complete
  Status synchronize_event(EventId event);
  Result<Nanos> elapsed(EventId start, EventId end);
  Result<DeviceId> event_device(EventId event) const;  ///< no call

  // ---- Capture
  Status begin_capture(DeviceId device, StreamId stream, CaptureMode mode);
  Status begin_capture_to(DeviceId device, StreamId stream, GraphId graph,
                          std::span<const GraphNodeId> dependencies, CaptureMode mode);
  Result<GraphId> end_capture(DeviceId device, StreamId stream);
  Result<CaptureInfo> capture_info(DeviceId device, StreamId stream);
  Result<CaptureDetails> capture_details(DeviceId device, StreamId stream);
  /// cudaStreamUpdateCaptureDependencies: adds to, or replaces, what the next captured node depends
  /// on.
  Status update_capture_dependencies(DeviceId device, StreamId stream,
                                     std::span<const GraphNodeId> dependencies, bool replace);
  CaptureMode exchange_capture_mode(
      CaptureMode mode);  ///< of the calling thread; returns the one before

  // ---- Graphs
  Result<GraphId> create_graph();
  Result<GraphNodeId> add_node(GraphId graph, std::span<const GraphNodeId> dependencies,
                               const Work& work);
  Result<GraphNodeId> add_child_graph(GraphId graph, std::span<const GraphNodeId> dependencies,
                                      GraphId child);
  Result<std::vector<GraphNodeInfo>> graph_nodes(GraphId graph) const;  ///< no call
  Result<GraphNodeInfo> graph_node(GraphNodeId node) const;  ///< no call; while its graph lives
  Result<GraphId> clone_graph(GraphId graph);
  Status destroy_graph(GraphId graph);
  Result<ExecId> instantiate(GraphId graph);
  Status launch_graph(DeviceId device, StreamId stream, ExecId exec, std::uint64_t correlation = 0);
  Status destroy_exec(ExecId exec);

  // ---- Completed work
  /// Told of each piece of work once it has completed, in order of completion. None: records cost
  /// nothing.
  void set_activity_hook(std::function<void(const ActivityRecord&)> hook);
  /// Runs every callback (activity, on_complete) whose work is complete by now. Every call of the
  /// model does so on its way; a skin needs it for work that completes while nobody calls.
  void run_due();
  /// When the next callback is due; kNever if none is pending. Lock-free.
  Nanos next_due() const;

  // ---- The judge
  /// See UseKind. The range need not lie in one mapping. On a capturing stream the bytes belong to
  /// the graph: each launch uses them.
  void note_use(DeviceId device, DeviceAddr addr, Bytes bytes, StreamId stream, UseKind kind);
  /// The calling thread holds one more pool lock, or one less. Counted per thread, for all models
  /// alike.
  static void note_pool_lock(bool held);
  void set_judge(
      JudgeMode mode);  ///< kOff forgets what is tracked; leaving kOff starts from nothing
  JudgeMode judge_mode() const;
  std::vector<Hazard> hazards() const;
  std::uint64_t hazard_count() const;  ///< also of those beyond the first 1,000, which are kept
  std::uint64_t hazard_count(HazardKind kind) const;
  void clear_hazards();
  /// Every hazard kept, and the last calls before the newest, as text to print under a failed
  /// expectation; "" if none.
  std::string report() const;
  /// Checks what the model keeps against itself (accounting, page table, intervals). Ends the
  /// process on a contradiction.
  void validate() const;

  // ---- Faults and counters
  void set_faults(FaultPlan plan);  ///< replaces the plan and starts counting anew
  std::uint64_t calls(CallKind kind) const;
  std::uint64_t calls(CallKind kind, DeviceId device) const;
  std::uint64_t total_calls() const;
  void reset_call_counts();

  // ---- The end
  /// Reports leaks; from now on every call answers kShuttingDown, and is a hazard.
  void shut_down();

  struct State;  // inside the gpu_model*.cc files

 private:
  std::unique_ptr<State> state_;
};

}  // namespace levee::device::sim

template <>
struct std::hash<levee::device::sim::GraphId> {
  std::size_t operator()(levee::device::sim::GraphId id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value);
  }
};
