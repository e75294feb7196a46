// What happened on the simulated GPUs, for profilers: one record for each driver call, kernel, copy
// and synchronisation.
//
// Owns the buffer of records between the model (and the calls) and libcupti, which asks for kinds
// and takes records. Promises: costs one relaxed load for each call while nobody asked; records are
// handed out in the order of their completion; times are the model's. Thread safety: everything
// from any thread; one mutex around the buffer.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/device/sim/gpu_model.h"
#include "tools/simgpu/core/export.h"
#include "tools/simgpu/core/kernels.h"

namespace levee::simgpu {
class Process;
}

namespace levee::simgpu::activity {

/// Who wants to be told; the bits of `flags`.
enum Wanted : std::uint32_t {
  kRuntimeCalls = 1U << 0,
  kDriverCalls = 1U << 1,
  kKernels = 1U << 2,
  kCopies = 1U << 3,
  kFills = 1U << 4,
  kExternalIds = 1U << 5,
  kSynchronisation = 1U << 6,
  kCallbacks = 1U << 7,  ///< a subscriber to entries and exits of calls
  kTrace = 1U << 8,      ///< SIMGPU_TRACE
};
inline constexpr std::uint32_t kAnyWork = kKernels | kCopies | kFills;
inline constexpr std::uint32_t kAnyRecord = 0x7F;

extern SIMGPU_CORE std::atomic<std::uint32_t> flags;
inline bool is_on(std::uint32_t wanted) {
  return (flags.load(std::memory_order_relaxed) & wanted) != 0;
}

enum class RecordType : std::uint8_t { kCall, kWork, kExternalId, kSynchronisation };
enum class SyncType : std::uint8_t { kEvent = 1, kStreamWaitEvent = 2, kStream = 3, kContext = 4 };

struct Record {
  RecordType type = RecordType::kCall;
  Nanos start;
  Nanos end;
  std::uint32_t correlation = 0;
  // kCall
  bool is_driver = false;
  std::uint32_t cbid = 0;
  std::uint32_t thread = 0;
  std::int32_t result = 0;
  // kExternalId
  std::uint32_t external_kind = 0;
  std::uint64_t external_id = 0;
  // kWork
  device::sim::WorkKind work = device::sim::WorkKind::kEmpty;
  const char* name = "";
  int device = 0;
  std::uint32_t stream_number = 0;
  std::uint64_t bytes = 0;
  std::uint64_t graph = 0;
  std::uint64_t node = 0;
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t dynamic_shared = 0;
  std::uint8_t from_kind = 0;  ///< MemoryPlace
  std::uint8_t to_kind = 0;
  int from_device = 0;  ///< of copies between devices
  int to_device = 0;
  bool is_async = true;
  std::uint8_t value = 0;
  // kSynchronisation
  SyncType sync = SyncType::kContext;
};

enum class MemoryPlace : std::uint8_t { kUnknown, kPageable, kPinned, kDevice, kManaged };

/// What a launch or copy knows and the model does not carry; attached to its record by correlation.
struct Details {
  Kernel* kernel = nullptr;
  std::uint32_t grid[3] = {1, 1, 1};
  std::uint32_t block[3] = {1, 1, 1};
  std::uint32_t dynamic_shared = 0;
  MemoryPlace from = MemoryPlace::kUnknown;
  MemoryPlace to = MemoryPlace::kUnknown;
  int from_device = 0;
  int to_device = 0;
  bool is_async = true;
  std::uint8_t value = 0;
};

/// Replaces the record kinds that are wanted; kCallbacks and kTrace are left as they are.
SIMGPU_CORE void want(std::uint32_t record_kinds);
SIMGPU_CORE std::uint32_t next_correlation();
SIMGPU_CORE void note_details(std::uint32_t correlation, const Details& details);
SIMGPU_CORE void add(const Record& record);
/// Moves the records of completed work and of ended calls to `out`.
SIMGPU_CORE void take(std::vector<Record>* out);
SIMGPU_CORE std::size_t pending();

/// The calling thread's stack of ids for an external kind (below 16). `pop` returns false on an
/// empty stack.
SIMGPU_CORE void push_external(std::uint32_t kind, std::uint64_t id);
SIMGPU_CORE bool pop_external(std::uint32_t kind, std::uint64_t* id);
/// Adds the records that tie the calling thread's external ids to a call.
void add_external_ids(std::uint32_t correlation);

/// Records the wait that its lifetime spans, if somebody wants to know of it.
class SIMGPU_CORE SyncScope {
 public:
  SyncScope(Process& process, SyncType type, const void* stream)
      : process_(process), stream_(stream), type_(type), is_wanted_(is_on(kSynchronisation)) {
    if (is_wanted_) begin_slow();
  }
  ~SyncScope() {
    if (is_wanted_) end_slow();
  }
  SyncScope(const SyncScope&) = delete;
  SyncScope& operator=(const SyncScope&) = delete;

 private:
  void begin_slow();
  void end_slow();
  Process& process_;
  const void* stream_;
  SyncType type_;
  bool is_wanted_;
  Nanos start_;
};

/// Told of entries and exits of calls while kCallbacks is on, and when many records wait.
struct CallSite {
  bool is_driver;
  std::uint32_t cbid;
  const char* name;
  bool is_exit;
  std::uint32_t correlation;
  std::int32_t result;
};
struct Listener {
  void (*on_call)(const CallSite& site) = nullptr;
  void (*on_many_pending)() = nullptr;
};
SIMGPU_CORE void set_listener(Listener listener);
void tell_call(const CallSite& site);
void tell_if_many_pending();

}  // namespace levee::simgpu::activity
