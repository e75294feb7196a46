// A picture of a pool's live blocks, and the way back to it (CUDA graph trees).
//
// Restoring frees what lives now and not in the picture, and hands out again, at the very same
// addresses, what lives in the picture and not now. That is possible because the pages of a
// captured pool serve nobody else. Called with the pool mutex held.
#pragma once

#include <vector>

#include <levee/allocator.h>
#include <levee/ids.h>

#include "allocator/core/placer.h"
#include "allocator/core/state.h"

namespace levee::core {

class BlockCheckpoint final : public PoolCheckpoint {
 public:
  BlockCheckpoint(PoolId pool, std::vector<Placer::Exact> blocks)
      : pool_(pool), blocks_(std::move(blocks)) {}
  PoolId pool() const { return pool_; }
  const std::vector<Placer::Exact>& blocks() const { return blocks_; }

 private:
  PoolId pool_;
  std::vector<Placer::Exact> blocks_;  // by address
};

/// The live blocks of a pool, by address.
std::vector<Placer::Exact> live_blocks(const State& state, PoolIndex pool);

/// All or nothing: if an address is taken, everything is put back as it was, and kInternal
/// returned.
Result<CheckpointDelta> restore_blocks(State& state, Placer& placer, Pool& pool,
                                       const BlockCheckpoint& checkpoint);

}  // namespace levee::core
