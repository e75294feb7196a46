// What one thread can see of a Mutex; contention is in mutex_stress_test.cc.
#include "allocator/base/mutex.h"

#include <gtest/gtest.h>

#include "allocator/base/clock.h"

namespace levee::base {
namespace {

// Whether somebody could take the lock now.
bool is_free(Mutex& mutex) {
  if (!mutex.try_lock()) return false;
  mutex.unlock();
  return true;
}

TEST(Mutex, TryLockSucceedsExactlyWhenItIsFree) {
  Mutex mutex;
  EXPECT_TRUE(is_free(mutex));
  mutex.lock();
  EXPECT_FALSE(is_free(mutex));
  mutex.unlock();
  EXPECT_TRUE(is_free(mutex));
}

TEST(Mutex, LockHoldsForAScope) {
  Mutex mutex;
  {
    const MutexLock lock{mutex};
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

TEST(Mutex, ALockOpensAWindowAndEndsReleasedEitherWay) {
  Mutex mutex;
  {
    MutexLock lock{mutex};
    lock.unlock();
    EXPECT_TRUE(is_free(mutex));
    lock.lock();
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
  {
    MutexLock lock{mutex};
    lock.unlock();
  }
  EXPECT_TRUE(is_free(mutex));
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
  EXPECT_FALSE(is_free(mutex)) << "the lock is held again after the wait";
  EXPECT_FALSE(changed.wait_for(mutex, Nanos{-5}));
}

}  // namespace
}  // namespace levee::base
