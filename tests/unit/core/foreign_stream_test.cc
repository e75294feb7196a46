// Streams that one number does not name: the default streams of other devices, the legacy stream's
// second number, and the default stream of each thread.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "allocator/core/make_allocator.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"

namespace levee::core {
namespace {

using device::sim::CallKind;

constexpr DeviceId kHome{0};
constexpr DeviceId kAway{1};
constexpr StreamId kLegacy{0};
constexpr StreamId kLegacyByName{1};
constexpr StreamId kOfThisThread{2};

class ForeignStreamTest : public testing::Test {
 protected:
  ForeignStreamTest() : model_(model_config()), device_(model_, kHome) {
    // Whatever is mapped may be used by the other device as well.
    allocator_ = std::move(make_allocator(device_, Config{}, nullptr).value());
  }
  static device::sim::ModelConfig model_config() {
    device::sim::ModelConfig config;
    config.devices.resize(2);
    for (device::sim::DeviceConfig& device : config.devices) device.total_memory = 256_MiB;
    config.judge = device::sim::JudgeMode::kCount;
    config.report_leaks = false;
    return config;
  }
  void work(DeviceId on, StreamId stream, Nanos duration) {
    device::sim::Work work;
    work.duration = duration;
    ASSERT_TRUE(model_.enqueue(on, stream, CallKind::kLaunchKernel, work).ok());
  }
  DeviceAddr alloc(Bytes bytes, StreamId stream = kLegacy) {
    const Result<Block> block = allocator_->allocate(bytes, stream);
    EXPECT_TRUE(block.ok());
    return block.ok() ? block->addr : DeviceAddr{};
  }
  std::uint64_t disorder() const {
    return model_.hazard_count(device::sim::HazardKind::kUnorderedUse);
  }

  device::sim::GpuModel model_;
  device::sim::SimDevice device_;
  std::unique_ptr<Allocator> allocator_;
};

TEST_F(ForeignStreamTest, ANameSaysWhoseStreamItIs) {
  const StreamId away = StreamId::on_device(kAway, kLegacy);
  EXPECT_TRUE(away.is_foreign());
  EXPECT_EQ(away.device(), kAway);
  EXPECT_EQ(away.handle(), kLegacy);
  EXPECT_NE(away, kLegacy);
  EXPECT_FALSE(kLegacy.is_foreign());
  const StreamId high{(1ULL << 57) - 8};
  EXPECT_FALSE(high.is_foreign()) << "an address of user space";
  EXPECT_EQ(StreamId::on_device(DeviceId{0}, high).handle(), high);
}

// A block of device 0 is read on the default stream of device 1; both streams have the number 0.
TEST_F(ForeignStreamTest, MemoryReadOnAnotherDevicesDefaultStreamWaitsForIt) {
  for (Bytes bytes : {512_B, 300_KiB, 8_MiB}) {
    const DeviceAddr addr = alloc(bytes);
    ASSERT_TRUE(allocator_->record_use(addr, StreamId::on_device(kAway, kLegacy)).ok());
    work(kAway, kLegacy, 10_ms);
    ASSERT_TRUE(allocator_->free(addr).ok());
    EXPECT_GE(allocator_->stats().active_bytes[0].current, static_cast<std::int64_t>(bytes.value))
        << "given back, and still read";
    model_.advance_past_all_work();
    // Looked after by and by, or at once where memory is wanted.
    for (int i = 0; i < 200; ++i) ASSERT_TRUE(allocator_->free(alloc(2_MiB)).ok());
    EXPECT_EQ(allocator_->stats().active_bytes[0].current, 0);
  }
  EXPECT_EQ(model_.calls(CallKind::kSynchronizeDevice), 0U);
  EXPECT_EQ(model_.calls(CallKind::kSynchronizeStream), 0U);
}

TEST_F(ForeignStreamTest, AMissWaitsOnTheStreamAndNotOnTheHost) {
  const DeviceAddr whole = alloc(200_MiB);
  ASSERT_TRUE(allocator_->record_use(whole, StreamId::on_device(kAway, kLegacy)).ok());
  work(kAway, kLegacy, 10_ms);
  ASSERT_TRUE(allocator_->free(whole).ok());
  const Nanos before = model_.now();
  const DeviceAddr again = alloc(200_MiB);
  EXPECT_GT(model_.calls(CallKind::kWaitEvent), 0U);
  EXPECT_EQ(model_.calls(CallKind::kSynchronizeStream), 0U);
  EXPECT_LT(model_.now() - before, 10_ms) << "the host waited";
  ASSERT_TRUE(allocator_->free(again).ok());
}

TEST_F(ForeignStreamTest, WithoutEventsOfThatDeviceTheMissWaitsForItsStream) {
  const DeviceAddr whole = alloc(200_MiB);
  ASSERT_TRUE(allocator_->record_use(whole, StreamId::on_device(kAway, kLegacy)).ok());
  work(kAway, kLegacy, 10_ms);
  ASSERT_TRUE(allocator_->free(whole).ok());
  model_.set_faults({device::sim::Fault::fail_every(CallKind::kCreateEvent, 1)});
  const Nanos before = model_.now();
  const DeviceAddr again = alloc(200_MiB);
  EXPECT_GE(model_.now() - before, 9_ms) << "memory that device 1 still reads was handed out";
  ASSERT_TRUE(allocator_->free(again).ok());
}

TEST_F(ForeignStreamTest, TheOwnDevicesNameIsNoOtherStream) {
  const DeviceAddr addr = alloc(4_MiB);
  ASSERT_TRUE(allocator_->record_use(addr, StreamId::on_device(kHome, kLegacy)).ok());
  ASSERT_TRUE(allocator_->free(addr).ok());
  EXPECT_EQ(allocator_->stats().active_bytes[0].current, 0) << "it waits for its own stream";
}

TEST_F(ForeignStreamTest, BothNumbersOfTheLegacyStreamAreOneStream) {
  const DeviceAddr addr = alloc(4_MiB, kLegacyByName);
  ASSERT_TRUE(allocator_->record_use(addr, kLegacy).ok());
  ASSERT_TRUE(allocator_->free(addr).ok());
  EXPECT_EQ(alloc(4_MiB, kLegacy), addr);
  EXPECT_EQ(model_.calls(CallKind::kRecordEvent), 0U);
  EXPECT_EQ(model_.calls(CallKind::kWaitEvent), 0U);
}

// The number 2 is another stream in every thread.
TEST_F(ForeignStreamTest, DefaultStreamsOfThreadsAreOrdered) {
  for (Bytes bytes : {512_B, 300_KiB, 8_MiB}) {
    const DeviceAddr addr = alloc(bytes, kOfThisThread);
    work(kHome, kOfThisThread, 10_ms);
    ASSERT_TRUE(allocator_->free(addr).ok());
    EXPECT_EQ(alloc(bytes, kOfThisThread), addr) << "reused at once where it was";
    work(kHome, kOfThisThread, 10_ms);
    ASSERT_TRUE(allocator_->free(addr).ok());
    const std::uint64_t waits = model_.calls(CallKind::kWaitEvent);
    std::thread([&] {
      std::vector<DeviceAddr> taken;
      for (int i = 0; i < 12; ++i) taken.push_back(alloc(bytes, kOfThisThread));
      work(kHome, kOfThisThread, 1_ms);
      for (DeviceAddr one : taken) EXPECT_TRUE(allocator_->free(one).ok());
    }).join();
    if (bytes >= 300_KiB) {
      EXPECT_GT(model_.calls(CallKind::kWaitEvent), waits);
    }
  }
  EXPECT_EQ(disorder(), 0U) << model_.report();
}

TEST_F(ForeignStreamTest, AThreadMayGiveBackWhatAnothersDefaultStreamUses) {
  const DeviceAddr addr = alloc(8_MiB, kOfThisThread);
  work(kHome, kOfThisThread, 10_ms);
  std::thread([&] {
    EXPECT_TRUE(allocator_->free(addr).ok());
    EXPECT_EQ(alloc(8_MiB, kOfThisThread), addr);
    work(kHome, kOfThisThread, 1_ms);
    EXPECT_TRUE(allocator_->free(addr).ok());
  }).join();
  EXPECT_EQ(alloc(8_MiB, kOfThisThread), addr);
  EXPECT_EQ(disorder(), 0U) << model_.report();
  ASSERT_TRUE(allocator_->free(addr).ok());
}

}  // namespace
}  // namespace levee::core
