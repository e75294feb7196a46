// Whether stitching has become a habit that is paid in every step: the driver-time guard.
//
// Work with structure pays for stitches while it finds its shape and then stops. Work without any
// (random sizes and lifetimes in a full memory) would pay for ever, since no combination of pages
// comes back. The guard measures which share of the time that passes goes into mapping pages again,
// in *windows* of a step or more (`Age`: four turnovers of memory where steps are not marked) and a
// tenth of a second or more. Windows above the share (in a program's first twenty steps: above four
// times the share) count up, others down, by as many steps as they lasted; when enough of them are
// up the guard is *on*: from then on stitches are paid from an account that fills at the stated
// share, and while it is empty the allocator is to grow instead.
// It goes off once no stitch was denied for long. Promises: decides nothing else; what it denies is
// advice, and whoever cannot grow stitches all the same; share 0 means never on. Does not read the
// clock: callers do, on misses alone. Guarded by the pool lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <levee/units.h>

namespace levee::core {

class DriverGuard {
 public:
  DriverGuard(double share, std::uint32_t windows) : share_(share), windows_(windows) {}

  enum class Change : std::uint8_t { kNone, kOn, kOff };

  /// A miss at this time and age of the program (`Age::now`).
  Change look(Nanos now, std::uint64_t age);
  /// Pages were mapped again, and it took so long.
  void spend(Nanos took) {
    spent_ += took.value;
    account_ -= static_cast<double>(took.value);
  }
  bool is_on() const { return is_on_; }
  /// Whether a stitch is to be avoided if there is another way.
  bool denies() const { return is_on_ && account_ <= 0; }
  /// The allocator grew instead.
  void on_denied() { calm_steps_ = 0; }
  /// It could not grow. True the first time since the guard is on.
  bool on_overruled() { return is_on_ && !std::exchange(was_overruled_, true); }

  /// What was spent in the window that closed last, and how long it was: why the guard is on.
  Nanos last_spent() const { return last_spent_; }
  Nanos last_window() const { return last_window_; }

 private:
  static constexpr std::int64_t kShortestWindow = 100'000'000;  // ns
  static constexpr std::uint64_t kCalmSteps = 64;
  // A program with structure pays one or two times the share while it finds its shape, which is no
  // habit; work without any is at ten times and more from its first step on.
  static constexpr double kDear = 4;

  double share_;
  // On the named traces the count of windows never goes above 5; on patterns without structure it
  // rises with each.
  std::uint64_t windows_;
  bool is_on_ = false;
  bool was_overruled_ = false;
  bool is_open_ = false;  // a window is
  std::int64_t window_began_ = 0;
  std::uint64_t window_age_ = 0;
  std::int64_t spent_ = 0;  // in this window
  std::int64_t seen_ = 0;   // when `look` was called last
  std::uint64_t windows_up_ = 0;
  std::uint64_t calm_steps_ = 0;
  double account_ = 0;  // ns
  Nanos last_spent_{};
  Nanos last_window_{};
};

}  // namespace levee::core
