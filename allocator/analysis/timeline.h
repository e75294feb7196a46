// Reserved, allocated and active bytes of one device over time, exact at every change, with a
// pyramid of minima and maxima over it.
//
// Owns the samples as columns (a view reads one column at a time) and, after `finish`, the levels.
// Promises: `add` keeps every change of any of the three values; a value holds from its sample's
// time until the next sample's; level k has one bucket for each 8^k samples whose minima and maxima
// are exact, so that a picture drawn from any level shows every dip and every peak. Does not: know
// where the numbers come from. Single-threaded. Cost: 24 bytes a sample while active equals
// allocated throughout (no block ever waited), else 32; levels add one seventh of that, twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace levee::analysis {

enum class Series : std::uint8_t { kReserved, kAllocated, kActive };

struct Range {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};

/// One bucket of a level, as columns. Bucket i covers the time from `time_ns[i]` to `time_ns[i +
/// 1]`.
struct TimelineLevel {
  struct MinMax {
    std::vector<std::uint64_t> min;
    std::vector<std::uint64_t> max;
  };
  std::vector<std::uint64_t> time_ns;
  MinMax reserved;
  MinMax allocated;
  MinMax active;
  std::size_t size() const { return time_ns.size(); }
  const MinMax& of(Series series) const;
};

class Timeline {
 public:
  static constexpr std::size_t kLevelFactor = 8;
  static constexpr std::size_t kCoarsestBuckets =
      2048;  ///< no level is made from fewer buckets than this

  /// Times must not decrease. A sample equal to the one before is dropped; one at the same time
  /// replaces nothing, both are kept, since a peak between two events of one clock tick is a peak.
  void add(std::uint64_t time_ns, std::uint64_t reserved_bytes, std::uint64_t allocated_bytes);
  /// Repeats the last values at `time_ns`, so that a later correction can start there. Returns the
  /// new sample's index.
  std::size_t mark(std::uint64_t time_ns);
  /// Blocks that waited: `bytes` more are active than allocated from sample `from` up to, not
  /// including, sample `to`. Only before `finish`.
  void add_waiting(std::size_t from, std::size_t to, std::uint64_t bytes);
  /// The first `count` samples were counted from an unknown base; adds what turned out to be
  /// missing. Only before `finish`.
  void rebase(std::size_t count, std::uint64_t reserved_bytes, std::uint64_t allocated_bytes);
  /// Ends the collection at `end_ns` (the last value holds until then) and builds the levels.
  void finish(std::uint64_t end_ns);

  std::size_t size() const { return time_ns_.size(); }
  bool empty() const { return time_ns_.empty(); }
  std::uint64_t start_ns() const { return empty() ? 0 : time_ns_.front(); }
  std::uint64_t end_ns() const { return end_ns_; }
  std::uint64_t time_ns(std::size_t i) const { return time_ns_[i]; }
  std::uint64_t value(Series series, std::size_t i) const { return column(series)[i]; }
  const std::vector<std::uint64_t>& times() const { return time_ns_; }
  const std::vector<std::uint64_t>& column(Series series) const;
  bool has_waiting() const { return !active_.empty(); }
  const std::vector<TimelineLevel>& levels() const { return levels_; }

  /// Index of the sample that holds at `time_ns`; 0 for a time before the first. Pre: not empty.
  std::size_t index_at(std::uint64_t time_ns) const;
  /// What held just before `time_ns`; 0 before the first sample.
  std::uint64_t value_before(Series series, std::uint64_t time_ns) const;
  /// Smallest and largest value that held in [from_ns, to_ns], every sample at `from_ns` itself
  /// included, O(log size). After `finish`. {0, 0} if empty.
  Range range(Series series, std::uint64_t from_ns, std::uint64_t to_ns) const;
  /// First sample at which the series is at its maximum over everything. Pre: not empty.
  std::size_t index_of_peak(Series series) const;

 private:
  std::size_t first_at_or_after(std::uint64_t time_ns) const;
  Range range_of_samples(Series series, std::size_t first, std::size_t last) const;

  std::vector<std::uint64_t> time_ns_;
  std::vector<std::uint64_t> reserved_;
  std::vector<std::uint64_t> allocated_;
  std::vector<std::uint64_t> active_;  // empty = equal to allocated_
  struct Waiting {
    std::size_t from;
    std::size_t to;
    std::uint64_t bytes;
  };
  std::vector<Waiting> waiting_;
  std::vector<TimelineLevel> levels_;
  std::uint64_t end_ns_ = 0;
};

}  // namespace levee::analysis
