// The one clock of a model: virtual time, in nanoseconds.
//
// Promises: never goes back; reading takes no lock. In host mode it runs one to one with
// CLOCK_MONOTONIC from the same origin, and `add` puts it ahead of that by what calls and waits
// would have cost; while it is paced, `add` instead really takes that long, so that the distance to
// the host's clock stays what it is. In manual mode only `add` moves it, from 0. Costs: a load; in
// host mode also one clock_gettime.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#include <levee/units.h>

#include "allocator/base/clock.h"
#include "allocator/device/sim/gpu_model.h"

namespace levee::device::sim {

class VirtualClock {
 public:
  explicit VirtualClock(ClockMode mode) : mode_(mode) {}

  Nanos now() const {
    const std::int64_t ahead = ahead_.load(std::memory_order_relaxed);
    return Nanos{mode_ == ClockMode::kManual ? ahead : base::Clock::monotonic().value + ahead};
  }
  /// Where it keeps what it is ahead of CLOCK_MONOTONIC; null in manual mode. Read it atomically.
  const std::int64_t* ahead() const {
    static_assert(decltype(ahead_)::is_always_lock_free && sizeof(ahead_) == sizeof(std::int64_t));
    return mode_ == ClockMode::kManual ? nullptr : reinterpret_cast<const std::int64_t*>(&ahead_);
  }
  void add(Nanos by) {
    if (paced_.load(std::memory_order_relaxed)) {
      take_real_time(by);
    } else {
      ahead_.fetch_add(by.value, std::memory_order_relaxed);
    }
  }
  /// Host mode alone.
  void set_paced(bool paced) { paced_.store(paced, std::memory_order_relaxed); }
  /// Moves to `time` if that is ahead. Callers take turns (the model's mutex).
  void move_to(Nanos time) {
    const Nanos present = now();
    if (present < time) add(time - present);
  }

 private:
  static void take_real_time(Nanos by) {
    // A sleep is late by some 50 us: what is shorter is spun, what is longer sleeps all but that.
    constexpr std::int64_t kSpinNs = 100'000;
    const Nanos end = base::Clock::monotonic() + by;
    if (by.value > kSpinNs) {
      const std::int64_t sleep = by.value - kSpinNs;
      timespec rest{sleep / 1'000'000'000, sleep % 1'000'000'000};
      nanosleep(&rest, nullptr);
    }
    while (base::Clock::monotonic() < end) {
    }
  }

  ClockMode mode_;
  std::atomic<bool> paced_{false};
  std::atomic<std::int64_t> ahead_{0};
};

}  // namespace levee::device::sim
