#include "allocator/c_api/process_runtime.h"
#include "allocator/c_api/real_parts.h"

#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/core/make_allocator.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"

namespace levee::c_api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr StreamId kStream{0};

/// Keeps what was recorded as text.
class FakeRecorder final : public record::Recorder {
 public:
  FakeRecorder() { enabled_.store(true); }
  void record(EventKind kind, LaneId, std::uint64_t a, std::uint64_t b, std::uint16_t,
              ContextId context) noexcept override {
    if (kind == EventKind::kPhasePush) lines.push_back("push " + names[context.value - 1]);
    if (kind == EventKind::kPhasePop) lines.push_back("pop " + names[context.value - 1]);
    if (kind == EventKind::kStepMark) {
      lines.push_back((b == 1 ? "end of step " : "step ") + std::to_string(a));
    }
  }
  void emit(const Event&) noexcept override {}
  void emit_activity(std::span<const Event>) noexcept override {}
  LaneId intern_lane(DeviceId, StreamId) override { return {}; }
  std::uint16_t intern_pool(PoolId) override { return 0; }
  ContextId intern(std::string_view text, record::ContextKind) override {
    names.emplace_back(text);
    return ContextId{static_cast<std::uint32_t>(names.size())};
  }
  void describe_device(DeviceId device, std::string_view, Bytes) override {
    lines.push_back("device " + std::to_string(device.value));
  }
  void turn_off() { enabled_.store(false); }

  std::vector<std::string> names;
  std::vector<std::string> lines;
};

class FakeRecording final : public Recording {
 public:
  explicit FakeRecording(FakeRecorder& recorder, int& flushes)
      : recorder_(recorder), flushes_(flushes) {}
  record::Recorder& recorder() override { return recorder_; }
  std::string path() const override { return "run.levee"; }
  Status flush() override {
    ++flushes_;
    return {};
  }
  Status start_kernels(std::string* why) override {
    *why = "no CUPTI here";
    return {StatusCode::kUnsupported, 0};
  }
  void stop_kernels() override { ++stops; }

  static inline int stops = 0;

 private:
  FakeRecorder& recorder_;
  int& flushes_;
};

/// A runtime over the model of a machine with two GPUs.
class ProcessRuntimeTest : public testing::Test {
 protected:
  ProcessRuntimeTest() {
    device::sim::ModelConfig model;
    model.devices = {device::sim::DeviceConfig{}, device::sim::DeviceConfig{}};
    model.report_leaks = false;  // what the runtime holds it holds until the process ends
    gpu_ = new device::sim::GpuModel(model);
  }

  ProcessRuntime::Parts parts() {
    ProcessRuntime::Parts parts;
    parts.device_count = [] { return 2; };
    parts.open_device = [this](DeviceId id) -> Result<std::unique_ptr<device::Device>> {
      ++opened_;
      if (refuse_devices_) return StatusCode::kInternal;
      return std::unique_ptr<device::Device>(std::make_unique<device::sim::SimDevice>(*gpu_, id));
    };
    parts.make_allocator = core::make_allocator;
    parts.open_recording = [this](const Config&) {
      ++recordings_;
      return std::make_unique<FakeRecording>(recorder_, flushes_);
    };
    return parts;
  }

  device::sim::GpuModel* gpu_ = nullptr;  // leaked, see `leaked`
  FakeRecorder recorder_;
  int opened_ = 0;
  int recordings_ = 0;
  int flushes_ = 0;
  bool refuse_devices_ = false;
};

/// Leaked, as the real one is: its allocators refer to the model until the process ends.
ProcessRuntime& leaked(const Config& config, ProcessRuntime::Parts parts) {
  return *new ProcessRuntime(config, std::move(parts));
}

TEST_F(ProcessRuntimeTest, TouchesNoDeviceBeforeItsFirstRequest) {
  ProcessRuntime& runtime = leaked({}, parts());
  EXPECT_EQ(opened_, 0);
  EXPECT_EQ(runtime.existing_allocator(DeviceId{0}), nullptr);
  ASSERT_TRUE(runtime.allocator(DeviceId{1}).ok());
  EXPECT_EQ(opened_, 1);
  EXPECT_EQ(runtime.existing_allocator(DeviceId{0}), nullptr);
  EXPECT_NE(runtime.existing_allocator(DeviceId{1}), nullptr);
  EXPECT_EQ(*runtime.allocator(DeviceId{1}), runtime.existing_allocator(DeviceId{1}));
  EXPECT_EQ(opened_, 1);
}

TEST_F(ProcessRuntimeTest, RefusesDevicesThatDoNotExist) {
  ProcessRuntime& runtime = leaked({}, parts());
  for (const int index : {-1, 2, ProcessRuntime::kMaxDevices, 1 << 30}) {
    EXPECT_EQ(runtime.allocator(DeviceId{index}).code(), StatusCode::kInvalidArgument) << index;
    EXPECT_EQ(runtime.existing_allocator(DeviceId{index}), nullptr) << index;
  }
}

TEST_F(ProcessRuntimeTest, PassesOnThatADeviceCannotBeOpenedAndTriesAgain) {
  ProcessRuntime& runtime = leaked({}, parts());
  refuse_devices_ = true;
  EXPECT_EQ(runtime.allocator(DeviceId{0}).code(), StatusCode::kInternal);
  refuse_devices_ = false;
  EXPECT_TRUE(runtime.allocator(DeviceId{0}).ok());
}

TEST_F(ProcessRuntimeTest, PassesOnThatAnAllocatorCannotBeMadeAndTriesAgain) {
  ProcessRuntime::Parts refusing = parts();
  bool refuses = true;
  refusing.make_allocator = [&](device::Device& device, const Config& config,
                                record::Recorder* recorder) -> Result<std::unique_ptr<Allocator>> {
    if (refuses) return StatusCode::kInvalidArgument;
    return core::make_allocator(device, config, recorder);
  };
  ProcessRuntime& runtime = leaked({}, std::move(refusing));
  EXPECT_EQ(runtime.allocator(DeviceId{0}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(runtime.existing_allocator(DeviceId{0}), nullptr);
  refuses = false;
  EXPECT_TRUE(runtime.allocator(DeviceId{0}).ok());
}

TEST_F(ProcessRuntimeTest, KernelsAreStoppedByTheRecordingThatIsOpen) {
  FakeRecording::stops = 0;
  ProcessRuntime& runtime = leaked({}, parts());
  runtime.stop_kernels();
  EXPECT_EQ(FakeRecording::stops, 0) << "nothing was recorded yet";
  std::string why;
  EXPECT_EQ(runtime.start_kernels(&why).code, StatusCode::kUnsupported);
  EXPECT_EQ(why, "no CUPTI here");
  runtime.stop_kernels();
  EXPECT_EQ(FakeRecording::stops, 1);
}

// Whether CUPTI is there depends on the machine; an answer that is no failure has no sentence.
TEST_F(ProcessRuntimeTest, TheRealRecordingSaysWhyKernelsAreNotTimed) {
  Config config;
  config.trace_path = testing::TempDir();
  const std::unique_ptr<Recording> recording = real_parts().open_recording(config);
  recording->stop_kernels();  // nothing to stop
  std::string why;
  const Status status = recording->start_kernels(&why);
  EXPECT_EQ(status.ok(), why.empty()) << why;
  recording->stop_kernels();
}

TEST_F(ProcessRuntimeTest, FindsTheOwnerOfAnAddressAmongItsDevices) {
  ProcessRuntime& runtime = leaked({}, parts());
  Allocator& first = **runtime.allocator(DeviceId{0});
  Allocator& second = **runtime.allocator(DeviceId{1});
  const Block a = *first.allocate(1_MiB, kStream);
  const Block b = *second.allocate(4_MiB, kStream);
  EXPECT_EQ(runtime.owner_of(a.addr), &first);
  EXPECT_EQ(runtime.owner_of(b.addr), &second);
  EXPECT_EQ(runtime.owner_of(DeviceAddr{0x1000}), nullptr);
}

TEST_F(ProcessRuntimeTest, MakesOneAllocatorADeviceWhoeverAsksFirst) {
  ProcessRuntime& runtime = leaked({}, parts());
  std::vector<Allocator*> seen(8);
  std::vector<std::thread> threads;
  for (auto& slot : seen) {
    threads.emplace_back([&] { slot = *runtime.allocator(DeviceId{0}); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(opened_, 1);
  EXPECT_THAT(seen, testing::Each(seen.front()));
}

TEST_F(ProcessRuntimeTest, TurnsAMemoryFractionIntoALimitOfTheDevice) {
  ProcessRuntime& runtime = leaked({}, parts());
  Allocator& allocator = **runtime.allocator(DeviceId{0});
  device::sim::SimDevice device(*gpu_, DeviceId{0});
  const Bytes total = device.capabilities().total_memory;
  ASSERT_TRUE(runtime.set_memory_fraction(DeviceId{0}, 0.5).ok());
  EXPECT_EQ(allocator.limit(), total / 2);
  ASSERT_TRUE(runtime.set_memory_fraction(DeviceId{0}, 1.0).ok());
  EXPECT_EQ(allocator.limit(), 0_B);
  for (const double fraction : {0.0, -0.1, 1.1}) {
    EXPECT_EQ(runtime.set_memory_fraction(DeviceId{0}, fraction).code,
              StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(runtime.set_memory_fraction(DeviceId{7}, 0.5).code, StatusCode::kInvalidArgument);
}

TEST_F(ProcessRuntimeTest, KeepsTheFractionOfADeviceForItsFirstRequest) {
  ProcessRuntime& runtime = leaked({}, parts());
  ASSERT_TRUE(runtime.set_memory_fraction(DeviceId{1}, 0.25).ok());
  EXPECT_EQ(opened_, 0) << "a limit is no reason to make a context";
  device::sim::SimDevice device(*gpu_, DeviceId{1});
  EXPECT_EQ((*runtime.allocator(DeviceId{1}))->limit(), device.capabilities().total_memory / 4);
}

TEST_F(ProcessRuntimeTest, OpensAnOwnersMemoryToAPeer) {
  ProcessRuntime::Parts with_peers = parts();
  std::vector<std::pair<int, int>> allowed;
  with_peers.allow_peer = [&](device::Device& owner, DeviceId peer) {
    allowed.emplace_back(owner.id().value, peer.value);
    return Status{};
  };
  ProcessRuntime& runtime = leaked({}, std::move(with_peers));
  ASSERT_TRUE(runtime.allow_peer(DeviceId{1}, DeviceId{0}).ok());
  EXPECT_THAT(allowed, ElementsAre(std::pair{1, 0}));
  EXPECT_EQ(runtime.allow_peer(DeviceId{9}, DeviceId{0}).code, StatusCode::kInvalidArgument);
}

TEST_F(ProcessRuntimeTest, HandsHooksToAllocatorsMadeLater) {
  ProcessRuntime& runtime = leaked({}, parts());
  int asked = 0;
  AllocatorHooks hooks;
  hooks.capture_context = [&] {
    ++asked;
    return ContextId{};
  };
  runtime.set_hooks(std::move(hooks));
  ASSERT_TRUE((*runtime.allocator(DeviceId{0}))->allocate(64_MiB, kStream).ok());
  EXPECT_GT(asked, 0) << "growth is a slow path";
}

TEST_F(ProcessRuntimeTest, AsksForTheStackOfEveryAllocationIfStacksAreRecorded) {
  for (const bool stacks : {false, true}) {
    Config config;
    config.record_stacks = stacks;
    ProcessRuntime& runtime = leaked(config, parts());
    int asked = 0;
    AllocatorHooks hooks;
    hooks.capture_context = [&] {
      ++asked;
      return ContextId{};
    };
    runtime.set_hooks(std::move(hooks));
    Allocator& allocator = **runtime.allocator(DeviceId{0});
    ASSERT_TRUE(allocator.free(allocator.allocate(1_KiB, kStream)->addr).ok());
    asked = 0;
    ASSERT_TRUE(allocator.free(allocator.allocate(1_KiB, kStream)->addr).ok());  // a hit
    EXPECT_EQ(asked, stacks ? 1 : 0);
  }
}

TEST_F(ProcessRuntimeTest, RecordsPhasesNestedAndStepsNumbered) {
  ProcessRuntime& runtime = leaked({}, parts());
  runtime.push_phase("train");
  runtime.mark_step();
  runtime.push_phase("forward");
  runtime.pop_phase();
  runtime.mark_step();
  runtime.pop_phase();
  runtime.pop_phase();  // one too many is nobody's
  EXPECT_THAT(recorder_.lines, ElementsAre("push train", "step 1", "push forward", "pop forward",
                                           "step 2", "pop train"));
  EXPECT_EQ(recordings_, 1);
  EXPECT_EQ(runtime.trace_path(), "run.levee");
}

TEST_F(ProcessRuntimeTest, StepsReachTheAllocators) {
  ProcessRuntime& runtime = leaked({}, parts());
  Allocator& allocator = **runtime.allocator(DeviceId{0});
  runtime.mark_step();
  runtime.end_step();
  EXPECT_THAT(recorder_.lines, ElementsAre("device 0", "step 1", "end of step 2"));
  EXPECT_EQ(allocator.stats().num_steps, 2);
}

TEST_F(ProcessRuntimeTest, APhaseOpenedWhileNothingRecordsHasNoEnd) {
  ProcessRuntime& runtime = leaked({}, parts());
  runtime.push_phase("first");
  recorder_.turn_off();
  EXPECT_FALSE(runtime.is_recording());
  runtime.push_phase("unseen");
  runtime.pop_phase();
  runtime.pop_phase();
  EXPECT_THAT(recorder_.lines, ElementsAre("push first"));
}

TEST_F(ProcessRuntimeTest, WithRecordingOffThereIsNoRecording) {
  Config config;
  config.record = false;
  ProcessRuntime& runtime = leaked(config, parts());
  runtime.push_phase("x");
  runtime.mark_step();
  runtime.pop_phase();
  ASSERT_TRUE(runtime.allocator(DeviceId{0}).ok());
  EXPECT_EQ(recordings_, 0);
  EXPECT_FALSE(runtime.is_recording());
  EXPECT_EQ(runtime.trace_path(), "");
  EXPECT_TRUE(runtime.flush().ok());
  std::string why;
  EXPECT_EQ(runtime.start_kernels(&why).code, StatusCode::kUnsupported);
  EXPECT_THAT(why, HasSubstr("recording is off"));
}

TEST_F(ProcessRuntimeTest, ARecordingThatCannotBeOpenedIsNotTriedAgain) {
  ProcessRuntime::Parts without = parts();
  int tried = 0;
  without.open_recording = [&](const Config&) {
    ++tried;
    return std::unique_ptr<Recording>{};
  };
  ProcessRuntime& runtime = leaked({}, std::move(without));
  runtime.mark_step();
  runtime.mark_step();
  EXPECT_EQ(tried, 1);
  EXPECT_TRUE((*runtime.allocator(DeviceId{0}))->allocate(1_MiB, kStream).ok());
}

TEST_F(ProcessRuntimeTest, ExplainsAnOutOfMemoryInPyTorchsWords) {
  ProcessRuntime& runtime = leaked({}, parts());
  Allocator& allocator = **runtime.allocator(DeviceId{0});
  OomReport report;
  ASSERT_EQ(allocator.allocate(4096_GiB, kStream, &report).code(), StatusCode::kOutOfMemory);
  EXPECT_THAT(runtime.explain(report, DeviceId{0}),
              StartsWith("CUDA out of memory. Tried to allocate "));
}

/// What a forked child finds, as a bit set in its exit code.
int in_forked_child(ProcessRuntime& runtime, int (*look)(ProcessRuntime&)) {
  runtime.before_fork();
  const pid_t child = fork();
  if (child == 0) {
    runtime.after_fork_in_child();
    _exit(look(runtime));
  }
  runtime.after_fork_in_parent();
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

TEST_F(ProcessRuntimeTest, AChildOfAProcessThatUsesADeviceIsRefusedEverythingAndWritesNothing) {
  ProcessRuntime& runtime = leaked({}, parts());
  ASSERT_TRUE(runtime.allocator(DeviceId{0}).ok());
  EXPECT_EQ(in_forked_child(runtime,
                            [](ProcessRuntime& child) {
                              child.push_phase("x");
                              child.pop_phase();
                              child.mark_step();
                              const bool refused =
                                  child.is_forked_child() && !child.is_recording() &&
                                  child.allocator(DeviceId{0}).code() == StatusCode::kUnsupported &&
                                  child.allocator(DeviceId{1}).code() == StatusCode::kUnsupported &&
                                  child.flush().code == StatusCode::kUnsupported &&
                                  child.trace_path().empty();
                              return refused ? 0 : 1;
                            }),
            0);
  EXPECT_FALSE(runtime.is_forked_child());
  EXPECT_TRUE(runtime.allocator(DeviceId{1}).ok()) << "the parent goes on";
}

TEST_F(ProcessRuntimeTest, AChildForkedBeforeAnyDeviceStartsAfreshWithItsOwnRecording) {
  ProcessRuntime& runtime = leaked({}, parts());
  runtime.mark_step();
  ASSERT_EQ(recordings_, 1);
  static int* recordings = nullptr;
  recordings = &recordings_;
  EXPECT_EQ(in_forked_child(runtime,
                            [](ProcessRuntime& child) {
                              const bool works = !child.is_forked_child() &&
                                                 child.allocator(DeviceId{0}).ok() &&
                                                 *recordings == 2;
                              return works ? 0 : 1;
                            }),
            0);
}

}  // namespace
}  // namespace levee::c_api
