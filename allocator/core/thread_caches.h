// The thread caches of one allocator, and how a thread finds its own.
//
// Owns: the caches, which live as long as the allocator, and this allocator's place in the list
// that exiting threads and forked children go through. Promises: a thread that exits gives its
// cache back first, empty, and another thread may get it; in a forked child nobody has a cache any
// more, and what the parent's threads held stays where it is. Locks: the list of caches is guarded
// by the pool lock; the process-wide list of allocators has a lock of its own, taken before the
// pool lock. Cost of `mine`: two loads and a compare.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "allocator/core/thread_cache.h"

namespace levee::core {

class ThreadCaches {
 public:
  ThreadCaches();
  ~ThreadCaches();
  ThreadCaches(const ThreadCaches&) = delete;
  ThreadCaches& operator=(const ThreadCaches&) = delete;

  /// More threads than that go without: each costs a look at every miss.
  static constexpr std::size_t kMost = 128;

  /// From now on threads may get caches. `retire` takes back what an exiting thread owns; it is
  /// called with no lock of the allocator held.
  void open(std::function<void(std::uint64_t thread)> retire);
  /// The reverse, before what `retire` needs goes. After it no thread calls it any more.
  void close();

  /// The calling thread's cache if it has used this allocator already; else false, and
  /// `claim_locked` is the way. Null: this thread goes without.
  bool find_mine(ThreadCache** cache) const {
    const Slot& slot = slots[id_ % kSlots];
    *cache = slot.cache;
    return slot.allocator == id_;
  }
  /// Pre: the pool lock is held.
  ThreadCache* claim_locked();
  base::RecordArena<ThreadCache::Shelf>& shelves() { return shelves_; }

  // With the pool lock held.
  bool is_off() const { return is_off_; }
  template <typename F>
  void for_each(F&& f) {
    if (is_off_) return;
    for (const auto& cache : caches_) {
      if (cache->owner != 0) f(*cache);
    }
  }
  /// Stops every cache but the calling thread's own, until the matching `resume_others`.
  void stop_others();
  void resume_others();
  /// The calling thread's cache, or null.
  ThreadCache* mine() const {
    ThreadCache* cache = nullptr;
    return find_mine(&cache) ? cache : nullptr;
  }

 private:
  friend class ThreadCacheRegistry;
  static constexpr std::size_t kSlots = 4;
  struct Slot {
    std::uint64_t allocator = 0;
    ThreadCache* cache = nullptr;
  };
  // Initial-exec: reading it is no call, also in a library that is loaded late. 64 bytes of the
  // room that the C library keeps for such libraries.
  [[gnu::tls_model("initial-exec")]] static constinit thread_local Slot slots[kSlots];

  const std::uint64_t id_;
  std::vector<std::unique_ptr<ThreadCache>> caches_;
  base::RecordArena<ThreadCache::Shelf> shelves_{4};
  std::function<void(std::uint64_t)> retire_;
  bool is_open_ = false;
  ThreadCaches* next_ = nullptr;  // in the list of the process
  bool is_off_ = false;           // in a forked child
  int holds_ = 0;                 // of `stop_others` that have not ended
};

}  // namespace levee::core
