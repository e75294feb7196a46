#include "allocator/core/streams.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/core/rig.h"
#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;

class StreamsTest : public testing::Test {
 protected:
  StreamsTest()
      : model_(device::sim::ModelConfig{}), device_(model_, DeviceId{0}), table_(device_) {
    for (StreamIndex& index : index_) index = table_.intern(*model_.create_stream(DeviceId{0}));
  }
  device::sim::GpuModel model_;
  device::sim::SimDevice device_;
  StreamTable table_;
  StreamIndex index_[3];
};

TEST_F(StreamsTest, OneEventServesEveryNeedOfAnEpoch) {
  const Stamp stamp = table_.stamp_now(index_[0]);
  EXPECT_TRUE(table_.must_wait(index_[1], stamp));
  ASSERT_TRUE(table_.wait_for(index_[1], stamp).ok());
  EXPECT_FALSE(table_.must_wait(index_[1], stamp));
  ASSERT_TRUE(table_.wait_for(index_[2], stamp).ok());
  EXPECT_EQ(table_.record_count(), 1);
  EXPECT_EQ(table_.wait_count(), 2);
  EXPECT_FALSE(table_.must_wait(index_[0], stamp)) << "a stream is in order with itself";
}

TEST_F(StreamsTest, WaitingIsTransitive) {
  const Stamp first = table_.stamp_now(index_[0]);
  ASSERT_TRUE(table_.wait_for(index_[1], first).ok());
  ASSERT_TRUE(table_.wait_for(index_[2], table_.stamp_now(index_[1])).ok());
  EXPECT_FALSE(table_.must_wait(index_[2], first));
}

TEST_F(StreamsTest, AnEpochThatIsKnownDoneNeedsNoWait) {
  const Stamp stamp = table_.stamp_now(index_[0]);
  ASSERT_TRUE(table_.ensure_closed(stamp).ok());
  model_.advance_past_all_work();
  ASSERT_TRUE(table_.poll(index_[0]).ok());
  EXPECT_TRUE(table_.is_complete(stamp));
  EXPECT_FALSE(table_.must_wait(index_[1], stamp));
  table_.validate();
}

TEST_F(StreamsTest, WorkThatIsNotDoneIsAnAnswerAndNoFailure) {
  device::sim::Work work;
  work.duration = 5_ms;
  ASSERT_TRUE(
      model_.enqueue(DeviceId{0}, table_.id(index_[0]), CallKind::kLaunchKernel, work).ok());
  const Stamp stamp = table_.stamp_now(index_[0]);
  ASSERT_TRUE(table_.ensure_closed(stamp).ok());
  EXPECT_TRUE(table_.poll(index_[0]).ok());
  EXPECT_FALSE(table_.is_complete(stamp));
}

TEST_F(StreamsTest, TheMainStreamIsTheOneWithMostBytes) {
  EXPECT_EQ(table_.main(), index_[0]) << "the first that came";
  table_.note_large(index_[1], 4_MiB);
  EXPECT_EQ(table_.main(), index_[1]);
  table_.note_large(index_[0], 3_MiB);
  EXPECT_EQ(table_.main(), index_[1]);
  table_.note_large(index_[0], 2_MiB);
  EXPECT_EQ(table_.main(), index_[0]);
}

TEST_F(StreamsTest, LooksAreFewAndMakeOldMemoryKnownDone) {
  const Stamp old = table_.stamp_now(index_[0]);
  table_.look_at(index_[0], 1000);
  EXPECT_EQ(table_.record_count(), 1);
  model_.advance_past_all_work();
  for (std::uint64_t now = 1001; now < 1048; ++now) table_.look_at(index_[0], now);
  EXPECT_EQ(table_.record_count(), 1);
  EXPECT_LE(model_.calls(CallKind::kQueryEvent), 1U);
  table_.look_at(index_[0], 1060);
  EXPECT_TRUE(table_.is_complete(old));
  EXPECT_LE(model_.calls(CallKind::kQueryEvent), 2U);
  EXPECT_EQ(table_.wait_count(), 0);
  // Nothing of a stream that captures.
  const StreamId id = table_.id(index_[0]);
  ASSERT_TRUE(model_.begin_capture(DeviceId{0}, id, device::sim::CaptureMode::kThreadLocal).ok());
  table_.look_at(index_[0], 9000);
  EXPECT_EQ(table_.record_count(), 1);
  EXPECT_TRUE(model_.end_capture(DeviceId{0}, id).ok());
}

TEST_F(StreamsTest, ACapturingStreamIsLeftAlone) {
  const StreamId id = table_.id(index_[0]);
  ASSERT_TRUE(model_.begin_capture(DeviceId{0}, id, device::sim::CaptureMode::kThreadLocal).ok());
  EXPECT_EQ(table_.wait_for(index_[1], table_.stamp_now(index_[0])).code, StatusCode::kNotReady);
  EXPECT_EQ(table_.wait_for(index_[0], table_.stamp_now(index_[1])).code, StatusCode::kNotReady);
  EXPECT_EQ(table_.hold(index_[0]).code(), StatusCode::kNotReady);
  EXPECT_TRUE(table_.any_capturing());
  EXPECT_EQ(table_.record_count(), 0);
  EXPECT_TRUE(model_.end_capture(DeviceId{0}, id).ok());
  EXPECT_FALSE(table_.any_capturing());
}

// While the host waits for the device the lock is open, and a second graph's pool may be released.
TEST_F(StreamsTest, AFenceDoesNotCoverWhatTheUnknownStreamWasGivenSince) {
  table_.stamp_unknown();
  const std::vector<Stamp> through = table_.fence();
  const Stamp since = table_.stamp_unknown();
  for (Stamp stamp : through) table_.set_complete(stamp);
  EXPECT_TRUE(table_.is_unknown_pending());
  EXPECT_TRUE(table_.must_wait(index_[0], since));
}

TEST_F(StreamsTest, TheUnknownStreamIsDoneOnlyByAFence) {
  const Stamp stamp = table_.stamp_unknown();
  EXPECT_TRUE(table_.must_wait(index_[0], stamp));
  EXPECT_EQ(table_.wait_for(index_[0], stamp).code, StatusCode::kNotReady);
  for (Stamp through : table_.fence()) table_.set_complete(through);
  EXPECT_FALSE(table_.must_wait(index_[0], stamp));
  EXPECT_FALSE(table_.is_unknown_pending());
}

TEST_F(StreamsTest, ManyClosedEpochsKeepTheOldestEvent) {
  const Stamp first = table_.stamp_now(index_[0]);
  for (int i = 0; i < 200; ++i) ASSERT_TRUE(table_.ensure_closed(table_.stamp_now(index_[0])).ok());
  model_.advance_past_all_work();
  ASSERT_TRUE(table_.poll(index_[0], 1).ok());
  EXPECT_TRUE(table_.is_complete(first));
  EXPECT_LE(model_.calls(CallKind::kCreateEvent), 40U);
  table_.validate();
}

TEST(CrossStream, MemoryFreedOnOneStreamServesAnotherWithoutGrowth) {
  Rig rig;
  const StreamId a = rig.stream();
  const StreamId b = rig.stream();
  const DeviceAddr first = rig.alloc(64_MiB, a);
  rig.work(a, 10_ms);
  rig.free(first);
  const DeviceAddr second = rig.alloc(64_MiB, b);
  EXPECT_EQ(second, first);
  EXPECT_EQ(rig.calls(CallKind::kRecordEvent), 1U);
  EXPECT_EQ(rig.calls(CallKind::kWaitEvent), 1U);
  EXPECT_EQ(rig.calls(CallKind::kSynchronizeEvent), 0U);
  rig.free(second);
}

TEST(CrossStream, OneShotStreamsStrandNothing) {
  Rig rig;
  Bytes peak{};
  for (int i = 0; i < 32; ++i) {
    const StreamId once = rig.stream();
    const DeviceAddr x = rig.alloc(50_MiB, once);
    const DeviceAddr y = rig.alloc(50_MiB, once);
    rig.free(x);
    rig.free(y);
    peak = std::max(peak, rig.reserved());
  }
  EXPECT_LE(peak, 102_MiB);
}

TEST(CrossStream, AStreamThatWasDestroyedDoesNotHoldItsMemory) {
  Rig rig(200_MiB);
  const StreamId gone = rig.stream();
  rig.free(rig.alloc(150_MiB, gone));
  ASSERT_TRUE(rig.model().destroy_stream(gone).ok());
  rig.model().set_judge(
      device::sim::JudgeMode::kCount);  // the id is foreign now, which is the point
  EXPECT_TRUE(rig->allocate(150_MiB, StreamId{0}, nullptr).ok());
}

// CUDA does not capture the legacy stream, and of one that nobody has seen it knows nothing:
// neither is asked about, and no answer of the device is an error then.
TEST(StreamTable, StreamsThatCannotCaptureAreNotAskedAbout) {
  StateRig rig;
  const StreamIndex legacy = rig.state.stream_index(StreamId{0});
  const StreamId blocking =
      *rig.model.create_stream(DeviceId{0}, {.non_blocking = false, .priority = 0});
  const StreamIndex other = rig.state.stream_index(blocking);
  ASSERT_TRUE(
      rig.model.begin_capture(DeviceId{0}, blocking, device::sim::CaptureMode::kRelaxed).ok());
  EXPECT_TRUE(rig.state.streams.is_capturing(other).value());
  const std::uint64_t before = rig.calls(device::sim::CallKind::kCaptureInfo);
  for (const StreamIndex index : {legacy, kUnknownStream}) {
    const Result<bool> answer = rig.state.streams.is_capturing(index);
    ASSERT_TRUE(answer.ok());
    EXPECT_FALSE(*answer);
  }
  EXPECT_EQ(rig.calls(device::sim::CallKind::kCaptureInfo), before);
  EXPECT_TRUE(rig.model.end_capture(DeviceId{0}, blocking).ok());
}

}  // namespace
}  // namespace levee::core
