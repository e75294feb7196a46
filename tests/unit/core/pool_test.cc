#include "allocator/core/pool.h"

#include <gtest/gtest.h>

namespace levee::core {
namespace {

class PoolTableTest : public testing::Test {
 protected:
  SmallRecords records_;
  PoolTable table_{Backing::kPages, records_};
};

TEST_F(PoolTableTest, TheDefaultPoolIsThereFromTheStart) {
  EXPECT_EQ(table_.end(), 1U);
  EXPECT_FALSE(table_.default_pool().is_private());
  EXPECT_EQ(table_.find(PoolId{}), &table_.default_pool());
  EXPECT_EQ(table_.default_pool().backing, Backing::kPages);
}

TEST_F(PoolTableTest, AnIdLeadsToOnePoolAlone) {
  Pool& pool = table_.find_or_add(PoolId{1, 2}, Backing::kSegments);
  EXPECT_TRUE(pool.is_private());
  EXPECT_EQ(&table_.find_or_add(PoolId{1, 2}, Backing::kPages), &pool);
  EXPECT_EQ(pool.backing, Backing::kSegments);
  EXPECT_EQ(table_.find(PoolId{2, 1}), nullptr);
  EXPECT_EQ(&table_[pool.index], &pool);
}

TEST_F(PoolTableTest, AnIndexIsUsedAgainAndTheOldIdIsForgotten) {
  const PoolIndex index = table_.find_or_add(PoolId{1, 1}, Backing::kPages).index;
  table_.remove(index);
  EXPECT_FALSE(table_.is_pool(index.value));
  EXPECT_EQ(table_.find(PoolId{1, 1}), nullptr);
  EXPECT_EQ(table_.find_or_add(PoolId{5, 5}, Backing::kPages).index, index);
}

TEST_F(PoolTableTest, APoolWithLiveBlocksCannotGo) {
  Pool& pool = table_.find_or_add(PoolId{1, 1}, Backing::kPages);
  pool.live_count = 1;
  EXPECT_DEATH(table_.remove(pool.index), "a pool goes while blocks of it are live");
}

}  // namespace
}  // namespace levee::core
