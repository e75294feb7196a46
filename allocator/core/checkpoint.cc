#include "allocator/core/checkpoint.h"

#include <algorithm>

#include "allocator/base/check.h"

namespace levee::core {
namespace {

bool is_same(const Placer::Exact& a, const Placer::Exact& b) {
  return a.addr == b.addr && a.requested == b.requested && a.kind == b.kind && a.stream == b.stream;
}

// Blocks of `from` that are not in `to`. Both by address.
std::vector<Placer::Exact> difference(const std::vector<Placer::Exact>& from,
                                      const std::vector<Placer::Exact>& to) {
  std::vector<Placer::Exact> only;
  for (const Placer::Exact& block : from) {
    const auto at = std::lower_bound(
        to.begin(), to.end(), block,
        [](const Placer::Exact& a, const Placer::Exact& b) { return a.addr < b.addr; });
    if (at == to.end() || !is_same(*at, block)) only.push_back(block);
  }
  return only;
}

}  // namespace

std::vector<Placer::Exact> live_blocks(const State& state, PoolIndex pool) {
  std::vector<Placer::Exact> blocks;
  const auto add = [&](const BlockRecord& block) {
    if (block.pool != pool || block.state != BlockState::kLive) return;
    blocks.push_back(Placer::Exact{block.addr, block.bytes, block.requested, block.span, block.kind,
                                   block.stream, block.zone});
  };
  for (std::uint32_t i = 0; i < state.space.zone_end(); ++i) {
    if (!state.space.is_zone(i)) continue;
    const Zone& zone = state.space.zone(ZoneIndex{i});
    if (zone.pool != pool || zone.slots.empty()) continue;
    state.blocks.for_each(
        zone.base, state.space.unit() * zone.slots.size(), add, [&](const Chunk& chunk) {
          for (const BlockRecord* range : chunk.range_at) {
            if (range != nullptr) add(*range);
          }
          for (const Slab* slab : chunk.slab_of_cell) {
            if (slab == nullptr) continue;
            for (std::uint32_t k = 0; k < slab->object_count; ++k) {
              const Bytes requested = slab->requested_of(k);
              if (requested == 0_B || slab->is_waiting(k)) continue;
              blocks.push_back(Placer::Exact{slab->object(k), allocated_size(requested), requested,
                                             class_bytes(slab->size_class), BlockKind::kObject,
                                             slab->stream, chunk.zone});
            }
          }
        });
  }
  std::sort(blocks.begin(), blocks.end(),
            [](const Placer::Exact& a, const Placer::Exact& b) { return a.addr < b.addr; });
  return blocks;
}

Result<CheckpointDelta> restore_blocks(State& state, Placer& placer, Pool& pool,
                                       const BlockCheckpoint& checkpoint) {
  const std::vector<Placer::Exact> now = live_blocks(state, pool.index);
  const std::vector<Placer::Exact> gone = difference(now, checkpoint.blocks());
  const std::vector<Placer::Exact> back = difference(checkpoint.blocks(), now);
  CheckpointDelta delta;
  for (const Placer::Exact& block : gone) {
    const Result<Block> freed = placer.take_back(block.addr);
    LEVEE_CHECK(freed.ok(), "a live block cannot be freed");
    delta.freed.push_back(block.addr);
  }
  // Blocks that other streams used wait for them; those that are done need not stand in the way.
  placer.release_done(/*ask=*/true);
  placer.release_idle_chunks();
  const Counters before = state.counters;
  state.is_trying = true;
  for (const Placer::Exact& block : back) {
    if (placer.place_exactly(block, pool.index)) {
      delta.allocated.push_back(
          Block{block.addr, block.bytes, block.requested, state.streams.id(block.stream), pool.id});
      continue;
    }
    // Somebody else has the bytes. Undo: first what was placed, then what was freed.
    for (const Block& placed : delta.allocated) {
      const Result<Block> freed = placer.take_back(placed.addr);
      LEVEE_CHECK(freed.ok(), "a block just placed cannot be freed");
    }
    state.is_trying = false;
    placer.release_idle_chunks();
    state.counters = before;  // what was tried makes no peak
    for (const Placer::Exact& freed : gone) placer.put_back(freed, pool.index);
    return StatusCode::kInternal;
  }
  state.is_trying = false;
  for (const Placer::Exact& block : back) {
    state.note_use(block.addr, block.bytes, block.stream, device::UseKind::kRestore);
  }
  return delta;
}

}  // namespace levee::core
