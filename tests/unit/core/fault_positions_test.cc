// Every driver call failing once, at every position of a set of scenarios: the allocator stays
// whole, the process goes on, and once the fault is over everything can be given back.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/core/rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;
using device::sim::Fault;

struct Scenario {
  const char* name;
  Config config;
  std::function<void(Rig&, std::vector<DeviceAddr>&)> play;
};

void try_alloc(Rig& rig, std::vector<DeviceAddr>& live, Bytes bytes,
               StreamId stream = StreamId{0}) {
  const Result<Block> block = rig->allocate(bytes, stream, nullptr);
  if (block.ok()) live.push_back(block->addr);
}
void free_at(Rig& rig, std::vector<DeviceAddr>& live, std::size_t i) {
  if (i >= live.size()) return;
  rig.free(live[i]);
  live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
}

std::vector<Scenario> scenarios() {
  const auto grow_stitch_trim = [](Rig& rig, std::vector<DeviceAddr>& live) {
    for (int i = 0; i < 8; ++i) try_alloc(rig, live, 6_MiB);
    for (std::size_t i = 0; i < 4; ++i) free_at(rig, live, i);
    try_alloc(rig, live, 20_MiB);
    try_alloc(rig, live, 700_B);
    try_alloc(rig, live, 300_KiB);
    free_at(rig, live, live.size() - 3);
    const Result<Bytes> trimmed = rig->trim(8_MiB);
    static_cast<void>(trimmed.ok());
    try_alloc(rig, live, 30_MiB);
  };
  const auto streams = [](Rig& rig, std::vector<DeviceAddr>& live) {
    const StreamId side = rig.stream();
    try_alloc(rig, live, 8_MiB);
    try_alloc(rig, live, 8_MiB, side);
    if (!live.empty()) static_cast<void>(rig->record_use(live[0], side).ok());
    rig.work(side, 1_ms);
    free_at(rig, live, 0);
    try_alloc(rig, live, 8_MiB, side);
    free_at(rig, live, 0);
    try_alloc(rig, live, 12_MiB);
    try_alloc(rig, live, 40_MiB, side);
    try_alloc(rig, live, 80_MiB);
    const Result<Bytes> trimmed = rig->trim(0_B);
    static_cast<void>(trimmed.ok());
    try_alloc(rig, live, 9_MiB, side);
  };
  Config move;
  move.stitch = StitchMode::kMove;
  Config segments;
  segments.backing = Backing::kSegments;
  return {{"alias", {}, grow_stitch_trim},
          {"move", move, grow_stitch_trim},
          {"segments", segments, grow_stitch_trim},
          {"streams", {}, streams}};
}

class FaultPositions : public testing::TestWithParam<Scenario> {};

TEST_P(FaultPositions, LeaveTheAllocatorWhole) {
  const Scenario& scenario = GetParam();
  std::uint64_t positions = 0;
  for (CallKind kind :
       {CallKind::kMalloc, CallKind::kFree, CallKind::kReserveRange, CallKind::kFreeRange,
        CallKind::kCreateHandle, CallKind::kReleaseHandle, CallKind::kMap, CallKind::kUnmap,
        CallKind::kSetAccess, CallKind::kCreateEvent, CallKind::kRecordEvent, CallKind::kWaitEvent,
        CallKind::kQueryEvent, CallKind::kSynchronizeEvent, CallKind::kSynchronizeDevice,
        CallKind::kMemoryInfo}) {
    for (std::uint64_t times : {1U, 2U}) {
      for (std::uint64_t nth = 1;; ++nth) {
        Rig rig(96_MiB, scenario.config, device::sim::JudgeMode::kCount);
        Fault fault = Fault::fail_nth(kind, nth);
        fault.times = times;
        rig.model().set_faults({fault});
        std::vector<DeviceAddr> live;
        const std::uint64_t before = rig.calls(kind);
        scenario.play(rig, live);
        const bool reached = rig.calls(kind) - before >= nth;
        rig.model().set_faults({});
        const std::string where = std::string(device::sim::name_of(kind)) + " number " +
                                  std::to_string(nth) + ", " + std::to_string(times) + " times";
        rig->validate();
        ASSERT_EQ(rig.reserved(), rig.model().memory_use(DeviceId{0}).used) << where;
        while (!live.empty()) free_at(rig, live, live.size() - 1);
        ASSERT_TRUE(rig->trim(0_B).ok()) << where;
        ASSERT_EQ(rig.reserved(), 0_B) << where;
        rig->validate();
        const DeviceAddr after = rig.alloc(20_MiB);
        rig.free(after);
        rig.end();
        rig.model().shut_down();
        ASSERT_EQ(rig.model().hazard_count(), 0U) << where << "\n" << rig.model().report();
        if (!reached) break;
        ++positions;
      }
    }
  }
  EXPECT_GT(positions, 20U) << "the scenario makes too few calls to say much";
}

INSTANTIATE_TEST_SUITE_P(Scenarios, FaultPositions, testing::ValuesIn(scenarios()),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace levee::core
