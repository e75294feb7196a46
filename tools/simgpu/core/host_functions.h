// Runs the functions that a program enqueues on its streams (cudaLaunchHostFunc,
// cudaStreamAddCallback).
//
// Owns one thread, started with the first function. Promises: functions run on that thread, one
// after the other, each not before the work in front of it is done in simulated time, as with
// CUDA's own callback thread; `drain` returns once those that are due have returned, so that a
// program that synchronised a stream sees their effects. A call from within a function does not
// wait for itself.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>

#include "allocator/base/mutex.h"
#include "allocator/device/sim/gpu_model.h"
#include "tools/simgpu/core/export.h"

namespace levee::simgpu {

class SIMGPU_CORE HostFunctions {
 public:
  explicit HostFunctions(device::sim::GpuModel& model) : model_(model) {}

  Status enqueue(DeviceId device, StreamId stream, std::function<void()> function);
  /// Waits for every function whose turn has come. One load while none was ever enqueued.
  void drain();
  /// Work that may hold functions was enqueued without `enqueue`: the launch of a graph.
  void wake();

 private:
  void run_thread();

  device::sim::GpuModel& model_;
  base::Mutex mutex_;
  base::ConditionVariable changed_;
  std::deque<std::function<void()>> due_ LEVEE_GUARDED_BY(mutex_);
  std::uint64_t announced_ LEVEE_GUARDED_BY(mutex_) = 0;  // times that `wake` was called
  std::uint64_t arrived_ LEVEE_GUARDED_BY(mutex_) = 0;    // became due so far
  std::uint64_t finished_ LEVEE_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> is_started_{false};
};

}  // namespace levee::simgpu
