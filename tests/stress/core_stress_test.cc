// One allocator under real threads at once: hot small blocks, large ones, blocks that another
// thread gives back, further streams, a private pool, trims, questions, threads that come and go.
//
// The model's judge ends the process at the first byte that is used out of order, `validate` at the
// first number that does not add up. What depends on luck is drawn from seeds, how threads
// interleave is not: the test states what must hold however they do. Also run under
// ThreadSanitizer.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
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

/// What is handed from thread to thread, to be freed by another one than asked for it.
class Exchange {
 public:
  void give(DeviceAddr addr) {
    const std::lock_guard lock(mutex_);
    blocks_.push_back(addr);
  }
  DeviceAddr take() {
    const std::lock_guard lock(mutex_);
    if (blocks_.empty()) return DeviceAddr{};
    const DeviceAddr addr = blocks_.back();
    blocks_.pop_back();
    return addr;
  }

 private:
  std::mutex mutex_;
  std::vector<DeviceAddr> blocks_;
};

class CoreStress : public testing::Test {
 protected:
  CoreStress() : model_(config()), device_(model_, DeviceId{0}) {
    allocator_ = std::move(make_allocator(device_, Config{}, nullptr).value());
    streams_.push_back(StreamId{0});
    for (int i = 0; i < 3; ++i) {
      streams_.push_back(*model_.create_stream(DeviceId{0}, {.non_blocking = true, .priority = 0}));
    }
  }
  static device::sim::ModelConfig config() {
    device::sim::ModelConfig config;
    config.devices[0].total_memory = 1_GiB;
    config.judge = device::sim::JudgeMode::kAbort;
    return config;
  }

  static Bytes draw_size(Random& random) {
    switch (random.below(8)) {
      case 0:
        return Bytes{1 + random.below(2 << 20)};
      case 1:
        return 1_MiB + Bytes{random.below(6 << 20)};
      default:
        return Bytes{1 + random.below(16 << 10)};
    }
  }

  // Asks for and gives back until `turns` are over; leaves nothing behind but what it handed over.
  void live(std::uint64_t seed, int turns, StreamId stream) {
    Random random(seed);
    std::vector<DeviceAddr> mine;
    const auto give_back = [&](std::size_t i) {
      ASSERT_TRUE(allocator_->free(mine[i]).ok());
      mine[i] = mine.back();
      mine.pop_back();
    };
    for (int turn = 0; turn < turns; ++turn) {
      const std::uint64_t action = random.below(16);
      if (mine.empty() || (action < 7 && mine.size() < 60)) {
        const Bytes bytes = draw_size(random);
        const Result<Block> block = allocator_->allocate(bytes, stream);
        ASSERT_TRUE(block.ok()) << "status " << static_cast<int>(block.code());
        ASSERT_EQ(block->requested_bytes, bytes);
        ASSERT_EQ(block->stream, stream);
        mine.push_back(block->addr);
      } else if (action < 12) {
        give_back(random.below(mine.size()));
      } else if (action == 12) {
        exchange_.give(mine.back());
        mine.pop_back();
      } else if (action == 13) {
        const DeviceAddr addr = exchange_.take();
        if (!addr.is_null()) {
          ASSERT_TRUE(allocator_->free(addr).ok());
        }
      } else if (action == 14) {
        const StreamId other = streams_[random.below(streams_.size())];
        ASSERT_TRUE(allocator_->record_use(mine[random.below(mine.size())], other).ok());
      } else {
        const Result<Block> found = allocator_->find(mine.back());
        ASSERT_TRUE(found.ok());
        ASSERT_EQ(found->addr, mine.back());
      }
    }
    while (!mine.empty()) give_back(mine.size() - 1);
  }

  void expect_sums(const Stats& stats) const {
    for (std::size_t kind = 0; kind < 3; ++kind) {
      EXPECT_GE(stats.allocation[kind].current, 0);
      EXPECT_LE(stats.requested_bytes[kind].current, stats.active_bytes[kind].current);
      EXPECT_LE(stats.allocated_bytes[kind].current, stats.active_bytes[kind].current);
      EXPECT_LE(stats.allocation[kind].current, stats.active[kind].current);
      EXPECT_LE(stats.allocated_bytes[kind].current, stats.allocated_bytes[kind].peak);
    }
    EXPECT_LE(stats.active_bytes[0].current + stats.slack_rounding_bytes,
              stats.reserved_bytes[0].current);
  }
  void expect_nothing_live() {
    for (DeviceAddr addr = exchange_.take(); !addr.is_null(); addr = exchange_.take()) {
      EXPECT_TRUE(allocator_->free(addr).ok());
    }
    allocator_->validate();
    const Stats stats = allocator_->stats();
    EXPECT_EQ(stats.allocated_bytes[0].current, 0);
    EXPECT_LE(stats.requested_bytes[0].current, stats.active_bytes[0].current);
    EXPECT_EQ(stats.allocation[0].allocated, stats.allocation[0].freed);
    EXPECT_TRUE(allocator_->trim(0_B).ok());
    EXPECT_EQ(allocator_->stats().reserved_bytes[0].current, 0) << "a thread holds memory back";
    EXPECT_EQ(allocator_->stats().requested_bytes[0].current, 0);
  }

  device::sim::GpuModel model_;
  device::sim::SimDevice device_;
  std::vector<StreamId> streams_;
  Exchange exchange_;
  std::unique_ptr<Allocator> allocator_;
};

TEST_F(CoreStress, ThreadsOnTheirOwnStreamsAndOnSharedOnes) {
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] { live(t, 20'000, streams_[t % 3]); });
  }
  for (std::thread& thread : threads) thread.join();
  expect_nothing_live();
}

TEST_F(CoreStress, QuestionsAndTrimsInBetween) {
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([this, t] { live(10 + t, 15'000, streams_[t]); });
  }
  std::thread asking([&] {
    for (std::uint64_t i = 0; !is_over.load(); ++i) {
      expect_sums(allocator_->stats());
      switch (i % 8) {
        case 1: {
          const Snapshot snapshot = allocator_->snapshot();
          EXPECT_EQ(static_cast<std::int64_t>(test::bytes_of(snapshot, BlockState::kLive).value),
                    snapshot.stats.allocated_bytes[0].current);
          break;
        }
        case 3:
          EXPECT_TRUE(allocator_->trim(64_MiB).ok());
          break;
        case 5:
          allocator_->mark_step();
          break;
        case 6:
          allocator_->reset_peak_stats();
          break;
        case 7:
          allocator_->validate();
          break;
        default:
          break;
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  is_over.store(true);
  asking.join();
  expect_nothing_live();
}

TEST_F(CoreStress, ThreadsThatComeAndGoLeaveNothing) {
  for (std::uint64_t round = 0; round < 30; ++round) {
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 3; ++t) {
      threads.emplace_back([this, round, t] { live(100 * round + t, 150, streams_[t]); });
    }
    live(100 * round + 99, 100, streams_[3]);
    for (std::thread& thread : threads) thread.join();
  }
  expect_nothing_live();
}

// What one thread makes, or was about to complete, others may take while it waits for the driver.
TEST_F(CoreStress, WhoseMemoryIsTakenMeanwhileIsServedAllTheSame) {
  test::SlowDevice slow(device_);
  allocator_ = std::move(make_allocator(slow, Config{}, nullptr).value());
  for (std::uint64_t round = 0; round < 20; ++round) {
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < 4; ++t) {
      threads.emplace_back([this, round, t] { live(1000 * round + t, 100, streams_[t]); });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(allocator_->stats().num_emergencies, 0) << "with next to all memory free";
    EXPECT_TRUE(allocator_->trim(0_B).ok());
  }
  expect_nothing_live();
  allocator_.reset();
}

// Memory is short: what one thread's cache holds must serve the other.
TEST_F(CoreStress, CachesGiveWayWhenMemoryIsShort) {
  allocator_->set_limit(24_MiB);
  std::atomic<int> failures{0};
  const auto work = [&](std::uint64_t seed, StreamId stream) {
    Random random(seed);
    for (int round = 0; round < 300; ++round) {
      std::vector<DeviceAddr> blocks;
      // 2 MiB in small blocks, then one of 6 MiB: two threads and their streams never need more
      // than 24 MiB at once.
      for (int i = 0; i < 150; ++i) {
        const Result<Block> block = allocator_->allocate(Bytes{1 + random.below(13 << 10)}, stream);
        if (block.ok()) blocks.push_back(block->addr);
        failures += block.ok() ? 0 : 1;
      }
      for (DeviceAddr addr : blocks) ASSERT_TRUE(allocator_->free(addr).ok());
      const Result<Block> large = allocator_->allocate(6_MiB, stream);
      failures += large.ok() ? 0 : 1;
      if (large.ok()) {
        ASSERT_TRUE(allocator_->free(large->addr).ok());
      }
    }
  };
  std::thread other([&] { work(1, streams_[1]); });
  work(2, streams_[2]);
  other.join();
  EXPECT_EQ(failures.load(), 0);
  expect_nothing_live();
}

// Of two threads that ask and give back at once, no block is ever handed out twice.
TEST_F(CoreStress, NoTwoThreadsGetTheSameBlock) {
  std::mutex mutex;
  std::set<std::uint64_t> live;
  const auto work = [&](std::uint64_t seed) {
    Random random(seed);
    std::vector<DeviceAddr> mine;
    for (int i = 0; i < 8000; ++i) {
      if (mine.size() < 40 && random.below(2) == 0) {
        const Result<Block> block =
            allocator_->allocate(Bytes{1 + random.below(4096)}, StreamId{0});
        ASSERT_TRUE(block.ok());
        const std::lock_guard lock(mutex);
        ASSERT_TRUE(live.insert(block->addr.value).second);
        mine.push_back(block->addr);
      } else if (!mine.empty()) {
        {
          const std::lock_guard lock(mutex);
          live.erase(mine.back().value);
        }
        ASSERT_TRUE(allocator_->free(mine.back()).ok());
        mine.pop_back();
      }
    }
    for (DeviceAddr addr : mine) {
      {
        const std::lock_guard lock(mutex);
        live.erase(addr.value);
      }
      ASSERT_TRUE(allocator_->free(addr).ok());
    }
  };
  std::thread other([&] { work(1); });
  work(2);
  other.join();
  expect_nothing_live();
}

TEST_F(CoreStress, PeaksAreExactWithOneThreadAtATime) {
  // Two threads that take turns, as a forward and a backward pass do.
  std::vector<DeviceAddr> blocks;
  const auto fill = [&](int count) {
    for (int i = 0; i < count; ++i)
      blocks.push_back(allocator_->allocate(3_KiB, StreamId{0})->addr);
  };
  const auto empty = [&] {
    for (DeviceAddr addr : blocks) ASSERT_TRUE(allocator_->free(addr).ok());
    blocks.clear();
  };
  for (int round = 1; round <= 20; ++round) {
    allocator_->reset_peak_stats();
    std::thread([&] { fill(10 * round); }).join();
    fill(7);
    std::thread(empty).join();
    fill(3);
    const Stats stats = allocator_->stats();
    EXPECT_EQ(stats.allocated_bytes[0].peak, (10 * round + 7) * 3072) << round;
    EXPECT_EQ(stats.allocation[1].peak, 10 * round + 7);
    empty();
  }
}

TEST_F(CoreStress, PeaksOfSeveralThreadsMissAtMostTheStatedCredit) {
  // Both hold their most at the same time, whatever they do before and after.
  constexpr int kThreads = 3;
  constexpr int kBlocks = 200;
  std::atomic<int> full{0};
  const auto work = [&](StreamId stream) {
    std::vector<DeviceAddr> mine;
    for (int i = 0; i < kBlocks; ++i) mine.push_back(allocator_->allocate(1_KiB, stream)->addr);
    ++full;
    while (full.load() < kThreads) std::this_thread::yield();
    for (DeviceAddr addr : mine) ASSERT_TRUE(allocator_->free(addr).ok());
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { work(streams_[static_cast<std::size_t>(t)]); });
  }
  for (std::thread& thread : threads) thread.join();
  const std::int64_t peak = allocator_->stats().allocated_bytes[0].peak;
  constexpr std::int64_t kTrue = std::int64_t{kThreads} * kBlocks * 1024;
  EXPECT_LE(peak, kTrue);
  EXPECT_GE(peak, kTrue - (kThreads - 1) * (64 << 10));
}

// A forked child may not use the device, but it must not hang, and it leaves the parent alone.
TEST_F(CoreStress, AChildOfAForkWhileThreadsAreAtWorkDoesNotHang) {
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over.load()) {
      const Result<Block> block = allocator_->allocate(1_KiB, streams_[1]);
      ASSERT_TRUE(block.ok());
      ASSERT_TRUE(allocator_->free(block->addr).ok());
    }
  });
  const Result<Block> kept = allocator_->allocate(1_KiB, streams_[2]);
  ASSERT_TRUE(kept.ok());
  for (int i = 0; i < 5; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) ::_exit(allocator_->owns(kept->addr) ? 0 : 1);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  is_over.store(true);
  other.join();
  ASSERT_TRUE(allocator_->free(kept->addr).ok());
  expect_nothing_live();
}

}  // namespace
}  // namespace levee::core
