#include "allocator/core/counters.h"

#include <algorithm>

namespace levee::core {
namespace {

template <typename F>
void for_each_array(Stats& stats, F&& f) {
#define LEVEE_FIELD(name, what) f(stats.name);
  LEVEE_STAT_ARRAYS(LEVEE_FIELD)
#undef LEVEE_FIELD
}

}  // namespace

void Counters::fold(ThreadCache& cache) {
  // Each word is read once: the owner may be at work.
  const CacheCounts& counts = cache.counts();
  FoldedCounts& before = cache.folded();
  FoldedCounts now;
  std::array<std::int64_t, kQuantities> most{};
  for (std::size_t q = 0; q < kQuantities; ++q) {
    now.returned[q] = counts.returned[q].get();
    now.given[q] = counts.given[q].get();
    most[q] = std::max(counts.most[q].get(), now.given[q] - now.returned[q]);
  }
  now.rounding = counts.rounding.get();
  const auto add = [&](StatArray& array, std::size_t q) {
    for (const StatKind kind : {StatKind::kAll, StatKind::kSmall}) {
      Stat& stat = array[static_cast<std::size_t>(kind)];
      const std::int64_t others = stat.current - (before.given[q] - before.returned[q]);
      stat.peak = std::max(stat.peak, others + most[q]);
      stat.current = others + now.given[q] - now.returned[q];
      stat.allocated += now.given[q] - before.given[q];
      stat.freed += now.returned[q] - before.returned[q];
    }
  };
  const std::int64_t others =
      stats_.active_bytes[0].current - (before.given[1] - before.returned[1]);
  peak_active_ = std::max(peak_active_, others + most[1]);
  add(stats_.allocation, 0);
  add(stats_.active, 0);
  add(stats_.allocated_bytes, 1);
  add(stats_.active_bytes, 1);
  add(stats_.requested_bytes, 2);
  stats_.slack_rounding_bytes += now.rounding - before.rounding;
  before = now;
}

void Counters::reset_peaks() {
  for_each_array(stats_, [](StatArray& array) {
    for (Stat& stat : array) stat.peak = stat.current;
  });
}

void Counters::reset_accumulated() {
  for_each_array(stats_, [](StatArray& array) {
    for (Stat& stat : array) stat.allocated = stat.freed = 0;
  });
  stats_.num_alloc_retries = 0;
  stats_.num_ooms = 0;
  stats_.num_sync_all_streams = 0;
  stats_.num_device_alloc = 0;
  stats_.num_device_free = 0;
}

}  // namespace levee::core
