// What one thread can see of a Mutex; contention is in mutex_stress_test.cc.
#include "allocator/base/mutex.h"

#include <gtest/gtest.h>

#include "allocator/base/clock.h"

namespace levee::base {
namespace {

TEST(Mutex, TryLockSucceedsExactlyWhenItIsFree) {
  Mutex mutex;
  ASSERT_TRUE(mutex.try_lock());
  EXPECT_FALSE(mutex.try_lock());
  mutex.unlock();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(Mutex, LockHoldsForAScope) {
  Mutex mutex;
  {
    const MutexLock lock{mutex};
    EXPECT_FALSE(mutex.try_lock());
  }
  ASSERT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(Mutex, ALockOpensAWindowAndEndsReleasedEitherWay) {
  Mutex mutex;
  {
    MutexLock lock{mutex};
    lock.unlock();
    ASSERT_TRUE(mutex.try_lock());
    mutex.unlock();
    lock.lock();
    EXPECT_FALSE(mutex.try_lock());
  }
  {
    MutexLock lock{mutex};
    lock.unlock();
  }
  ASSERT_TRUE(mutex.try_lock());
  mutex.unlock();
}

TEST(MutexDeathTest, AssertHeldEndsTheProcessWhenTheLockIsFree) {
  Mutex mutex;
  mutex.lock();
  mutex.assert_held();
  mutex.unlock();
  EXPECT_DEATH(mutex.assert_held(), "the lock is not held");
}

TEST(ConditionVariable, WaitForGivesUpWhenTheTimeIsOver) {
  Mutex mutex;
  ConditionVariable changed;
  const MutexLock lock{mutex};
  const Nanos start = Clock::monotonic();
  bool woken = true;
  while (woken) woken = changed.wait_for(mutex, 2_ms);
  EXPECT_GE(Clock::monotonic() - start, 2_ms);
  EXPECT_FALSE(mutex.try_lock()) << "the lock is held again after the wait";
  EXPECT_FALSE(changed.wait_for(mutex, Nanos{-5}));
}

}  // namespace
}  // namespace levee::base
