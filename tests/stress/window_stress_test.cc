// What other threads do in the windows of the pool lock: while one waits for the driver, others
// place and give back, release pools, take pictures, restore checkpoints, trim, move limits, mark
// steps. Every driver call takes long enough for that, and in half of the tests some are refused.
//
// The model's judge ends the process at the first byte that is used out of order, `validate` at the
// first number that does not add up. How threads interleave is luck: the tests state what holds
// however they do.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "allocator/core/make_allocator.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"
#include "tests/support/random.h"
#include "tests/support/slow_device.h"
#include "tests/support/snapshot_bytes.h"

namespace levee::core {
namespace {

using test::Random;
using test::SlowDevice;

// Requests and pools of each test, all threads together.
constexpr int kTurns = 6'000;

struct Setting {
  const char* name;
  Backing backing;
  StitchMode stitch;
  std::uint64_t refused_of_64;
};

class WindowStress : public testing::TestWithParam<Setting> {
 protected:
  WindowStress() : model_(model_config()), real_(model_, DeviceId{0}) {
    device_ = std::make_unique<SlowDevice>(real_, GetParam().refused_of_64);
    Config config;
    config.backing = GetParam().backing;
    config.stitch = GetParam().stitch;
    allocator_ = std::move(make_allocator(*device_, config, nullptr).value());
    for (int i = 0; i < 5; ++i) {
      streams_.push_back(*model_.create_stream(DeviceId{0}, {.non_blocking = true, .priority = 0}));
    }
  }
  static device::sim::ModelConfig model_config() {
    device::sim::ModelConfig config;
    config.devices[0].total_memory = 192_MiB;
    config.judge = device::sim::JudgeMode::kAbort;
    config.report_leaks = false;  // what is refused may stay behind
    return config;
  }

  static Bytes draw_size(Random& random) {
    switch (random.below(8)) {
      case 0:
        return Bytes{1 + random.below(30 << 20)};
      case 1:
      case 2:
        return 1_MiB + Bytes{random.below(6 << 20)};
      case 3:
        return Bytes{1 + random.below(1 << 20)};
      default:
        return Bytes{1 + random.below(16 << 10)};
    }
  }
  void expect_served_or_full(const Result<Block>& block) {
    if (block.ok()) return;
    const bool may_fail = GetParam().refused_of_64 != 0 || block.code() == StatusCode::kOutOfMemory;
    EXPECT_TRUE(may_fail) << "status " << static_cast<int>(block.code());
    EXPECT_NE(block.code(), StatusCode::kNotOwned);
  }

  // Asks, gives back, lends to other streams.
  void live(std::uint64_t seed, StreamId stream, std::size_t most) {
    Random random(seed);
    std::vector<DeviceAddr> mine;
    while (!is_over_.load()) {
      const std::uint64_t action = random.below(8);
      if (mine.empty() || (action < 4 && mine.size() < most)) {
        const Result<Block> block = allocator_->allocate(draw_size(random), stream);
        expect_served_or_full(block);
        if (block.ok()) mine.push_back(block->addr);
        ++turns_;
      } else if (action == 4) {
        const StreamId other = streams_[random.below(streams_.size())];
        EXPECT_TRUE(allocator_->record_use(mine[random.below(mine.size())], other).ok());
      } else if (action == 5 && random.below(16) == 0) {
        for (DeviceAddr addr : mine) EXPECT_TRUE(allocator_->free(addr).ok());
        mine.clear();
      } else {
        const std::size_t i = random.below(mine.size());
        EXPECT_TRUE(allocator_->free(mine[i]).ok());
        mine[i] = mine.back();
        mine.pop_back();
      }
    }
    for (DeviceAddr addr : mine) EXPECT_TRUE(allocator_->free(addr).ok());
  }

  // Pools begin, are set, restored, left with live blocks, asked for again.
  void live_in_pools(std::uint64_t seed, StreamId stream) {
    Random random(seed);
    std::vector<DeviceAddr> left;
    while (!is_over_.load()) {
      const PoolId id{seed, 1 + random.below(3)};
      EXPECT_TRUE(
          allocator_->begin_allocate_to_pool(id, [stream](StreamId s) { return s == stream; })
              .ok());
      if (random.below(4) == 0) {
        EXPECT_TRUE(allocator_->set_pool_limit(id, 20_MiB).ok());
      }
      const bool serves_others = random.below(2) == 0;
      EXPECT_TRUE(allocator_->set_pool_use_on_oom(id, serves_others).ok());
      if (random.below(8) == 0) {
        EXPECT_TRUE(allocator_->set_pool_no_split(id).ok());
      }
      if (random.below(8) == 0) {
        EXPECT_TRUE(allocator_->set_pool_backing(id, Backing::kSegments).ok());
      }
      std::vector<DeviceAddr> mine;
      const auto ask = [&] {
        const Result<Block> block = allocator_->allocate(draw_size(random), stream);
        expect_served_or_full(block);
        if (block.ok()) mine.push_back(block->addr);
      };
      for (int i = 0; i < 4; ++i) ask();
      const auto checkpoint = allocator_->checkpoint_pool(id);
      EXPECT_TRUE(checkpoint.ok());
      for (int i = 0; i < 2; ++i) ask();
      // What others were given of it would go as well.
      if (!serves_others && random.below(2) == 0) {
        const Result<CheckpointDelta> delta = allocator_->restore_pool(id, **checkpoint);
        if (delta.ok()) {
          for (DeviceAddr addr : delta->freed) std::erase(mine, addr);
          for (const Block& block : delta->allocated) mine.push_back(block.addr);
        }
      }
      EXPECT_TRUE(allocator_->end_allocate_to_pool(id).ok());
      if (random.below(2) == 0) {
        const Result<Bytes> trimmed = allocator_->trim_pool(id);
        static_cast<void>(trimmed);
      }
      for (DeviceAddr addr : mine) {
        if (random.below(8) == 0) {
          left.push_back(addr);
        } else {
          EXPECT_TRUE(allocator_->free(addr).ok());
        }
      }
      EXPECT_TRUE(allocator_->release_pool(id).ok());
      if (left.size() > 8) {
        for (DeviceAddr addr : left) EXPECT_TRUE(allocator_->free(addr).ok());
        left.clear();
      }
      ++turns_;
    }
    for (DeviceAddr addr : left) EXPECT_TRUE(allocator_->free(addr).ok());
  }

  void manage() {
    for (std::uint64_t i = 0; i < 20 || turns_.load() < kTurns; ++i) {
      switch (i % 10) {
        case 0:
          allocator_->mark_step();
          break;
        case 1: {
          const Result<Bytes> trimmed = allocator_->trim(Bytes{(i % 3) * (16 << 20)});
          static_cast<void>(trimmed);
          break;
        }
        case 2:
          allocator_->validate();
          break;
        case 3: {
          const Snapshot snapshot = allocator_->snapshot();
          EXPECT_EQ(static_cast<std::int64_t>(test::bytes_of(snapshot, BlockState::kLive).value),
                    snapshot.stats.allocated_bytes[0].current);
          break;
        }
        case 4:
          allocator_->set_limit(i % 20 == 4 ? 96_MiB : 0_B);
          break;
        case 5:
          allocator_->reset_peak_stats();
          break;
        case 6:
          static_cast<void>(allocator_->snapshot(PoolId{50, 1}));
          static_cast<void>(allocator_->cache_info());
          break;
        default:
          // Threads that die with blocks in their cache.
          std::thread([&] {
            for (int k = 0; k < 20; ++k) {
              const Result<Block> block = allocator_->allocate(3_KiB, streams_[4]);
              if (block.ok()) {
                EXPECT_TRUE(allocator_->free(block->addr).ok());
              }
            }
          }).join();
          break;
      }
      ::sched_yield();
    }
    allocator_->set_limit(0_B);
  }

  device::sim::GpuModel model_;
  device::sim::SimDevice real_;
  std::unique_ptr<SlowDevice> device_;
  std::vector<StreamId> streams_;
  std::unique_ptr<Allocator> allocator_;
  std::atomic<bool> is_over_{false};
  std::atomic<int> turns_{0};
};

TEST_P(WindowStress, HoldsWhateverOthersDoInIt) {
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t) {
    threads.emplace_back([this, t] { live(t, streams_[t], 12); });
    threads.emplace_back([this, t] { live_in_pools(50 + t, streams_[2 + t]); });
  }
  manage();
  is_over_.store(true);
  for (std::thread& thread : threads) thread.join();
  allocator_->validate();
  device_->refuse_nothing_more();
  EXPECT_EQ(allocator_->stats().allocated_bytes[0].current, 0);
  ASSERT_TRUE(allocator_->trim(0_B).ok());
  allocator_->validate();
  EXPECT_EQ(allocator_->stats().reserved_bytes[0].current, 0);
  allocator_.reset();
}

INSTANTIATE_TEST_SUITE_P(
    Modes, WindowStress,
    testing::Values(Setting{"alias", Backing::kPages, StitchMode::kAlias, 0},
                    Setting{"move", Backing::kPages, StitchMode::kMove, 0},
                    Setting{"none", Backing::kPages, StitchMode::kNone, 0},
                    Setting{"segments", Backing::kSegments, StitchMode::kAlias, 0},
                    Setting{"alias_refused", Backing::kPages, StitchMode::kAlias, 4},
                    Setting{"move_refused", Backing::kPages, StitchMode::kMove, 4},
                    Setting{"segments_refused", Backing::kSegments, StitchMode::kAlias, 4}),
    [](const testing::TestParamInfo<Setting>& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace levee::core
