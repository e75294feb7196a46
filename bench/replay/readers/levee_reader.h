// A recording of levee itself (allocator/record/FORMAT.md).
//
// Owns nothing after it returns. Promises: what the recording lost is told; a file that dropped its
// oldest part starts from the blocks of its first keyframe; streams, recorded uses, step marks and
// threads are kept. Cost: about 0.1 us an event; memory 16 B an event.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "allocator/record/trace_reader.h"
#include "bench/replay/op_trace.h"
#include "bench/replay/readers/recording_options.h"

namespace levee::replay {

OpTrace read_levee(const record::TraceReader& reader, const ReadOptions& options, ReadError* error);
OpTrace read_levee(std::span<const std::byte> bytes, const ReadOptions& options, ReadError* error);

}  // namespace levee::replay
