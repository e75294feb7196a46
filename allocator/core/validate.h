// Every invariant of every structure, and those between them, checked at one moment. Ends the
// process on the first that does not hold. Called with both mutexes held. O(everything).
#pragma once

#include "allocator/core/state.h"

namespace levee::core {

void validate_state(const State& state);

}  // namespace levee::core
