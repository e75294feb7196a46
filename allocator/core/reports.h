// Numbers and pictures for people, made from the State as values. Called with the pool mutex held.
#pragma once

#include <levee/snapshot.h>
#include <levee/stats.h>

#include "allocator/core/ids.h"
#include "allocator/core/state.h"

namespace levee::core {

/// All counters, those included that are sums over structures (segments, split memory). These are
/// taken now; their peaks and sums are of what was seen at such questions.
Stats current_stats(State& state);

/// What memory looks like: each page once, under the slot that owns it, or, while it is free, under
/// its first usable slot. `only` one pool, or none for all.
Snapshot make_snapshot(State& state, PoolIndex only);

}  // namespace levee::core
