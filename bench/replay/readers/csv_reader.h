// The documented text forms of a trace, one op a line.
//
// *Ops*, as the lab's own recordings have them:
//
//     p,BYTES[,levee]         what the recorded run reserved at most (before everything else), and
//                             whether it did so under levee
//     b,ID,BYTES[,STREAM]     a block that was live before the recording began (before other ops)
//     a,ID,BYTES[,STREAM]     allocation of BYTES requested bytes; STREAM defaults to 0
//     f,ID                    free
//     r,ID,,STREAM            the block is also used on STREAM
//     m,N                     N steps are done; -1 = start, 0 = set-up is done
//     s,N[,MFLOP]             step N begins, with its modelled work
//     e,N                     `s` lines stand where steps end: what comes before the first is step
//                             N already, what comes after the last is none
//
// The fifth field of `a`, `f`, `r` and `s` is the thread that did it, any number; a line without
// one is of the thread of the line before. Other fields are ignored, as are blank lines, lines that
// begin with `#` and a first line that begins with "op,". Spaces may stand in for commas.
//
// *History*, as an allocator's history is easily written by a script: a first line
// "time_us,action,block,bytes,stream", then a line an event with the actions of a PyTorch snapshot
// (alloc, free_requested, free_completed, segment_alloc, segment_free, segment_map, segment_unmap,
// and `step`, which begins one). A block that is freed without an allocation was live at the start.
//
// IDs and blocks are any integers and may be used again after their free. A line that is none of
// these makes the whole file invalid: the error names its number. Cost: about 60 ns a line; memory
// 16 B an op and 48 B a live block.
#pragma once

#include <string_view>

#include "bench/replay/op_trace.h"
#include "bench/replay/readers/recording_options.h"

namespace levee::replay {

/// `text` is the whole file.
OpTrace read_csv(std::string_view text, const ReadOptions& options, ReadError* error);

}  // namespace levee::replay
