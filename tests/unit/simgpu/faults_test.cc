// The text form of fault plans.
#include "tools/simgpu/core/faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace levee::simgpu {
namespace {

using device::sim::CallKind;
using device::sim::Fault;
using device::sim::FaultPlan;
using ::testing::HasSubstr;
using ::testing::SizeIs;

FaultPlan parse(std::string_view text) {
  std::string problem;
  FaultPlan plan = parse_faults(text, &problem);
  EXPECT_EQ(problem, "") << text;
  return plan;
}

std::string problem_of(std::string_view text) {
  std::string problem;
  parse_faults(text, &problem);
  return problem;
}

TEST(Faults, ARuleNamesACallAndWhenItFails) {
  const FaultPlan plan =
      parse("cudaMalloc:first=5; cuMemMap:first=3:every=2:times=4:error=1:device=1");
  ASSERT_THAT(plan, SizeIs(2));
  EXPECT_EQ(plan[0].kind, CallKind::kMalloc);
  EXPECT_EQ(plan[0].first, 5U);
  EXPECT_EQ(plan[0].times, 1U);
  EXPECT_EQ(plan[0].status, device::Native::kOutOfMemory);
  EXPECT_EQ(plan[1].kind, CallKind::kMap);
  EXPECT_EQ(plan[1].every, 2U);
  EXPECT_EQ(plan[1].times, 4U);
  EXPECT_EQ(plan[1].status, device::Native::kInvalidValue);
  EXPECT_EQ(plan[1].device, DeviceId{1});
}

TEST(Faults, AnEventCanBeLateOrNeverCome) {
  const FaultPlan plan =
      parse("cudaEventRecord:first=10:delay=5ms;cudaEventRecord:delay=never:times=forever");
  ASSERT_THAT(plan, SizeIs(2));
  EXPECT_EQ(plan[0].delay, 5_ms);
  EXPECT_EQ(plan[0].status, device::Native::kSuccess);
  EXPECT_EQ(plan[1].delay, device::sim::kNever);
  EXPECT_EQ(plan[1].times, Fault::kForever);
}

TEST(Faults, NothingIsAPlanToo) {
  EXPECT_THAT(parse(" ; "), SizeIs(0));
}

TEST(Faults, WhatIsNotUnderstoodIsNamed) {
  EXPECT_THAT(problem_of("cudaMallok:first=1"), HasSubstr("\"cudaMallok\" is not a call"));
  EXPECT_THAT(problem_of("cudaMalloc:nth=1"), HasSubstr("\"nth=1\" is not understood"));
  EXPECT_THAT(problem_of("cudaMalloc:first=0"), HasSubstr("first=0"));
  EXPECT_THAT(problem_of("cudaEventRecord:delay=soon"), HasSubstr("delay=soon"));
}

}  // namespace
}  // namespace levee::simgpu
