// From the simulation's clock to the clock that a profiler asked CUPTI to use
// (cuptiActivityRegisterTimestampCallback).
//
// A profiler's own clock (PyTorch's counts processor cycles) runs with the host; the simulation's
// has run ahead of it by what driver calls and waits would have cost. Times are mapped linearly
// from an anchor that is set when a profiling window opens; inside a window the two run side by
// side, since the model is paced then (client.cc). A clock that reads the simulation's own time is
// recognised and used as it is.
#pragma once

#include <cstdint>

#include <levee/units.h>

#include "allocator/base/mutex.h"

namespace levee::simgpu::cupti {

class TimeMap {
 public:
  using Clock = std::uint64_t (*)();

  /// Null: the simulation's own nanoseconds.
  void set_clock(Clock clock);
  /// A window opens: both clocks show the same moment now.
  void anchor();
  /// Measures the client's rate anew, over all the time since its clock is known: what was a fine
  /// estimate for a window of milliseconds would be microseconds off at the end of one of seconds.
  void refresh();
  std::uint64_t to_client(Nanos modelled);
  /// Whether the client's clock is the simulation's.
  bool is_identity() {
    base::MutexLock lock(mutex_);
    return is_identity_;
  }

 private:
  void measure_rate_locked() LEVEE_REQUIRES(mutex_);

  base::Mutex mutex_;
  Clock clock_ LEVEE_GUARDED_BY(mutex_) = nullptr;
  bool is_identity_ LEVEE_GUARDED_BY(mutex_) = true;
  double ticks_per_ns_ LEVEE_GUARDED_BY(mutex_) = 0;  // 0: not measured yet
  Nanos first_host_ LEVEE_GUARDED_BY(mutex_);
  std::uint64_t first_ticks_ LEVEE_GUARDED_BY(mutex_) = 0;
  Nanos anchor_modelled_ LEVEE_GUARDED_BY(mutex_);
  std::uint64_t anchor_ticks_ LEVEE_GUARDED_BY(mutex_) = 0;
};

}  // namespace levee::simgpu::cupti
