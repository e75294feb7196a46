#include "tools/simgpu/core/host_functions.h"

#include <pthread.h>

#include <algorithm>
#include <thread>
#include <utility>

namespace levee::simgpu {
namespace {

thread_local bool is_function_thread = false;

// Chosen: the longest nap of the thread while work is pending. The clock may be moved on by a wait
// of another thread, which does not wake this one; the waiting thread runs what is due itself, so
// the nap delays nobody who waits.
constexpr Nanos kLongestNap = 1_ms;

}  // namespace

Status HostFunctions::enqueue(DeviceId device, StreamId stream, std::function<void()> function) {
  if (!is_started_.exchange(true)) std::thread([this] { run_thread(); }).detach();
  device::sim::Work work;
  work.kind = device::sim::WorkKind::kHostFunction;
  work.name = "host function";
  work.on_complete = [this, function = std::move(function)] {
    base::MutexLock lock(mutex_);
    due_.push_back(function);
    ++arrived_;
    changed_.notify_all();
  };
  const Status status =
      model_.enqueue(device, stream, device::sim::CallKind::kLaunchHostFunction, work);
  wake();
  return status;
}

void HostFunctions::wake() {
  if (!is_started_.load(std::memory_order_acquire)) return;
  base::MutexLock lock(mutex_);
  ++announced_;
  changed_.notify_all();
}

void HostFunctions::drain() {
  if (!is_started_.load(std::memory_order_acquire) || is_function_thread) return;
  model_.run_due();
  base::MutexLock lock(mutex_);
  const std::uint64_t wanted = arrived_;
  while (finished_ < wanted) changed_.wait(mutex_);
}

void HostFunctions::run_thread() {
  is_function_thread = true;
  pthread_setname_np(pthread_self(), "simgpu-host-fn");
  base::MutexLock lock(mutex_);
  for (;;) {
    while (!due_.empty()) {
      std::function<void()> function = std::move(due_.front());
      due_.pop_front();
      lock.unlock();
      function();
      function = nullptr;
      lock.lock();
      ++finished_;
      changed_.notify_all();
    }
    const std::uint64_t seen = announced_;
    lock.unlock();
    model_.run_due();
    const Nanos due = model_.next_due();
    const Nanos now = model_.now();
    lock.lock();
    if (!due_.empty() || announced_ != seen) continue;
    if (due >= device::sim::kNever) {
      changed_.wait(mutex_);
    } else if (due > now) {
      changed_.wait_for(mutex_, std::min(due - now, kLongestNap));
    }
  }
}

}  // namespace levee::simgpu
