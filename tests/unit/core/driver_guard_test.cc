#include "allocator/core/driver_guard.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace levee::core {
namespace {

using Change = DriverGuard::Change;
constexpr std::int64_t kSecond = 1'000'000'000;

// A program whose steps last a second, and a guard of one percent that waits for five windows.
class DriverGuardTest : public testing::Test {
 protected:
  // A miss in each of the steps; each costs so much mapping. Returns the last change seen.
  Change run(std::uint64_t steps, std::int64_t cost_ns, std::int64_t step_ns = kSecond) {
    Change last = Change::kNone;
    for (std::uint64_t i = 0; i < steps; ++i) {
      ++step_;
      now_ += step_ns;
      const Change change = guard_.look(Nanos{now_}, step_);
      if (change != Change::kNone) last = change;
      guard_.spend(Nanos{cost_ns});
    }
    return last;
  }
  DriverGuard guard_{0.01, 5};
  std::int64_t now_ = 0;
  std::uint64_t step_ = 0;
};

TEST_F(DriverGuardTest, GoesOnOnlyAboveItsShareForLong) {
  EXPECT_EQ(run(100, kSecond / 100), Change::kNone) << "the share itself is fine";
  EXPECT_EQ(run(5, kSecond / 10), Change::kNone) << "the first of them closes a window before it";
  EXPECT_FALSE(guard_.is_on());
  EXPECT_EQ(run(1, kSecond / 10), Change::kOn);
  EXPECT_EQ(guard_.last_spent(), Nanos{kSecond / 10});
  EXPECT_EQ(guard_.last_window(), Nanos{kSecond});
}

TEST_F(DriverGuardTest, WhileAProgramFindsItsShapeOnlyWhatIsDearCounts) {
  EXPECT_EQ(run(20, kSecond / 50), Change::kNone) << "twice the share";
  // The first window after them was opened by the last of them.
  EXPECT_EQ(run(4, kSecond / 50), Change::kNone);
  EXPECT_EQ(run(1, kSecond / 50), Change::kOn);
}

TEST_F(DriverGuardTest, QuietStepsCountAgainstDearOnes) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(run(4, kSecond / 10), Change::kNone);
    step_ += 20;  // steps without any miss
    now_ += 20 * kSecond;
    EXPECT_EQ(run(1, 0), Change::kNone);
  }
  EXPECT_EQ(run(1, 10 * kSecond), Change::kNone) << "one step, however dear, is no habit";
  EXPECT_EQ(run(1, 0), Change::kNone);
}

TEST_F(DriverGuardTest, WindowsAreATenthOfASecondAtLeast) {
  // Steps of a millisecond: fifty of them end no window.
  EXPECT_EQ(run(50, kSecond / 1000, kSecond / 1000), Change::kNone);
  EXPECT_EQ(run(460, kSecond / 1000, kSecond / 1000), Change::kOn);
}

TEST_F(DriverGuardTest, WithoutTheProgramGrowingOlderNothingIsAHabit) {
  for (int i = 0; i < 100; ++i) {
    now_ += kSecond;
    EXPECT_EQ(guard_.look(Nanos{now_}, 7), Change::kNone);
    guard_.spend(Nanos{kSecond / 2});
  }
}

TEST_F(DriverGuardTest, AnAgeThatBeginsAnewBeginsAWindow) {
  run(3, kSecond / 10);
  step_ = 0;  // live bytes outgrew what they were
  EXPECT_EQ(run(1, kSecond / 10), Change::kNone);
  EXPECT_EQ(run(6, kSecond / 10), Change::kOn);
}

TEST_F(DriverGuardTest, OnItPaysForStitchesFromItsShare) {
  run(7, kSecond / 10);
  ASSERT_TRUE(guard_.is_on());
  EXPECT_TRUE(guard_.denies()) << "what the last one cost is not earned yet";
  now_ += 25 * kSecond;
  guard_.look(Nanos{now_}, ++step_);
  EXPECT_FALSE(guard_.denies());
  guard_.spend(Nanos{kSecond / 5});
  EXPECT_TRUE(guard_.denies());
}

TEST_F(DriverGuardTest, WhatIsSavedUpServesOneWindowAtMost) {
  run(7, kSecond / 10);
  ASSERT_TRUE(guard_.is_on());
  now_ += 10 * kSecond;
  guard_.look(Nanos{now_}, ++step_);
  for (int i = 0; i < 40; ++i) {  // each earns 10 ms, which the next may not pile up
    now_ += kSecond;
    guard_.look(Nanos{now_}, ++step_);
  }
  guard_.spend(Nanos{kSecond / 50});
  EXPECT_TRUE(guard_.denies());
}

TEST_F(DriverGuardTest, GoesOffWhenNothingWasDeniedForLong) {
  run(7, kSecond / 10);
  ASSERT_TRUE(guard_.is_on());
  EXPECT_EQ(run(40, 0), Change::kNone);
  guard_.on_denied();
  EXPECT_EQ(run(60, 0), Change::kNone) << "the count began anew";
  EXPECT_EQ(run(10, 0), Change::kOff);
  EXPECT_FALSE(guard_.is_on());
  EXPECT_EQ(run(7, kSecond / 10), Change::kOn);
}

TEST_F(DriverGuardTest, TellsOnceThatItWasOverruled) {
  EXPECT_FALSE(guard_.on_overruled()) << "it is not on";
  run(7, kSecond / 10);
  EXPECT_TRUE(guard_.on_overruled());
  EXPECT_FALSE(guard_.on_overruled());
}

TEST(DriverGuardOff, AShareOfZeroIsNoGuard) {
  DriverGuard guard(0, 1);
  for (std::uint64_t step = 1; step < 100; ++step) {
    EXPECT_EQ(guard.look(Nanos{static_cast<std::int64_t>(step) * kSecond}, step), Change::kNone);
    guard.spend(Nanos{kSecond / 2});
  }
}

}  // namespace
}  // namespace levee::core
