// Several ranks of one job: which rank stalls, and what its stalls cost the others.
//
// Ranks are aligned by step number, since a collective at the end of a step makes all of them wait
// for the slowest. Promises: a step counts when every rank has it complete; a rank's own allocator
// time in a step (emergencies and driver memory calls) is what it cost itself; what it cost the job
// is that time as far as it exceeds every other rank's. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "allocator/analysis/facts.h"

namespace levee::analysis {

struct RankFacts {
  std::int32_t rank = -1;
  std::string label;
  std::uint64_t peak_reserved_bytes = 0;
  std::uint64_t peak_allocated_bytes = 0;
  std::uint64_t emergencies = 0;
  std::uint64_t allocator_ns = 0;   ///< in the steps that count
  std::uint64_t stalled_steps = 0;  ///< steps in which its allocator took more than `kStallNs`
  std::uint64_t cost_ns = 0;        ///< what all ranks lost to its allocator
};

struct SharedStep {
  std::uint64_t number = 0;
  std::uint32_t slowest = 0;       ///< index into `RankReport::ranks`: largest allocator time
  std::uint64_t allocator_ns = 0;  ///< of that rank
  std::uint64_t others_ns = 0;     ///< largest of the others
};

struct RankReport {
  std::vector<RankFacts> ranks;
  std::vector<SharedStep> worst_steps;  ///< costliest first
  std::uint64_t shared_steps = 0;
  std::uint64_t lost_ns = 0;  ///< sum over steps of the slowest rank's allocator time
  std::string verdict;        ///< one sentence
};

inline constexpr std::uint64_t kStallNs =
    1'000'000;  // chosen: a millisecond in a step is what a person would ask about

RankReport merge_ranks(const std::vector<const TraceFacts*>& runs, std::size_t max_steps = 50);

}  // namespace levee::analysis
