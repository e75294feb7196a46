#include "allocator/record/time_stamps.h"

#include <random>

#include <gtest/gtest.h>

namespace levee::record {
namespace {

TEST(StampClock, ATimeOfTheClockStaysWhatItIs) {
  const StampClock clock(false);
  EXPECT_EQ(clock.time_of(123), Nanos{123});
}

TEST(StampClock, TicksAreConvertedBetweenAnchors) {
  StampClock clock(false);
  clock.add_anchor({1000, 10'000});
  clock.add_anchor({3000, 11'000});  // 2 ticks a ns
  clock.add_anchor({5000, 13'000});  // 1 tick a ns
  const auto time_of = [&](std::uint64_t ticks) { return clock.time_of(ticks | kTickStamp).value; };
  EXPECT_EQ(time_of(1000), 10'000);
  EXPECT_EQ(time_of(2000), 10'500);
  EXPECT_EQ(time_of(3000), 11'000);
  EXPECT_EQ(time_of(4000), 12'000);
  EXPECT_EQ(time_of(6000), 14'000) << "by the latest slope";
  EXPECT_EQ(time_of(0), 9500) << "before the first anchor, by its slope";
}

TEST(StampClock, OrderIsKeptAcrossAnchorsThatJitter) {
  StampClock clock(false);
  std::mt19937_64 random(4);
  std::uint64_t ticks = 1'000'000;
  std::vector<std::uint64_t> stamps;
  clock.add_anchor({ticks, 0});
  for (int i = 0; i < 60; ++i) {
    for (int j = 0; j < 100; ++j) stamps.push_back(ticks + static_cast<std::uint64_t>(j) * 20'000);
    ticks += 2'100'000;
    clock.add_anchor({ticks, static_cast<std::int64_t>((ticks - 1'000'000) * 10 / 21) +
                                 static_cast<std::int64_t>(random() % 100)});
  }
  Nanos last{INT64_MIN};
  for (const std::uint64_t stamp : stamps) {
    const Nanos time = clock.time_of(stamp | kTickStamp);
    ASSERT_GE(time, last);
    last = time;
    const auto truth = static_cast<std::int64_t>((stamp - 1'000'000) * 10 / 21);
    ASSERT_LT(std::abs(time.value - truth), 110);
  }
}

TEST(StampClock, AnAnchorThatGoesBackIsIgnored) {
  StampClock clock(false);
  clock.add_anchor({1000, 10'000});
  clock.add_anchor({3000, 11'000});
  clock.add_anchor({2000, 12'000});
  clock.add_anchor({4000, 10'500});
  EXPECT_EQ(clock.time_of(2000 | kTickStamp), Nanos{10'500});
}

}  // namespace
}  // namespace levee::record
