// An allocator that is used as nobody should: sizes at the ends of their type, frees of what is no
// block, threads that end before or after it, a device that is lost in the middle, captures that
// break, thousands of pools and streams, signals, a clock that runs backwards.
//
// Each test states what must hold all the same: an answer, numbers that add up, an end without a
// leak. The model's judge ends the process at the first byte that is used out of order.
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "allocator/base/clock.h"
#include "allocator/core/small_heap.h"
#include "tests/unit/core/rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;
using device::sim::CaptureMode;
using device::sim::JudgeMode;

constexpr DeviceId kGpu{0};
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;

// ---- Sizes

struct Setting {
  const char* name;
  Config config;
  bool unsplit = false;
};

std::vector<Setting> settings() {
  std::vector<Setting> all{{"pages", {}}, {"segments", {}}, {"plain", {}}, {"move", {}}};
  all[1].config.backing = Backing::kSegments;
  all[2].config.stitch = StitchMode::kNone;
  all[3].config.stitch = StitchMode::kMove;
  all.push_back(Setting{"unsplit", {}, true});
  return all;
}

TEST(HostileSizes, AreRefusedOrServedAndHarmNothing) {
  for (const Setting& setting : settings()) {
    SCOPED_TRACE(setting.name);
    Rig rig(64_MiB, setting.config);
    const PoolId pool{7, 7};
    const StreamId stream = rig.stream();
    ASSERT_TRUE(rig->begin_allocate_to_pool(pool, [&](StreamId s) { return s == stream; }).ok());
    if (setting.unsplit) {
      ASSERT_TRUE(rig->set_pool_no_split(pool).ok());
    }
    const DeviceAddr kept = rig.alloc(1_B, stream);
    const std::uint64_t sizes[] = {0,
                                   kHalf,
                                   kHalf - 1,
                                   kHalf + 1,
                                   kMost,
                                   kMost - 1,
                                   kMost - 510,
                                   kMost - 511,
                                   kMost - 512,
                                   kMost - (2ULL << 20) + 1,
                                   kMost - (2ULL << 20),
                                   kMost - (4ULL << 20),
                                   1ULL << 62,
                                   1ULL << 48,
                                   1ULL << 44,
                                   (64ULL << 20) + 1,
                                   64ULL << 20};
    for (StreamId on : {StreamId{0}, stream}) {
      for (std::uint64_t bytes : sizes) {
        OomReport report;
        const Result<Block> block = rig->allocate(Bytes{bytes}, on, &report);
        ASSERT_FALSE(block.ok()) << bytes;
        EXPECT_EQ(block.code(),
                  bytes == 0 ? StatusCode::kInvalidArgument : StatusCode::kOutOfMemory)
            << bytes;
        if (bytes != 0) {
          EXPECT_EQ(report.requested_bytes.value, bytes);
        }
        rig->validate();
      }
    }
    EXPECT_EQ(rig->stats().allocated_bytes[0].current, 512);
    rig.free(kept);
    EXPECT_TRUE(rig->end_allocate_to_pool(pool).ok());
    EXPECT_TRUE(rig->release_pool(pool).ok());
    ASSERT_TRUE(rig->trim(0_B).ok());
    EXPECT_EQ(rig.reserved(), 0_B);
  }
}

TEST(HostileSizes, OfLimitsAndTrims) {
  Rig rig(64_MiB);
  const DeviceAddr kept = rig.alloc(8_MiB);
  for (std::uint64_t bytes : {kMost, kHalf, std::uint64_t{1}, kMost - 1}) {
    rig->set_limit(Bytes{bytes});
    EXPECT_EQ(rig->limit().value, bytes);
    // More than the cache holds: what is reserved already may be used whatever the limit.
    const Result<Block> block = rig->allocate(bytes == 1 ? 40_MiB : 8_MiB, StreamId{0});
    EXPECT_EQ(block.ok(), bytes != 1) << bytes;
    if (block.ok()) rig.free(block->addr);
    EXPECT_TRUE(rig->trim(Bytes{bytes}).ok());
    rig->validate();
  }
  rig->set_limit(0_B);
  const PoolId pool{1, 1};
  ASSERT_TRUE(rig->create_or_retain_pool(pool).ok());
  for (std::uint64_t bytes : {kMost, kHalf, std::uint64_t{1}}) {
    ASSERT_TRUE(rig->set_pool_limit(pool, Bytes{bytes}).ok());
    ASSERT_TRUE(rig->begin_allocate_to_pool(pool, nullptr).ok());
    const Result<Block> block = rig->allocate(4_MiB, StreamId{0});
    EXPECT_EQ(block.ok(), bytes != 1) << bytes;
    if (block.ok()) rig.free(block->addr);
    ASSERT_TRUE(rig->end_allocate_to_pool(pool).ok());
    ASSERT_TRUE(rig->release_pool(pool).ok());
    rig->validate();
  }
  rig.free(kept);
  ASSERT_TRUE(rig->release_pool(pool).ok());
}

// ---- Frees of what is no block

TEST(HostileFrees, EachAddressInsideOfABlockButItsFirstIsRefused) {
  Rig rig(256_MiB);
  Rig other(64_MiB, {}, JudgeMode::kCount);
  struct Kind {
    Bytes bytes;
    DeviceAddr addr;
  };
  std::vector<Kind> blocks;
  for (Bytes bytes : {1_B, 512_B, 700_B, 16_KiB, 40_KiB, 300_KiB, 1_MiB, 3_MiB, 20_MiB}) {
    blocks.push_back({bytes, rig.alloc(bytes)});
  }
  for (const Kind& block : blocks) {
    for (std::uint64_t offset :
         {std::uint64_t{1}, std::uint64_t{255}, std::uint64_t{256}, std::uint64_t{511},
          block.bytes.value / 2, block.bytes.value - 1}) {
      if (offset == 0 || offset >= block.bytes.value) continue;
      const DeviceAddr inside = block.addr + Bytes{offset};
      EXPECT_EQ(rig->free(inside).code(), StatusCode::kNotOwned)
          << block.bytes.value << " + " << offset;
      ASSERT_TRUE(rig->find(inside).ok());
      EXPECT_EQ(rig->find(inside)->addr, block.addr);
    }
  }
  for (std::uint64_t addr :
       {std::uint64_t{0}, std::uint64_t{1}, kMost, kMost - 511, kHalf, std::uint64_t{1} << 47}) {
    EXPECT_EQ(rig->free(DeviceAddr{addr}).code(), StatusCode::kNotOwned) << addr;
    EXPECT_EQ(rig->record_use(DeviceAddr{addr}, StreamId{0}).code, StatusCode::kNotOwned) << addr;
    EXPECT_FALSE(rig->find(DeviceAddr{addr}).ok());
    EXPECT_FALSE(rig->owns(DeviceAddr{addr}));
  }
  rig->validate();
  for (const Kind& block : blocks) {
    rig.free(block.addr);
    EXPECT_EQ(rig->free(block.addr).code(), StatusCode::kNotOwned) << "a second time";
    EXPECT_EQ(rig->record_use(block.addr, StreamId{0}).code, StatusCode::kNotOwned);
    EXPECT_FALSE(rig->find(block.addr).ok());
  }
  rig->validate();
  EXPECT_EQ(rig->stats().allocated_bytes[0].current, 0);
}

TEST(HostileFrees, ASecondFreeOnAnotherThreadIsRefused) {
  Rig rig(64_MiB);
  for (Bytes bytes : {700_B, 300_KiB, 5_MiB}) {
    const DeviceAddr addr = rig.alloc(bytes);
    std::thread([&] { EXPECT_TRUE(rig->free(addr).ok()); }).join();
    EXPECT_EQ(rig->free(addr).code(), StatusCode::kNotOwned);
    std::thread([&] { EXPECT_EQ(rig->free(addr).code(), StatusCode::kNotOwned); }).join();
  }
  rig->validate();
  EXPECT_EQ(rig->stats().allocated_bytes[0].current, 0);
}

// ---- Threads that end

TEST(HostileThreads, WhatAThreadLeftBehindIsFreedByOthers) {
  Rig rig(256_MiB);
  std::vector<DeviceAddr> left;
  std::thread([&] {
    for (int i = 0; i < 300; ++i) left.push_back(rig.alloc(Bytes{1 + 97U * unsigned(i)}));
    for (int i = 0; i < 100; ++i) rig.free(left[static_cast<std::size_t>(i)]);
  }).join();
  std::set<std::uint64_t> seen;
  for (std::size_t i = 100; i < left.size(); ++i) {
    EXPECT_TRUE(seen.insert(left[i].value).second);
    EXPECT_TRUE(rig->find(left[i]).ok());
    rig.free(left[i]);
  }
  rig->validate();
  ASSERT_TRUE(rig->trim(0_B).ok());
  EXPECT_EQ(rig.reserved(), 0_B);
}

// The thread's cache belongs to an allocator that is no more when the thread ends; a second
// allocator of the same process has come meanwhile.
TEST(HostileThreads, AThreadMayOutliveTheAllocatorItUsed) {
  std::mutex mutex;
  std::condition_variable changed;
  int stage = 0;
  const auto go_to = [&](int next) {
    const std::lock_guard lock(mutex);
    stage = next;
    changed.notify_all();
  };
  const auto wait_for = [&](int wanted) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return stage == wanted; });
  };
  auto first = std::make_unique<Rig>(64_MiB);
  std::unique_ptr<Rig> second;
  std::thread user([&] {
    first->free(first->alloc(700_B));
    go_to(1);
    wait_for(2);
    const DeviceAddr addr = second->alloc(700_B);
    second->free(addr);
  });
  wait_for(1);
  first.reset();
  second = std::make_unique<Rig>(64_MiB);
  go_to(2);
  user.join();
  (*second)->validate();
  EXPECT_EQ((*second)->stats().allocated_bytes[0].current, 0);
}

// A region may end, and its pool go, while another thread is between asking where its request goes
// and getting it, or waits for the driver on the pool's behalf.
TEST(HostileThreads, PoolsGoWhileOthersAskInThem) {
  Rig rig(1_GiB);
  const StreamId stream = rig.stream();
  std::atomic<bool> is_over{false};
  std::atomic<int> served{0};
  std::vector<std::thread> askers;
  for (int t = 0; t < 3; ++t) {
    askers.emplace_back([&, t] {
      auto size = static_cast<std::uint64_t>(t) + 1;
      while (!is_over.load()) {
        size = size * 6364136223846793005UL + 1442695040888963407UL;
        const Bytes bytes = t == 0 ? Bytes{1 + (size >> 50)} : Bytes{(1U << 20) + (size >> 40)};
        const Result<Block> block = rig->allocate(bytes, stream);
        ASSERT_TRUE(block.ok()) << "status " << static_cast<int>(block.code());
        ASSERT_TRUE(rig->free(block->addr).ok());
        ++served;
      }
    });
  }
  for (std::uint64_t round = 1; round <= 300 || served < 3'000; ++round) {
    const PoolId id{0, 1 + round % 3};
    ASSERT_TRUE(rig->begin_allocate_to_pool(id, [&](StreamId s) { return s == stream; }).ok());
    std::this_thread::yield();
    ASSERT_TRUE(rig->end_allocate_to_pool(id).ok());
    ASSERT_TRUE(rig->release_pool(id).ok());
    if (round % 16 == 0) {
      EXPECT_TRUE(rig->trim(0_B).ok());
    }
  }
  is_over.store(true);
  for (std::thread& asker : askers) asker.join();
  rig->validate();
}

TEST(HostileThreads, ManyEndWhileOthersAskAndLimitsMove) {
  Rig rig(256_MiB);
  std::atomic<bool> stop{false};
  std::thread limits([&] {
    for (std::uint64_t i = 0; !stop.load(); ++i) {
      rig->set_limit(i % 3 == 0 ? 0_B : 1_MiB * (64 + i % 128));
      if (i % 5 == 0) static_cast<void>(rig->trim(1_MiB * (i % 64)).ok());
      static_cast<void>(rig->stats());
      std::this_thread::yield();
    }
  });
  for (int round = 0; round < 40; ++round) {
    std::vector<std::thread> crew;
    for (unsigned i = 0; i < 4; ++i) {
      crew.emplace_back([&rig, i] {
        std::vector<DeviceAddr> mine;
        for (unsigned k = 0; k < 60; ++k) {
          const Result<Block> block =
              rig->allocate(Bytes{1 + (k * 7919 + i * 131) % 300000}, StreamId{0});
          if (block.ok()) mine.push_back(block->addr);
        }
        for (DeviceAddr addr : mine) rig.free(addr);
      });
    }
    for (std::thread& one : crew) one.join();
  }
  stop = true;
  limits.join();
  rig->set_limit(0_B);
  rig->validate();
  ASSERT_TRUE(rig->trim(0_B).ok());
  EXPECT_EQ(rig.reserved(), 0_B);
}

// ---- A device that is lost

TEST(HostileDevice, OnceLostEveryCallAnswersAndTheEndIsQuiet) {
  for (const Setting& setting : settings()) {
    SCOPED_TRACE(setting.name);
    Rig rig(128_MiB, setting.config, JudgeMode::kCount);
    const StreamId stream = rig.stream();
    const DeviceAddr small = rig.alloc(700_B);
    const DeviceAddr large = rig.alloc(9_MiB);
    const DeviceAddr shared = rig.alloc(5_MiB);
    const DeviceAddr waiting = rig.alloc(3_MiB);
    const PoolId pool{3, 3};
    ASSERT_TRUE(rig->begin_allocate_to_pool(pool, [&](StreamId s) { return s == stream; }).ok());
    const DeviceAddr pooled = rig.alloc(4_MiB, stream);
    ASSERT_TRUE(rig->record_use(waiting, stream).ok());
    rig.work(stream, 1_ms);
    rig.free(waiting);
    const Result<std::shared_ptr<PoolCheckpoint>> picture = rig->checkpoint_pool(pool);
    ASSERT_TRUE(picture.ok());
    rig.model().lose_device(kGpu, device::Native::kIllegalAddress);

    const Result<Block> refused = rig->allocate(60_MiB, StreamId{0});
    EXPECT_FALSE(refused.ok());
    EXPECT_NE(refused.code(), StatusCode::kOutOfMemory) << "nobody should free memory for that";
    EXPECT_FALSE(rig->allocate(60_MiB, stream).ok());
    EXPECT_TRUE(rig->record_use(shared, stream).ok());
    EXPECT_FALSE(rig->trim(0_B).ok());
    EXPECT_TRUE(rig->find(large).ok());
    static_cast<void>(rig->restore_pool(pool, **picture).ok());
    static_cast<void>(rig->trim_pool(pool).ok());
    rig->mark_step();
    rig->validate();
    for (DeviceAddr addr : {small, large, shared, pooled}) EXPECT_TRUE(rig->free(addr).ok());
    EXPECT_TRUE(rig->end_allocate_to_pool(pool).ok());
    EXPECT_TRUE(rig->release_pool(pool).ok());
    EXPECT_EQ(rig->stats().allocated_bytes[0].current, 0);
    EXPECT_FALSE(rig->snapshot().segments.empty());
    rig->validate();
    rig.end();
    rig.model().set_judge(JudgeMode::kOff);  // what a lost device holds is nobody's leak
  }
}

// ---- Captures

TEST(HostileCapture, ATrimInItIsPutOffAndItsPoolMayGoBeforeItEnds) {
  Rig rig(128_MiB);
  const StreamId stream = rig.stream();
  const DeviceAddr eager = rig.alloc(20_MiB);
  rig.free(eager);
  const PoolId pool{9, 9};
  ASSERT_TRUE(rig->begin_allocate_to_pool(pool, [&](StreamId s) { return s == stream; }).ok());
  rig->expect_stream(stream);
  ASSERT_TRUE(rig.model().begin_capture(kGpu, stream, CaptureMode::kThreadLocal).ok());
  const DeviceAddr block = rig.alloc(6_MiB, stream);
  EXPECT_EQ(rig->trim(0_B).code(), StatusCode::kNotReady);
  EXPECT_EQ(rig->trim_pool(pool).code(), StatusCode::kNotReady);
  rig->validate();
  rig.free(block);
  // The owner ends the region and gives the pool up while the stream still captures.
  ASSERT_TRUE(rig->end_allocate_to_pool(pool).ok());
  ASSERT_TRUE(rig->release_pool(pool).ok());
  EXPECT_EQ(rig->pool_use_count(pool), 0);
  rig.alloc(3_MiB);
  rig->validate();
  ASSERT_TRUE(rig.model().end_capture(kGpu, stream).ok());
  rig.alloc(100_MiB);  // all of it, once the graph is known to be gone
  rig->validate();
}

TEST(HostileCapture, OneThatWasInvalidatedLeavesAnAllocatorThatWorks) {
  Rig rig(128_MiB, {}, JudgeMode::kCount);
  const StreamId stream = rig.stream();
  const PoolId pool{9, 9};
  ASSERT_TRUE(rig->begin_allocate_to_pool(pool, [&](StreamId s) { return s == stream; }).ok());
  rig->expect_stream(stream);
  ASSERT_TRUE(rig.model().begin_capture(kGpu, stream, CaptureMode::kThreadLocal).ok());
  const DeviceAddr block = rig.alloc(6_MiB, stream);
  EXPECT_FALSE(rig.model().synchronize_stream(kGpu, stream).ok());  // the program's own mistake
  rig.model().clear_hazards();
  const Result<Block> more = rig->allocate(8_MiB, stream);
  if (more.ok()) rig.free(more->addr);
  rig.free(block);
  EXPECT_FALSE(rig.model().end_capture(kGpu, stream).ok());
  ASSERT_TRUE(rig->end_allocate_to_pool(pool).ok());
  ASSERT_TRUE(rig->release_pool(pool).ok());
  rig.free(rig.alloc(120_MiB));
  rig->validate();
  ASSERT_TRUE(rig->trim(0_B).ok());
  EXPECT_EQ(rig.reserved(), 0_B);
  EXPECT_EQ(rig.model().report(), "");
}

// ---- Very many

TEST(HostileNumbers, TenThousandPools) {
  Rig rig(1_GiB);
  constexpr std::uint64_t kPools = 10'000;
  for (std::uint64_t i = 1; i <= kPools; ++i) {
    const PoolId pool{i, 0};
    ASSERT_TRUE(rig->create_or_retain_pool(pool).ok());
    if (i % 100 != 0) continue;
    ASSERT_TRUE(rig->begin_allocate_to_pool(pool, nullptr).ok());
    rig.free(rig.alloc(3_MiB));
    ASSERT_TRUE(rig->end_allocate_to_pool(pool).ok());
  }
  rig->validate();
  EXPECT_EQ(rig->pool_use_count(PoolId{kPools, 0}), 2);
  for (std::uint64_t i = 1; i <= kPools; ++i) {
    while (rig->pool_use_count(PoolId{i, 0}) > 0) {
      ASSERT_TRUE(rig->release_pool(PoolId{i, 0}).ok());
    }
  }
  rig->validate();
  ASSERT_TRUE(rig->trim(0_B).ok());
  EXPECT_EQ(rig.reserved(), 0_B);
}

// What streams know of each other takes memory by the square of their number, here and in the
// model: ten thousand would do as well, with two gigabytes.
TEST(HostileNumbers, TwoThousandStreams) {
  Rig rig(256_MiB);
  constexpr int kStreams = 2'000;
  for (int i = 0; i < kStreams; ++i) {
    const StreamId stream = rig.stream();
    const DeviceAddr addr = rig.alloc(3_MiB, stream);
    if (i % 16 == 0) rig.free(rig.alloc(700_B, stream));
    rig.free(addr);
  }
  rig->validate();
  EXPECT_LE(rig.reserved(), 16_MiB) << "what one stream gave back serves the next";
  rig.free(rig.alloc(200_MiB));
  ASSERT_TRUE(rig->trim(0_B).ok());
  EXPECT_EQ(rig.reserved(), 0_B);
}

TEST(HostileNumbers, TwoHundredThousandBlocksAndHolesBetweenThem) {
  Rig rig(1_GiB);
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < 200'000; ++i) blocks.push_back(rig.alloc(512_B));
  for (std::size_t i = 0; i < blocks.size(); i += 2) rig.free(blocks[i]);
  rig->validate();
  for (std::size_t i = 1; i < blocks.size(); i += 2) rig.free(blocks[i]);
  ASSERT_TRUE(rig->trim(0_B).ok());
  EXPECT_EQ(rig.reserved(), 0_B);
}

// ---- Signals and time

std::atomic<int> g_signals{0};
void on_signal(int) {
  g_signals.fetch_add(1, std::memory_order_relaxed);
}

TEST(HostileSignals, InTheMiddleOfEverythingChangeNothing) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = &on_signal;  // no SA_RESTART: what can be interrupted is
  ASSERT_EQ(sigaction(SIGALRM, &action, &before), 0);
  const itimerval every{{0, 200}, {0, 200}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &every, nullptr), 0);
  {
    Rig rig(256_MiB);
    std::vector<std::thread> crew;
    for (unsigned i = 0; i < 3; ++i) {
      crew.emplace_back([&rig, i] {
        std::vector<DeviceAddr> mine;
        for (unsigned k = 0; k < 4'000; ++k) {
          if (mine.size() > 40) {
            rig.free(mine.front());
            mine.erase(mine.begin());
          }
          mine.push_back(rig.alloc(Bytes{1 + (k * 7919 + i) % (k % 9 == 0 ? 3'000'000 : 9'000)}));
          if (k % 500 == 0) static_cast<void>(rig->trim(0_B).ok());
        }
        for (DeviceAddr addr : mine) rig.free(addr);
      });
    }
    for (std::thread& one : crew) one.join();
    rig->validate();
    ASSERT_TRUE(rig->trim(0_B).ok());
    EXPECT_EQ(rig.reserved(), 0_B);
  }
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(g_signals.load(), 0);
}

}  // namespace
}  // namespace levee::core
