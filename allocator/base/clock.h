// The one clock. Every time that levee records, compares or reports comes from here, so that
// allocator events, kernel records and a simulated GPU share one axis.
//
// Owns: the source of time, process-wide. Promises: `now()` never fails and is safe from any
// thread. The source is CLOCK_MONOTONIC until somebody replaces it, which can happen once (a
// simulated GPU does it when it is loaded, before the first allocation); later attempts are
// refused, since times of two sources do not compare. Costs: one relaxed load and an indirect call
// (about 40 ns with CLOCK_MONOTONIC on a 2.1 GHz Xeon: `BM_clock_now`).
#pragma once

#include <atomic>

#include <levee/units.h>

namespace levee::base {

class Clock {
 public:
  using Source = Nanos (*)();

  static Nanos now() { return source_.load(std::memory_order_relaxed)(); }

  /// Makes `source` the clock. False, and nothing changed, if another one was installed before. The
  /// same one again is fine.
  static bool replace_source(Source source);

  /// Whether times are modelled by a source that was installed.
  static bool is_replaced() { return source_.load(std::memory_order_relaxed) != &monotonic; }

  /// CLOCK_MONOTONIC, whatever the source is: for what concerns the host alone.
  static Nanos monotonic();

 private:
  friend class ScopedClockForTest;
  static std::atomic<Source> source_;
};

/// Replaces the source for its lifetime, also when one is installed. For tests, which run several
/// clocks in one process.
class ScopedClockForTest {
 public:
  explicit ScopedClockForTest(Clock::Source source)
      : previous_(Clock::source_.exchange(source, std::memory_order_relaxed)) {}
  ~ScopedClockForTest() { Clock::source_.store(previous_, std::memory_order_relaxed); }
  ScopedClockForTest(const ScopedClockForTest&) = delete;
  ScopedClockForTest& operator=(const ScopedClockForTest&) = delete;

 private:
  Clock::Source previous_;
};

}  // namespace levee::base
