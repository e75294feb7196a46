// What goes through thread caches, seen from outside of the allocator.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "allocator/core/thread_cache.h"
#include "tests/model/crew.h"
#include "tests/unit/core/rig.h"

namespace levee::core {
namespace {

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
