// A trace as the lab's CSV (readers/csv_reader.h): the requests alone, without names, addresses or
// stacks, so that it can be kept small and shown to others.
//
// Promises: `read_csv` of the text gives the same ops, streams, steps and recorded peak. What the
// recording lacked is kept as far as it changes a replay: blocks that were live at its start.
#pragma once

#include <string>

#include "bench/replay/op_trace.h"

namespace levee::replay {

std::string to_csv(const OpTrace& trace);

}  // namespace levee::replay
