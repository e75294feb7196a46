// The allocator's counters: each has one place where it changes.
//
// Owns: the `Stats` value. A block's numbers change in `on_alloc`, `on_free`, `on_idle` and
// `on_return` alone; memory held from the device in `on_reserve` alone; those of blocks that went
// through a thread cache arrive later, by `fold`. Peaks are exact while threads take turns, and
// otherwise off by what the caches of other active threads have not told (README.md has the
// bounds); currents are exact once all caches were stopped and folded. Small and large follow the
// size after rounding, as PyTorch's do: up to 1 MiB is small. Bytes: allocated is the request
// rounded up to 512 B; what size classes add is `slack_rounding_bytes`; requested bytes count until
// a block is free, as PyTorch's do. What comes and goes without waiting is tallied, and brought
// into the `Stats` when they are read, or when a block begins or ends to wait: between two such
// moments handed out and active blocks move alike, so one tally serves both. Guarded by the pool
// lock. Costs: three dozen instructions for a block that comes, two for one that goes.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <levee/stats.h>
#include <levee/units.h>

#include "allocator/core/size_class.h"
#include "allocator/core/thread_cache.h"

namespace levee::core {

class Counters {
 public:
  void on_alloc(Bytes bytes, Bytes requested, Bytes span) {
    Tally& kind = tallies_[index_of(kind_of(bytes))];
    // Written out: a loop over three is not unrolled and costs twice as much.
    come(kind, 0, 1);
    come(kind, 1, signed_of(bytes));
    come(kind, 2, signed_of(requested));
    stats_.slack_rounding_bytes += signed_of(span - bytes);
  }
  /// The owner gave it back, and nobody else uses it: `on_free` and `on_idle` in one.
  void on_return(Bytes bytes, Bytes requested, Bytes span) {
    Tally& kind = tallies_[index_of(kind_of(bytes))];
    go(kind, 0, 1);
    go(kind, 1, signed_of(bytes));
    go(kind, 2, signed_of(requested));
    stats_.slack_rounding_bytes -= signed_of(span - bytes);
  }
  /// The owner gave it back. It waits from now on.
  void on_free(Bytes bytes) {
    settle();
    const StatKind kind = kind_of(bytes);
    down(stats_.allocation, kind, 1);
    down(stats_.allocated_bytes, kind, signed_of(bytes));
  }
  /// Nobody uses it any more, after it waited: its bytes are free.
  void on_idle(Bytes bytes, Bytes requested, Bytes span) {
    settle();
    const StatKind kind = kind_of(bytes);
    down(stats_.active, kind, 1);
    down(stats_.active_bytes, kind, signed_of(bytes));
    down(stats_.requested_bytes, kind, signed_of(requested));
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

  Stats& stats() {
    settle();
    return stats_;
  }
  const Stats& stats() const {
    settle();
    return stats_;
  }

  Bytes reserved() const { return bytes_of(stats_.reserved_bytes[0].current); }
  Bytes allocated() const { return bytes_of(stats_.allocated_bytes[0].current + all().level[1]); }
  Bytes active() const { return bytes_of(stats_.active_bytes[0].current + all().level[1]); }
  /// How far the bytes in use are below their recorded peak.
  std::int64_t headroom_bytes() const {
    const Stat& stat = stats_.allocated_bytes[0];
    return std::max(stat.peak - stat.current, all().most[1]) - all().level[1];
  }
  /// Most bytes ever handed out or waiting at once. Not touched by `reset_peaks`.
  Bytes peak_active() const {
    return bytes_of(std::max(peak_active_, stats_.active_bytes[0].current + all().most[1]));
  }

  void reset_peaks();
  void reset_accumulated();

 private:
  static StatKind kind_of(Bytes bytes) {
    return is_small(bytes) ? StatKind::kSmall : StatKind::kLarge;
  }
  static constexpr std::size_t index_of(StatKind kind) { return static_cast<std::size_t>(kind); }
  static std::int64_t signed_of(Bytes bytes) { return static_cast<std::int64_t>(bytes.value); }
  static Bytes bytes_of(std::int64_t n) { return Bytes{static_cast<std::uint64_t>(n)}; }
  void up(StatArray& array, StatKind kind, std::int64_t n) {
    array[0].increase(n);
    array[index_of(kind)].increase(n);
  }
  static void down(StatArray& array, StatKind kind, std::int64_t n) {
    array[0].decrease(n);
    array[index_of(kind)].decrease(n);
  }

  /// What came and went since the last `settle`, of one kind: blocks, bytes after rounding, and
  /// bytes asked for.
  struct Tally {
    std::array<std::int64_t, kQuantities> level{};  ///< against the settled current
    std::array<std::int64_t, kQuantities> most{};   ///< of `level`, and at least 0
    std::array<std::int64_t, kQuantities> came{};   ///< not kept for all kinds together
  };
  const Tally& all() const { return tallies_[0]; }
  static void rise(Tally& tally, std::size_t q, std::int64_t n) {
    tally.level[q] += n;
    if (tally.level[q] > tally.most[q]) tally.most[q] = tally.level[q];
  }
  void come(Tally& kind, std::size_t q, std::int64_t n) {
    kind.came[q] += n;
    rise(kind, q, n);
    rise(tallies_[0], q, n);
  }
  void go(Tally& kind, std::size_t q, std::int64_t n) {
    kind.level[q] -= n;
    tallies_[0].level[q] -= n;
  }
  /// Brings the tallies into the `Stats`: nothing that can be seen changes.
  void settle() const;

  mutable Stats stats_;
  mutable std::array<Tally, 3> tallies_{};  // by StatKind
  mutable std::int64_t peak_active_ = 0;
};

}  // namespace levee::core
