#include "tools/simgpu/cupti/time_map.h"

#include <time.h>

#include "allocator/base/clock.h"
#include "tools/simgpu/simgpu_abi.h"

namespace levee::simgpu::cupti {
namespace {

Nanos modelled_now() {
  return Nanos{simgpu_now_ns()};
}

// Chosen: over 20 ms the jitter of two clock reads (some 100 ns) is 5 parts in a million.
constexpr Nanos kShortestBase = 20_ms;

}  // namespace

void TimeMap::set_clock(Clock clock) {
  base::MutexLock lock(mutex_);
  clock_ = clock;
  ticks_per_ns_ = 0;
  is_identity_ = true;
  if (clock == nullptr) return;
  // The simulation's own clock cannot leave the bracket of two reads of it; any other can only by
  // chance.
  const Nanos before = modelled_now();
  const std::uint64_t ticks = clock();
  const Nanos after = modelled_now();
  is_identity_ = ticks >= static_cast<std::uint64_t>(before.value) &&
                 ticks <= static_cast<std::uint64_t>(after.value);
  first_host_ = base::Clock::monotonic();
  first_ticks_ = clock();
  anchor_modelled_ = modelled_now();
  anchor_ticks_ = first_ticks_;
}

void TimeMap::anchor() {
  base::MutexLock lock(mutex_);
  if (is_identity_) return;
  anchor_modelled_ = modelled_now();
  anchor_ticks_ = clock_();
}

void TimeMap::measure_rate_locked() {
  Nanos passed = base::Clock::monotonic() - first_host_;
  if (passed < kShortestBase) {
    const Nanos rest = kShortestBase - passed;
    timespec nap{0, rest.value};
    nanosleep(&nap, nullptr);
  }
  const Nanos host = base::Clock::monotonic();
  const std::uint64_t ticks = clock_();
  passed = host - first_host_;
  ticks_per_ns_ = static_cast<double>(ticks - first_ticks_) / static_cast<double>(passed.value);
}

void TimeMap::refresh() {
  base::MutexLock lock(mutex_);
  if (!is_identity_) measure_rate_locked();
}

std::uint64_t TimeMap::to_client(Nanos modelled) {
  base::MutexLock lock(mutex_);
  if (is_identity_) return static_cast<std::uint64_t>(modelled.value);
  if (ticks_per_ns_ == 0) measure_rate_locked();
  const double offset = static_cast<double>((modelled - anchor_modelled_).value) * ticks_per_ns_;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(anchor_ticks_) +
                                    static_cast<std::int64_t>(offset));
}

}  // namespace levee::simgpu::cupti
