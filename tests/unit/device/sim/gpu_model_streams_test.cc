// Time: streams as queues, events, the legacy stream, waiting; and the clock itself.
#include <algorithm>
#include <chrono>
#include <thread>

#include "allocator/base/clock.h"
#include "tests/unit/device/sim/model_fixture.h"

namespace levee::device::sim {
namespace {

class Streams : public ModelTest {
 protected:
  Nanos elapsed_until(StreamId stream) {
    const Nanos before = model.now();
    EXPECT_TRUE(model.synchronize_stream(kGpu, stream).ok());
    return model.now() - before;
  }
};

TEST_F(Streams, WorkOfOneStreamRunsInTurn) {
  const StreamId s = new_stream();
  run(s, 10_us);
  run(s, 5_us);
  EXPECT_EQ(model.query_stream(kGpu, s).code, StatusCode::kNotReady);
  EXPECT_EQ(elapsed_until(s), 15_us);
  EXPECT_TRUE(model.query_stream(kGpu, s).ok());
}

TEST_F(Streams, StreamsRunSideBySide) {
  const StreamId a = new_stream();
  const StreamId b = new_stream();
  run(a, 10_us);
  run(b, 4_us);
  EXPECT_EQ(elapsed_until(b), 4_us);
  EXPECT_EQ(elapsed_until(a), 6_us);
}

TEST_F(Streams, WorkStartsNoEarlierThanItIsEnqueued) {
  const StreamId s = new_stream();
  model.advance(100_us);
  run(s, 10_us);
  EXPECT_EQ(elapsed_until(s), 10_us);
}

TEST_F(Streams, AWaitDelaysWhatFollows) {
  const StreamId a = new_stream();
  const StreamId b = new_stream();
  run(a, 10_us);
  order(a, b);
  run(b, 1_us);
  EXPECT_EQ(elapsed_until(b), 11_us);
}

TEST_F(Streams, AnEventCompletesWithTheWorkAheadOfIt) {
  const StreamId s = new_stream();
  const EventId event = new_event();
  run(s, 10_us);
  ASSERT_TRUE(model.record_event(event, kGpu, s).ok());
  run(s, 90_us);
  model.advance(9'999_ns);
  EXPECT_EQ(model.query_event(event).code, StatusCode::kNotReady);
  model.advance(1_ns);
  EXPECT_TRUE(model.query_event(event).ok());
  EXPECT_EQ(model.query_stream(kGpu, s).code, StatusCode::kNotReady);
}

TEST_F(Streams, TimingEventsMeasureTheStream) {
  const StreamId s = new_stream();
  const EventId start = new_event();
  const EventId end = new_event();
  const EventId plain =
      model.create_event(kGpu, EventOptions{.timing = false, .blocking_sync = false}).value();
  ASSERT_TRUE(model.record_event(start, kGpu, s).ok());
  run(s, 25_us);
  ASSERT_TRUE(model.record_event(end, kGpu, s).ok());
  ASSERT_TRUE(model.record_event(plain, kGpu, s).ok());
  EXPECT_EQ(model.elapsed(start, end).code(), StatusCode::kNotReady);
  ASSERT_TRUE(model.synchronize_event(end).ok());
  EXPECT_EQ(model.elapsed(start, end).value(), 25_us);
  EXPECT_EQ(native_of(model.elapsed(start, plain).status()), Native::kInvalidHandle);
}

TEST_F(Streams, TheLegacyStreamWaitsForBlockingStreamsAndTheyForIt) {
  const StreamId blocking = new_stream(false);
  const StreamId free_running = new_stream(true);
  run(blocking, 10_us);
  run(free_running, 50_us);
  run(kLegacy, 5_us);                        // starts at 10 us
  run(blocking, 1_us);                       // starts at 15 us
  EXPECT_EQ(elapsed_until(kLegacy), 16_us);  // its synchronisation waits for the blocking ones too
  EXPECT_EQ(elapsed_until(free_running), 34_us);
}

TEST_F(Streams, StreamIdsZeroAndOneAreTheLegacyStreamAndTwoIsTheThreadsOwn) {
  const StreamInfo legacy = model.stream_info(kGpu, StreamId{0}).value();
  EXPECT_EQ(model.stream_info(kGpu, StreamId{1})->id, legacy.id);
  EXPECT_TRUE(legacy.is_legacy);
  EXPECT_EQ(legacy.number, 7U);
  const StreamInfo mine = model.stream_info(kGpu, StreamId{2}).value();
  EXPECT_TRUE(mine.is_per_thread);
  EXPECT_EQ(model.stream_info(kGpu, StreamId{2})->id, mine.id);
  StreamId theirs;
  std::thread([&] { theirs = model.stream_info(kGpu, StreamId{2})->id; }).join();
  EXPECT_NE(theirs, mine.id);
}

TEST_F(Streams, IdsAreNeverUsedTwiceAndLeaveTheirLowBitsFree) {
  const StreamId first = new_stream();
  ASSERT_TRUE(model.destroy_stream(first).ok());
  const StreamId second = new_stream();
  EXPECT_NE(first, second);
  EXPECT_EQ(second.value % 16, 0U);
  EXPECT_EQ(new_event().value % 16, 0U);
  EXPECT_EQ(native_of(model.synchronize_stream(kGpu, first)), Native::kInvalidHandle);
  model.clear_hazards();
}

TEST_F(Streams, ADestroyedStreamsWorkGoesOnAndTheDeviceWaitsForIt) {
  const StreamId s = new_stream();
  run(s, 10_us);
  ASSERT_TRUE(model.destroy_stream(s).ok());
  const Nanos before = model.now();
  ASSERT_TRUE(model.synchronize_device(kGpu).ok());
  EXPECT_EQ(model.now() - before, 10_us);
}

TEST_F(Streams, AnEventOfAnotherDeviceCannotBeRecordedHere) {
  GpuModel two(small_config(2));
  const EventId event = two.create_event(kOtherGpu).value();
  EXPECT_EQ(native_of(two.record_event(event, kGpu, kLegacy)), Native::kInvalidHandle);
  EXPECT_TRUE(two.record_event(event, kOtherGpu, kLegacy).ok());
  EXPECT_TRUE(
      two.wait_event(kGpu, kLegacy, event).ok());  // waiting across devices is what events are for
}

TEST(StreamsOfTwoDevices, ACallThatNamesAStreamOrAnEventIsOneOnItsDevice) {
  GpuModel two(small_config(2));
  const StreamId stream = two.create_stream(kOtherGpu).value();
  const EventId event = two.create_event(kOtherGpu).value();
  ASSERT_TRUE(two.query_event(event).ok());
  ASSERT_TRUE(two.destroy_stream(stream).ok());
  EXPECT_EQ(two.calls(CallKind::kQueryEvent, kOtherGpu), 1U);
  EXPECT_EQ(two.calls(CallKind::kDestroyStream, kOtherGpu), 1U);
  // So it fails with that device alone.
  const StreamId on_first = two.create_stream(kGpu).value();
  const StreamId on_lost = two.create_stream(kOtherGpu).value();
  two.lose_device(kOtherGpu, Native::kIllegalAddress);
  EXPECT_EQ(two.query_event(event).code, StatusCode::kDeviceLost);
  EXPECT_EQ(two.destroy_stream(on_lost).code, StatusCode::kDeviceLost);
  EXPECT_TRUE(two.destroy_stream(on_first).ok());
}

TEST_F(Streams, ASharedPieceOfWorkStartsWithTheLastAndEndsOnAll) {
  const StreamId a = new_stream();
  const StreamId b = new_stream();
  run(a, 10_us);
  run(b, 3_us);
  Work work;
  work.duration = 5_us;
  const GpuModel::StreamOn both[] = {{kGpu, a}, {kGpu, b}};
  ASSERT_TRUE(model.enqueue_together(both, CallKind::kLaunchKernel, work).ok());
  EXPECT_EQ(elapsed_until(b), 15_us);
  EXPECT_EQ(elapsed_until(a), 0_ns);
}

TEST_F(Streams, AMeetingEndsItsDurationAfterTheLastIsReady) {
  const StreamId s = new_stream();
  const GpuModel::StreamOn mine[] = {{kGpu, s}};
  Work work;
  work.duration = 5_us;
  const auto meet = [&](Nanos others_ready) {
    work.meets_at = others_ready;
    ASSERT_TRUE(model.enqueue_together(mine, CallKind::kLaunchKernel, work).ok());
  };
  run(s, 10_us);
  EXPECT_EQ(model.ready_at(kGpu, s).value(), 10_us);
  meet(3_us);  // the others are ready before this one is
  EXPECT_EQ(model.ready_at(kGpu, s).value(), 15_us);
  meet(100_us);
  EXPECT_EQ(model.ready_at(kGpu, s).value(), 105_us);
  // What the stream already waits for is not waited for once more: the clock still stands at 0.
  meet(100_us);
  meet(100_us);
  EXPECT_EQ(model.ready_at(kGpu, s).value(), 115_us);
  meet(0_ns);
  EXPECT_EQ(elapsed_until(s), 120_us);
}

TEST_F(Streams, ReadyWhenWhatIsAheadIsDone) {
  const StreamId blocking = new_stream(false);
  const StreamId apart = new_stream(true);
  run(blocking, 10_us);
  EXPECT_EQ(model.ready_at(kGpu, kLegacy).value(), 10_us);
  run(kLegacy, 5_us);
  EXPECT_EQ(model.ready_at(kGpu, blocking).value(), 15_us);
  EXPECT_EQ(model.ready_at(kGpu, apart).value(), 0_ns);
  model.advance(20_us);
  EXPECT_EQ(model.ready_at(kGpu, blocking).value(), 20_us);
  EXPECT_FALSE(model.ready_at(DeviceId{9}, kLegacy).ok());
  EXPECT_FALSE(model.ready_at(kGpu, StreamId{999'999}).ok());
}

TEST_F(Streams, BlockingCopiesWaitAndAsynchronousOnesDoNot) {
  Work work;
  work.kind = WorkKind::kMemcpyDeviceToHost;
  work.duration = 10_us;
  ASSERT_TRUE(model.enqueue(kGpu, kLegacy, CallKind::kMemcpyAsync, work).ok());
  EXPECT_EQ(model.now(), 0_ns);
  ASSERT_TRUE(model.enqueue(kGpu, kLegacy, CallKind::kMemcpy, work).ok());
  EXPECT_EQ(model.now(), 20_us);
}

TEST_F(Streams, AdvancingPastAllWorkLeavesLateEventsOut) {
  const StreamId s = new_stream();
  const EventId late = new_event();
  model.set_faults({Fault::late_event(1)});
  run(s, 10_us);
  ASSERT_TRUE(model.record_event(late, kGpu, s).ok());
  model.advance_past_all_work();
  EXPECT_EQ(model.now(), 10_us);
  EXPECT_EQ(model.query_event(late).code, StatusCode::kNotReady);
}

// ---- Clock and costs

TEST_F(Streams, CallsCostWhatTheTableSays) {
  ModelConfig config = small_config();
  config.latency = LatencyTable::published();
  GpuModel priced(config);
  const auto cost_of = [&priced](auto&& call) {
    const Nanos before = priced.now();
    call();
    return priced.now() - before;
  };
  HandleId handle;
  DeviceAddr range;
  EXPECT_EQ(cost_of([&] { handle = priced.create_handle(kGpu, 8_MiB).value(); }), 772_us);
  EXPECT_EQ(cost_of([&] { range = priced.reserve_range(kGpu, 8_MiB, Bytes{}).value(); }), 19_us);
  EXPECT_EQ(cost_of([&] { ASSERT_TRUE(priced.map(range, 8_MiB, handle).ok()); }), 5'800_ns);
  EXPECT_EQ(cost_of([&] { ASSERT_TRUE(priced.set_access(range, 8_MiB, kGpu).ok()); }), 144_us);
  EXPECT_EQ(cost_of([&] { ASSERT_TRUE(priced.unmap(range, 8_MiB).ok()); }), 102'400_ns);
  EXPECT_EQ(cost_of([&] { ASSERT_TRUE(priced.release_handle(handle).ok()); }), 92_us);
  EXPECT_EQ(cost_of([&] { ASSERT_TRUE(priced.free_range(range, 8_MiB).ok()); }), 19_us);
}

TEST_F(Streams, TheHostClockRunsWithTheHostAndAheadOfIt) {
  ModelConfig config = small_config();
  config.clock = ClockMode::kHost;
  GpuModel real(config);
  const StreamId s = real.create_stream(kGpu).value();
  const Nanos host_before = base::Clock::monotonic();
  const Nanos before = real.now();
  EXPECT_LT((before - host_before).value, 1'000'000'000);
  Work work;
  work.duration = Nanos{500'000'000'000 / 60};  // a minute, which nobody sleeps
  ASSERT_TRUE(real.enqueue(kGpu, s, CallKind::kLaunchKernel, work).ok());
  ASSERT_TRUE(real.synchronize_stream(kGpu, s).ok());
  EXPECT_GE(real.now() - before, work.duration);
  EXPECT_LT((base::Clock::monotonic() - host_before).value, 30'000'000'000);
}

TEST(PacedModel, WaitsTakeTheirTimeOnlyWhilePaced) {
  ModelConfig config = small_config();
  config.clock = ClockMode::kHost;
  GpuModel model(config);
  Work work;
  work.duration = Nanos{30'000'000};
  const auto wait = [&] {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_TRUE(model.enqueue(kGpu, kLegacy, CallKind::kLaunchKernel, work).ok());
    EXPECT_TRUE(model.synchronize_device(kGpu).ok());
    return std::chrono::steady_clock::now() - begin;
  };
  // Lower bounds alone for what sleeps; a loaded machine may take longer.
  auto shortest = wait();
  for (int i = 0; i < 5; ++i) shortest = std::min(shortest, wait());
  EXPECT_LT(shortest, std::chrono::milliseconds(30));
  model.set_paced(true);
  EXPECT_GE(wait(), std::chrono::milliseconds(29));
  model.set_paced(false);
  shortest = wait();
  for (int i = 0; i < 5; ++i) shortest = std::min(shortest, wait());
  EXPECT_LT(shortest, std::chrono::milliseconds(30));
}

TEST(PacedModel, AManualClockIsNeverPaced) {
  ModelConfig config = small_config();
  GpuModel model(config);
  model.set_paced(true);
  Work work;
  work.duration = Nanos{500'000'000'000};
  ASSERT_TRUE(model.enqueue(kGpu, kLegacy, CallKind::kLaunchKernel, work).ok());
  EXPECT_TRUE(model.synchronize_device(kGpu).ok());  // minutes, at once
}

}  // namespace
}  // namespace levee::device::sim
