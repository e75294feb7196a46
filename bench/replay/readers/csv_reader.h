// The documented text form of a trace, one op a line:
//
//     a,ID,BYTES[,STREAM]     allocation of BYTES requested bytes; STREAM defaults to 0
//     f,ID                    free
//     r,ID,,STREAM            the block is also used on STREAM
//     m,N                     N steps are done; -1 = start, 0 = set-up is done
//     s,N[,MFLOP]             step N begins, with its modelled work
//
// Fields after those are ignored, as are blank lines, lines that begin with `#` and a first line
// that begins with "op,". Spaces may stand in for commas. IDs are any integers; an ID may be used
// again after its free. A line that is none of these makes the whole file invalid: the error names
// its number. Cost: about 100 ns a line; memory 16 B an op and 24 B a live block.
#pragma once

#include <string>
#include <string_view>

#include "bench/replay/op_trace.h"

namespace levee::replay {

struct ReadError {
  std::string sentence;  ///< empty = no error
};

/// Modelled work of a step from its first allocation, for traces whose `m` marks carry none
/// (bench/traces/README.md).
struct FlopModel {
  double mflop_per_byte = 0;  ///< of the first request of the step
};

/// `text` is the whole file.
OpTrace read_csv(std::string name, std::string_view text, ReadError* error, FlopModel flops = {});

}  // namespace levee::replay
