#include "allocator/core/counters.h"

namespace levee::core {
namespace {

template <typename F>
void for_each_array(Stats& stats, F&& f) {
#define LEVEE_FIELD(name, what) f(stats.name);
  LEVEE_STAT_ARRAYS(LEVEE_FIELD)
#undef LEVEE_FIELD
}

}  // namespace

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
