#include "allocator/device/sim/hazard_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace levee::device::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Hazard leak(const char* text) {
  Hazard hazard;
  hazard.kind = HazardKind::kLeak;
  hazard.text = text;
  return hazard;
}

TEST(HazardLog, EveryKindAndEveryCallHasItsOwnName) {
  std::set<std::string> names;
  for (int i = 0; i < static_cast<int>(HazardKind::kCount); ++i)
    names.insert(name_of(static_cast<HazardKind>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(HazardKind::kCount));
  EXPECT_FALSE(names.contains("?"));
  names.clear();
  for (std::size_t i = 0; i < kCallKinds; ++i) names.insert(name_of(static_cast<CallKind>(i)));
  EXPECT_EQ(names.size(), kCallKinds);
}

TEST(HazardLog, TheReportHoldsTheFindingsAndTheCallsBeforeTheNewest) {
  HazardLog log(JudgeMode::kCount);
  EXPECT_EQ(log.report(), "");
  for (std::uint64_t i = 1; i <= 40; ++i) {
    const std::size_t place =
        log.log_call(CallEntry{i, CallKind::kMap, DeviceId{0}, DeviceAddr{i * 4096}, 2_MiB, 0,
                               Nanos{}, Native::kSuccess, ""});
    if (i == 40) log.set_answer(place, Native::kOutOfMemory);
  }
  log.file(leak("three handles"));
  log.log_call(
      CallEntry{41, CallKind::kUnmap, DeviceId{0}, {}, {}, 0, Nanos{}, Native::kSuccess, ""});
  const std::string report = log.report();
  EXPECT_THAT(report, HasSubstr("leak: three handles"));
  EXPECT_THAT(report, HasSubstr("#40  cuMemMap"));
  EXPECT_THAT(report, HasSubstr("-> out of memory"));
  EXPECT_THAT(report, Not(HasSubstr("#8  ")));        // too long ago
  EXPECT_THAT(report, Not(HasSubstr("cuMemUnmap")));  // after it
}

TEST(HazardLog, ClearingForgetsFindingsAndCounts) {
  HazardLog log(JudgeMode::kCount);
  log.file(leak("one"));
  EXPECT_EQ(log.count(HazardKind::kLeak), 1U);
  log.clear();
  EXPECT_EQ(log.count(), 0U);
  EXPECT_EQ(log.count(HazardKind::kLeak), 0U);
  EXPECT_EQ(log.report(), "");
}

}  // namespace
}  // namespace levee::device::sim
