// The largest batch that trains in a device of fixed size, of what live bytes alone would allow.
//
// Owns nothing. A batch is scaled in thousandths of the trace's own (tokens of every step), so that
// one per cent can be told apart. Promises: `bound_permille` is what fits if reserved were exactly
// the pages that live bytes need; a policy's is the largest at which no request fails, found by
// bisection (which assumes that a smaller batch fits too). Cost: about ten replays a policy.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/replay/generators/decoder_trace.h"
#include "bench/replay/policy.h"

namespace levee::replay {

struct LargestBatch {
  std::string trace;
  std::string policy;
  std::uint32_t permille = 0;
  std::uint32_t bound_permille = 0;
};

using PolicyMaker =
    std::function<std::unique_ptr<ReplayPolicy>(const std::string&, const OpTrace&, Limits)>;

std::vector<LargestBatch> largest_batches(const DecoderOptions& options,
                                          const RecordedLengths& lengths, Limits limits,
                                          const std::vector<std::string>& policies,
                                          const PolicyMaker& make);

}  // namespace levee::replay
