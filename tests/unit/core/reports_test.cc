#include "allocator/core/reports.h"

#include "tests/support/snapshot_bytes.h"
#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

using test::bytes_of;

Stats stats_of(StateRig& rig) {
  PoolGuard guard(rig.state);
  return current_stats(rig.state);
}
Snapshot snapshot_of(StateRig& rig, PoolIndex only = PoolIndex{}) {
  PoolGuard guard(rig.state);
  return make_snapshot(rig.state, only);
}

TEST(Reports, FreeBytesAreBrokenDownByWhatHoldsThem) {
  StateRig rig;
  rig.alloc(3_MiB);
  const Stats stats = stats_of(rig);
  EXPECT_EQ(stats.reserved_bytes[0].current, 4194304);
  EXPECT_EQ(stats.slack_partial_page_bytes, 1048576);
  EXPECT_EQ(stats.slack_pool_bytes, 0);
  EXPECT_EQ(stats.limit_bytes, 0);
}

TEST(Reports, SegmentsAndSplitMemoryHavePeaksAndSumsOfWhatWasSeen) {
  StateRig rig;
  const DeviceAddr large = rig.alloc(3_MiB);
  const DeviceAddr small = rig.alloc(1_KiB);
  EXPECT_EQ(stats_of(rig).segment[0].current, 1) << "a zone";
  rig.free(small);
  rig.free(large);
  const Result<Bytes> freed = rig.locked([&](PoolGuard& guard) {
    rig.placer.release_idle_chunks();
    return rig.pages.give_back(guard, rig.pages.removable_pages(PoolIndex{}));
  });
  EXPECT_TRUE(freed.ok());
  const Stats stats = stats_of(rig);
  for (const Stat& stat : {stats.segment[0], stats.inactive_split_bytes[0]}) {
    EXPECT_EQ(stat.current, 0);
    EXPECT_GT(stat.peak, 0);
    EXPECT_EQ(stat.allocated, stat.peak);
    EXPECT_EQ(stat.freed, stat.allocated);
  }
}

TEST(Reports, FreeBytesOfPrivatePoolsAreSlackOfTheirOwn) {
  StateRig rig;
  PoolIndex pool;
  {
    PoolGuard guard(rig.state);
    pool = rig.state.pools.find_or_add(PoolId{0, 4}, Backing::kPages).index;
  }
  rig.free(rig.alloc(8_MiB, StreamId{0}, pool));
  EXPECT_EQ(stats_of(rig).slack_pool_bytes, 8388608);
}

TEST(Reports, ASnapshotShowsLiveWaitingAndFreeBytes) {
  StateRig rig;
  const StreamId side = rig.stream();
  rig.alloc(6_MiB);
  const DeviceAddr waits = rig.alloc(4_MiB);
  const DeviceAddr free = rig.alloc(2_MiB);
  {
    PoolGuard guard(rig.state);
    ASSERT_TRUE(rig.placer.record_use(waits, rig.state.stream_index(side)).ok());
  }
  rig.work(side, 10_ms);
  rig.free(waits);
  rig.free(free);
  const Snapshot snapshot = snapshot_of(rig);
  EXPECT_EQ(bytes_of(snapshot, BlockState::kLive), 6_MiB);
  EXPECT_EQ(bytes_of(snapshot, BlockState::kWaiting), 4_MiB);
  EXPECT_EQ(bytes_of(snapshot, BlockState::kFree), 2_MiB);
}

TEST(Reports, APageIsShownOnceHoweverOftenItIsMapped) {
  Config config;
  config.slack = 0;
  StateRig rig(256_MiB, config);
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < 6; ++i) blocks.push_back(rig.alloc(6_MiB));
  for (std::size_t i : {0U, 2U, 4U}) rig.free(blocks[i]);
  for (int round = 0; round < 2; ++round) {
    Bytes sum{};
    for (const SnapshotSegment& segment : snapshot_of(rig).segments) sum += segment.bytes;
    EXPECT_EQ(sum, rig.state.space.reserved());
    if (round == 0) rig.alloc(18_MiB);
  }
  EXPECT_EQ(rig.state.counters.stats().num_stitches, 1);
}

TEST(Reports, ASnapshotOfOnePoolLeavesTheOthersOut) {
  StateRig rig;
  PoolIndex pool;
  {
    PoolGuard guard(rig.state);
    pool = rig.state.pools.find_or_add(PoolId{0, 4}, Backing::kPages).index;
  }
  rig.alloc(8_MiB);
  rig.alloc(4_MiB, StreamId{0}, pool);
  EXPECT_EQ(bytes_of(snapshot_of(rig, pool), BlockState::kLive), 4_MiB);
  EXPECT_EQ(bytes_of(snapshot_of(rig), BlockState::kLive), 12_MiB);
}

}  // namespace
}  // namespace levee::core
