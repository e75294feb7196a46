// When long-lived blocks cut the free space up: a new primary range over all other pages, decided
// here.
//
// Compaction without moving a byte: pages that hold no long-lived block are mapped, in the order of
// their addresses, into a fresh zone that becomes the pool's primary; the old zone stays and serves
// as an alias. Pages in use are mapped too; their new slots show up as their blocks die. It pays
// only if it brings together what long-lived blocks keep apart, and costs one mapping for each
// page, so it is done at most twice, when stitching has cost a share of that already. Pure
// decisions over the state; `PageWork::rebase` acts. Guarded by the pool lock. O(pages).
#pragma once

#include <cstdint>
#include <vector>

#include "allocator/core/state.h"

namespace levee::core {

/// Whether enough was stitched to think about a rebase at this age of the program.
bool is_rebase_due(const State& state, const Pool& pool);
/// Whether long-lived blocks are what keeps a run of `bytes` from existing in the primary zone.
bool is_rebase_useful(const State& state, const Pool& pool, Bytes bytes);
/// The pages to map, in order.
std::vector<PageIndex> choose_rebase_pages(const State& state, const Pool& pool);
/// Pages that rebases left out of the primary zone for the sake of blocks that died since, or will
/// soon: all but those of blocks that stay for good, and those that serve small blocks.
std::vector<PageIndex> choose_missing_pages(const State& state, const Pool& pool);

}  // namespace levee::core
