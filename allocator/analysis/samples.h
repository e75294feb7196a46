// Facts from samples: a run of an allocator that keeps no record of its own (PyTorch's native one,
// expandable segments), looked at once in a while.
//
// Promises: the same `TraceFacts` as a trace gives, with `is_sampled` set and everything that
// samples cannot tell left empty, so that reports, views and comparisons need not know the
// difference. Where a sample carries the peak since the one before, the peak is drawn in the middle
// between the two, since nobody knows when it was. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocator/analysis/facts.h"

namespace levee::analysis {

struct MemorySample {
  std::uint64_t time_ns = 0;  ///< since the start; must not decrease
  std::uint64_t reserved_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  std::uint64_t reserved_peak_bytes = 0;  ///< largest since the sample before; 0 = not known
  std::uint64_t allocated_peak_bytes = 0;
  std::int64_t step = -1;  ///< step that ends here; -1 = none
};

struct SampledRun {
  std::string label;
  std::string program;
  std::string device_name;
  std::uint64_t total_bytes = 0;
  bool is_modelled = false;
  std::vector<MemorySample> samples;
};

TraceFacts facts_from_samples(const SampledRun& run);

}  // namespace levee::analysis
