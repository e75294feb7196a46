#include "allocator/base/mutex.h"

#include <cerrno>
#include <climits>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/base/check.h"

namespace levee::base {
namespace {

// Chosen: about a microsecond, the length of levee's own critical sections; sleeping costs several.
constexpr int kSpins = 60;

void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// The kernel compares `*word` with `expected` under its own lock, so a wake between our test and
// the sleep is not lost.
long futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, const timespec* timeout) {
  return ::syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, timeout, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word, int count) {
  // Cannot fail for a valid address; a spurious wake is allowed everywhere.
  static_cast<void>(::syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0));
}

}  // namespace

static_assert(sizeof(Mutex) == 4 && std::atomic<std::uint32_t>::is_always_lock_free,
              "the kernel reads the state as a plain 32-bit word");

void Mutex::lock_slow() {
  for (int i = 0; i < kSpins; ++i) {
    cpu_relax();
    std::uint32_t expected = kFree;
    if (state_.load(std::memory_order_relaxed) == kFree &&
        state_.compare_exchange_weak(expected, kHeld, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      return;
    }
  }
  // From here on the state says that somebody may sleep. Whoever gets the lock on this way leaves
  // it saying so, which costs one needless wake and never a lost one.
  while (state_.exchange(kContended, std::memory_order_acquire) != kFree) {
    futex_wait(state_, kContended, nullptr);
  }
}

void Mutex::wake_one() {
  futex_wake(state_, 1);
}

void Mutex::assert_held() const {
  LEVEE_CHECK(state_.load(std::memory_order_relaxed) != kFree, "the lock is not held");
}

void ConditionVariable::wait(Mutex& mutex) {
  const std::uint32_t sequence = sequence_.load(std::memory_order_relaxed);
  mutex.unlock();
  futex_wait(sequence_, sequence, nullptr);
  mutex.lock();
}

bool ConditionVariable::wait_for(Mutex& mutex, Nanos timeout) {
  const std::int64_t wait_ns = timeout.value < 0 ? 0 : timeout.value;
  timespec time{};
  time.tv_sec = wait_ns / 1'000'000'000;
  time.tv_nsec = wait_ns % 1'000'000'000;
  const std::uint32_t sequence = sequence_.load(std::memory_order_relaxed);
  mutex.unlock();
  const bool timed_out = futex_wait(sequence_, sequence, &time) != 0 && errno == ETIMEDOUT;
  mutex.lock();
  return !timed_out;
}

void ConditionVariable::notify_one() {
  sequence_.fetch_add(1, std::memory_order_relaxed);
  futex_wake(sequence_, 1);
}

void ConditionVariable::notify_all() {
  sequence_.fetch_add(1, std::memory_order_relaxed);
  futex_wake(sequence_, INT_MAX);
}

}  // namespace levee::base
