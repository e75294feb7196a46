// The allocator's counters: each has one place where it changes.
//
// Owns: the `Stats` value. A block's numbers change in `on_alloc`, `on_free` and `on_idle` alone;
// memory held from the device in `on_reserve` alone; those of blocks that went through a thread
// cache arrive later, by `fold`. Peaks are exact while one thread is active, and otherwise miss at
// most the credit (64 KiB) of each other active thread; currents are exact once all caches were
// stopped and folded. Small and large follow the size after
// rounding, as PyTorch's do: up to 1 MiB is small. Bytes: allocated is the request rounded up to
// 512 B; what size classes add is `slack_rounding_bytes`. Guarded by the pool lock. Costs: a dozen
// additions.
#pragma once

#include <levee/stats.h>
#include <levee/units.h>

#include "allocator/core/size_class.h"
#include "allocator/core/thread_cache.h"

namespace levee::core {

class Counters {
 public:
  void on_alloc(Bytes bytes, Bytes requested, Bytes span) {
    const StatKind kind = kind_of(bytes);
    up(stats_.allocation, kind, 1);
    up(stats_.active, kind, 1);
    up(stats_.allocated_bytes, kind, signed_of(bytes));
    up(stats_.active_bytes, kind, signed_of(bytes));
    up(stats_.requested_bytes, kind, signed_of(requested));
    stats_.slack_rounding_bytes += signed_of(span - bytes);
  }
  /// The owner gave it back. It may still wait.
  void on_free(Bytes bytes, Bytes requested) {
    const StatKind kind = kind_of(bytes);
    down(stats_.allocation, kind, 1);
    down(stats_.allocated_bytes, kind, signed_of(bytes));
    down(stats_.requested_bytes, kind, signed_of(requested));
  }
  /// Nobody uses it any more: its bytes are free.
  void on_idle(Bytes bytes, Bytes span) {
    const StatKind kind = kind_of(bytes);
    down(stats_.active, kind, 1);
    down(stats_.active_bytes, kind, signed_of(bytes));
    stats_.slack_rounding_bytes -= signed_of(span - bytes);
  }
  void on_reserve(Bytes bytes) { up(stats_.reserved_bytes, StatKind::kLarge, signed_of(bytes)); }
  void on_release(Bytes bytes) { down(stats_.reserved_bytes, StatKind::kLarge, signed_of(bytes)); }
  /// Bytes held from the device now serve small blocks, or no longer do.
  void on_small_chunk(bool taken) {
    const std::int64_t n = signed_of(kChunkBytes);
    Stat& small = stats_.reserved_bytes[1];
    Stat& large = stats_.reserved_bytes[2];
    if (taken) {
      large.decrease(n);
      small.increase(n);
    } else {
      small.decrease(n);
      large.increase(n);
    }
  }
  /// Adds what a thread cache handed out and took back since it was last asked. Peaks: the most
  /// that was out of that cache counts on top of what all others have out now.
  void fold(ThreadCache& cache);

  void on_segments(StatKind kind, std::int64_t change) {
    if (change >= 0) {
      up(stats_.segment, kind, change);
    } else {
      down(stats_.segment, kind, -change);
    }
  }

  Stats& stats() { return stats_; }
  const Stats& stats() const { return stats_; }

  Bytes reserved() const { return current(stats_.reserved_bytes); }
  Bytes allocated() const { return current(stats_.allocated_bytes); }
  Bytes active() const { return current(stats_.active_bytes); }
  /// How far the bytes in use are below their recorded peak.
  std::int64_t headroom_bytes() const {
    return stats_.allocated_bytes[0].peak - stats_.allocated_bytes[0].current;
  }
  /// Most bytes ever handed out or waiting at once. Not touched by `reset_peaks`.
  Bytes peak_active() const { return Bytes{static_cast<std::uint64_t>(peak_active_)}; }

  void reset_peaks();
  void reset_accumulated();

 private:
  static StatKind kind_of(Bytes bytes) {
    return is_small(bytes) ? StatKind::kSmall : StatKind::kLarge;
  }
  static std::int64_t signed_of(Bytes bytes) { return static_cast<std::int64_t>(bytes.value); }
  static Bytes current(const StatArray& array) {
    return Bytes{static_cast<std::uint64_t>(array[0].current)};
  }
  void up(StatArray& array, StatKind kind, std::int64_t n) {
    array[0].increase(n);
    array[static_cast<std::size_t>(kind)].increase(n);
    if (&array == &stats_.active_bytes && array[0].current > peak_active_) {
      peak_active_ = array[0].current;
    }
  }
  static void down(StatArray& array, StatKind kind, std::int64_t n) {
    array[0].decrease(n);
    array[static_cast<std::size_t>(kind)].decrease(n);
  }

  Stats stats_;
  std::int64_t peak_active_ = 0;
};

}  // namespace levee::core
