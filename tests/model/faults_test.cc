// Every driver call failing once, at every position of every scenario: after each operation the
// allocator is as it was before or as it would have been after, by its own `validate`, by the
// reference model and by what the device holds; the program goes on to its end, and then
// everything can be given back (the runner's last act). `fault_positions_test.cc` of the unit tests
// lets calls fail twice, so that rollbacks fail as well.
#include <gtest/gtest.h>

#include <functional>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "tests/model/op.h"
#include "tests/model/runner.h"

namespace levee::model_test {
namespace {

using device::sim::CallKind;
using device::sim::Fault;

constexpr std::uint64_t KiB = 1ULL << 10;
constexpr std::uint64_t MiB = 1ULL << 20;

// What the allocator asks of a device.
constexpr CallKind kCalls[] = {
    CallKind::kMalloc,           CallKind::kFree,        CallKind::kMemoryInfo,
    CallKind::kReserveRange,     CallKind::kFreeRange,   CallKind::kCreateHandle,
    CallKind::kReleaseHandle,    CallKind::kMap,         CallKind::kUnmap,
    CallKind::kSetAccess,        CallKind::kCreateEvent, CallKind::kDestroyEvent,
    CallKind::kRecordEvent,      CallKind::kWaitEvent,   CallKind::kQueryEvent,
    CallKind::kSynchronizeEvent, CallKind::kCaptureInfo, CallKind::kSynchronizeStream,
    CallKind::kSynchronizeDevice};

struct Scenario {
  const char* name;
  std::uint64_t capacity;
  Config config;
  Program program;
  /// That the program does what its name says, when nothing fails.
  std::function<bool(const RunResult&)> does;
};

std::uint64_t count(const RunResult& result, CallKind kind) {
  return result.calls[static_cast<std::size_t>(kind)];
}

Config with(StitchMode stitch, Backing backing = Backing::kAuto) {
  Config config;
  config.stitch = stitch;
  config.backing = backing;
  return config;
}

std::vector<Scenario> scenarios() {
  const Program stitch = {Alloc{1, 6 * MiB, 0},
                          Alloc{2, 6 * MiB, 0},
                          Alloc{3, 6 * MiB, 0},
                          Alloc{4, 6 * MiB, 0},
                          Alloc{5, 6 * MiB, 0},
                          Alloc{6, 6 * MiB, 0},
                          Free{2},
                          Free{4},
                          Alloc{7, 700, 0},
                          Free{6},
                          Alloc{8, 14 * MiB, 0},
                          Alloc{9, 300 * KiB, 0},
                          Free{8},
                          Free{1},
                          Alloc{10, 18 * MiB, 0}};
  const Program trim = {Alloc{1, 20 * MiB, 0},
                        Alloc{2, 9 * MiB, 0},
                        Alloc{3, 600 * KiB, 0},
                        Alloc{4, 12 * MiB, 1},
                        Free{1},
                        Work{1, 500},
                        Free{4},
                        Trim{24 * MiB},
                        Alloc{5, 30 * MiB, 0},
                        Free{5},
                        Free{2},
                        Trim{0},
                        Alloc{6, 40 * MiB, 0},
                        Free{3},
                        Trim{0}};
  const Program streams = {Alloc{1, 8 * MiB, 0},
                           Alloc{2, 8 * MiB, 1},
                           RecordUse{1, 1},
                           Work{1, 1000},
                           Free{1},
                           Alloc{3, 8 * MiB, 1},
                           Free{2},
                           Alloc{4, 12 * MiB, 0},
                           Alloc{5, 900, 1},
                           RecordUse{5, 2},
                           Work{2, 300},
                           Free{5},
                           Alloc{6, 30 * MiB, 1},
                           Alloc{7, 20 * MiB, 2},
                           Free{3},
                           Free{6},
                           Advance{2000},
                           Alloc{8, 38 * MiB, 0},
                           Free{7},
                           Free{4},
                           Alloc{9, 46 * MiB, 2},
                           Trim{0}};
  const auto stitches = [](const RunResult& r) { return r.stats.num_stitches > 0; };
  const auto unmaps = [](const RunResult& r) { return count(r, CallKind::kUnmap) > 0; };
  std::vector<Scenario> all;
  const auto add = [&](const char* name, std::uint64_t capacity, const Config& config,
                       const Program& program, std::function<bool(const RunResult&)> does) {
    all.push_back(Scenario{name, capacity, config, program, std::move(does)});
  };
  add("growth", 96 * MiB, {},
      {Alloc{1, 3 * MiB, 0}, Alloc{2, 700, 0}, Alloc{3, 5 * MiB, 0}, Alloc{4, 200 * KiB, 0},
       Free{1}, Alloc{5, 9 * MiB, 0}, Alloc{6, 2 * MiB, 0}, Free{5}, Alloc{7, 15 * MiB, 0}},
      [](const RunResult& r) { return r.growths >= 4; });
  add("stitch", 48 * MiB, {}, stitch, stitches);
  add("stitch_by_moving", 48 * MiB, with(StitchMode::kMove), stitch, stitches);
  add("stitch_never", 64 * MiB, with(StitchMode::kNone), stitch, nullptr);
  add("rebase", 96 * MiB, {},
      {Alloc{113, 3, 0}, Alloc{114, 22689801, 0}, Alloc{119, 10349698, 0}, Alloc{120, 4188443, 0},
       Free{119}, Alloc{122, 5874894, 0}, Step{}, Alloc{124, 7855727, 0}, Free{124},
       Alloc{127, 4194304, 0}, Free{114}, Alloc{128, 7130357, 0}, Alloc{140, 8884328, 0},
       Alloc{144, 1975130, 0}, Free{140}, Step{}, Alloc{146, 3932277, 0}, Step{},
       Alloc{151, 6813767, 0}},
      [](const RunResult& r) { return r.stats.num_rebases > 0; });
  add("trim", 96 * MiB, {}, trim, unmaps);
  add("trim_of_segments", 128 * MiB, with(StitchMode::kAlias, Backing::kSegments), trim,
      [](const RunResult& r) { return count(r, CallKind::kFree) > 0; });
  add("streams", 96 * MiB, {}, streams, [](const RunResult& r) { return r.stats.num_waits > 0; });
  add("streams_by_moving", 96 * MiB, with(StitchMode::kMove), streams, unmaps);
  add("ladder_own_events", 64 * MiB, {},
      {Alloc{1, 700, 0}, RecordUse{1, 1}, Alloc{2, 50 * MiB, 0}, RecordUse{2, 1}, Work{1, 5000},
       Free{1}, Free{2}, Alloc{3, 63 * MiB, 0}, Free{3}, Alloc{4, 20 * MiB, 1}},
      [](const RunResult& r) { return count(r, CallKind::kSynchronizeEvent) > 0; });
  add("ladder_callbacks", 64 * MiB, {},
      {Alloc{1, 40 * MiB, 0}, RecordUse{1, 1}, Work{1, 200}, FreeOnOom{1}, Alloc{2, 60 * MiB, 0},
       Free{2}, Alloc{3, 30 * MiB, 1}},
      [](const RunResult& r) { return r.stats.num_alloc_retries > 0; });
  add("ladder_cached_handles", 96 * MiB, {},
      {Alloc{1, 60 * MiB, 0}, Free{1}, PoolBegin{1, 0}, PoolSegments{1, 1}, Alloc{2, 50 * MiB, 0},
       PoolEnd{1}, Free{2}, Alloc{3, 80 * MiB, 0}, PoolRelease{1}},
      [](const RunResult& r) { return r.stats.num_alloc_retries > 0; });
  add("out_of_memory", 32 * MiB, {},
      {Alloc{1, 20 * MiB, 0}, Alloc{2, 9 * MiB, 1}, Alloc{3, 20 * MiB, 0}, Free{1},
       Alloc{4, 24 * MiB, 1}, Free{2}, Alloc{5, 30 * MiB, 0}},
      [](const RunResult& r) { return r.stats.num_ooms > 0; });
  add("pools", 96 * MiB, {},
      {PoolBegin{1, 0},
       Alloc{1, 20 * MiB, 0},
       Alloc{2, 900, 0},
       Free{1},
       PoolEnd{1},
       Alloc{3, 30 * MiB, 0},
       PoolBegin{2, 1},
       PoolLimit{2, 40 * MiB},
       Alloc{4, 36 * MiB, 1},
       Alloc{5, 20 * MiB, 1},
       PoolEnd{2},
       PoolServes{2, 1},
       Free{4},
       Alloc{6, 60 * MiB, 0},
       PoolTrim{2},
       Free{3},
       Free{2},
       PoolRelease{1},
       PoolRelease{2},
       Alloc{7, 30 * MiB, 0}},
      [](const RunResult& r) { return r.served >= 6; });
  add("capture", 96 * MiB, {},
      {Alloc{1, 10 * MiB, 0},
       Free{1},
       CaptureBegin{1, 1},
       Alloc{2, 6 * MiB, 1},
       Alloc{3, 800, 1},
       Work{1, 50},
       Alloc{4, 9 * MiB, 0},
       Free{2},
       Alloc{5, 4 * MiB, 1},
       CaptureEnd{1},
       Replay{1, 2},
       Alloc{6, 30 * MiB, 0},
       Free{5},
       Free{3},
       Replay{1, 0},
       Free{6},
       PoolRelease{1},
       Alloc{7, 70 * MiB, 0},
       Free{4},
       Free{7},
       Trim{0}},
      [](const RunResult& r) {
        return count(r, CallKind::kLaunchGraph) == 2 && count(r, CallKind::kSynchronizeDevice) > 0;
      });
  add("restore", 96 * MiB, {},
      {CaptureBegin{1, 1},
       Alloc{1, 6 * MiB, 1},
       Alloc{2, 300 * KiB, 1},
       Alloc{3, 700, 1},
       Checkpoint{1},
       Free{2},
       Free{1},
       Alloc{4, 4 * MiB, 1},
       RecordUse{3, 2},
       CaptureEnd{1},
       Free{3},
       Restore{1},
       Alloc{5, 40 * MiB, 0},
       Free{1},
       Restore{1},
       Free{3},
       Free{1},
       Free{2},
       PoolRelease{1},
       Alloc{6, 30 * MiB, 2}},
      [](const RunResult& r) { return r.served >= 6; });
  return all;
}

class SingleFaults : public testing::TestWithParam<Scenario> {};

TEST_P(SingleFaults, LeaveTheStateBeforeOrAfter) {
  const Scenario& scenario = GetParam();
  RunOptions options;
  options.capacity = scenario.capacity;
  options.config = scenario.config;
  options.check_promise =
      scenario.config.stitch != StitchMode::kNone && scenario.config.backing != Backing::kSegments;
  const RunResult plain = run(scenario.program, options);
  ASSERT_EQ(plain.problem, "") << "operation " << plain.at;
  ASSERT_TRUE(!scenario.does || scenario.does(plain)) << "it does not do what its name says";
  std::uint64_t positions = 0;
  for (CallKind kind : kCalls) {
    for (std::uint64_t nth = 1; nth <= count(plain, kind); ++nth) {
      options.faults = {Fault::fail_nth(kind, nth)};
      const RunResult result = run(scenario.program, options);
      ASSERT_EQ(result.problem, "")
          << device::sim::name_of(kind) << " number " << nth << " fails; operation " << result.at;
      ++positions;
    }
  }
  EXPECT_GT(positions, 20U);
  RecordProperty("positions", std::to_string(positions));
  std::cout << "             " << positions << " positions\n";
}

INSTANTIATE_TEST_SUITE_P(Scenarios, SingleFaults, testing::ValuesIn(scenarios()),
                         [](const auto& one) { return std::string(one.param.name); });

// Programs that nobody wrote: fewer positions of more of them.
TEST(SingleFaultsOfGeneratedPrograms, LeaveTheStateBeforeOrAfter) {
  std::uint64_t positions = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const Shape shape{.ops = 120,
                      .streams = 3,
                      .capacity = 96 * MiB,
                      .pools = seed % 2 == 0,
                      .captures = seed % 3 == 0,
                      .limits = seed % 4 == 0};
    RunOptions options;
    options.capacity = shape.capacity;
    options.validate_every = 5;
    const Program program = generate(seed, shape);
    const RunResult plain = run(program, options);
    ASSERT_EQ(plain.problem, "") << "seed " << seed;
    for (CallKind kind : kCalls) {
      const std::uint64_t calls = count(plain, kind);
      for (std::uint64_t nth = 1; nth <= calls; nth += 1 + calls / 12) {
        options.faults = {Fault::fail_nth(kind, nth)};
        const RunResult result = run(program, options);
        ASSERT_EQ(result.problem, "") << "seed " << seed << ", " << device::sim::name_of(kind)
                                      << " number " << nth << " fails; operation " << result.at;
        ++positions;
      }
    }
  }
  EXPECT_GT(positions, 1000U);
  std::cout << "             " << positions << " positions\n";
}

}  // namespace
}  // namespace levee::model_test
