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
#include <cstdint>

#include <levee/units.h>

namespace levee::base {

class Clock {
 public:
  using Source = Nanos (*)();

  static Nanos now() { return source_.load(std::memory_order_relaxed)(); }

  /// Where a source keeps how far it is ahead of CLOCK_MONOTONIC, in ns, if it is that clock plus
  /// a number that only grows; null where it is not, or cannot say yet. Read it atomically.
  using Ahead = const std::int64_t* (*)();

  /// Makes `source` the clock. False, and nothing changed, if another one was installed before. The
  /// same one again is fine.
  static bool replace_source(Source source, Ahead ahead = nullptr);
  static const std::int64_t* ahead() {
    const Ahead where = ahead_.load(std::memory_order_acquire);
    return where == nullptr ? nullptr : where();
  }

  /// Whether times are modelled by a source that was installed.
  static bool is_replaced() { return source_.load(std::memory_order_relaxed) != &monotonic; }

  /// CLOCK_MONOTONIC, whatever the source is: for what concerns the host alone.
  static Nanos monotonic();

 private:
  friend class ScopedClockForTest;
  static std::atomic<Source> source_;
  static std::atomic<Ahead> ahead_;  // of the source that was installed; null: it has none
};

/// Replaces the source for its lifetime, also when one is installed. For tests, which run several
/// clocks in one process.
class ScopedClockForTest {
 public:
  explicit ScopedClockForTest(Clock::Source source, Clock::Ahead ahead = nullptr)
      : previous_(Clock::source_.exchange(source, std::memory_order_relaxed)),
        previous_ahead_(Clock::ahead_.exchange(ahead, std::memory_order_relaxed)) {}
  ~ScopedClockForTest() {
    Clock::source_.store(previous_, std::memory_order_relaxed);
    Clock::ahead_.store(previous_ahead_, std::memory_order_relaxed);
  }
  ScopedClockForTest(const ScopedClockForTest&) = delete;
  ScopedClockForTest& operator=(const ScopedClockForTest&) = delete;

 private:
  Clock::Source previous_;
  Clock::Ahead previous_ahead_;
};

}  // namespace levee::base
