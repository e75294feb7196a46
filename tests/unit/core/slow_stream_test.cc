// A stream whose work never ends costs the others nothing but the memory that it was given: they go
// on, with full reuse, on a device whose judge ends the process at the first hazard.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/core/rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;

class SlowStreamTest : public testing::Test {
 protected:
  SlowStreamTest() : slow_(rig_.stream()), others_{rig_.stream(), rig_.stream()} {}

  // The allocator's end waits for all streams, as it must.
  ~SlowStreamTest() override { rig_.model().advance_past_all_work(); }

  void hang() { rig_.work(slow_, Nanos{3'600'000'000'000}); }
  /// Blocks of all kinds that `slow_` uses and that their owner gives back.
  Bytes lend(StreamId owner) {
    Bytes lent{};
    for (Bytes bytes : {512_B, 12_KiB, 300_KiB, 24_MiB, 40_MiB}) {
      const DeviceAddr addr = rig_.alloc(bytes, owner);
      EXPECT_TRUE(rig_->record_use(addr, slow_).ok());
      rig_.free(addr);
      lent += bytes;
    }
    return lent;
  }
  /// A round of what the other streams do: 200 MiB each in blocks of all sizes, and some that they
  /// lend one another.
  void go_on() {
    std::vector<DeviceAddr> live;
    for (StreamId stream : others_) {
      for (Bytes bytes : {64_MiB, 96_MiB, 40_MiB, 700_KiB, 8_KiB, 512_B}) {
        live.push_back(rig_.alloc(bytes, stream));
        rig_.work(stream, 50_us);
      }
    }
    EXPECT_TRUE(rig_->record_use(live[1], others_[1]).ok());
    EXPECT_TRUE(rig_->record_use(live[8], others_[0]).ok());
    for (DeviceAddr addr : live) rig_.free(addr);
    rig_.model().advance(1_ms);
  }
  /// Waiting blocks are looked after every few requests.
  void settle() {
    rig_.model().advance(1_ms);
    for (int i = 0; i < 100; ++i) rig_.free(rig_.alloc(2_MiB, others_[0]));
  }
  /// Whether what was enqueued on the stream until now is done a second later.
  bool is_running(StreamId stream) {
    device::sim::SimDevice device(rig_.model(), DeviceId{0});
    const EventId event = *device.create_event();
    EXPECT_TRUE(device.record_event(event, stream).ok());
    rig_.model().advance(1000_ms);
    const bool done = device.query_event(event).ok();
    EXPECT_TRUE(device.destroy_event(event).ok());
    return done;
  }
  std::uint64_t host_waits() const {
    return rig_.calls(CallKind::kSynchronizeDevice) + rig_.calls(CallKind::kSynchronizeStream) +
           rig_.calls(CallKind::kSynchronizeEvent);
  }

  Rig rig_{2_GiB};
  StreamId slow_;
  StreamId others_[2];
};

TEST_F(SlowStreamTest, BlocksLentToItHoldUpNobody) {
  for (int i = 0; i < 5; ++i) go_on();
  hang();
  Bytes lent{};
  for (int i = 0; i < 4; ++i) lent += lend(others_[static_cast<std::size_t>(i % 2)]);
  for (int i = 0; i < 10; ++i) go_on();
  const Bytes reserved = rig_.reserved();
  EXPECT_GE(Bytes{static_cast<std::uint64_t>(rig_->stats().active_bytes[0].current)}, lent);
  const std::uint64_t waits = rig_.calls(CallKind::kWaitEvent);
  for (int i = 0; i < 300; ++i) go_on();
  EXPECT_EQ(rig_.reserved(), reserved) << "memory grows behind a stream that does not move";
  EXPECT_LE(rig_.calls(CallKind::kWaitEvent) - waits, 300U * 12);
  EXPECT_EQ(host_waits(), 0U);
  for (StreamId stream : others_) EXPECT_TRUE(is_running(stream));
  EXPECT_FALSE(is_running(slow_));
}

TEST_F(SlowStreamTest, BlocksLentToItAndToOthersWaitForItAlone) {
  hang();
  const DeviceAddr both = rig_.alloc(32_MiB, others_[0]);
  ASSERT_TRUE(rig_->record_use(both, slow_).ok());
  ASSERT_TRUE(rig_->record_use(both, others_[1]).ok());
  rig_.free(both);
  const DeviceAddr one = rig_.alloc(32_MiB, others_[0]);
  ASSERT_TRUE(rig_->record_use(one, others_[1]).ok());
  rig_.free(one);
  for (int i = 0; i < 50; ++i) go_on();
  settle();
  EXPECT_EQ(rig_->stats().active_bytes[0].current, static_cast<std::int64_t>((32_MiB).value))
      << "what others used is back, what the slow stream uses is not";
  for (StreamId stream : others_) EXPECT_TRUE(is_running(stream));
}

TEST_F(SlowStreamTest, ItGoesOnReusingItsOwnMemory) {
  for (int i = 0; i < 5; ++i) go_on();
  hang();
  for (int i = 0; i < 20; ++i) {
    rig_.free(rig_.alloc(48_MiB, slow_));
    go_on();
  }
  const Bytes reserved = rig_.reserved();
  const std::uint64_t records = rig_.calls(CallKind::kRecordEvent);
  for (int i = 0; i < 100; ++i) rig_.free(rig_.alloc(48_MiB, slow_));
  EXPECT_EQ(rig_.reserved(), reserved);
  EXPECT_LE(rig_.calls(CallKind::kRecordEvent) - records, 2U);
  EXPECT_EQ(host_waits(), 0U);
}

// Its end gives everything back, without anybody having asked for it in between.
TEST_F(SlowStreamTest, WhenItMovesOnAllIsBack) {
  rig_.work(slow_, 500_ms);
  lend(others_[0]);
  for (int i = 0; i < 10; ++i) go_on();
  EXPECT_GT(rig_->stats().active_bytes[0].current, 0);
  rig_.model().advance(600_ms);
  settle();
  EXPECT_EQ(rig_->stats().active_bytes[0].current, 0);
}

}  // namespace
}  // namespace levee::core
