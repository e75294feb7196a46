// Peaks of threads that take turns, against an exact count: with turns of odd lengths, resets,
// threads that end in the middle, private pools, uses on other streams and memory given back.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "allocator/core/thread_cache.h"
#include "tests/model/crew.h"
#include "tests/unit/core/rig.h"

namespace levee::core {
namespace {

/// What `Stats` should say of blocks handed out: all, small, large.
class Exact {
 public:
  void come(Bytes requested, Bytes bytes) { change(requested, bytes, 1); }
  void go(Bytes requested, Bytes bytes) { change(requested, bytes, -1); }
  void note_waits() { any_waits_ = true; }
  void reset_peaks() {
    for (auto& kind : level_) {
      for (auto& one : kind) one.peak = one.now;
    }
  }
  void expect(const Stats& stats) const {
    for (std::size_t k = 0; k < 3; ++k) {
      SCOPED_TRACE(k);
      EXPECT_EQ(stats.allocation[k].current, level_[k][0].now);
      EXPECT_EQ(stats.allocation[k].peak, level_[k][0].peak);
      EXPECT_EQ(stats.allocated_bytes[k].current, level_[k][1].now);
      EXPECT_EQ(stats.allocated_bytes[k].peak, level_[k][1].peak);
      // Those of blocks that wait are still among them.
      const std::int64_t waiting = stats.requested_bytes[k].current - level_[k][2].now;
      EXPECT_GE(waiting, 0);
      EXPECT_LE(waiting, stats.active_bytes[k].current - level_[k][1].now);
      EXPECT_GE(stats.requested_bytes[k].peak, level_[k][2].peak);
      if (!any_waits_) {
        EXPECT_EQ(waiting, 0);
        EXPECT_EQ(stats.requested_bytes[k].peak, level_[k][2].peak);
      }
      EXPECT_GE(stats.active_bytes[k].peak, stats.allocated_bytes[k].peak);
    }
  }

 private:
  struct Level {
    std::int64_t now = 0;
    std::int64_t peak = 0;
  };
  void change(Bytes requested, Bytes bytes, std::int64_t sign) {
    const std::size_t own = bytes <= 1_MiB ? 1 : 2;
    for (const std::size_t k : {std::size_t{0}, own}) {
      const std::array<std::int64_t, 3> by{1, static_cast<std::int64_t>(bytes.value),
                                           static_cast<std::int64_t>(requested.value)};
      for (std::size_t q = 0; q < 3; ++q) {
        level_[k][q].now += sign * by[q];
        level_[k][q].peak = std::max(level_[k][q].peak, level_[k][q].now);
      }
    }
  }
  std::array<std::array<Level, 3>, 3> level_{};
  bool any_waits_ = false;
};

class Turns {
 public:
  Turns(std::uint32_t seed, bool has_uses) : has_uses_(has_uses), random_(seed) {
    if (has_uses) exact_.note_waits();
    for (int i = 0; i < 3; ++i) streams_.push_back(rig_.stream());
  }

  void run(int turns, std::uint32_t threads, std::uint64_t longest) {
    for (int turn = 0; turn < turns && !testing::Test::HasFailure(); ++turn) {
      SCOPED_TRACE(turn);
      const std::uint64_t length = 1 + random_() % longest;
      const auto thread = static_cast<std::uint32_t>(random_() % threads);
      const bool in_pool = is(20);
      crew_.run(thread, [&] {
        const PoolId pool{1, 1 + random_() % 2};
        if (in_pool) {
          EXPECT_TRUE(rig_->begin_allocate_to_pool(pool, {}).ok());
        }
        for (std::uint64_t i = 0; i < length; ++i) act();
        if (in_pool) {
          EXPECT_TRUE(rig_->end_allocate_to_pool(pool).ok());
        }
      });
      if (thread != 0 && is(15)) crew_.end(thread);
    }
    exact_.expect(rig_->stats());
    rig_->validate();
  }

 private:
  struct Live {
    DeviceAddr addr;
    Bytes requested;
    Bytes bytes;
  };
  bool is(std::uint32_t one_in) { return random_() % one_in == 0; }
  void act() {
    if (is(60)) return exact_.expect(rig_->stats());
    if (is(60)) {
      rig_->reset_peak_stats();
      return exact_.reset_peaks();
    }
    if (is(150)) return static_cast<void>(rig_->trim(4_MiB * std::uint64_t{random_() % 3}));
    if (is(150)) return static_cast<void>(rig_->snapshot());
    if (is(150)) return rig_->mark_step();
    if (live_.empty() || random_() % 20 < 11) {
      const std::uint64_t most = is(40) ? 4 << 20 : is(4) ? 64 << 10 : 6 << 10;
      const Bytes requested{1 + random_() % most};
      const StreamId stream = is(4) ? streams_[random_() % 3] : StreamId{0};
      const Result<Block> block = rig_->allocate(requested, stream);
      ASSERT_TRUE(block.ok());
      exact_.come(requested, block->bytes);
      live_.push_back({block->addr, requested, block->bytes});
      return;
    }
    const std::size_t at = is(2) ? live_.size() - 1 : random_() % live_.size();
    if (has_uses_ && is(30)) {
      EXPECT_TRUE(rig_->record_use(live_[at].addr, streams_[random_() % 3]).ok());
    }
    rig_.free(live_[at].addr);
    exact_.go(live_[at].requested, live_[at].bytes);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  Rig rig_;
  model_test::Crew crew_;
  const bool has_uses_;
  std::mt19937 random_;
  std::vector<StreamId> streams_;
  std::vector<Live> live_;
  Exact exact_;
};

TEST(CacheTurns, PeaksAreExactWhateverHappensBetweenAndInTurns) {
  for (std::uint32_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    Turns(seed, /*has_uses=*/seed % 2 == 0).run(60, 1 + seed % 5, 1 + seed * 7 % 90);
  }
}

// Threads at work at the same time, as far as the counters can tell: turns follow each other faster
// than their budget allows.
class TwoAtOnce {
 public:
  TwoAtOnce() {
    // Far below the maximum a cache may hand out much before it tells.
    rig_.free(rig_.alloc(2_GiB));
    for (std::uint32_t thread : {1U, 2U}) {
      crew_.run(thread, [&] {
        take(thread, 1);
        give(thread);
      });
    }
    for (int i = 0; i < 100; ++i) {
      for (std::uint32_t thread : {1U, 2U}) {
        crew_.run(thread, [&] { rig_.free(rig_.alloc(512_B)); });
      }
    }
  }
  Rig& rig() { return rig_; }
  /// Both threads take half of what their caches may have, then give it back. Returns what was out
  /// at most.
  std::int64_t take_and_give() {
    Bytes most{};
    for (std::uint32_t thread : {1U, 2U}) crew_.run(thread, [&] { most += take(thread, 2); });
    for (std::uint32_t thread : {1U, 2U}) crew_.run(thread, [&] { give(thread); });
    return static_cast<std::int64_t>(most.value);
  }

 private:
  Bytes take(std::uint32_t thread, std::uint32_t part) {
    Bytes all{};
    for (std::uint8_t c = 0; c < kClassCount; ++c) {
      const Bytes size = class_bytes(SizeClass{c});
      for (std::uint32_t i = 0; i < ThreadCache::capacity(SizeClass{c}) / part; ++i) {
        live_[thread].push_back(rig_.alloc(size));
        all += size;
      }
    }
    return all;
  }
  void give(std::uint32_t thread) {
    for (DeviceAddr addr : live_[thread]) rig_.free(addr);
    live_[thread].clear();
  }

  Rig rig_{8_GiB};
  model_test::Crew crew_;
  std::array<std::vector<DeviceAddr>, 3> live_;
};

TEST(CacheTurns, AfterAResetOfPeaksThreadsAtOnceTellAsNearAMaximum) {
  TwoAtOnce two;
  two.rig()->reset_peak_stats();
  const std::int64_t most = two.take_and_give();
  const std::int64_t told = two.rig()->stats().allocated_bytes[0].peak;
  EXPECT_LE(told, most);
  EXPECT_GE(told, most - (64 << 10));
}

TEST(CacheTurns, NearAMaximumThatLargeBlocksReachedThreadsAtOnceTellAsThere) {
  TwoAtOnce two;
  const DeviceAddr large = two.rig().alloc(2_GiB);
  const std::int64_t most = (std::int64_t{2} << 30) + two.take_and_give();
  const std::int64_t told = two.rig()->stats().allocated_bytes[0].peak;
  EXPECT_LE(told, most);
  EXPECT_GE(told, most - (64 << 10));
  two.rig().free(large);
}

}  // namespace
}  // namespace levee::core
