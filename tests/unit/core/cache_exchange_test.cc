// What goes through thread caches, seen from outside of the allocator.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "allocator/core/thread_cache.h"
#include "tests/model/crew.h"
#include "tests/unit/core/rig.h"
#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

/// A thread that does what it is told and is waited for, as PyTorch's backward thread is.
class Helper {
 public:
  void run(std::function<void()> job) {
    job_ = std::move(job);
    go_.release();
    done_.acquire();
  }
  Helper() = default;
  ~Helper() {
    run(nullptr);
    thread_.join();
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

 private:
  void work() {
    for (bool goes_on = true; goes_on;) {
      go_.acquire();
      goes_on = static_cast<bool>(job_);
      if (goes_on) job_();
      done_.release();
    }
  }
  std::function<void()> job_;
  std::binary_semaphore go_{0};
  std::binary_semaphore done_{0};
  std::thread thread_{[this] { work(); }};
};

/// Where the large blocks of a training lie whose backward pass runs as `backward` says. What is
/// kept by some of its steps alone is told apart by what small blocks came before.
std::vector<std::uint64_t> places_of_training(
    const std::function<void(const std::function<void()>&)>& backward) {
  Rig rig;
  std::vector<std::uint64_t> places;
  const auto large = [&](Bytes bytes) {
    const DeviceAddr addr = rig.alloc(bytes);
    places.push_back(addr.value);
    return addr;
  };
  const auto small = [&](int count) {
    for (int i = 0; i < count; ++i) rig.free(rig.alloc(1_KiB));
  };
  std::vector<DeviceAddr> kept;
  for (int step = 0; step < 16; ++step) {
    const Bytes unit = 2_MiB + 512_KiB * static_cast<std::uint64_t>(step * 7 % 5);
    rig->mark_step();
    std::vector<DeviceAddr> saved;
    for (int layer = 0; layer < 6; ++layer) {
      saved.push_back(large(unit));
      small(3);
      rig.free(large(unit * 2));
    }
    small(3 + step % 2 * 8);  // after the last large block: nobody hears of them at once
    backward([&] {
      for (int layer = 6; layer-- > 0;) {
        const DeviceAddr gradient = large(unit * 3);
        small(2);
        rig.free(saved[static_cast<std::size_t>(layer)]);
        if (step % 2 == 1 && layer == 5) {
          kept.push_back(gradient);
        } else {
          rig.free(gradient);
        }
      }
    });
    if (kept.size() > 2) {
      rig.free(kept.front());
      kept.erase(kept.begin());
    }
  }
  const std::uint64_t base = places.front();
  for (std::uint64_t& place : places) place -= base;
  return places;
}

TEST(CacheExchange, ABackwardThreadLearnsWhatOneThreadWould) {
  const auto here = places_of_training([](const std::function<void()>& pass) { pass(); });
  Helper helper;
  const auto there =
      places_of_training([&](const std::function<void()>& pass) { helper.run(pass); });
  EXPECT_EQ(here, there);
}

TEST(CacheExchange, WhatOtherThreadsAskedForIsToldBeforeTheNextLargeRequest) {
  StateRig rig;
  ThreadCache* other = nullptr;
  Helper helper;
  helper.run([&] {
    PoolGuard guard(rig.state);
    other = rig.state.caches.claim_locked();
    other->set_listens(true);
  });
  ASSERT_NE(other, nullptr);
  std::atomic<std::uint16_t> note{};
  ThreadCache::Shelf* shelf = nullptr;
  {
    PoolGuard guard(rig.state);
    shelf = other->add_shelf(rig.state.caches.shelves(), StreamId{0}, StreamIndex{0}, LaneId{0});
    shelf->objects[0][shelf->count[0]++] = {DeviceAddr{512}, &note};
  }
  helper.run([&] {
    DeviceAddr addr;
    ASSERT_TRUE(other->enter());
    other->hand_out(*shelf, SizeClass{0}, 512_B, 512_B, &addr);
    other->put_back(*shelf, SizeClass{0}, {addr, &note}, 512_B, 512_B);
    other->leave();
  });
  PoolGuard guard(rig.state);
  EXPECT_TRUE(other->has_log());
  rig.placer.fold_caches();
  EXPECT_FALSE(other->has_log());
  shelf->count[0] = 0;  // no slab knows it
}

// Another thread folds while the owner is in the middle of a hit: it sees the block and not yet its
// bytes. Everybody who then makes the numbers whole has to tell the rest, though no block is new.
struct Whole {
  const char* name;
  void (*make)(Placer& placer, const ThreadCache& cache);
};

class ToldInPart : public testing::TestWithParam<Whole> {};

TEST_P(ToldInPart, IsToldWhole) {
  StateRig rig;
  PoolGuard guard(rig.state);
  ThreadCache* cache = rig.state.caches.claim_locked();
  ASSERT_NE(cache, nullptr);
  std::atomic<std::uint16_t> note{};
  ThreadCache::Shelf* shelf =
      cache->add_shelf(rig.state.caches.shelves(), StreamId{0}, StreamIndex{0}, LaneId{0});
  ASSERT_NE(shelf, nullptr);
  shelf->objects[0][shelf->count[0]++] = {DeviceAddr{512}, &note};
  DeviceAddr addr;
  ASSERT_TRUE(cache->enter());
  cache->hand_out(*shelf, SizeClass{0}, 500_B, 512_B, &addr);
  cache->leave();
  cache->folded().given[0] = cache->counts().given[0].get();
  ASSERT_FALSE(cache->is_untold());
  const Bytes before = rig.state.counters.allocated();
  GetParam().make(rig.placer, *cache);
  EXPECT_FALSE(cache->is_untold_in_part());
  EXPECT_EQ(rig.state.counters.allocated(), before + 512_B);
  EXPECT_EQ(rig.state.counters.stats().requested_bytes[0].current, 500);
}

INSTANTIATE_TEST_SUITE_P(
    CacheExchange, ToldInPart,
    testing::Values(Whole{"with_its_owners_next_request",
                          [](Placer& placer, const ThreadCache&) { placer.fold_caches(); }},
                    Whole{"when_all_caches_are_held",
                          [](Placer& placer, const ThreadCache&) { placer.drain_caches(); }},
                    Whole{"when_its_thread_ends",
                          [](Placer& placer, const ThreadCache& cache) {
                            placer.retire_caches(cache.owner);
                          }}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(CacheExchange, CachedBlocksAreFreeInEveryNumberAndPicture) {
  Rig rig;
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(rig.alloc(3_KiB));
  for (DeviceAddr addr : blocks) rig.free(addr);
  const Snapshot snapshot = rig->snapshot();
  EXPECT_EQ(snapshot.stats.allocated_bytes[0].current, 0);
  EXPECT_EQ(snapshot.stats.active_bytes[0].current, 0);
  for (const SnapshotSegment& segment : snapshot.segments) {
    for (const SnapshotBlock& block : segment.blocks) EXPECT_EQ(block.state, BlockState::kFree);
  }
  rig->validate();
  EXPECT_TRUE(rig->trim(0_B).ok());
  EXPECT_EQ(rig.reserved(), 0_B);
}

TEST(CacheExchange, ABlockIsGivenBackOnlyOnce) {
  Rig rig;
  const DeviceAddr addr = rig.alloc(1_KiB);
  rig.free(addr);
  EXPECT_EQ(rig->free(addr).code(), StatusCode::kNotOwned);
  EXPECT_EQ(rig->free(addr + 512_B).code(), StatusCode::kNotOwned);
  EXPECT_EQ(rig->find(addr).code(), StatusCode::kNotOwned);
  EXPECT_EQ(rig->record_use(addr, StreamId{0}).code, StatusCode::kNotOwned);
}

TEST(CacheExchange, RequestedBytesAndPeaksAreExact) {
  Rig rig;
  std::vector<DeviceAddr> blocks;
  std::int64_t requested = 0;
  for (int i = 1; i <= 50; ++i) {
    blocks.push_back(rig.alloc(Bytes{static_cast<std::uint64_t>(i) * 77}));
    requested += i * 77;
  }
  EXPECT_EQ(rig->stats().requested_bytes[0].current, requested);
  for (DeviceAddr addr : blocks) rig.free(addr);
  const Stats stats = rig->stats();
  EXPECT_EQ(stats.requested_bytes[0].current, 0);
  EXPECT_EQ(stats.requested_bytes[0].peak, requested);
  EXPECT_EQ(stats.allocation[1].peak, 50);
  EXPECT_EQ(stats.allocation[1].freed, 50);
}

// As PyTorch's backward pass does, whose thread gives back what the forward pass took.
TEST(CacheExchange, PeaksAreExactWhereThreadsTakeTurns) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Rig rig;
    model_test::Crew crew;
    std::mt19937 random(seed);
    std::vector<std::pair<DeviceAddr, Bytes>> live;
    std::int64_t bytes = 0;
    std::int64_t most_bytes = 0;
    std::int64_t most_blocks = 0;
    for (int turn = 0; turn < 60; ++turn) {
      const std::uint64_t length = 1 + random() % 12;
      crew.run(static_cast<std::uint32_t>(random() % 3), [&] {
        for (std::uint64_t i = 0; i < length; ++i) {
          if (live.empty() || random() % 5 < 3) {
            const Bytes size = 512_B * (1 + random() % (random() % 40 == 0 ? 4000 : 24));
            live.emplace_back(rig.alloc(size), size);
            bytes += static_cast<std::int64_t>(size.value);
            most_bytes = std::max(most_bytes, bytes);
            most_blocks = std::max(most_blocks, static_cast<std::int64_t>(live.size()));
          } else {
            const auto at = live.begin() + static_cast<std::ptrdiff_t>(random() % live.size());
            rig.free(at->first);
            bytes -= static_cast<std::int64_t>(at->second.value);
            live.erase(at);
          }
        }
      });
    }
    const Stats stats = rig->stats();
    EXPECT_EQ(stats.allocated_bytes[0].peak, most_bytes);
    EXPECT_EQ(stats.allocation[0].peak, most_blocks);
    rig->validate();
  }
}

// What a thread takes back right after its first request is told before others go on.
TEST(CacheExchange, PeaksAreExactFromAThreadsFirstTurn) {
  Rig rig;
  model_test::Crew crew;
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(rig.alloc(1_KiB));
  crew.run(1, [&] {
    rig.alloc(1_KiB);
    for (std::size_t i = 0; i < 4; ++i) rig.free(blocks[i]);
  });
  for (int i = 0; i < 2; ++i) rig.alloc(1_KiB);
  EXPECT_EQ(rig->stats().allocation[0].peak, 7);
}

TEST(CacheExchange, AUseOnAnotherStreamKeepsABlockOutOfTheCache) {
  Rig rig;
  const StreamId side = rig.stream();
  const DeviceAddr first = rig.alloc(1_KiB);
  rig.free(first);
  ASSERT_EQ(rig.alloc(1_KiB), first);  // from the cache
  ASSERT_TRUE(rig->record_use(first, side).ok());
  rig.work(side, 50_ms);
  rig.free(first);
  EXPECT_EQ(rig->stats().active_bytes[0].current, 1024);
  EXPECT_EQ(rig->free(first).code(), StatusCode::kNotOwned);
  EXPECT_NE(rig.alloc(1_KiB), first);
}

TEST(CacheExchange, BlocksOfPrivatePoolsStayThere) {
  Rig rig;
  const PoolId pool{1, 1};
  ASSERT_TRUE(rig->begin_allocate_to_pool(pool, {}).ok());
  const DeviceAddr inside = rig.alloc(1_KiB);
  ASSERT_TRUE(rig->end_allocate_to_pool(pool).ok());
  rig.free(inside);
  for (int i = 0; i < 40; ++i) EXPECT_NE(rig.alloc(1_KiB), inside);
  rig->validate();
}

TEST(CacheExchange, MoreStreamsThanShelvesShareThem) {
  Rig rig;
  std::vector<StreamId> streams;
  for (std::size_t i = 0; i < 2 * ThreadCache::kMostStreams; ++i) streams.push_back(rig.stream());
  for (int round = 0; round < 3; ++round) {
    for (StreamId stream : streams) {
      const DeviceAddr addr = rig.alloc(2_KiB, stream);
      EXPECT_EQ(rig->find(addr)->stream, stream);
      rig.free(addr);
    }
  }
  rig->validate();
}

}  // namespace
}  // namespace levee::core
