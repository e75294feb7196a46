// A device that is lost in the middle of a request: whichever call hears of it, the request says so
// at once. It is no want of memory, so nothing is given back for it, and nothing more is made.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/core/rig.h"

namespace levee::core {
namespace {

using device::Native;
using device::sim::CallKind;
using device::sim::Fault;

// Those whose answer a request goes by. What is asked to know more (memory information, event
// queries) may fail.
const std::vector<CallKind> kKinds = {CallKind::kMalloc,           CallKind::kReserveRange,
                                      CallKind::kCreateHandle,     CallKind::kMap,
                                      CallKind::kSetAccess,        CallKind::kCreateEvent,
                                      CallKind::kRecordEvent,      CallKind::kWaitEvent,
                                      CallKind::kCaptureInfo,      CallKind::kSynchronizeEvent,
                                      CallKind::kSynchronizeDevice};

struct Scenario {
  const char* name;
  Config config;
  /// What comes before; returns the request that the device is lost under.
  std::function<std::function<Result<Block>()>(Rig&)> prepare;
  std::vector<CallKind> kinds;
};

std::vector<DeviceAddr> scatter(Rig& rig, Bytes each, int count, StreamId stream = StreamId{0}) {
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < count; ++i) blocks.push_back(rig.alloc(each, stream));
  for (std::size_t i = 0; i < blocks.size(); i += 2) rig.free(blocks[i]);
  return blocks;
}

std::function<Result<Block>()> request(Rig& rig, Bytes bytes, StreamId stream = StreamId{0}) {
  return [&rig, bytes, stream] { return rig->allocate(bytes, stream, nullptr); };
}

std::vector<Scenario> scenarios() {
  Config tight;
  tight.slack = 0;
  tight.rebase = false;
  Config move = tight;
  move.stitch = StitchMode::kMove;
  Config none = tight;
  none.stitch = StitchMode::kNone;
  Config segments;
  segments.backing = Backing::kSegments;
  const auto first = [](Rig& rig) { return request(rig, 8_MiB); };
  const auto stitch = [](Rig& rig) {
    scatter(rig, 6_MiB, 6);
    return request(rig, 18_MiB);
  };
  const auto fill_and_stitch = [](Rig& rig) {
    scatter(rig, 6_MiB, 6);
    return request(rig, 26_MiB);
  };
  const auto cross_stream = [](Rig& rig) {
    const StreamId side = rig.stream();
    const DeviceAddr block = rig.alloc(8_MiB, side);
    rig.work(side, 2_ms);
    rig.free(block);
    return request(rig, 8_MiB);
  };
  const auto busy_stitch = [](Rig& rig) {
    const StreamId side = rig.stream();
    scatter(rig, 6_MiB, 6, side);
    rig.work(side, 2_ms);
    return request(rig, 18_MiB);
  };
  const auto after_a_graph = [](Rig& rig) {
    const PoolId pool{0, 7};
    const StreamId captured = rig.stream();
    EXPECT_TRUE(rig->begin_allocate_to_pool(pool, [=](StreamId s) { return s == captured; }).ok());
    EXPECT_TRUE(
        rig.model().begin_capture(DeviceId{0}, captured, device::sim::CaptureMode::kGlobal).ok());
    rig.free(rig.alloc(8_MiB, captured));
    const auto graph = rig.model().end_capture(DeviceId{0}, captured);
    EXPECT_TRUE(rig->end_allocate_to_pool(pool).ok());
    EXPECT_TRUE(rig->release_pool(pool).ok());
    EXPECT_TRUE(rig.model().destroy_graph(*graph).ok());
    return request(rig, 8_MiB);
  };
  const auto in_a_region = [](Rig& rig) {
    EXPECT_TRUE(rig->begin_allocate_to_pool(PoolId{0, 7}, {}).ok());
    return request(rig, 8_MiB, rig.stream());
  };
  std::vector<Scenario> all;
  const auto add = [&](const char* name, const Config& config, auto prepare,
                       const std::vector<CallKind>& kinds) {
    all.push_back(Scenario{name, config, prepare, kinds});
  };
  const Config plain;
  add("first", plain, first, kKinds);
  add("stitch", tight, stitch, kKinds);
  add("fill_and_stitch", tight, fill_and_stitch, kKinds);
  add("grow_only", none, stitch, kKinds);
  add("cross_stream", plain, cross_stream, kKinds);
  add("move", move, busy_stitch, kKinds);
  // Here a fence that works makes events needless.
  add("after_a_graph", plain, after_a_graph, {CallKind::kSynchronizeDevice});
  add("in_a_region", plain, in_a_region, kKinds);
  add("segment", segments, first, kKinds);
  return all;
}

class DeviceLost : public testing::TestWithParam<Scenario> {};

TEST_P(DeviceLost, IsToldAtOnceWhicheverCallHearsOfIt) {
  const Scenario& scenario = GetParam();
  int positions = 0;
  for (CallKind kind : scenario.kinds) {
    for (std::uint64_t nth = 1;; ++nth) {
      Rig rig(256_MiB, scenario.config, device::sim::JudgeMode::kCount);
      const std::function<Result<Block>()> ask = scenario.prepare(rig);
      // The device is lost for good: no call of that kind works any more.
      Fault fault = Fault::fail_nth(kind, nth, Native::kIllegalAddress);
      fault.times = Fault::kForever;
      rig.model().set_faults({fault});
      const std::uint64_t before = rig.calls(kind);
      const Result<Block> answer = ask();
      const bool reached = rig.calls(kind) - before >= nth;
      rig.model().set_faults({});
      const std::string where =
          std::string(device::sim::name_of(kind)) + " number " + std::to_string(nth);
      rig->validate();
      if (!reached) break;
      ++positions;
      EXPECT_EQ(answer.code(), StatusCode::kDeviceLost) << where;
      EXPECT_EQ(rig->stats().num_emergencies, 0) << where;
    }
  }
  EXPECT_GT(positions, 0);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, DeviceLost, testing::ValuesIn(scenarios()),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace levee::core
