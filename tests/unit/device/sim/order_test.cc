// The order of uses by itself: ticks, points, what the host knows, indices that come again.
#include "allocator/device/sim/order.h"

#include <gtest/gtest.h>

namespace levee::device::sim {
namespace {

class OrderTest : public ::testing::Test {
 protected:
  Order order;
  const Order::Index a = order.add_stream();
  const Order::Index b = order.add_stream();
  const Order::Index c = order.add_stream();
};

TEST_F(OrderTest, AStreamIsBeforeItselfAndNotBeforeOthers) {
  const Order::Tick use = order.stamp(a);
  EXPECT_TRUE(order.is_before(a, use, a));
  EXPECT_FALSE(order.is_before(a, use, b));
}

TEST_F(OrderTest, AcquiringAPointOrdersWhatCameBeforeIt) {
  const Order::Tick first = order.stamp(a);
  const Order::Point point = order.release(a);
  const Order::Tick second = order.stamp(a);
  order.acquire(b, point);
  EXPECT_TRUE(order.is_before(a, first, b));
  EXPECT_FALSE(order.is_before(a, second, b));
  EXPECT_FALSE(order.is_before(a, first, c));
}

TEST_F(OrderTest, UsesBetweenTwoReleasesShareATickAndARelaseOfNothingNewEndsNone) {
  const Order::Tick first = order.stamp(a);
  EXPECT_EQ(order.stamp(a), first);
  const Order::Point point = order.release(a);
  EXPECT_EQ(order.release(a).tick, point.tick);
  EXPECT_EQ(order.stamp(a), first + 1);
}

TEST_F(OrderTest, KnowledgeMovesAsAWhole) {
  const Order::Tick use = order.stamp(a);
  order.acquire(b, order.release(a));
  order.acquire(c, order.release(b));
  EXPECT_TRUE(order.is_before(a, use, c));
}

TEST_F(OrderTest, APointKeepsWhatItsStreamKnewThen) {
  const Order::Point early = order.release(b);
  const Order::Tick use = order.stamp(a);
  order.acquire(b, order.release(a));
  order.acquire(c, early);
  EXPECT_FALSE(order.is_before(a, use, c));
}

TEST_F(OrderTest, PointsOfAStreamThatLearntNothingShareWhatTheyKnow) {
  EXPECT_EQ(order.release(b).others, nullptr) << "a stream that knows nothing";
  order.stamp(a);
  order.acquire(b, order.release(a));
  const Order::Point point = order.release(b);
  ASSERT_NE(point.others, nullptr);
  order.stamp(b);
  EXPECT_EQ(order.release(b).others, point.others);
}

TEST_F(OrderTest, WhatTheHostKnowsIsBeforeEverything) {
  const Order::Tick use = order.stamp(a);
  order.acquire(b, order.release(a));
  order.host_learn_stream(b);
  EXPECT_TRUE(order.host_knows(a, use));
  EXPECT_TRUE(order.is_before(a, use, c));
  EXPECT_FALSE(order.host_knows(a, order.stamp(a)));
}

TEST_F(OrderTest, AnIndexComesAgainOnlyWhenTheHostKnowsItsUses) {
  const Order::Tick use = order.stamp(a);
  const Order::Point rest = order.release(a);
  order.remove_stream(a);
  const Order::Index other = order.add_stream();
  EXPECT_NE(other, a);
  order.host_learn(rest);
  const Order::Index again = order.add_stream();
  EXPECT_EQ(again, a);
  EXPECT_GT(order.stamp(again), use);
  EXPECT_FALSE(order.host_knows(again, order.stamp(again)));
}

}  // namespace
}  // namespace levee::device::sim
