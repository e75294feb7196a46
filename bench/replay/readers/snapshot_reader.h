// A memory snapshot of PyTorch with its history, as torch.cuda.memory._dump_snapshot writes it and
// levee's own export too.
//
// Owns nothing after it returns. Promises: as `Pickle`, nothing is executed and any bytes are safe.
// The history is a ring: blocks that it frees, or that are live at its end, without an allocation
// in it were live at its start and are placed first. A block that others still used when it was
// freed comes back when the history says so. Steps are the "ProfilerStep#" annotations, where the
// history has them. Private pools are replayed as the ordinary one, and a note says so.
#pragma once

#include <string_view>

#include "bench/replay/op_trace.h"
#include "bench/replay/readers/recording_options.h"

namespace levee::replay {

OpTrace read_snapshot(std::string_view bytes, const ReadOptions& options, ReadError* error);

}  // namespace levee::replay
