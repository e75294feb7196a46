#include "allocator/core/driver_guard.h"

#include "allocator/core/age.h"

namespace levee::core {

DriverGuard::Change DriverGuard::look(Nanos now, std::uint64_t age) {
  if (share_ <= 0) return Change::kNone;
  if (!is_open_) {
    is_open_ = true;
    window_began_ = seen_ = now.value;
    window_age_ = age;
    return Change::kNone;
  }
  account_ += share_ * static_cast<double>(now.value - seen_);
  seen_ = now.value;
  // Age begins anew when live bytes outgrow what they were.
  if (age < window_age_) window_age_ = age;
  const std::int64_t passed = now.value - window_began_;
  if (age == window_age_ || passed < kShortestWindow) return Change::kNone;
  const std::uint64_t steps = age - window_age_;
  const double allowed = share_ * static_cast<double>(passed);
  const bool is_warm_up = age <= Age::kWarmUpSteps;
  const bool is_up = static_cast<double>(spent_) > (is_warm_up ? kDear : 1) * allowed;
  // What is saved up serves one window at most: a quiet night buys no morning of stitches.
  account_ = std::min(account_, allowed);
  last_spent_ = Nanos{spent_};
  last_window_ = Nanos{passed};
  window_began_ = now.value;
  window_age_ = age;
  spent_ = 0;
  if (is_on_) {
    calm_steps_ += steps;
    if (calm_steps_ < kCalmSteps) return Change::kNone;
    is_on_ = false;
    windows_up_ = 0;
    return Change::kOff;
  }
  // However long a window was, being above the share counts once.
  windows_up_ = is_up ? windows_up_ + 1 : windows_up_ - std::min(windows_up_, steps);
  if (windows_up_ < windows_) return Change::kNone;
  is_on_ = true;
  was_overruled_ = false;
  calm_steps_ = 0;
  account_ = 0;
  return Change::kOn;
}

}  // namespace levee::core
