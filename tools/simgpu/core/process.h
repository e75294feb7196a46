// The simulated GPUs of this process and everything that belongs to them.
//
// Owns the one GpuModel, the backing store, the registry of host memory and the thread that runs
// host functions. Promises: starts at the first call that needs a GPU, says so in one line on
// stderr, and is never destroyed (other libraries make calls from their destructors). In a child
// that was forked after the start nothing of it is touched: `get()` is null there, and every call
// answers cudaErrorInitializationError, as CUDA does; a child forked before it may start its own.
// Thread safety: everything from any thread. Cost of `get()`: one load.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <levee/ids.h>
#include <levee/status.h>
#include <levee/units.h>

#include "allocator/device/sim/backing_store.h"
#include "allocator/device/sim/gpu_model.h"
#include "tools/simgpu/core/export.h"
#include "tools/simgpu/core/host_memory.h"

namespace levee::simgpu {

class HostFunctions;

class SIMGPU_CORE Process {
 public:
  /// Null in a forked child of a started process, and where CUDA_VISIBLE_DEVICES leaves no card.
  static Process* get() {
    Process* process = instance_.load(std::memory_order_acquire);
    return process != nullptr ? process : start();
  }
  /// Why `get()` is null: cudaErrorNoDevice, or cudaErrorInitializationError in a forked child.
  static int why_not();
  /// The running process without starting it; null if none runs.
  static Process* running() { return instance_.load(std::memory_order_acquire); }

  device::sim::GpuModel& model() { return *model_; }
  device::sim::BackingStore& backing() { return *backing_; }
  HostMemory& host_memory() { return host_memory_; }
  HostFunctions& host_functions() { return *host_functions_; }
  const device::sim::LatencyTable& latency() const { return latency_; }
  int device_count() const { return static_cast<int>(primary_active_.size()); }
  bool is_judging() const { return is_judging_; }

  /// Whether the device's primary context exists: something was done on it.
  bool is_active(int device) const;
  void activate(int device);
  bool has_peer_access(int from, int to) const;
  /// False if it is enabled (disabled) already.
  bool set_peer_access(int from, int to, bool enabled);

 private:
  Process();
  static Process* start();
  static void after_fork_in_child();

  static std::atomic<Process*> instance_;
  static std::atomic<bool> poisoned_;

  device::sim::LatencyTable latency_;
  std::unique_ptr<device::sim::GpuModel> model_;
  std::unique_ptr<device::sim::BackingStore> backing_;
  HostMemory host_memory_;
  HostFunctions* host_functions_;  // never destroyed
  std::vector<std::atomic<bool>> primary_active_;
  std::vector<std::atomic<bool>> peers_;  // [from * count + to]
  bool is_judging_ = false;
};

/// What CUDA keeps for each host thread.
struct ThreadState {
  int device = 0;
  int last_error = 0;       ///< cudaGetLastError
  bool has_context = true;  ///< false after cuCtxSetCurrent(nullptr)
  std::uint64_t correlation =
      0;               ///< of the driver call that the thread is in; 0 while nobody traces
  int call_depth = 0;  ///< calls made by simgpu itself inside a call are not traced
  std::vector<int> context_stack;
};
SIMGPU_CORE ThreadState& this_thread();

/// The number that CUDA returns for a status; 0 for success.
inline int native_code(const Status& status) {
  if (status.ok()) return 0;
  return status.native_code != 0 ? status.native_code : 999;
}

inline DeviceId current_device() {
  return DeviceId{this_thread().device};
}
inline StreamId to_stream(const void* stream) {
  return StreamId{reinterpret_cast<std::uintptr_t>(stream)};
}
inline DeviceAddr to_addr(const void* pointer) {
  return DeviceAddr{reinterpret_cast<std::uintptr_t>(pointer)};
}

}  // namespace levee::simgpu
