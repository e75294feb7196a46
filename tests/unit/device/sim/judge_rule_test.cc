// Each rule of the judge is needed: without it, some test of the model fails.
//
// For every rule this program runs itself again, in a process of its own, with that rule switched
// off. A rule that was added without a test, or one that can no longer find anything, is then a
// failure here.
#include "allocator/device/sim/judge_rule.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>

#include "tests/unit/device/sim/model_fixture.h"

namespace levee::device::sim {
namespace {

constexpr const char* kVariable = "LEVEE_TEST_WITHOUT_RULE";

// In the process that was started with a rule switched off.
class WithoutRule : public testing::Environment {
 public:
  void SetUp() override {
    const char* number = std::getenv(kVariable);
    if (number != nullptr) switch_off_for_test(static_cast<JudgeRule>(std::atoi(number)));
  }
};
[[maybe_unused]] testing::Environment* const g_environment =
    testing::AddGlobalTestEnvironment(new WithoutRule);

// Exit status of the tests of the rules, 0 if they pass; what they print is thrown away.
int run_tests_without(JudgeRule rule) {
  const pid_t child = fork();
  if (child == 0) {
    const std::string number = std::to_string(static_cast<int>(rule));
    setenv(kVariable, number.c_str(), 1);
    unsetenv("GTEST_TOTAL_SHARDS");
    unsetenv("GTEST_OUTPUT");
    unsetenv("XML_OUTPUT_FILE");
    if (std::freopen("/dev/null", "w", stdout) == nullptr) _exit(3);
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(3);
    execl("/proc/self/exe", "device_unit_test",
          "--gtest_filter=Judge.*:CaptureTest.*:Memory.*:ForeignCalls*:TwoDevices.*", nullptr);
    _exit(4);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class EachRule : public testing::TestWithParam<int> {};

TEST_P(EachRule, IsMissedByATestWhenItIsGone) {
  EXPECT_EQ(run_tests_without(static_cast<JudgeRule>(GetParam())), 1)
      << name_of(static_cast<JudgeRule>(GetParam())) << " is switched off, and every test passes";
}

INSTANTIATE_TEST_SUITE_P(Rules, EachRule, testing::Range(1, static_cast<int>(JudgeRule::kCount)),
                         [](const auto& one) {
                           return std::string(name_of(static_cast<JudgeRule>(one.param)));
                         });

TEST(JudgeRules, TheSameTestsPassWithAllOfThem) {
  EXPECT_EQ(run_tests_without(JudgeRule::kNone), 0);
}

TEST(JudgeRules, EveryRuleHasANameAndAKindAndEveryKindARule) {
  std::set<std::string> names;
  std::set<HazardKind> kinds;
  for (int i = 0; i < static_cast<int>(JudgeRule::kCount); ++i) {
    names.insert(name_of(static_cast<JudgeRule>(i)));
    kinds.insert(kind_of(static_cast<JudgeRule>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(JudgeRule::kCount));
  // ... and kCount, which is what "no rule" has for a kind.
  EXPECT_EQ(kinds.size(), static_cast<std::size_t>(HazardKind::kCount) + 1);
}

// ---- Streams and events that are none, in every call that takes one

class ForeignCalls : public ModelTest {
 protected:
  ForeignCalls() {
    EXPECT_TRUE(model.destroy_stream(stream).ok());
    EXPECT_TRUE(model.destroy_event(event).ok());
  }
  /// One finding, of this rule, and the call failed as CUDA fails it.
  void expect(JudgeRule rule, Status status, const char* what) {
    SCOPED_TRACE(what);
    EXPECT_EQ(native_of(status), Native::kInvalidHandle);
    ASSERT_EQ(model.hazard_count(), 1U);
    EXPECT_EQ(name_of(model.hazards().front().rule), std::string(name_of(rule)));
    take_hazards();
  }
  void expect_stream(Status status, const char* what) {
    expect(JudgeRule::kStreamExists, status, what);
  }
  void expect_event(Status status, const char* what) {
    expect(JudgeRule::kEventExists, status, what);
  }

  const StreamId stream = new_stream();
  const EventId event = new_event();
  const StreamId live = new_stream();
  const EventId live_event = new_event();
};

TEST_F(ForeignCalls, OnStreams) {
  expect_stream(model.destroy_stream(stream), "destroy");
  expect_stream(model.destroy_stream(model.stream_info(kGpu, kLegacy)->id), "destroy the legacy");
  expect_stream(model.query_stream(kGpu, stream), "query");
  expect_stream(model.synchronize_stream(kGpu, stream), "synchronize");
  expect_stream(model.enqueue(kGpu, stream, CallKind::kLaunchKernel, Work{}), "enqueue");
  const GpuModel::StreamOn both[] = {{kGpu, live}, {kGpu, stream}};
  expect_stream(model.enqueue_together(both, CallKind::kLaunchKernel, Work{}), "together");
  expect_stream(model.record_event(live_event, kGpu, stream), "record");
  expect_stream(model.wait_event(kGpu, stream, live_event), "wait");
  expect_stream(model.allocate_async(kGpu, 1_KiB, stream).status(), "allocate_async");
  const DeviceAddr block = model.allocate_async(kGpu, 1_KiB, live).value();
  expect_stream(model.release_async(block, stream), "release_async");
  EXPECT_TRUE(model.release_async(block, live).ok());
  expect_stream(model.begin_capture(kGpu, stream, CaptureMode::kRelaxed), "begin_capture");
  expect_stream(model.end_capture(kGpu, stream).status(), "end_capture");
  expect_stream(model.capture_info(kGpu, stream).status(), "capture_info");
  expect_stream(model.capture_details(kGpu, stream).status(), "capture_details");
  expect_stream(model.update_capture_dependencies(kGpu, stream, {}, true), "dependencies");
  const ExecId exec = model.instantiate(model.create_graph().value()).value();
  expect_stream(model.launch_graph(kGpu, stream, exec), "launch");
}

TEST_F(ForeignCalls, OnEvents) {
  expect_event(model.destroy_event(event), "destroy");
  expect_event(model.record_event(event, kGpu, live), "record");
  expect_event(model.wait_event(kGpu, live, event), "wait");
  expect_event(model.query_event(event), "query");
  expect_event(model.synchronize_event(event), "synchronize");
  expect_event(model.elapsed(event, live_event).status(), "elapsed from");
  expect_event(model.elapsed(live_event, event).status(), "elapsed to");
}

}  // namespace
}  // namespace levee::device::sim
