#include "allocator/core/checkpoint.h"

#include <algorithm>

#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    PoolGuard guard(rig_.state);
    Pool& pool = rig_.state.pools.find_or_add(PoolId{0, 2}, Backing::kPages);
    pool.use_count = 1;
    pool_ = pool.index;
    rig_.placer.capture(pool);
  }
  DeviceAddr alloc(Bytes bytes) { return rig_.alloc(bytes, StreamId{0}, pool_); }
  BlockCheckpoint picture() {
    PoolGuard guard(rig_.state);
    return BlockCheckpoint(PoolId{0, 2}, live_blocks(rig_.state, pool_));
  }
  Result<CheckpointDelta> restore(const BlockCheckpoint& checkpoint) {
    PoolGuard guard(rig_.state);
    return restore_blocks(rig_.state, rig_.placer, rig_.state.pools[pool_], checkpoint);
  }
  StateRig rig_;
  PoolIndex pool_;
};

TEST_F(CheckpointTest, APictureHoldsEveryKindOfBlockByAddress) {
  alloc(5_MiB);
  alloc(200_KiB);
  alloc(900_B);
  rig_.alloc(3_MiB);
  const BlockCheckpoint taken = picture();
  ASSERT_EQ(taken.blocks().size(), 3U);
  EXPECT_TRUE(std::is_sorted(taken.blocks().begin(), taken.blocks().end(),
                             [](const auto& a, const auto& b) { return a.addr < b.addr; }));
}

TEST_F(CheckpointTest, RestoringFreesWhatIsNewAndBringsBackWhatIsGone) {
  const DeviceAddr large = alloc(5_MiB);
  const DeviceAddr object = alloc(900_B);
  const BlockCheckpoint taken = picture();
  rig_.free(large);
  rig_.free(object);
  const DeviceAddr other = alloc(4_MiB);
  const Result<CheckpointDelta> delta = restore(taken);
  ASSERT_TRUE(delta.ok());
  EXPECT_EQ(delta->freed, std::vector<DeviceAddr>{other});
  EXPECT_EQ(delta->allocated.size(), 2U);
  rig_.validate();
  rig_.free(large);
  rig_.free(object);
}

TEST_F(CheckpointTest, WhatLivesInBothIsLeftAlone) {
  alloc(5_MiB);
  const Result<CheckpointDelta> delta = restore(picture());
  ASSERT_TRUE(delta.ok());
  EXPECT_TRUE(delta->freed.empty());
  EXPECT_TRUE(delta->allocated.empty());
}

TEST_F(CheckpointTest, IfABlockStandsInTheWayEverythingIsAsItWas) {
  const StreamId side = rig_.stream();
  const DeviceAddr large = alloc(6_MiB);
  const DeviceAddr small = alloc(700_B);
  const BlockCheckpoint taken = picture();
  rig_.free(large);
  rig_.free(small);
  // It lives where the large one was, and will wait for another stream once it is freed.
  const DeviceAddr other = alloc(4_MiB);
  {
    PoolGuard guard(rig_.state);
    ASSERT_TRUE(rig_.placer.record_use(other, rig_.state.stream_index(side)).ok());
  }
  rig_.work(side, 10_ms);
  const Stats before = rig_.state.counters.stats();
  EXPECT_EQ(restore(taken).code(), StatusCode::kInternal);
  rig_.validate();
  PoolGuard guard(rig_.state);
  EXPECT_EQ(rig_.placer.find(other)->addr, other);
  EXPECT_TRUE(rig_.state.waiting.empty());
  EXPECT_EQ(rig_.state.counters.stats().allocated_bytes[0].current,
            before.allocated_bytes[0].current);
  EXPECT_EQ(rig_.state.counters.stats().allocated_bytes[0].peak, before.allocated_bytes[0].peak);
}

// What a block that is to come back needs, and is not there any more. Then nothing comes back.
class CheckpointFaults : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    side_ = rig_.stream();
    rig_.state.stream_index(side_);
  }
  /// On the page where small blocks were, once they are gone.
  DeviceAddr take_page_of(DeviceAddr small, StreamId stream) {
    const DeviceAddr block = rig_.alloc(2_MiB, stream, pool_);
    EXPECT_LT(small - block, 2_MiB);
    return block;
  }
  void expect_not_restored(const BlockCheckpoint& checkpoint) {
    EXPECT_EQ(restore(checkpoint).code(), StatusCode::kInternal);
    rig_.validate();
    EXPECT_EQ(picture().blocks().size(), checkpoint.blocks().size() - 1);
  }
  StreamId side_;
};

TEST_F(CheckpointFaults, ALargeBlockWaitsOnThePageOfASmallOne) {
  const DeviceAddr small = alloc(700_B);
  const BlockCheckpoint taken = picture();
  rig_.free(small);
  const DeviceAddr large = take_page_of(small, StreamId{0});
  {
    PoolGuard guard(rig_.state);
    ASSERT_TRUE(rig_.placer.record_use(large, rig_.state.stream_index(side_)).ok());
  }
  rig_.work(side_, 10_ms);
  rig_.free(large);
  expect_not_restored(taken);
}

TEST_F(CheckpointFaults, NobodyCanBeOrderedBehindWhoUsedThePageOfASmallBlock) {
  const DeviceAddr small = alloc(700_B);
  const BlockCheckpoint taken = picture();
  rig_.free(small);
  rig_.free(take_page_of(small, side_));
  rig_.work(side_, 10_ms);
  rig_.model.set_faults({fail_always(device::sim::CallKind::kRecordEvent)});
  expect_not_restored(taken);
  {
    PoolGuard guard(rig_.state);
    EXPECT_FALSE(rig_.placer.place_exactly(taken.blocks()[0], pool_));
    EXPECT_FALSE(rig_.state.blocks.lookup(small).is_chunk()) << "what fails changes nothing";
  }
  rig_.validate();
  rig_.model.set_faults({});
  const std::uint64_t waits = rig_.calls(device::sim::CallKind::kWaitEvent);
  EXPECT_TRUE(restore(taken).ok());
  EXPECT_EQ(rig_.calls(device::sim::CallKind::kWaitEvent), waits + 1);
}

TEST_F(CheckpointFaults, NobodyCanBeOrderedBehindWhoUsedTheChunk) {
  const DeviceAddr gone = alloc(100_KiB);
  const DeviceAddr stays = alloc(100_KiB);
  const BlockCheckpoint taken = picture();
  rig_.free(gone);
  const DeviceAddr other = rig_.alloc(100_KiB, side_, pool_);
  ASSERT_LT(std::max(stays, other) - std::min(stays, other), 2_MiB);
  rig_.work(side_, 10_ms);
  rig_.free(other);
  rig_.model.set_faults({fail_always(device::sim::CallKind::kRecordEvent)});
  expect_not_restored(taken);
  rig_.model.set_faults({});
  EXPECT_TRUE(restore(taken).ok());
}

TEST_F(CheckpointFaults, TheLimitOfThePoolWasLowered) {
  const DeviceAddr small = alloc(700_B);
  const BlockCheckpoint taken = picture();
  rig_.free(small);
  Pool& pool = rig_.state.pools[pool_];
  pool.limit = 1_MiB;
  expect_not_restored(taken);
  pool.limit = 2_MiB;
  EXPECT_TRUE(restore(taken).ok());
}

TEST_F(CheckpointFaults, TheAddressesBelongToAnotherPool) {
  Placer::Exact exact;
  exact.addr = rig_.alloc(4_MiB);
  exact.bytes = exact.requested = exact.span = 4_MiB;
  exact.stream = rig_.state.stream_index(StreamId{0});
  exact.zone = rig_.state.pools.default_pool().primary;
  rig_.free(exact.addr);
  PoolGuard guard(rig_.state);
  EXPECT_FALSE(rig_.placer.place_exactly(exact, pool_));
  EXPECT_EQ(rig_.state.counters.active(), 0_B);
  EXPECT_TRUE(rig_.placer.place_exactly(exact, kDefaultPool));
  ASSERT_TRUE(rig_.placer.take_back(exact.addr).ok());
}

}  // namespace
}  // namespace levee::core
