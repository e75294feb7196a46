#include "allocator/device/sim/async_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace levee::device::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AsyncPoolTest : public ::testing::Test {
 protected:
  Order::Point free_now(Order::Index stream) {
    order.stamp(stream);
    return order.release(stream);
  }
  Order order;
  const Order::Index a = order.add_stream();
  const Order::Index b = order.add_stream();
  AsyncPool pool;
  const DeviceAddr small{1ULL << 30};
  const DeviceAddr large{2ULL << 30};
};

TEST_F(AsyncPoolTest, RoundsAsTheDriverAllocates) {
  EXPECT_EQ(AsyncPool::round(1_B), 512_B);
  EXPECT_EQ(AsyncPool::round(3_MiB), 4_MiB);
}

TEST_F(AsyncPoolTest, ABlockIsReusedForItsSizeByItsStreamOrOneThatIsOrderedAfterTheFree) {
  pool.add_new(small, 2_MiB);
  const Order::Point freed = free_now(a);
  pool.give_back(small, a, freed);
  EXPECT_TRUE(pool.reuse(4_MiB, a, order).is_null());
  EXPECT_TRUE(pool.reuse(2_MiB, b, order).is_null());
  order.acquire(b, freed);
  EXPECT_EQ(pool.reuse(2_MiB, b, order), small);
  EXPECT_TRUE(pool.owns(small));
}

TEST_F(AsyncPoolTest, TrimmingGivesBackTheLargestThatTheHostKnowsToBeUnused) {
  pool.add_new(small, 2_MiB);
  pool.add_new(large, 8_MiB);
  const Order::Point first = free_now(a);
  pool.give_back(large, a, first);
  pool.give_back(small, b, free_now(b));
  EXPECT_THAT(pool.trim(Bytes{}, order), IsEmpty());
  order.host_learn(first);
  EXPECT_THAT(pool.trim(2_MiB, order), ElementsAre(large));
  EXPECT_EQ(pool.use().reserved, 2_MiB);
  order.host_learn_stream(b);
  EXPECT_THAT(pool.trim(2_MiB, order), IsEmpty());
  EXPECT_THAT(pool.trim(Bytes{}, order), ElementsAre(small));
}

TEST_F(AsyncPoolTest, PeaksAreKeptUntilTheyAreReset) {
  pool.add_new(large, 8_MiB);
  pool.give_back(large, a, free_now(a));
  EXPECT_EQ(pool.use().used_high, 8_MiB);
  pool.reset_peaks();
  EXPECT_EQ(pool.use().used_high, Bytes{});
  EXPECT_EQ(pool.use().reserved_high, 8_MiB);
}

}  // namespace
}  // namespace levee::device::sim
