// The model under threads: nothing is lost, nothing is judged wrongly, callbacks run once each and
// before a wait for their work returns. Under ThreadSanitizer this is also the proof that its one
// mutex guards all.
#include <atomic>
#include <thread>

#include "tests/unit/device/sim/model_fixture.h"

namespace levee::device::sim {
namespace {

constexpr int kThreads = 4;
constexpr int kRounds = 400;

class GpuModelThreads : public ModelTest {
 protected:
  template <typename Body>
  void in_threads(Body&& body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([&body, i] { body(i); });
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(GpuModelThreads, MemoryOfManyThreadsAddsUp) {
  in_threads([this](int) {
    for (int round = 0; round < kRounds; ++round) {
      const HandleId handle = model.create_handle(kGpu, 2_MiB).value();
      const DeviceAddr range = model.reserve_range(kGpu, 2_MiB, Bytes{}).value();
      ASSERT_TRUE(model.map(range, 2_MiB, handle).ok());
      ASSERT_TRUE(model.set_access(range, 2_MiB, kGpu).ok());
      const DeviceAddr small = model.allocate(kGpu, 1_KiB).value();
      ASSERT_TRUE(model.release(small).ok());
      ASSERT_TRUE(model.unmap(range, 2_MiB).ok());
      ASSERT_TRUE(model.free_range(range, 2_MiB).ok());
      ASSERT_TRUE(model.release_handle(handle).ok());
    }
  });
  EXPECT_EQ(model.memory_use(kGpu).used, Bytes{});
  EXPECT_EQ(model.calls(CallKind::kMap), std::uint64_t{kThreads} * kRounds);
  model.validate();
}

TEST_F(GpuModelThreads, ABlockPassedThroughAQueueOfStreamsIsNeverJudgedWrongly) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  const EventId event = new_event();
  std::vector<StreamId> streams;
  for (int i = 0; i < kThreads; ++i) streams.push_back(new_stream());
  std::atomic<int> turn{0};
  in_threads([&](int me) {
    for (int round = 0; round < kRounds; ++round) {
      for (int now = turn.load(); now % kThreads != me; now = turn.load()) turn.wait(now);
      ASSERT_TRUE(model.wait_event(kGpu, streams[static_cast<std::size_t>(me)], event).ok());
      hand_out(streams[static_cast<std::size_t>(me)], block, 1_MiB);
      run(streams[static_cast<std::size_t>(me)], 1_us);
      give_back(streams[static_cast<std::size_t>(me)], block, 1_MiB);
      ASSERT_TRUE(model.record_event(event, kGpu, streams[static_cast<std::size_t>(me)]).ok());
      turn.fetch_add(1);
      turn.notify_all();
    }
  });
  EXPECT_TRUE(model.synchronize_device(kGpu).ok());
  EXPECT_EQ(model.now(), Nanos{1'000} + Nanos{std::int64_t{kThreads} * kRounds * 1'000 - 1'000});
  EXPECT_TRUE(model.release(block).ok());
}

TEST_F(GpuModelThreads, CallbacksRunOnceEachAndBeforeAWaitReturns) {
  std::atomic<std::uint64_t> recorded{0};
  model.set_activity_hook([&recorded](const ActivityRecord&) { recorded.fetch_add(1); });
  in_threads([this](int) {
    const StreamId stream = new_stream();
    std::atomic<int> done{0};
    for (int round = 1; round <= kRounds; ++round) {
      Work work;
      work.duration = 1_us;
      work.on_complete = [&done] { done.fetch_add(1); };
      ASSERT_TRUE(model.enqueue(kGpu, stream, CallKind::kLaunchHostFunction, work).ok());
      if (round % 8 == 0) {
        ASSERT_TRUE(model.synchronize_stream(kGpu, stream).ok());
        ASSERT_EQ(done.load(), round);
      } else {
        model.run_due();
      }
    }
  });
  EXPECT_EQ(recorded.load(), std::uint64_t{kThreads} * kRounds);
}

TEST_F(GpuModelThreads, CapturesOfSeveralThreadsDoNotMeet) {
  in_threads([this](int) {
    const StreamId stream = new_stream();
    for (int round = 0; round < kRounds / 4; ++round) {
      ASSERT_TRUE(model.begin_capture(kGpu, stream, CaptureMode::kThreadLocal).ok());
      run(stream, 1_us);
      const GraphId graph = model.end_capture(kGpu, stream).value();
      const ExecId exec = model.instantiate(graph).value();
      ASSERT_TRUE(model.launch_graph(kGpu, stream, exec).ok());
      ASSERT_TRUE(model.destroy_exec(exec).ok());
      ASSERT_TRUE(model.destroy_graph(graph).ok());
    }
  });
}

}  // namespace
}  // namespace levee::device::sim
