// One thread's free small blocks: what makes a hit of up to 16 KiB take no lock.
//
// Owns: for each stream and size class a stack of objects that are free, held back from their
// slabs; what was handed out and taken back through it, not yet added to the allocator's counters;
// and the small requests that the predictor has not heard of yet. Promises: an object is handed
// out on its slab's stream alone, so no order between streams is needed; objects of private pools
// never come here; at most 64 KiB for each class and stream, 16 classes and 8 streams. Does not:
// look for objects, or count for everybody; that is `Placer` (cache_exchange.cc), under the pool
// lock.
//
// Who may touch it: its owner between `enter` and `leave`; its owner with the pool lock held;
// anybody else with the pool lock held, between `stop` and `resume`. The counts, the peaks and the
// log may be read by whoever holds the pool lock at any time, being single words that the owner
// alone writes. Of a log that its owner goes on writing meanwhile the oldest entries may be those
// of later requests: what the predictor makes of it is advice.
//
//   owner:    busy = 1; fence; attention? ── 0 ──► work ──► busy = 0
//                                         └─ stop, no turn ► busy = 0; take the pool lock instead
//   stopper:  attention |= stop; process fence; wait until busy is 0
//
// Nothing that takes the pool lock may run between `enter` and `leave`. Cost:
// tests/golden/instructions.txt has the instructions of a pair; none is an atomic exchange where
// the kernel runs the process fence.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include <levee/event.h>
#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/base/attributes.h"
#include "allocator/base/process_fence.h"
#include "allocator/base/record_arena.h"
#include "allocator/core/ids.h"
#include "allocator/core/size_class.h"

namespace levee::core {

/// What caches count: blocks, bytes after rounding, and bytes asked for.
inline constexpr std::size_t kQuantities = 3;

/// A word that one thread writes and others read.
class OwnedWord {
 public:
  std::int64_t get() const { return value_.load(std::memory_order_relaxed); }
  void set(std::int64_t value) { value_.store(value, std::memory_order_relaxed); }
  std::int64_t add(std::int64_t n) {
    const std::int64_t sum = get() + n;
    set(sum);
    return sum;
  }

 private:
  std::atomic<std::int64_t> value_{0};
};

/// Sums since the cache was made, and the most that was out at once since the peaks were forgotten.
struct CacheCounts {
  std::array<OwnedWord, kQuantities> given;
  std::array<OwnedWord, kQuantities> returned;
  std::array<OwnedWord, kQuantities> most;  ///< of given - returned
  OwnedWord rounding;                       ///< bytes that size classes add to what is out

  std::int64_t net(std::size_t quantity) const {
    return given[quantity].get() - returned[quantity].get();
  }
};

/// What of them the allocator's counters already contain. Guarded by the pool lock.
struct FoldedCounts {
  std::array<std::int64_t, kQuantities> given{};
  std::array<std::int64_t, kQuantities> returned{};
  std::int64_t rounding = 0;
};

class alignas(128) ThreadCache {
 public:
  static constexpr std::uint32_t kMostObjects = 32;  // in one stack
  static constexpr Bytes kMostStackBytes = 64_KiB;   // chosen: one slab
  static constexpr std::size_t kMostStreams = 8;
  static constexpr std::size_t kLogSlots = 128;
  static constexpr std::size_t kLogSize = kLogSlots - 1;  // above the predictor's longest history

  /// A free object, and where its slab notes what was asked for (0: it is not live).
  struct Object {
    DeviceAddr addr;
    std::atomic<std::uint16_t>* requested = nullptr;
  };

  static constexpr std::uint32_t capacity(SizeClass c) {
    const std::uint64_t fit = kMostStackBytes / class_bytes(c);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(fit, kMostObjects));
  }

  /// The stacks of one stream.
  struct Shelf {
    StreamId id;
    StreamIndex stream;
    LaneId lane;
    std::array<std::uint8_t, kClassCount> count{};
    std::array<std::array<Object, kMostObjects>, kClassCount> objects;
  };

  ThreadCache() : has_fence_(base::ProcessFence::is_available()) {}
  ThreadCache(const ThreadCache&) = delete;
  ThreadCache& operator=(const ThreadCache&) = delete;

  // ---- The owner, with no lock held

  bool enter() {
    if (has_fence_) [[likely]] {
      busy_.store(1, std::memory_order_relaxed);
      base::ProcessFence::compiler_fence();
    } else {
      busy_.exchange(1, std::memory_order_seq_cst);
    }
    return attention_.load(std::memory_order_seq_cst) == 0 || enter_slow();
  }
  void leave() { busy_.store(0, std::memory_order_release); }

  // Between `enter` and `leave`, or with the pool lock held.
  Shelf* shelf_of(StreamId id) {
    if (last_ != nullptr && last_->id == id) [[likely]]
      return last_;
    for (std::size_t i = 0; i < shelf_count_; ++i) {
      if (shelves_[i]->id == id) return last_ = shelves_[i];
    }
    return nullptr;
  }
  Shelf* shelf_of(StreamIndex stream) {
    if (last_ != nullptr && last_->stream == stream) [[likely]]
      return last_;
    for (std::size_t i = 0; i < shelf_count_; ++i) {
      if (shelves_[i]->stream == stream) return last_ = shelves_[i];
    }
    return nullptr;
  }
  /// Hands the object on top of a stack out. Pre: the stack is not empty. Returns whether more is
  /// out than may stay untold (`set_credit`).
  bool hand_out(Shelf& shelf, SizeClass c, Bytes requested, Bytes bytes, DeviceAddr* addr) {
    const Object object = shelf.objects[c.value][--shelf.count[c.value]];
    object.requested->store(static_cast<std::uint16_t>(requested.value), std::memory_order_relaxed);
    *addr = object.addr;
    if (listens_.load(std::memory_order_relaxed)) log(bytes);
    return count_given(requested, bytes, class_bytes(c));
  }
  /// Counts hits while blocks wait for other streams. True for the n-th since `take_looks`.
  bool is_look_due(std::uint32_t n) {
    const std::uint32_t looks = looks_.load(std::memory_order_relaxed) + 1;
    looks_.store(looks, std::memory_order_relaxed);
    return looks >= n;
  }
  std::uint32_t take_looks() {
    const std::uint32_t looks = looks_.load(std::memory_order_relaxed);
    looks_.store(0, std::memory_order_relaxed);
    return looks;
  }
  /// For others than the owner, at any time.
  std::uint32_t looks() const { return looks_.load(std::memory_order_relaxed); }
  /// Pre: the stack is not full.
  void put_back(Shelf& shelf, SizeClass c, Object object, Bytes requested, Bytes bytes) {
    object.requested->store(0, std::memory_order_relaxed);
    shelf.objects[c.value][shelf.count[c.value]++] = object;
    counts_.returned[0].add(1);
    counts_.returned[1].add(static_cast<std::int64_t>(bytes.value));
    counts_.returned[2].add(static_cast<std::int64_t>(requested.value));
    counts_.rounding.add(-static_cast<std::int64_t>((class_bytes(c) - bytes).value));
  }

  // ---- With the pool lock held

  const CacheCounts& counts() const { return counts_; }
  FoldedCounts& folded() { return folded_; }
  FoldedCounts& counted_in_pool() { return counted_in_pool_; }
  /// Bytes that may be handed out above the last folded level before the owner tells.
  void set_credit(std::int64_t bytes) { credit_.set(bytes); }
  bool is_untold() const {
    return counts_.given[0].get() != folded_.given[0] ||
           counts_.returned[0].get() != folded_.returned[0];
  }
  /// Also where a block was told while its bytes were not yet counted. Pre: stopped.
  bool is_untold_in_part() const {
    for (std::size_t q = 0; q < kQuantities; ++q) {
      if (counts_.given[q].get() != folded_.given[q]) return true;
      if (counts_.returned[q].get() != folded_.returned[q]) return true;
    }
    return counts_.rounding.get() != folded_.rounding;
  }
  /// The peaks were read: what follows is measured anew. By another thread than the owner the
  /// wish is left for its next `enter`.
  void forget_peaks_soon() { attention_.fetch_or(kForgetPeaks, std::memory_order_release); }
  void forget_peaks() {
    for (std::size_t q = 0; q < kQuantities; ++q) counts_.most[q].set(counts_.net(q));
    told_bytes_ = counts_.net(1);
  }
  /// Turns: a cache that has none sends its owner to the pool lock, where what other threads did
  /// since its last turn is told before it goes on (`Placer::take_turn`).
  bool has_turn() const { return (attention_.load(std::memory_order_relaxed) & kNoTurn) == 0; }
  void begin_turn() { attention_.fetch_and(~kNoTurn, std::memory_order_release); }
  void end_turn() { attention_.fetch_or(kNoTurn, std::memory_order_release); }
  void set_listens(bool on) { listens_.store(on, std::memory_order_relaxed); }

  void stop() { attention_.fetch_or(kStop, std::memory_order_seq_cst); }
  /// After the process fence that follows `stop`.
  void wait_until_idle() const;
  void resume() { attention_.fetch_and(~kStop, std::memory_order_release); }
  bool has_fence() const { return has_fence_; }

  /// Stacks for one more stream; null if the host has no memory. Pre: `has_room_for_shelf`; else
  /// the caller empties the `oldest_shelf` and renames it.
  Shelf* add_shelf(base::RecordArena<Shelf>& arena, StreamId id, StreamIndex stream, LaneId lane);
  bool has_room_for_shelf() const { return shelf_count_ < kMostStreams; }
  Shelf& oldest_shelf() { return *shelves_[next_victim_++ % kMostStreams]; }
  template <typename F>
  void for_each_shelf(F&& f) {
    for (std::size_t i = 0; i < shelf_count_; ++i) f(*shelves_[i]);
  }

  /// Whether there is anything to tell.
  bool has_log() const {
    return logged_.load(std::memory_order_acquire) != told_requests_ || frees_now() != told_frees_;
  }
  /// Tells the predictor, oldest first: f(bytes, frees before it) for each request, then
  /// g(frees after the last, requests that were forgotten).
  template <typename F, typename G>
  void take_log(F&& f, G&& g) {
    const std::uint64_t logged = logged_.load(std::memory_order_acquire);
    const std::uint64_t first =
        std::max(told_requests_, logged > kLogSize ? logged - kLogSize : std::uint64_t{0});
    const auto entry = [&](std::uint64_t i) {
      return log_[i % kLogSlots].load(std::memory_order_relaxed);
    };
    // What came back before the requests that are forgotten is forgotten as well.
    if (first > told_requests_) static_cast<void>(frees_until(entry(first - 1) >> kLogUnitBits));
    for (std::uint64_t i = first; i < logged; ++i) {
      f(512_B * (entry(i) & kLogUnits), frees_until(entry(i) >> kLogUnitBits));
    }
    g(frees_until(frees_now()), first - told_requests_);
    told_requests_ = logged;
  }

  /// Thread that owns it; 0: none, and it is empty. Guarded by the pool lock.
  std::uint64_t owner = 0;

 private:
  static constexpr std::uint32_t kStop = 1;
  static constexpr std::uint32_t kForgetPeaks = 2;
  static constexpr std::uint32_t kNoTurn = 4;
  static constexpr std::uint32_t kLogUnitBits = 8;  // a cached block has 32 units at most
  static constexpr std::uint32_t kLogUnits = (1U << kLogUnitBits) - 1;
  static constexpr std::uint32_t kLogFrees = ~0U >> kLogUnitBits;

  LEVEE_SLOW_PATH bool enter_slow();

  bool count_given(Bytes requested, Bytes bytes, Bytes span) {
    counts_.rounding.add(static_cast<std::int64_t>(span.value - bytes.value));
    // Written out: a loop over three is not unrolled and costs twice as much.
    bool is_peak = count_up(0, 1);
    is_peak |= count_up(1, static_cast<std::int64_t>(bytes.value));
    is_peak |= count_up(2, static_cast<std::int64_t>(requested.value));
    return is_peak && counts_.net(1) - told_bytes_ > credit_.get();
  }
  bool count_up(std::size_t q, std::int64_t n) {
    const std::int64_t net = counts_.given[q].add(n) - counts_.returned[q].get();
    if (net <= counts_.most[q].get()) return false;
    counts_.most[q].set(net);
    return true;
  }
  // An entry is the request in units of 512 B, and how many blocks had come back before it.
  void log(Bytes bytes) {
    const std::uint64_t at = logged_.load(std::memory_order_relaxed);
    log_[at % kLogSlots].store(
        static_cast<std::uint32_t>(bytes.value / 512 | std::uint64_t{frees_now()} << kLogUnitBits),
        std::memory_order_relaxed);
    logged_.store(at + 1, std::memory_order_release);
  }
  std::uint32_t frees_now() const {
    return static_cast<std::uint32_t>(counts_.returned[0].get()) & kLogFrees;
  }
  // Since the last one told of. None where an entry was written over by a later one.
  std::uint32_t frees_until(std::uint32_t frees) {
    const std::uint32_t since = (frees - told_frees_) & kLogFrees;
    if (since > kLogFrees / 2) return 0;
    told_frees_ = frees;
    return since;
  }

  // Written by the owner at each hit.
  std::atomic<std::uint32_t> busy_{0};
  std::atomic<std::uint32_t> attention_{0};
  const bool has_fence_;
  std::atomic<bool> listens_{false};
  std::atomic<std::uint32_t> looks_{0};
  Shelf* last_ = nullptr;
  OwnedWord credit_;
  std::int64_t told_bytes_ = 0;  // level of bytes when the counters last heard of them
  CacheCounts counts_;

  std::atomic<std::uint64_t> logged_{0};  // ever
  std::array<std::atomic<std::uint32_t>, kLogSlots> log_{};
  std::array<Shelf*, kMostStreams> shelves_{};
  std::size_t shelf_count_ = 0;
  std::size_t next_victim_ = 0;
  FoldedCounts folded_;
  FoldedCounts counted_in_pool_;
  std::uint64_t told_requests_ = 0;  // of those logged, what the predictor has heard of
  std::uint32_t told_frees_ = 0;
};

}  // namespace levee::core
