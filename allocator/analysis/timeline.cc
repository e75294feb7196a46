#include "allocator/analysis/timeline.h"

#include <algorithm>

namespace levee::analysis {
namespace {

using Column = std::vector<std::uint64_t>;
using MinMax = TimelineLevel::MinMax;

constexpr std::size_t kFactor = Timeline::kLevelFactor;

// One bucket for each kFactor entries of `low` and `high` (which are the same column at the
// bottom).
MinMax reduce(const Column& low, const Column& high) {
  MinMax out;
  const std::size_t buckets = (low.size() + kFactor - 1) / kFactor;
  out.min.reserve(buckets);
  out.max.reserve(buckets);
  for (std::size_t first = 0; first < low.size(); first += kFactor) {
    const std::size_t last = std::min(first + kFactor, low.size());
    std::uint64_t min = low[first];
    std::uint64_t max = high[first];
    for (std::size_t i = first + 1; i < last; ++i) {
      min = std::min(min, low[i]);
      max = std::max(max, high[i]);
    }
    out.min.push_back(min);
    out.max.push_back(max);
  }
  return out;
}

Column every_nth(const Column& times) {
  Column out;
  out.reserve((times.size() + kFactor - 1) / kFactor);
  for (std::size_t i = 0; i < times.size(); i += kFactor) out.push_back(times[i]);
  return out;
}

void widen(Range& range, std::uint64_t min, std::uint64_t max) {
  range.min = std::min(range.min, min);
  range.max = std::max(range.max, max);
}

}  // namespace

const MinMax& TimelineLevel::of(Series series) const {
  switch (series) {
    case Series::kReserved:
      return reserved;
    case Series::kAllocated:
      return allocated;
    case Series::kActive:
      break;
  }
  return active;
}

void Timeline::add(std::uint64_t time_ns, std::uint64_t reserved_bytes,
                   std::uint64_t allocated_bytes) {
  if (!empty() && reserved_.back() == reserved_bytes && allocated_.back() == allocated_bytes) {
    return;
  }
  time_ns_.push_back(empty() ? time_ns : std::max(time_ns, time_ns_.back()));
  reserved_.push_back(reserved_bytes);
  allocated_.push_back(allocated_bytes);
}

std::size_t Timeline::mark(std::uint64_t time_ns) {
  time_ns_.push_back(empty() ? time_ns : std::max(time_ns, time_ns_.back()));
  reserved_.push_back(reserved_.empty() ? 0 : reserved_.back());
  allocated_.push_back(allocated_.empty() ? 0 : allocated_.back());
  return size() - 1;
}

void Timeline::add_waiting(std::size_t from, std::size_t to, std::uint64_t bytes) {
  if (from < to) waiting_.push_back({from, to, bytes});
}

void Timeline::rebase(std::size_t count, std::uint64_t reserved_bytes,
                      std::uint64_t allocated_bytes) {
  for (std::size_t i = 0; i < std::min(count, size()); ++i) {
    reserved_[i] += reserved_bytes;
    allocated_[i] += allocated_bytes;
  }
}

void Timeline::finish(std::uint64_t end_ns) {
  end_ns_ = empty() ? end_ns : std::max(end_ns, time_ns_.back());
  if (!waiting_.empty()) {
    // Sums of differences: each waiting block raises the curve at `from` and lowers it at `to`.
    // Unsigned wrap-around in the differences is harmless, since every prefix sum is a true count.
    active_.assign(size() + 1, 0);
    for (const Waiting& w : waiting_) {
      active_[std::min(w.from, size())] += w.bytes;
      active_[std::min(w.to, size())] -= w.bytes;
    }
    std::uint64_t waiting = 0;
    for (std::size_t i = 0; i < size(); ++i) {
      waiting += active_[i];
      active_[i] = allocated_[i] + waiting;
    }
    active_.resize(size());
    waiting_.clear();
    waiting_.shrink_to_fit();
  }
  levels_.clear();
  const TimelineLevel* below = nullptr;
  while ((below == nullptr ? size() : below->size()) > kCoarsestBuckets) {
    TimelineLevel level;
    if (below == nullptr) {
      level.time_ns = every_nth(time_ns_);
      level.reserved = reduce(reserved_, reserved_);
      level.allocated = reduce(allocated_, allocated_);
      const Column& active = column(Series::kActive);
      level.active = has_waiting() ? reduce(active, active) : level.allocated;
    } else {
      level.time_ns = every_nth(below->time_ns);
      level.reserved = reduce(below->reserved.min, below->reserved.max);
      level.allocated = reduce(below->allocated.min, below->allocated.max);
      level.active = has_waiting() ? reduce(below->active.min, below->active.max) : level.allocated;
    }
    levels_.push_back(std::move(level));
    below = &levels_.back();
  }
}

const Column& Timeline::column(Series series) const {
  switch (series) {
    case Series::kReserved:
      return reserved_;
    case Series::kAllocated:
      return allocated_;
    case Series::kActive:
      break;
  }
  return has_waiting() ? active_ : allocated_;
}

std::size_t Timeline::index_at(std::uint64_t time_ns) const {
  const auto after = std::upper_bound(time_ns_.begin(), time_ns_.end(), time_ns);
  return after == time_ns_.begin() ? 0 : static_cast<std::size_t>(after - time_ns_.begin()) - 1;
}

std::size_t Timeline::first_at_or_after(std::uint64_t time_ns) const {
  return static_cast<std::size_t>(std::lower_bound(time_ns_.begin(), time_ns_.end(), time_ns) -
                                  time_ns_.begin());
}

std::uint64_t Timeline::value_before(Series series, std::uint64_t time_ns) const {
  const std::size_t first = first_at_or_after(time_ns);
  return first == 0 ? 0 : column(series)[first - 1];
}

Range Timeline::range(Series series, std::uint64_t from_ns, std::uint64_t to_ns) const {
  if (empty() || to_ns < from_ns) return {};
  std::size_t first = first_at_or_after(from_ns);
  if (first > 0 && (first == size() || time_ns_[first] > from_ns)) --first;
  return range_of_samples(series, first, std::max(first, index_at(to_ns)));
}

// Climbs while both ends are inside the same run of buckets: at most kFactor steps on each side of
// every level.
Range Timeline::range_of_samples(Series series, std::size_t first, std::size_t last) const {
  const Column& exact = column(series);
  Range out{exact[first], exact[first]};
  std::size_t level = 0;  // 0 = the samples themselves
  while (first <= last) {
    const Column& low = level == 0 ? exact : levels_[level - 1].of(series).min;
    const Column& high = level == 0 ? exact : levels_[level - 1].of(series).max;
    const bool can_climb = level < levels_.size();
    while (first <= last && (!can_climb || first % kFactor != 0)) {
      widen(out, low[first], high[first]);
      ++first;
    }
    while (first <= last && (last + 1) % kFactor != 0) {
      widen(out, low[last], high[last]);
      if (last == 0) return out;
      --last;
    }
    if (first > last) break;
    first /= kFactor;
    last /= kFactor;
    ++level;
  }
  return out;
}

std::size_t Timeline::index_of_peak(Series series) const {
  const Column& values = column(series);
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

}  // namespace levee::analysis
