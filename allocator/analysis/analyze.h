// The one pass over a trace that everything else is made of: events in, `TraceFacts` out.
//
// Promises: reads any trace that the reader opens, also one that starts in the middle (it begins
// with the state the file gives), has lost events or ends inside an emergency; what is missing is
// said in `Completeness::remarks`, never guessed silently. Deterministic. Does not: touch a live
// allocator, write anything. Cost: about 10^7 events a second beside decoding; memory: 24 to 32
// bytes an event for timelines, 72 bytes a block while it is pairing (kept on request).
#pragma once

#include <cstddef>
#include <cstdint>

#include "allocator/analysis/facts.h"
#include "allocator/record/trace_reader.h"

namespace levee::analysis {

inline constexpr std::size_t kWarmUpSteps =
    20;  ///< steps after which a steady state is expected to be silent

struct AnalysisOptions {
  bool keep_blocks = false;      ///< `TraceFacts::blocks`, for exports that list every block
  bool read_activity = true;     ///< kernels, copies, memsets and what follows from them
  bool explain_moments = true;   ///< holders, slack and pins at the peaks
  std::size_t max_holders = 20;  ///< origins listed at a peak
  std::size_t max_pins = 20;
  std::size_t max_idle_gaps = 100;
};

TraceFacts analyze(const record::TraceReader& trace, const AnalysisOptions& options = {});

}  // namespace levee::analysis
