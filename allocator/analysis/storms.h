// Storms: emergencies and the re-acquisition that follows them, as clusters that a person would
// call one event.
//
// A storm begins with an emergency. What follows belongs to it while it is another emergency, or a
// driver call that takes memory back (as long as less has been taken back than was given away), in
// the same step as, or within `kStormGapNs` of, what came before it. Without a give-away there is
// nothing to re-acquire, and the storm is its emergencies. Where nothing was served there was no
// storm to weather, whatever was given back in vain: a refusal alone is in none. Promises: every
// other emergency is in exactly one storm. Pure function of its input. Cost: linear.
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/analysis/facts.h"

namespace levee::analysis {

inline constexpr std::uint64_t kStormGapNs =
    100'000'000;  // chosen: above any step's inner pauses, below what reads as two

/// A driver memory call, or a change of reserved bytes, in time order.
struct MemoryActivity {
  std::uint64_t begin_ns = 0;
  std::uint64_t duration_ns = 0;
  std::uint64_t acquired_bytes = 0;
  std::uint64_t released_bytes = 0;
  std::uint32_t device = 0;
  bool is_driver_call = false;
  bool is_inside_emergency = false;
};

/// Fills `facts.storms` and the storm of each emergency. `facts.emergencies`, `facts.steps` and the
/// timelines must be finished.
void find_storms(TraceFacts& facts, const std::vector<MemoryActivity>& activity);

}  // namespace levee::analysis
