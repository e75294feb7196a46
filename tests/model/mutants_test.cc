// Each mutation takes one line of core away; the judge, `validate` or the reference model must
// notice.
//
// A test per line: short programs made for it, then seeded ones. The same programs pass unmutated,
// so that it is the missing line which is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "allocator/core/make_allocator.h"
#include "allocator/core/mutants.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"
#include "tests/model/op.h"
#include "tests/model/runner.h"

namespace levee::model_test {
namespace {

using core::Mutant;
constexpr std::uint64_t MiB = 1ULL << 20;

enum class Notices {
  kAll,         ///< the judge, the reference model, `validate`
  kJudgeAlone,  ///< the others would notice first
};

struct Case {
  Mutant mutant;
  const char* name;
  Shape shape;
  /// Words that the report must hold: what notices, and why. One of them is enough.
  std::vector<std::string> words;
  Notices notices = Notices::kAll;
  Backing backing = Backing::kAuto;
  RunOptions options = {};
};

// The driver-time guard, on as soon as anything was stitched in two steps.
RunOptions with_guard() {
  RunOptions options;
  options.config.guard_share = 1e-9;
  options.config.guard_windows = 1;
  options.clock_factor = 1000;
  return options;
}

bool says_one_of(const std::string& problem, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return problem.find(word) != std::string::npos;
  });
}

// The first report that says one of the words, or else the last one of any kind.
std::string find_problem(const Case& one, std::uint64_t seeds,
                         const std::vector<std::string>& words) {
  RunOptions options = one.options;
  options.capacity = one.shape.capacity;
  options.config.backing = one.backing;
  if (one.notices == Notices::kJudgeAlone) options.validate_every = options.compare_every = 0;
  if (one.backing == Backing::kSegments) options.check_promise = false;
  std::string last;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const RunResult result = run_isolated(generate(seed, one.shape), options);
    if (result.ok()) continue;
    last = result.problem;
    if (says_one_of(last, words)) break;
  }
  return last;
}

class Mutants : public testing::TestWithParam<Case> {};

TEST_P(Mutants, AreCaught) {
  const Case& one = GetParam();
  core::active_mutant = one.mutant;
  const std::string problem = find_problem(one, 200, one.words);
  core::active_mutant = Mutant::kNone;
  ASSERT_NE(problem, "") << "nothing noticed that the line is gone";
  EXPECT_TRUE(says_one_of(problem, one.words)) << problem;
}

TEST_P(Mutants, ThePlainAllocatorPassesTheSamePrograms) {
  EXPECT_EQ(find_problem(GetParam(), 10, {}), "");
}

INSTANTIATE_TEST_SUITE_P(
    Lines, Mutants,
    testing::Values(
        Case{Mutant::kNoWait,
             "no_wait",
             {.ops = 200, .streams = 3},
             {"unordered use", "use through another address"}},
        Case{Mutant::kNoAliasHide,
             "no_alias_hide",
             {.ops = 300, .capacity = 64 * MiB},
             {"live twice", "another slot", "on offer", "agree"}},
        Case{Mutant::kUnmapBeforeDone,
             "unmap_before_done",
             {.ops = 200, .streams = 2},
             {"unmapped in use"}},
        Case{Mutant::kReleaseWhileMapped,
             "release_while_mapped",
             {.ops = 300, .capacity = 64 * MiB},
             {"reserved is", "leak", "bad range", "map over"}},
        Case{Mutant::kLeakHandle,
             "leak_handle",
             {.ops = 40, .pools = true, .captures = true},
             {"leak", "reserved is"}},
        Case{Mutant::kNoSetAccess, "no_set_access", {.ops = 60}, {"without access"}},
        Case{Mutant::kBlockUnderLock,
             "block_under_lock",
             {.ops = 200, .streams = 2},
             {"under lock", "pool lock"}},
        Case{Mutant::kForgetUses, "forget_uses", {.ops = 300, .streams = 3}, {"unordered use"}},
        Case{Mutant::kLendCaptured,
             "lend_captured",
             {.ops = 400, .streams = 3, .capacity = 128 * MiB, .pools = true, .captures = true},
             {"graph over live", "live twice", "on offer", "unordered use"}},
        Case{Mutant::kWaitInCapture,
             "wait_in_capture",
             {.ops = 400, .streams = 3, .capacity = 128 * MiB, .pools = true, .captures = true},
             {"capture"}},
        Case{Mutant::kPageTwiceInZone,
             "page_twice_in_zone",
             {.ops = 400, .capacity = 64 * MiB},
             {"twice", "overlap", "cut of bytes"}},
        Case{Mutant::kNoCut, "no_cut", {.ops = 60}, {"overlap", "live twice", "free bytes"}},
        Case{Mutant::kNoStamp,
             "no_stamp",
             {.ops = 200, .streams = 3},
             {"unordered use", "use through another address"}},
        Case{Mutant::kNoRollbackUnmap,
             "no_rollback_unmap",
             {.ops = 300, .streams = 2, .capacity = 96 * MiB, .faults = true},
             {"map over a mapping", "leak", "reserved"}},
        Case{Mutant::kNoDetach,
             "no_detach_and_used",
             {.ops = 300, .capacity = 64 * MiB},
             {"unmapped memory touched"},
             Notices::kJudgeAlone},
        Case{Mutant::kNoDetach,
             "no_detach_and_unmapped",
             {.ops = 300, .capacity = 64 * MiB},
             {"bad unmap"},
             Notices::kJudgeAlone},
        Case{Mutant::kKeepReleasedPage,
             "keep_released_page",
             {.ops = 300, .capacity = 64 * MiB},
             {"bad map: "},
             Notices::kJudgeAlone},
        Case{Mutant::kKeepRefusedHandles,
             "keep_refused_handles",
             {.ops = 300, .capacity = 64 * MiB, .faults = true},
             {"bad release"},
             Notices::kJudgeAlone},
        Case{Mutant::kMapOn,
             "map_on",
             {.ops = 300, .capacity = 64 * MiB, .faults = true},
             {"bad access setting"},
             Notices::kJudgeAlone},
        Case{Mutant::kStitchBeyondZone,
             "stitch_beyond_zone",
             {.ops = 600, .capacity = 64 * MiB},
             {"the addresses are not reserved"},
             Notices::kJudgeAlone},
        Case{Mutant::kKeepFreedZone,
             "keep_freed_zone",
             {.ops = 300, .capacity = 64 * MiB},
             {"no reserved range begins there", "the addresses are not reserved"},
             Notices::kJudgeAlone},
        Case{Mutant::kLeakRange, "leak_range", {.ops = 40}, {"reserved address ranges"}},
        Case{Mutant::kLeakSegment,
             "leak_segment",
             {.ops = 100, .capacity = 64 * MiB},
             {"reserved is", "allocations of device"},
             Notices::kAll,
             Backing::kSegments},
        Case{Mutant::kLeakEvents, "leak_events", {.ops = 200, .streams = 3}, {"events of device"}},
        Case{Mutant::kEventGone,
             "event_gone",
             {.ops = 300, .streams = 3},
             {"no such stream or event"}},
        Case{Mutant::kGuardRefuses,
             "guard_refuses",
             {.ops = 400, .capacity = 64 * MiB},
             {"refused"},
             Notices::kAll,
             Backing::kAuto,
             with_guard()}),
    [](const auto& one) { return std::string(one.param.name); });

// ---- What no program of operations can show

// A kernel that never ends, on a stream that no memory of ours was used on.
std::string trim_beside_an_endless_stream() {
  device::sim::ModelConfig config;
  config.devices[0].total_memory = Bytes{64 * MiB};
  config.judge = device::sim::JudgeMode::kCount;
  device::sim::GpuModel model(config);
  device::sim::SimDevice device(model, DeviceId{0});
  auto allocator = core::make_allocator(device, Config{}, nullptr).value();
  const StreamId ours = model.create_stream(DeviceId{0}, {.non_blocking = true}).value();
  const StreamId endless = model.create_stream(DeviceId{0}, {.non_blocking = true}).value();
  device::sim::Work work;
  work.duration = device::sim::kNever;
  EXPECT_TRUE(model.enqueue(DeviceId{0}, endless, device::sim::CallKind::kLaunchKernel, work).ok());
  const Block block = allocator->allocate(Bytes{8 * MiB}, ours, nullptr).value();
  EXPECT_TRUE(allocator->free(block.addr).ok());
  const Result<Bytes> trimmed = allocator->trim(0_B);
  EXPECT_EQ(trimmed.ok(), model.hazard_count() == 0);
  std::string report = model.report();
  model.set_judge(device::sim::JudgeMode::kOff);  // what stays is not what this is about
  return report;
}

TEST(MutantsOfWaiting, WhoWaitsForOneStreamDoesNotWaitForAnother) {
  EXPECT_EQ(trim_beside_an_endless_stream(), "");
  core::active_mutant = Mutant::kFenceAlways;
  const std::string report = trim_beside_an_endless_stream();
  core::active_mutant = Mutant::kNone;
  EXPECT_NE(report.find("endless wait"), std::string::npos) << report;
}

// Core calls the device inside of calls of its owner alone, its end included; so the rule holds the
// owner, who must end the allocator before the device.
TEST(MutantsOfTheOwner, AnAllocatorThatOutlivesItsDeviceIsFound) {
  device::sim::ModelConfig config;
  config.judge = device::sim::JudgeMode::kCount;
  config.report_leaks = false;
  device::sim::GpuModel model(config);
  device::sim::SimDevice device(model, DeviceId{0});
  auto allocator = core::make_allocator(device, Config{}, nullptr).value();
  ASSERT_TRUE(allocator->allocate(Bytes{8 * MiB}, StreamId{0}, nullptr).ok());
  model.shut_down();
  EXPECT_EQ(model.hazard_count(), 0U);
  allocator.reset();
  EXPECT_GT(model.hazard_count(device::sim::HazardKind::kCallAfterShutdown), 0U);
}

TEST(MutantList, HasACaseForEachMutation) {
  // The test binary names 26 of them; a new enumerator needs a case above.
  EXPECT_EQ(static_cast<int>(Mutant::kCount) - 1, 26);
}

}  // namespace
}  // namespace levee::model_test
