#include "allocator/base/clock.h"

#include <ctime>

#include "allocator/base/check.h"

namespace levee::base {

constinit std::atomic<Clock::Source> Clock::source_{&Clock::monotonic};
constinit std::atomic<Clock::Ahead> Clock::ahead_{nullptr};

Nanos Clock::monotonic() {
  timespec time{};
  LEVEE_CHECK_EQ(::clock_gettime(CLOCK_MONOTONIC, &time), 0);
  return Nanos{static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec};
}

bool Clock::replace_source(Source source, Ahead ahead) {
  LEVEE_CHECK(source != nullptr);
  Source expected = &monotonic;
  if (source_.compare_exchange_strong(expected, source, std::memory_order_relaxed)) {
    ahead_.store(ahead, std::memory_order_release);
    return true;
  }
  return expected == source;
}

}  // namespace levee::base
