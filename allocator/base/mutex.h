// The lock of levee, annotated so that clang proves which fields it guards.
//
// Owns: `Mutex`, `MutexLock`, `ConditionVariable`. Promises: mutual exclusion, fairness to nobody;
// not recursive; no heap, no initialisation at run time, 4 bytes, so that each small structure can
// have its own. A waiter spins for a moment and then sleeps in the kernel. After fork the child may
// use a mutex only if it was free when the process forked. Costs: an uncontended lock and unlock
// are one atomic operation each, inlined.
//
//   state_: 0 free --lock--> 1 held --lock by another--> 2 held, and somebody may sleep
//           unlock stores 0 and wakes one sleeper if it found 2
#pragma once

#include <atomic>
#include <cstdint>

#include <levee/units.h>

#include "allocator/base/attributes.h"

namespace levee::base {

class LEVEE_CAPABILITY("mutex") Mutex {
 public:
  constexpr Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() LEVEE_ACQUIRE() {
    std::uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                        std::memory_order_relaxed)) [[unlikely]] {
      lock_slow();
    }
  }

  void unlock() LEVEE_RELEASE() {
    if (state_.exchange(kFree, std::memory_order_release) == kContended) [[unlikely]] {
      wake_one();
    }
  }

  /// True if the lock was free and is now held. Never waits.
  bool try_lock() LEVEE_TRY_ACQUIRE(true) {
    std::uint32_t expected = kFree;
    return state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                          std::memory_order_relaxed);
  }

  /// Ends the process unless somebody holds the lock: a cheap check in functions that are called
  /// with it held.
  void assert_held() const LEVEE_ASSERT_HELD(this);

 private:
  friend class ConditionVariable;
  static constexpr std::uint32_t kFree = 0;
  static constexpr std::uint32_t kHeld = 1;
  static constexpr std::uint32_t kContended = 2;

  LEVEE_SLOW_PATH void lock_slow();
  LEVEE_SLOW_PATH void wake_one();

  std::atomic<std::uint32_t> state_{kFree};
};

/// Holds a Mutex for its lifetime. `unlock` and `lock` open a window in between, for work that must
/// not be done under it.
class LEVEE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LEVEE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() LEVEE_RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() LEVEE_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void lock() LEVEE_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

/// Lets a thread sleep until another one changed what the mutex guards. Wakes without reason
/// happen: test the condition in a loop.
class ConditionVariable {
 public:
  constexpr ConditionVariable() = default;
  ConditionVariable(const ConditionVariable&) = delete;
  ConditionVariable& operator=(const ConditionVariable&) = delete;

  void wait(Mutex& mutex) LEVEE_REQUIRES(mutex);
  /// As `wait`, for at most `timeout` of real time. False when the time is over.
  bool wait_for(Mutex& mutex, Nanos timeout) LEVEE_REQUIRES(mutex);
  void notify_one();
  void notify_all();

 private:
  std::atomic<std::uint32_t> sequence_{0};
};

}  // namespace levee::base
