#include "allocator/core/observed_device.h"

#include <gtest/gtest.h>

#include <vector>

#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"
#include "allocator/record/recorder.h"

namespace levee::core {
namespace {

// Keeps what it is told.
class Notebook final : public record::Recorder {
 public:
  Notebook() { enabled_.store(true); }
  void record(EventKind kind, LaneId lane, std::uint64_t a, std::uint64_t b, std::uint16_t aux,
              ContextId context) noexcept override {
    events.push_back(make_event(kind, 0_ns, lane, a, b, aux, context));
  }
  void emit(const Event& event) noexcept override { events.push_back(event); }
  void emit_activity(std::span<const Event>) noexcept override {}
  LaneId intern_lane(DeviceId, StreamId) override { return LaneId{7}; }
  std::uint16_t intern_pool(PoolId) override { return 0; }
  ContextId intern(std::string_view, record::ContextKind) override { return ContextId{}; }
  void describe_device(DeviceId, std::string_view, Bytes) override {}
  std::vector<Event> events;
};

class ObservedDeviceTest : public testing::Test {
 protected:
  static device::sim::ModelConfig config() {
    device::sim::ModelConfig made;
    made.devices[0].total_memory = 64_MiB;
    made.report_leaks = false;
    return made;
  }
  device::sim::GpuModel model_{config()};
  device::sim::SimDevice real_{model_, DeviceId{0}};
};

TEST_F(ObservedDeviceTest, CallsAreCountedWithTheirTime) {
  ObservedDevice device(real_, nullptr);
  const Result<HandleId> handle = device.create_handle(2_MiB);
  ASSERT_TRUE(handle.ok());
  ASSERT_TRUE(device.release_handle(*handle).ok());
  EXPECT_EQ(device.call_count(), 2);
  EXPECT_GE(device.time_ns(), 0);
}

TEST_F(ObservedDeviceTest, AnswersAreThoseOfTheDevice) {
  ObservedDevice device(real_, nullptr);
  EXPECT_EQ(device.memory_info()->total, 64_MiB);
  EXPECT_EQ(device.capabilities().total_memory, 64_MiB);
  EXPECT_EQ(device.create_handle(128_MiB).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(device.id(), DeviceId{0});
}

TEST_F(ObservedDeviceTest, EachCallIsAnEventAndAFailureSaysSo) {
  Notebook notebook;
  ObservedDevice device(real_, &notebook);
  const SlowPathContext context(ContextId{42});
  ASSERT_TRUE(device.create_handle(2_MiB).ok());
  EXPECT_FALSE(device.create_handle(128_MiB).ok());
  ASSERT_EQ(notebook.events.size(), 2U);
  EXPECT_EQ(notebook.events[0].b, 2097152U);
  EXPECT_EQ(notebook.events[0].aux & kDriverCallFailed, 0);
  EXPECT_NE(notebook.events[1].aux & kDriverCallFailed, 0);
  EXPECT_EQ(notebook.events[1].b, 2U) << "CUDA's error, not the bytes";
  EXPECT_EQ(notebook.events[1].context(), ContextId{42});
  EXPECT_EQ(notebook.events[0].lane, LaneId{7});
}

TEST_F(ObservedDeviceTest, NotReadyIsAnAnswerAndNoFailure) {
  Notebook notebook;
  ObservedDevice device(real_, &notebook);
  const StreamId stream = *model_.create_stream(DeviceId{0}, {.non_blocking = true, .priority = 0});
  device::sim::Work work;
  work.duration = 5_ms;
  ASSERT_TRUE(model_.enqueue(DeviceId{0}, stream, device::sim::CallKind::kLaunchKernel, work).ok());
  const EventId event = *device.create_event();
  ASSERT_TRUE(device.record_event(event, stream).ok());
  EXPECT_EQ(device.query_event(event).code, StatusCode::kNotReady);
  EXPECT_EQ(notebook.events.back().aux & kDriverCallFailed, 0);
  ASSERT_TRUE(device.destroy_event(event).ok());
}

TEST(SlowPathContextTest, NestsAndEndsWithItsScope) {
  EXPECT_EQ(SlowPathContext::current(), ContextId{});
  {
    const SlowPathContext outer(ContextId{1});
    {
      const SlowPathContext inner(ContextId{2});
      EXPECT_EQ(SlowPathContext::current(), ContextId{2});
    }
    EXPECT_EQ(SlowPathContext::current(), ContextId{1});
  }
  EXPECT_EQ(SlowPathContext::current(), ContextId{});
}

}  // namespace
}  // namespace levee::core
