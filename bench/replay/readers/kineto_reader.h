// A trace of PyTorch's profiler (Kineto, Chrome's JSON) that was recorded with profile_memory=True:
// its "[memory]" events of one GPU.
//
// Owns nothing after it returns. Promises: any bytes are safe; memory is less than the input's
// size. The format names no streams: everything is replayed on one, and a note says so. What was
// live before the first event is known by its sum; what of it is freed later is placed as blocks of
// their own, the rest as one. Steps are the "ProfilerStep#" annotations. Cost: about a second a
// gigabyte.
#pragma once

#include <string_view>

#include "bench/replay/op_trace.h"
#include "bench/replay/readers/recording_options.h"

namespace levee::replay {

OpTrace read_kineto(std::string_view text, const ReadOptions& options, ReadError* error);

}  // namespace levee::replay
