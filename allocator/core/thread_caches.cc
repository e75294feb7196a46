#include "allocator/core/thread_caches.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "allocator/base/check.h"
#include "allocator/base/mutex.h"

namespace levee::core {

constinit thread_local ThreadCaches::Slot ThreadCaches::slots[ThreadCaches::kSlots];

namespace {

std::atomic<std::uint64_t> g_next_allocator{1};
std::atomic<std::uint64_t> g_next_thread{1};

enum class ThreadState : std::uint8_t { kNew, kKnown, kExiting };
constinit thread_local ThreadState t_state = ThreadState::kNew;
constinit thread_local std::uint64_t t_id = 0;

}  // namespace

// The allocators of this process that have caches, for exiting threads and fork.
class ThreadCacheRegistry {
 public:
  static void add(ThreadCaches& caches) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    ::pthread_once(&once, &install);
    const base::MutexLock lock(mutex());
    caches.next_ = std::exchange(head(), &caches);
  }
  static void remove(ThreadCaches& caches) {
    const base::MutexLock lock(mutex());
    ThreadCaches** at = &head();
    while (*at != &caches) at = &(*at)->next_;
    *at = caches.next_;
  }
  /// Makes the handler run when this thread exits. False if there is no memory for that.
  static bool watch_thread() { return ::pthread_setspecific(key(), &t_id) == 0; }

 private:
  static base::Mutex& mutex() {
    static constinit base::Mutex mutex;
    return mutex;
  }
  static ThreadCaches*& head() {
    static constinit ThreadCaches* head = nullptr;
    return head;
  }
  // Made by the first who needs it: a key that was never made is another library's.
  static pthread_key_t key() {
    static const pthread_key_t key = [] {
      pthread_key_t made{};
      LEVEE_CHECK_EQ(::pthread_key_create(&made, &leave_thread), 0);
      return made;
    }();
    return key;
  }
  static void install() {
    static_cast<void>(key());
    LEVEE_CHECK_EQ(::pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child), 0);
  }
  // What this thread frees after this goes the way of the lock.
  static void leave_thread(void* /*id*/) {
    t_state = ThreadState::kExiting;
    for (ThreadCaches::Slot& slot : ThreadCaches::slots) slot = {};
    const base::MutexLock lock(mutex());
    for (ThreadCaches* caches = head(); caches != nullptr; caches = caches->next_) {
      caches->retire_(t_id);
    }
  }
  static void before_fork() LEVEE_NO_THREAD_SAFETY_ANALYSIS { mutex().lock(); }
  static void after_fork_in_parent() LEVEE_NO_THREAD_SAFETY_ANALYSIS { mutex().unlock(); }
  static void after_fork_in_child() LEVEE_NO_THREAD_SAFETY_ANALYSIS {
    for (ThreadCaches* caches = head(); caches != nullptr; caches = caches->next_) {
      caches->is_off_ = true;
    }
    for (ThreadCaches::Slot& slot : ThreadCaches::slots) slot = {};
    mutex().unlock();
  }
};

ThreadCaches::ThreadCaches() : id_(g_next_allocator.fetch_add(1, std::memory_order_relaxed)) {}

ThreadCaches::~ThreadCaches() {
  LEVEE_CHECK(!is_open_, "thread caches that exiting threads may still come back to");
}

void ThreadCaches::open(std::function<void(std::uint64_t)> retire) {
  retire_ = std::move(retire);
  is_open_ = true;
  ThreadCacheRegistry::add(*this);
}

void ThreadCaches::close() {
  ThreadCacheRegistry::remove(*this);
  is_open_ = false;
}

ThreadCache* ThreadCaches::claim_locked() {
  if (t_state == ThreadState::kNew) {
    t_id = g_next_thread.fetch_add(1, std::memory_order_relaxed);
    t_state = ThreadCacheRegistry::watch_thread() ? ThreadState::kKnown : ThreadState::kExiting;
  }
  ThreadCache* cache = nullptr;
  if (!is_off_ && t_state == ThreadState::kKnown) {
    const auto owned_by = [&](std::uint64_t owner) {
      const auto found = std::find_if(caches_.begin(), caches_.end(),
                                      [&](const auto& one) { return one->owner == owner; });
      return found == caches_.end() ? nullptr : found->get();
    };
    cache = owned_by(t_id);  // another allocator had the slot in between
    if (cache == nullptr) cache = owned_by(0);
    if (cache == nullptr && caches_.size() < kMost) {
      caches_.push_back(std::make_unique<ThreadCache>());
      cache = caches_.back().get();
    }
    if (cache != nullptr) cache->owner = t_id;
  }
  slots[id_ % kSlots] = Slot{id_, cache};
  return cache;
}

void ThreadCaches::stop_others() {
  if (holds_++ > 0) return;
  const ThreadCache* own = mine();
  bool any = false;
  bool has_fence = true;
  for_each([&](ThreadCache& cache) {
    if (&cache == own) return;
    cache.stop();
    any = true;
    has_fence = cache.has_fence();
  });
  if (!any) return;
  if (has_fence) base::ProcessFence::run();
  for_each([&](ThreadCache& cache) {
    if (&cache != own) cache.wait_until_idle();
  });
}

void ThreadCaches::resume_others() {
  if (--holds_ > 0) return;
  const ThreadCache* own = mine();
  for_each([&](ThreadCache& cache) {
    if (&cache != own) cache.resume();
  });
}

}  // namespace levee::core
