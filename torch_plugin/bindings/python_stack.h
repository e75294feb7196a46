// Where a Python program is: the frames of the running thread as text, for levee's record.
//
// Promises: never fails, never raises, leaves a pending Python error alone; never empty: where
// there is no frame, one line in round brackets says why (autograd's threads run no Python, an
// interpreter is shutting down). Takes the GIL if this thread does not hold it, as PyTorch's own
// history does: callers hold no lock. Cost: some microseconds; for slow paths.
#pragma once

#include <string>

namespace levee::bindings {

inline constexpr char kNoPythonFrame[] = "(no Python frame on this thread, as on autograd's)";
inline constexpr char kPythonIsEnding[] = "(no Python frame: the interpreter was ending)";

/// One line a frame, innermost first: "file:line function". At most `max_frames`. Without frames
/// one line: `kNoPythonFrame` or `kPythonIsEnding`.
std::string python_stack(int max_frames = 48);

/// From now on `python_stack` is `kPythonIsEnding`. To be called when the interpreter begins to
/// end.
void stop_python_stacks();

}  // namespace levee::bindings
