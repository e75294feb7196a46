// Giving memory back on request: what may go, in which order, until enough is gone.
#pragma once

#include <levee/status.h>
#include <levee/units.h>

#include "allocator/core/page_work.h"
#include "allocator/core/placer.h"
#include "allocator/core/state.h"

namespace levee::core {

/// Gives wholly free pages and idle segments back until at most `keep` bytes are reserved, by all
/// pools or counting `only` one. Waits for our own events first: blocks that wait for other streams
/// are freed if those are done. kNotReady while a stream captures, which allows none of it. Called
/// with the growth mutex and the guard held. Returns the bytes the device got.
Result<Bytes> trim_to(State& state, Placer& placer, PageWork& pages, PoolGuard& guard,
                      PoolIndex only, Bytes keep);

}  // namespace levee::core
