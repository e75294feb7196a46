// Where a Python program is: the frames of the running thread as text, for levee's record.
//
// Promises: never fails, never raises, leaves a pending Python error alone; empty where there is no
// Python (a thread that Python does not know, an interpreter that is shutting down). Takes the GIL
// if this thread does not hold it, as PyTorch's own history does: callers hold no lock.
// Cost: some microseconds; for slow paths.
#pragma once

#include <string>

namespace levee::bindings {

/// One line a frame, innermost first: "file:line function". At most `max_frames`.
std::string python_stack(int max_frames = 48);

/// From now on `python_stack` is empty. To be called when the interpreter begins to end.
void stop_python_stacks();

}  // namespace levee::bindings
