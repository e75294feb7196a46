// What a cache hit may cost: no device call, no heap allocation, one lock, no clock read while
// nothing is recorded. Each test warms the allocator up, then counts over many requests.
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "allocator/base/clock.h"
#include "allocator/core/make_allocator.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"
#include "tests/model/crew.h"
#include "tests/support/forwarding_device.h"
#include "tests/support/heap_count.h"

namespace levee::core {
namespace {

using device::sim::CallKind;

// A judging device, as far as the allocator can tell, that counts pool locks and passes all else
// on.
class LockCountingDevice final : public test::ForwardingDevice {
 public:
  explicit LockCountingDevice(device::Device& real)
      : ForwardingDevice(real), capabilities_(real.capabilities()) {
    capabilities_.judges_use = true;
  }
  int locks() const { return locks_; }

  const device::Capabilities& capabilities() const override { return capabilities_; }
  // The host's clock, whose reads are counted, and no notes: the model behind it judges nothing.
  Nanos now() const override { return device::Device::now(); }
  void note_use(DeviceAddr, Bytes, StreamId, device::UseKind) override {}
  void note_pool_lock(bool held) override {
    if (held) ++locks_;
  }

 private:
  device::Capabilities capabilities_;
  int locks_ = 0;
};

int clock_reads = 0;

class HotPath : public testing::Test {
 protected:
  HotPath() : model_(quiet()), real_(model_, DeviceId{0}), device_(real_) {
    Result<std::unique_ptr<Allocator>> made = make_allocator(device_, Config{}, nullptr);
    allocator_ = std::move(made.value());
  }
  static device::sim::ModelConfig quiet() {
    device::sim::ModelConfig config;
    config.judge = device::sim::JudgeMode::kOff;
    return config;
  }

  void pair(Bytes bytes, StreamId stream = StreamId{0}) {
    const Result<Block> block = allocator_->allocate(bytes, stream);
    ASSERT_TRUE(block.ok());
    ASSERT_TRUE(allocator_->free(block->addr).ok());
  }
  // Blocks of many sizes come and go in no particular order; each place always holds the same size.
  void churn(std::vector<DeviceAddr>& live, std::uint64_t seed, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      const std::size_t at = (seed >> 33) % live.size();
      if (!live[at].is_null()) {
        ASSERT_TRUE(allocator_->free(live[at]).ok());
      }
      const Bytes bytes = at % 3 == 0 ? 64_KiB * (17 + at % 100) : 700_B * (1 + at);
      const Result<Block> block = allocator_->allocate(bytes, StreamId{0});
      ASSERT_TRUE(block.ok());
      live[at] = block->addr;
    }
  }

  template <typename F>
  void expect_free_of_charge(int locks, F&& work) {
    const std::uint64_t calls = model_.total_calls();
    const int locks_before = device_.locks();
    clock_reads = 0;
    const base::ScopedClockForTest clock([] {
      ++clock_reads;
      return Nanos{1};
    });
    const test::HeapCount heap;
    work();
    const std::uint64_t allocations = heap.value();
    EXPECT_EQ(model_.total_calls() - calls, 0U) << "device calls";
    EXPECT_EQ(allocations, 0U) << "heap allocations";
    EXPECT_LE(device_.locks() - locks_before, locks) << "locks";
    EXPECT_EQ(clock_reads, 0) << "clock reads while nothing is recorded";
  }

  device::sim::GpuModel model_;
  device::sim::SimDevice real_;
  LockCountingDevice device_;
  std::unique_ptr<Allocator> allocator_;
};

TEST_F(HotPath, ASmallHitTakesNoLock) {
  const StreamId side = *model_.create_stream(DeviceId{0});
  for (Bytes bytes : {1_B, 512_B, 700_B, 4_KiB, 5_KiB, 16_KiB}) {
    for (StreamId stream : {StreamId{0}, side}) {
      SCOPED_TRACE(bytes.value);
      for (int i = 0; i < 3; ++i) pair(bytes, stream);
      expect_free_of_charge(0, [&] {
        for (int i = 0; i < 100; ++i) pair(bytes, stream);
      });
    }
  }
}

TEST_F(HotPath, ASmallHitTakesNoLockInsideStepsEither) {
  for (int step = 0; step < 10; ++step) {
    allocator_->mark_step();
    for (int i = 0; i < 300; ++i) pair(2_KiB);
  }
  expect_free_of_charge(0, [&] {
    for (int i = 0; i < 300; ++i) pair(2_KiB);
  });
}

// Threads that change places at each block do not take the lock each time, as turns that are told
// apart would; they may until the budget of turns is used up.
TEST_F(HotPath, ThreadsThatChangePlacesAtEachBlockTakeFewLocks) {
  model_test::Crew crew;
  const auto work = [&](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      crew.run(static_cast<std::uint32_t>(i) % 2, [&] { pair(2_KiB); });
    }
  };
  work(500);
  const int before = device_.locks();
  work(4'000);
  EXPECT_LE(device_.locks() - before, 4'000 / 100);
}

TEST_F(HotPath, SmallChurnTakesALockForEachHalfStackAtMost) {
  std::vector<DeviceAddr> live(500);
  const auto work = [&](int rounds) {
    std::uint64_t seed = 1;
    for (int i = 0; i < rounds; ++i) {
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      DeviceAddr& addr = live[(seed >> 33) % live.size()];
      if (!addr.is_null()) {
        ASSERT_TRUE(allocator_->free(addr).ok());
      }
      const Result<Block> block = allocator_->allocate(Bytes{1 + (seed >> 20) % 4096}, StreamId{0});
      ASSERT_TRUE(block.ok());
      addr = block->addr;
    }
  };
  work(20'000);
  expect_free_of_charge(10'000 / 8, [&] { work(10'000); });
}

TEST_F(HotPath, ARangeOrLargeHitTakesOneLockAndNothingElse) {
  for (Bytes bytes : {17_KiB, 1_MiB, 2_MiB, 3_MiB, 64_MiB, 1_GiB}) {
    SCOPED_TRACE(bytes.value);
    for (int i = 0; i < 3; ++i) pair(bytes);
    expect_free_of_charge(200, [&] {
      for (int i = 0; i < 100; ++i) pair(bytes);
    });
  }
}

TEST_F(HotPath, ChurnCostsNothingOnceItFits) {
  std::vector<DeviceAddr> live(256);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) churn(live, seed, 4000);
  expect_free_of_charge(8000, [&] { churn(live, 1, 4000); });
}

TEST_F(HotPath, AStreamThatReusesItsOwnMemoryRecordsNoEvent) {
  const StreamId side = *model_.create_stream(DeviceId{0});
  for (int i = 0; i < 3; ++i) {
    pair(8_MiB, side);
    pair(3_KiB, side);
  }
  expect_free_of_charge(400, [&] {
    for (int i = 0; i < 100; ++i) {
      pair(8_MiB, side);
      pair(3_KiB, side);
    }
  });
  EXPECT_EQ(allocator_->stats().num_event_records, 0);
}

TEST_F(HotPath, PredictionAllocatesNothingOnceWarm) {
  std::vector<DeviceAddr> live(64);
  for (int step = 0; step < 30; ++step) {
    allocator_->mark_step();
    churn(live, 7, 500);
  }
  expect_free_of_charge(1000, [&] { churn(live, 7, 500); });
}

TEST_F(HotPath, HandOversBetweenStreamsRecordOnceAndWaitOnceForAnEpoch) {
  const StreamId a = *model_.create_stream(DeviceId{0});
  const StreamId b = *model_.create_stream(DeviceId{0});
  // Eight blocks freed in one epoch of `a`, then needed by `b` one after the other.
  const auto hand_over = [&] {
    std::vector<DeviceAddr> blocks;
    for (int i = 0; i < 8; ++i) blocks.push_back(allocator_->allocate(6_MiB, a)->addr);
    for (DeviceAddr addr : blocks) ASSERT_TRUE(allocator_->free(addr).ok());
    blocks.clear();
    for (int i = 0; i < 8; ++i) blocks.push_back(allocator_->allocate(6_MiB, b)->addr);
    for (DeviceAddr addr : blocks) ASSERT_TRUE(allocator_->free(addr).ok());
  };
  hand_over();
  model_.reset_call_counts();
  const int rounds = 10;
  for (int i = 0; i < rounds; ++i) hand_over();
  // From a to b, and back: two hand-overs a round.
  EXPECT_LE(model_.calls(CallKind::kRecordEvent), 2U * rounds);
  EXPECT_LE(model_.calls(CallKind::kWaitEvent), 2U * rounds);
  EXPECT_EQ(model_.calls(CallKind::kMap), 0U);
  EXPECT_EQ(model_.calls(CallKind::kCreateHandle), 0U);
}

}  // namespace
}  // namespace levee::core
