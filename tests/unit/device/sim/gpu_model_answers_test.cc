// What the model answers to calls that CUDA refuses, one condition after the other; that it then
// does nothing else. What the judge thinks of calls: gpu_model_judge_test.cc.
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "allocator/device/sim/gpu_model_state.h"
#include "tests/support/private_member.h"
#include "tests/unit/device/sim/model_fixture.h"

namespace levee::device::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

LEVEE_PRIVATE_MEMBER(state_of, GpuModel, state_)

class Answers : public ModelTest {
 protected:
  explicit Answers(ModelConfig config = small_config()) : ModelTest(std::move(config)) {}

  void begin(StreamId stream) {
    ASSERT_TRUE(model.begin_capture(kGpu, stream, CaptureMode::kRelaxed).ok());
  }
  /// The capture of the stream is broken by a wait of the host.
  void begin_broken(StreamId stream) {
    begin(stream);
    EXPECT_FALSE(model.synchronize_stream(kGpu, stream).ok());
    EXPECT_EQ(model.capture_info(kGpu, stream)->status, CaptureStatus::kInvalidated);
  }
  void end_broken(StreamId stream) {
    EXPECT_EQ(native_of(model.end_capture(kGpu, stream).status()), Native::kCaptureInvalidated);
    EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kCaptureBroken));
  }

  const StreamId s1 = new_stream();
};

TEST_F(Answers, OfDevicesThatAreNotThere) {
  const DeviceId none{7};
  EXPECT_EQ(native_of(model.stream_info(none, kLegacy).status()), Native::kInvalidDevice);
  EXPECT_EQ(native_of(model.ready_at(none, kLegacy).status()), Native::kInvalidDevice);
  EXPECT_EQ(native_of(model.stream_info(DeviceId{-1}, kLegacy).status()), Native::kInvalidDevice);
  const std::array<GpuModel::StreamOn, 2> streams{GpuModel::StreamOn{kGpu, s1},
                                                  GpuModel::StreamOn{none, s1}};
  EXPECT_EQ(native_of(model.enqueue_together(streams, CallKind::kLaunchKernel, Work{})),
            Native::kInvalidDevice);
}

TEST_F(Answers, OfAsynchronousRequestsOfNothing) {
  EXPECT_EQ(native_of(model.allocate_async(kGpu, Bytes{}, s1).status()), Native::kInvalidValue);
}

TEST_F(Answers, OfEventsThatNobodyRecordedAndOfCapturedOnes) {
  const EventId event = new_event();
  EXPECT_TRUE(model.synchronize_event(event).ok()) << "nothing to wait for";
  begin(s1);
  ASSERT_TRUE(model.record_event(event, kGpu, s1).ok());
  EXPECT_EQ(native_of(model.synchronize_event(event)), Native::kCapturedEvent);
  EXPECT_EQ(model.capture_info(kGpu, s1)->status, CaptureStatus::kInvalidated);
  end_broken(s1);
}

TEST_F(Answers, OfACaptureThatIsBroken) {
  const EventId event = new_event();
  begin(s1);
  run(s1, 1_us);
  const GraphId graph = model.end_capture(kGpu, s1).value();
  const ExecId exec = model.instantiate(graph).value();
  begin_broken(s1);
  EXPECT_EQ(native_of(model.launch_graph(kGpu, s1, exec)), Native::kCaptureInvalidated);
  EXPECT_EQ(native_of(model.enqueue(kGpu, s1, CallKind::kLaunchKernel, Work{})),
            Native::kCaptureInvalidated);
  EXPECT_EQ(native_of(model.record_event(event, kGpu, s1)), Native::kCaptureInvalidated);
  EXPECT_EQ(native_of(model.wait_event(kGpu, s1, event, /*external=*/true)),
            Native::kCaptureInvalidated);
  end_broken(s1);
}

TEST_F(Answers, OfAGraphThatIsStillBeingBuilt) {
  begin(s1);
  run(s1, 1_us);
  const CaptureDetails details = model.capture_details(kGpu, s1).value();
  EXPECT_EQ(native_of(model.destroy_graph(details.graph)), Native::kInvalidValue);
  const GraphNodeId unknown{details.dependencies[0].value + 1000};
  EXPECT_EQ(native_of(model.update_capture_dependencies(kGpu, s1, {&unknown, 1}, true)),
            Native::kInvalidValue);
  EXPECT_EQ(model.capture_details(kGpu, s1)->dependencies, details.dependencies);
  const GraphId graph = model.end_capture(kGpu, s1).value();
  EXPECT_EQ(graph, details.graph);
  begin(s1);  // another one
  EXPECT_TRUE(model.destroy_graph(graph).ok());
  EXPECT_TRUE(model.end_capture(kGpu, s1).ok());
}

TEST_F(Answers, OfTheLegacyStreamWhileAStreamThatWaitsForItCaptures) {
  const StreamId blocking = new_stream(/*non_blocking=*/false);
  EXPECT_TRUE(model.capture_details(kGpu, kLegacy).ok());
  begin(blocking);
  EXPECT_EQ(native_of(model.capture_details(kGpu, kLegacy).status()), Native::kCaptureImplicit);
  EXPECT_TRUE(model.end_capture(kGpu, blocking).ok());
  begin(s1);
  EXPECT_TRUE(model.capture_details(kGpu, kLegacy).ok()) << "that one does not wait for it";
  EXPECT_TRUE(model.end_capture(kGpu, s1).ok());
}

TEST_F(Answers, OfABlockingCallInACapture) {
  begin(s1);
  EXPECT_FALSE(model.enqueue(kGpu, s1, CallKind::kMemcpy, Work{}).ok());
  EXPECT_EQ(model.capture_info(kGpu, s1)->status, CaptureStatus::kInvalidated);
  end_broken(s1);
}

class AnswersOfEndlessWaits : public Answers {
 protected:
  AnswersOfEndlessWaits() : Answers(small_config()) {}
};

TEST_F(AnswersOfEndlessWaits, AreATimeoutAndChangeNothing) {
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  const DeviceAddr imported = model.import_allocation(kGpu, 2_MiB).value();
  const EventId event = new_event();
  run(s1, 1'000'000'000_ms);
  ASSERT_TRUE(model.record_event(event, kGpu, s1).ok());
  const Nanos before = model.now();
  EXPECT_EQ(native_of(model.synchronize_stream(kGpu, s1)), Native::kTimeout);
  EXPECT_EQ(native_of(model.synchronize_event(event)), Native::kTimeout);
  EXPECT_EQ(native_of(model.enqueue(kGpu, s1, CallKind::kMemcpy, Work{})), Native::kTimeout);
  EXPECT_EQ(native_of(model.release(block)), Native::kTimeout);
  EXPECT_EQ(native_of(model.close_import(imported)), Native::kTimeout);
  EXPECT_EQ(model.now(), before);
  EXPECT_EQ(take_hazards(), std::vector<HazardKind>(5, HazardKind::kEndlessWait));
  EXPECT_EQ(model.memory_use(kGpu).allocations, 2U);
  state_of(model)->config.endless_wait = Nanos{INT64_MAX};
  EXPECT_TRUE(model.release(block).ok());
  EXPECT_TRUE(model.close_import(imported).ok());
}

TEST_F(AnswersOfEndlessWaits, AWaitThatEndsIsNone) {
  run(s1, 10_us);
  EXPECT_TRUE(model.enqueue(kGpu, s1, CallKind::kMemcpy, Work{}).ok());
  EXPECT_EQ(model.now(), 10_us);
}

// What the host has waited for it knows: nothing more is needed before another stream's use.
TEST_F(AnswersOfEndlessWaits, AWaitThatEndsOrdersWhatTheHostDoesNext) {
  const StreamId s2 = new_stream();
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  const Touch touched{block, 4_KiB, true};
  Work work;
  work.duration = 10_us;
  work.touches = std::span<const Touch>(&touched, 1);
  ASSERT_TRUE(model.enqueue(kGpu, s1, CallKind::kMemcpy, work).ok());
  touch(s2, block, 4_KiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  const EventId event = new_event();
  ASSERT_TRUE(model.record_event(event, kGpu, s2).ok());
  ASSERT_TRUE(model.synchronize_event(event).ok());
  touch(s1, block, 4_KiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  touch(s2, block, 4_KiB);
  EXPECT_EQ(take_hazards().size(), 1U) << "for that one nobody waited";
  ASSERT_TRUE(model.synchronize_stream(kGpu, s1).ok());
  ASSERT_TRUE(model.synchronize_stream(kGpu, s2).ok());
  EXPECT_TRUE(model.release(block).ok());
}

// Launches of one graph do not overlap: the second is ordered after the first, on whatever stream.
TEST_F(Answers, LaunchesOfOneGraphOnTwoStreamsAreOrdered) {
  const StreamId s2 = new_stream();
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  begin(s1);
  hand_out(s1, block, 4_KiB);
  touch(s1, block, 4_KiB);
  give_back(s1, block, 4_KiB);
  const ExecId exec = model.instantiate(model.end_capture(kGpu, s1).value()).value();
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
  ASSERT_TRUE(model.synchronize_stream(kGpu, s2).ok());
  EXPECT_TRUE(model.destroy_exec(exec).ok());
  EXPECT_TRUE(model.release(block).ok());
  EXPECT_THAT(take_hazards(), IsEmpty()) << "who waits for the second has waited for the first";
}

TEST_F(Answers, OfTimesBetweenEventsThatHaveNone) {
  const EventId first = new_event();
  const EventId second = new_event();
  EXPECT_EQ(native_of(model.elapsed(first, second).status()), Native::kInvalidHandle);
  ASSERT_TRUE(model.record_event(first, kGpu, s1).ok());
  EXPECT_EQ(native_of(model.elapsed(first, second).status()), Native::kInvalidHandle);
  begin(s1);
  ASSERT_TRUE(model.record_event(second, kGpu, s1).ok());
  EXPECT_EQ(native_of(model.elapsed(first, second).status()), Native::kCapturedEvent);
  EXPECT_TRUE(model.end_capture(kGpu, s1).ok());
}

class AnswersWithoutPages : public Answers {
 protected:
  static ModelConfig config() {
    ModelConfig config = small_config();
    config.devices[0].has_vmm = false;
    return config;
  }
  AnswersWithoutPages() : Answers(config()) {}
};

TEST_F(AnswersWithoutPages, ThereAreNoHandlesOfOthersEither) {
  EXPECT_EQ(native_of(model.import_handle(kGpu, 2_MiB).status()), Native::kNotSupported);
}

// A line of `validate`.
TEST_F(Answers, AStreamThatDoesNotKnowItsCaptureIsNoticed) {
  begin(s1);
  model.validate();
  EXPECT_DEATH(
      {
        state_of(model)->captures[0]->streams[0]->capture = nullptr;
        model.validate();
      },
      "stream->capture == capture");
  EXPECT_TRUE(model.end_capture(kGpu, s1).ok());
}

}  // namespace
}  // namespace levee::device::sim
