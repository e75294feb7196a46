// Cheap time stamps for events, and their way back to levee's Clock.
//
// A stamp is a time on the Clock in nanoseconds, or, where the processor's counter is usable, a
// count of its ticks with the top bit set: reading the counter takes half the time of a clock read.
// `StampClock` knows both at some moments (anchors) and converts between them by straight lines, so
// that stamps keep their order and lie within the jitter of an anchor (some 50 ns) of the Clock.
// Thread safety: `read_ticks` from any thread; one StampClock belongs to one thread.
// Costs: `read_ticks` about 17 ns in a virtual machine, less on bare metal; converting 2 ns.
#pragma once

#include <cstdint>
#include <vector>

#include <levee/units.h>

#if defined(__x86_64__)
#  include <x86intrin.h>
#endif

namespace levee::record {

inline constexpr std::uint64_t kTickStamp = std::uint64_t{1} << 63;

/// Whether the processor counts at a constant rate, in step on all cores, whatever the power state;
/// and the kernel trusts it too.
bool ticks_are_usable();

/// A stamp of ticks. Not ordered against neighbouring loads and stores: two threads that hand
/// something over may read stamps in the wrong order by less than kMaxStampInversion.
inline std::uint64_t read_ticks() {
#if defined(__x86_64__)
  return __rdtsc() | kTickStamp;
#else
  return kTickStamp;  // never reached: `ticks_are_usable` is false
#endif
}

/// Reads the counter and CLOCK_MONOTONIC as close together as some tries can.
struct CounterMoment {
  std::uint64_t ticks = 0;
  std::int64_t host_ns = 0;
};
CounterMoment counter_moment();

/// Stamps of ticks. On a clock that is CLOCK_MONOTONIC plus a number (a simulated GPU's), that
/// number is added, in ticks: such stamps jump with the clock and run at the counter's rate.
class TickSource {
 public:
  TickSource() = default;
  /// Measures the counter's rate since `begin`; waits until that was two milliseconds ago, so that
  /// the rate is right to some 1e-5: what a stamp may be off within one interval of anchors.
  TickSource(const std::int64_t* ahead, CounterMoment begin);

  bool is_counter_alone() const { return ahead_ == nullptr; }
  std::uint64_t read() const {
    if (ahead_ == nullptr) return read_ticks();
    const auto ahead = static_cast<double>(__atomic_load_n(ahead_, __ATOMIC_RELAXED));
    // By way of a signed number, for which the processor has an instruction.
    const auto ticks_ahead = static_cast<std::int64_t>(ahead * ticks_per_ns_);
    return (read_ticks() + static_cast<std::uint64_t>(ticks_ahead)) | kTickStamp;
  }

 private:
  const std::int64_t* ahead_ = nullptr;
  double ticks_per_ns_ = 0;
};

/// A load or store can overtake a counter read by no more than the processor looks ahead: some
/// hundred instructions.
inline constexpr Nanos kMaxStampInversion{1000};

class StampClock {
 public:
  explicit StampClock(bool uses_ticks, TickSource ticks = {})
      : uses_ticks_(uses_ticks), ticks_(ticks) {
    add_anchor();
  }

  /// Reads both clocks. Returns the Clock's time.
  Nanos add_anchor();
  /// Stamps taken before the latest anchor are converted between two anchors; later ones by the
  /// latest slope.
  Nanos time_of(std::uint64_t stamp) const {
    if ((stamp & kTickStamp) == 0) return Nanos{static_cast<std::int64_t>(stamp)};
    return time_of_ticks(stamp & ~kTickStamp);
  }

  // For tests: an anchor from elsewhere.
  struct Anchor {
    std::uint64_t ticks = 0;
    std::int64_t time = 0;
  };
  void add_anchor(Anchor anchor);

 private:
  struct Line {
    Anchor from;
    double ns_per_tick = 0;
  };
  Nanos time_of_ticks(std::uint64_t ticks) const;

  bool uses_ticks_;
  TickSource ticks_;
  std::vector<Line> lines_;  // from each anchor to the next, the newest last; at most kMaxLines
};

}  // namespace levee::record
