#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/base/mutex.h"

namespace levee::base {
namespace {

// A plain counter under the lock: a lost update shows in the sum, and under ThreadSanitizer as a
// race.
TEST(MutexStress, NoUpdateUnderTheLockIsLost) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 50'000;
  Mutex mutex;
  long counter = 0;
  long tried = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        {
          const MutexLock lock{mutex};
          ++counter;
        }
        if (mutex.try_lock()) {
          ++tried;
          --counter;
          ++counter;
          mutex.unlock();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, static_cast<long>(kThreads) * kRounds);
  EXPECT_GT(tried, 0);
}

// The lock is held for longer than a waiter spins, so that waiters sleep: a lost wake would hang
// here (ctest has a timeout).
TEST(MutexStress, SleepersAreWoken) {
  Mutex mutex;
  int turns = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const MutexLock lock{mutex};
        for (int spin = 0; spin < 50; ++spin) std::this_thread::yield();
        ++turns;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, 800);
}

TEST(ConditionVariableStress, EveryHandOverArrives) {
  Mutex mutex;
  ConditionVariable changed;
  int turn = 0;
  constexpr int kTurns = 20'000;
  std::vector<std::thread> threads;
  for (int parity = 0; parity < 2; ++parity) {
    threads.emplace_back([&, parity] {
      const MutexLock lock{mutex};
      while (turn < kTurns) {
        if (turn % 2 == parity) {
          ++turn;
          changed.notify_one();
        } else {
          changed.wait(mutex);
        }
      }
      changed.notify_all();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turn, kTurns);
}

TEST(ConditionVariableStress, NotifyAllWakesEverybody) {
  Mutex mutex;
  ConditionVariable changed;
  bool open = false;
  int waiting = 0;
  int through = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&] {
      const MutexLock lock{mutex};
      ++waiting;
      changed.notify_all();
      while (!open) changed.wait(mutex);
      ++through;
    });
  }
  {
    const MutexLock lock{mutex};
    while (waiting < 6) changed.wait(mutex);
    open = true;
    changed.notify_all();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(through, 6);
}

}  // namespace
}  // namespace levee::base
