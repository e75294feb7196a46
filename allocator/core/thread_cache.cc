#include "allocator/core/thread_cache.h"

#include <sched.h>

namespace levee::core {

// Out of line: a peak to be forgotten is handled here; a stop, or another thread's turn, sends the
// owner to the pool lock.
bool ThreadCache::enter_slow() {
  for (;;) {
    const std::uint32_t attention = attention_.load(std::memory_order_acquire);
    if ((attention & (kStop | kNoTurn)) != 0) {
      leave();
      return false;
    }
    if (attention == 0) return true;
    forget_peaks();
    // A stop that came in between is seen by the next look: `busy_` is set all the while.
    attention_.fetch_and(~kForgetPeaks, std::memory_order_seq_cst);
  }
}

void ThreadCache::wait_until_idle() const {
  // A hit takes tens of nanoseconds, unless its thread was put aside in the middle of it.
  constexpr int kSpins = 200;
  for (int i = 0; busy_.load(std::memory_order_acquire) != 0; ++i) {
    if (i >= kSpins) ::sched_yield();
  }
}

ThreadCache::Shelf* ThreadCache::add_shelf(base::RecordArena<Shelf>& arena, StreamId id,
                                           StreamIndex stream, LaneId lane) {
  Shelf* shelf = arena.make();
  if (shelf == nullptr) return nullptr;
  shelf->id = id;
  shelf->stream = stream;
  shelf->lane = lane;
  shelves_[shelf_count_++] = shelf;
  return last_ = shelf;
}

}  // namespace levee::core
