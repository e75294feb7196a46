#include "allocator/base/clock.h"

#include <gtest/gtest.h>

namespace levee::base {
namespace {

Nanos at_seven() {
  return 7_ns;
}
Nanos at_eight() {
  return 8_ns;
}

TEST(Clock, IsMonotonicUntilReplaced) {
  EXPECT_FALSE(Clock::is_replaced());
  const Nanos before = Clock::monotonic();
  const Nanos now = Clock::now();
  const Nanos after = Clock::monotonic();
  EXPECT_LE(before, now);
  EXPECT_LE(now, after);
  EXPECT_GT(before.value, 0);
}

TEST(Clock, AScopedSourceIsTheClockForItsLifetime) {
  {
    const ScopedClockForTest clock{&at_seven};
    EXPECT_EQ(Clock::now(), 7_ns);
    EXPECT_TRUE(Clock::is_replaced());
    EXPECT_GT(Clock::monotonic(), 7_ns);
  }
  EXPECT_FALSE(Clock::is_replaced());
}

TEST(Clock, IsReplacedOnceAndBySomebodyElseNever) {
  const ScopedClockForTest restore{&Clock::monotonic};
  EXPECT_TRUE(Clock::replace_source(&at_seven));
  EXPECT_EQ(Clock::now(), 7_ns);
  EXPECT_TRUE(Clock::replace_source(&at_seven));
  EXPECT_FALSE(Clock::replace_source(&at_eight));
  EXPECT_EQ(Clock::now(), 7_ns);
}

}  // namespace
}  // namespace levee::base
