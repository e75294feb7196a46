// Idle gaps: times when a device ran no kernel, copy or memset although the program had not ended,
// and what part of them the allocator spent in the driver or in its recovery ladder.
//
// Promises: gaps are taken between the first and the last recorded activity of a device, over all
// its streams; allocator time is the union of its driver calls and emergencies, so that nested ones
// count once. Pure. Cost: a sort of intervals.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "allocator/analysis/facts.h"

namespace levee::analysis {

using Span = std::pair<std::uint64_t, std::uint64_t>;  // [begin, end) in ns

/// Overlapping and touching spans joined, by begin.
std::vector<Span> join_spans(std::vector<Span> spans);

/// Fills `idle` of each device and `facts.idle_gaps` (at most `max_gaps`, most allocator time
/// first). `allocator_spans` has, for each device, its driver calls and emergencies in any order.
void find_idle_gaps(TraceFacts& facts, std::vector<std::vector<Span>> allocator_spans,
                    std::size_t max_gaps);

}  // namespace levee::analysis
