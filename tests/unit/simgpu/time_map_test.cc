// The mapping from the simulation's clock to a profiler's.
#include "tools/simgpu/cupti/time_map.h"

#include <gtest/gtest.h>

#include "allocator/base/clock.h"
#include "tools/simgpu/simgpu_abi.h"

namespace levee::simgpu::cupti {
namespace {

std::uint64_t simulation_clock() {
  return static_cast<std::uint64_t>(simgpu_now_ns());
}
/// Counts three ticks a nanosecond, from another origin: as a counter of processor cycles does.
std::uint64_t cycle_clock() {
  return static_cast<std::uint64_t>(base::Clock::monotonic().value) * 3 + 1'000'000'000'000;
}

TEST(TimeMap, WithoutAClientClockTimesAreTheSimulations) {
  TimeMap map;
  EXPECT_EQ(map.to_client(Nanos{123}), 123U);
}

TEST(TimeMap, TheSimulationsOwnClockIsRecognised) {
  TimeMap map;
  map.set_clock(&simulation_clock);
  map.anchor();
  EXPECT_EQ(map.to_client(Nanos{5'000}), 5'000U);
}

TEST(TimeMap, AnotherClocksRateAndOriginAreMeasured) {
  TimeMap map;
  map.set_clock(&cycle_clock);
  map.anchor();
  const Nanos now{simgpu_now_ns()};
  const std::uint64_t mapped = map.to_client(now);
  EXPECT_NEAR(static_cast<double>(mapped), static_cast<double>(now.value) * 3 + 1e12,
              3e6);  // within 1 ms
  const std::uint64_t later = map.to_client(now + 1_ms);
  EXPECT_NEAR(static_cast<double>(later - mapped), 3e6, 3e3);  // durations within 0.1 %
}

}  // namespace
}  // namespace levee::simgpu::cupti
