#include "allocator/core/checkpoint.h"

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

}  // namespace
}  // namespace levee::core
