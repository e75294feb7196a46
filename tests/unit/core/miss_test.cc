#include "allocator/core/miss.h"

#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;

TEST(Miss, ALimitIsKeptAndNamed) {
  StateRig rig;
  rig.state.limits.process = 16_MiB;
  rig.alloc(10_MiB);
  OomReport report;
  EXPECT_EQ(rig.slow_path.serve(rig.request(8_MiB), &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(report.cause, EmergencyCause::kLimitReached);
  EXPECT_EQ(report.limit_bytes, 16_MiB);
  EXPECT_LE(rig.state.space.reserved(), 16_MiB);
  rig.alloc(6_MiB);
}

TEST(Miss, ADeviceThatRefusesIsAskedForWhatItHas) {
  StateRig rig(64_MiB);
  rig.model.set_used_by_others(DeviceId{0}, 30_MiB);
  const DeviceAddr block = rig.alloc(30_MiB);
  rig.free(block);
  EXPECT_EQ(rig.slow_path.serve(rig.request(40_MiB), nullptr).code(), StatusCode::kOutOfMemory);
  rig.validate();
  rig.alloc(34_MiB);
}

TEST(Miss, SegmentsComeInTheSizesOfPyTorch) {
  Config config;
  config.backing = Backing::kSegments;
  StateRig rig(256_MiB, config);
  rig.alloc(100_KiB);
  EXPECT_EQ(rig.state.space.reserved(), 2_MiB);
  rig.alloc(3_MiB);
  EXPECT_EQ(rig.state.space.reserved(), 22_MiB);
  rig.alloc(31_MiB);
  EXPECT_EQ(rig.state.space.reserved(), 54_MiB);
  EXPECT_EQ(rig.calls(CallKind::kMalloc), 3U);
}

TEST(Miss, ALimitThatForbidsASegmentInEitherSizeIsNamed) {
  Config config;
  config.backing = Backing::kSegments;
  StateRig rig(256_MiB, config);
  rig.state.limits.process = 16_MiB;
  rig.alloc(12_MiB);
  OomReport report;
  EXPECT_EQ(rig.slow_path.serve(rig.request(8_MiB), &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(report.cause, EmergencyCause::kLimitReached);
  EXPECT_EQ(rig.calls(CallKind::kMalloc), 1U);
}

}  // namespace
}  // namespace levee::core
