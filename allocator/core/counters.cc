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
  Tally& small = tallies_[index_of(StatKind::kSmall)];
  for (std::size_t q = 0; q < kQuantities; ++q) {
    const std::int64_t had = before.given[q] - before.returned[q];
    const std::int64_t has = now.given[q] - now.returned[q];
    for (Tally* tally : {&tallies_[0], &small}) {
      const std::int64_t others = tally->level[q] - had;
      tally->most[q] = std::max(tally->most[q], others + most[q]);
      tally->level[q] = others + has;
    }
    small.came[q] += now.given[q] - before.given[q];
  }
  stats_.slack_rounding_bytes += now.rounding - before.rounding;
  before = now;
}

void Counters::settle() const {
  std::array<std::int64_t, kQuantities> came{};
  for (std::size_t k = 1; k < tallies_.size(); ++k) {
    for (std::size_t q = 0; q < kQuantities; ++q) came[q] += tallies_[k].came[q];
  }
  peak_active_ = std::max(peak_active_, stats_.active_bytes[0].current + all().most[1]);
  for (std::size_t k = 0; k < tallies_.size(); ++k) {
    const Tally& tally = tallies_[k];
    const auto add = [&](StatArray& array, std::size_t q) {
      Stat& stat = array[k];
      const std::int64_t n = k == 0 ? came[q] : tally.came[q];
      stat.peak = std::max(stat.peak, stat.current + tally.most[q]);
      stat.current += tally.level[q];
      stat.allocated += n;
      stat.freed += n - tally.level[q];
    };
    add(stats_.allocation, 0);
    add(stats_.active, 0);
    add(stats_.allocated_bytes, 1);
    add(stats_.active_bytes, 1);
    add(stats_.requested_bytes, 2);
  }
  tallies_ = {};
}

void Counters::reset_peaks() {
  settle();
  for_each_array(stats_, [](StatArray& array) {
    for (Stat& stat : array) stat.peak = stat.current;
  });
}

void Counters::reset_accumulated() {
  settle();
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
