// Phases from torch.profiler.record_function: every annotated region of the program becomes a phase
// in levee's record (optimizer steps and data loading come annotated by PyTorch itself).
//
// Promises: only annotations (USER_SCOPE) are observed, so that operators keep PyTorch's fast path
// of "nobody listens"; a phase is popped on the thread that pushed it, or not at all.
// Cost: a map lookup by name for each annotation while recording; nothing while it is off.
#pragma once

#include <levee/runtime.h>

namespace levee::torch_plugin {

/// Starts observing, once for the process. Later calls do nothing.
void observe_phases(Runtime& runtime);

}  // namespace levee::torch_plugin
