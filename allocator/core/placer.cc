#include "allocator/core/placer.h"

#include <algorithm>
#include <utility>

#include "allocator/base/check.h"
#include "allocator/core/mutants.h"

namespace levee::core {

using device::UseKind;

namespace {

Placer::Served miss() {
  return {};
}
Placer::Served failed(Status status) {
  return {Placer::Outcome::kFailed, {}, status};
}
}  // namespace

// ---- Order between streams

template <typename ForEach>
Status Placer::order(StreamIndex stream, Bytes bytes, ForEach&& for_each_stamp) {
  Status status{};
  for_each_stamp([&](Stamp stamp) {
    if (!status.ok() || !state_.streams.must_wait(stream, stamp)) return;
    const std::int64_t waits = state_.streams.wait_count();
    status = state_.streams.wait_for(stream, stamp);
    if (status.ok() && state_.streams.wait_count() != waits) {
      state_.emit(EventKind::kWaitInserted, state_.streams.lane(stream),
                  state_.streams.lane(stamp.stream()).value, bytes.value);
    }
  });
  return status;
}

bool Placer::needs_no_wait(StreamIndex stream, const Place& place) const {
  return state_.space.all_stamps(
      place.zone, place.run, [&](Stamp stamp) { return !state_.streams.must_wait(stream, stamp); });
}

// A side stream exists to overlap with the main one: behind memory that the main stream has just
// released it would queue up with it. So it looks for memory that is known done, or its own.
std::optional<Place> Placer::choose_quiet(const Request& request, const Pool& pool, Bytes span) {
  StreamTable& streams = state_.streams;
  streams.note_large(request.stream, span);
  if (request.stream == streams.main() || request.is_capturing || !is_affine(pool)) return {};
  bool has_looked = false;
  const auto is_quiet = [&](Stamp stamp) {
    if (!streams.must_wait(request.stream, stamp)) return true;
    if (has_looked || stamp.stream() != streams.main()) return false;
    has_looked = true;
    streams.look_at(streams.main(),
                    static_cast<std::uint64_t>(state_.counters.stats().allocation[0].allocated));
    return streams.is_complete(stamp);
  };
  return choose_affine_place(state_.space, pool.scope(), span, [&](const Place& place) {
    return state_.space.all_stamps(place.zone, place.run, is_quiet);
  });
}

bool Placer::is_affine(const Pool& pool) const {
  return state_.config.stream_affinity && pool.backing == Backing::kPages && !pool.is_unsplit;
}

PlaceFilter Placer::filter_for(const Request& request) const {
  if (!request.is_capturing || mutated(Mutant::kWaitInCapture)) return {};
  return
      [this, stream = request.stream](const Place& place) { return needs_no_wait(stream, place); };
}

// Places whose last users can be waited for: of use once one of the streams was seen to capture.
PlaceFilter Placer::waitable(StreamIndex stream) const {
  const auto captures = [this](StreamIndex one) {
    const Result<bool> answer = state_.streams.is_capturing(one);
    return !answer.ok() || *answer;
  };
  return [this, stream, captures, may_wait = !captures(stream)](const Place& place) {
    bool can_order = true;
    state_.space.for_each_stamp(place.zone, place.run, [&](Stamp stamp) {
      if (!can_order || !state_.streams.must_wait(stream, stamp)) return;
      can_order = may_wait && stamp.stream() != kUnknownStream && !captures(stamp.stream());
    });
    return can_order;
  };
}

// ---- Serving

Placer::Served Placer::serve(const Request& request) {
  Pool& pool = state_.pools[request.pool];
  if (request.is_capturing && pool.is_private() && !pool.is_captured) capture(pool);
  Served served = serve_in(request, pool);
  if (served.outcome != Outcome::kMiss) return served;
  // The chunk that was kept in case small blocks come back is worth more as a page now.
  Chunk* spare = pool.small.take_spare();
  if (spare == nullptr) return served;
  give_back_chunk(pool, spare);
  return serve_in(request, pool);
}

Placer::Served Placer::serve_in(const Request& request, Pool& pool) {
  if (!request.is_small() || pool.is_unsplit) return serve_large(request, pool);
  Served served =
      is_slab_size(request.bytes) ? serve_object(request, pool) : serve_range(request, pool);
  if (served.outcome == Outcome::kMiss) [[unlikely]]
    served = serve_fragment(request, pool);
  return served;
}

Placer::Served Placer::serve_object(const Request& request, Pool& pool) {
  const SizeClass size_class = class_of(request.bytes);
  if (const auto object = pool.small.take_object(size_class, request.stream, request.requested)) {
    return finish_object(request, pool, *object);
  }
  const RoomFound found = find_small_room(request, pool, kSlabUnits, kSlabUnits);
  if (found.outcome != Outcome::kServed) return {found.outcome, {}, found.status};
  if (pool.small.make_slab(found.room, size_class, request.stream) == nullptr) {
    return failed(Status{StatusCode::kInternal, 0});
  }
  const auto object = pool.small.take_object(size_class, request.stream, request.requested);
  return finish_object(request, pool, *object);
}

Placer::Served Placer::serve_range(const Request& request, Pool& pool) {
  const RoomFound found = find_small_room(
      request, pool, static_cast<std::uint32_t>(request.bytes.value / 512), /*alignment_units=*/1);
  if (found.outcome != Outcome::kServed) return {found.outcome, {}, found.status};
  BlockRecord* block = state_.block_records.make();
  if (block == nullptr) return failed(Status{StatusCode::kInternal, 0});
  block->kind = BlockKind::kRange;
  block->span = request.bytes;
  block->zone = found.room.chunk->zone;
  pool.small.take_range(found.room, block);
  return finish(request, pool, block);
}

// From what costs nothing to what costs a wait: a chunk that the stream took itself; a page of its
// own, while one is free or may be made; any chunk that needs no wait; any chunk.
Placer::RoomFound Placer::find_small_room(const Request& request, Pool& pool, std::uint32_t units,
                                          std::uint32_t alignment_units) {
  const auto in_chunks = [&](ChunkReach reach) {
    return pool.small.find_room(units, alignment_units, request.stream, reach, state_.streams);
  };
  if (const auto room = in_chunks(ChunkReach::kHome)) return {Outcome::kServed, *room, {}};
  RoomFound fresh = take_chunk(request, pool);
  if (fresh.outcome != Outcome::kMiss) return fresh;
  if (!request.takes_any_page && may_grow_small(pool)) return {};
  if (const auto room = in_chunks(ChunkReach::kNoWait)) return {Outcome::kServed, *room, {}};
  if (request.is_capturing && !mutated(Mutant::kWaitInCapture)) return {};
  const auto room = in_chunks(ChunkReach::kAny);
  if (!room) return {};
  const Status ordered = order(request.stream, request.bytes, [&](auto&& visit) {
    for (Stamp stamp : room->chunk->stamps) visit(stamp);
  });
  if (ordered.code == StatusCode::kNotReady) return {};
  if (!ordered.ok()) return {Outcome::kFailed, {}, ordered};
  return {Outcome::kServed, *room, {}};
}

Placer::RoomFound Placer::take_chunk(const Request& request, Pool& pool) {
  const auto choose_in = [&](const SearchScope& scope, const PlaceFilter& filter) {
    return choose_aligned_place(state_.space, scope, kChunkBytes, kChunkBytes, filter);
  };
  const auto choose = [&](const PlaceFilter& filter) -> std::optional<Place> {
    if (!pool.small_zone.is_none()) {
      const ZoneIndex only[] = {pool.small_zone};
      const auto place = choose_in(SearchScope{ZoneIndex{}, only}, filter);
      if (place) return place;
    }
    if (!request.takes_any_page && may_grow_small(pool)) return std::nullopt;
    return choose_in(pool.scope(), filter);
  };
  const PlaceFilter no_wait = [&](const Place& place) {
    return needs_no_wait(request.stream, place);
  };
  // Pages that small blocks have to themselves first; a page among large blocks only when there is
  // nothing else and memory is not to grow for it.
  // With one stream every page is clean; with several a page that needs no wait is worth a look.
  std::optional<Place> place = state_.streams.has_several() ? choose(no_wait) : choose({});
  if (!place && !request.is_capturing) place = choose({});
  StampSet before;
  const auto order_place = [&] {
    before.clear();
    state_.space.for_each_stamp(place->zone, place->run, [&](Stamp stamp) {
      if (!state_.streams.is_complete(stamp)) before.add(stamp);
    });
    return order(request.stream, kChunkBytes, [&](auto&& visit) {
      for (Stamp stamp : before) visit(stamp);
    });
  };
  if (!place || exceeds_limit(pool, *place)) return {};
  Status ordered = order_place();
  if (ordered.code == StatusCode::kNotReady && !request.is_capturing) {
    place = choose(waitable(request.stream));
    if (!place || exceeds_limit(pool, *place)) return {};
    ordered = order_place();
  }
  if (ordered.code == StatusCode::kNotReady) return {};
  if (!ordered.ok()) return {Outcome::kFailed, {}, ordered};
  const Zone& zone = state_.space.zone(place->zone);
  Chunk* chunk = pool.small.add_chunk(zone.address(place->run.begin), zone.index, place->run.begin,
                                      pool.index, request.stream);
  if (chunk == nullptr) return {Outcome::kFailed, {}, Status{StatusCode::kInternal, 0}};
  // Another stream that comes to this chunk later is not ordered behind those who used the page.
  chunk->stamps.add_all(before);
  occupy(pool, *place);
  state_.blocks.set_chunk(chunk->base, chunk);
  state_.counters.on_small_chunk(/*taken=*/true);
  return {Outcome::kServed, SmallHeap::Room{chunk, 0}, {}};
}

// Half of the slack, a quarter once the program is settled: what is held here while no small block
// needs it is held for nobody. And none after the warm-up where next to all memory is free, as when
// a training is evaluated: large blocks that small ones could come between are hardly there.
bool Placer::may_grow_small(const Pool& pool) const {
  if (pool.is_private() || pool.backing != Backing::kPages) return false;
  const Bytes reserved = state_.space.reserved();
  if (pool.small_refused_at.value != 0 && reserved >= pool.small_refused_at) return false;
  const Bytes free = state_.space.unit() * state_.space.lendable_units();
  if (state_.age.now() >= Age::kWarmUpSteps &&
      static_cast<double>(free.value) >= kIdleShare * static_cast<double>(reserved.value)) {
    return false;
  }
  const double peak = static_cast<double>(state_.counters.peak_active().value);
  const double share = state_.config.slack / (state_.age.is_settled() ? 4 : 2);
  return static_cast<double>(reserved.value) <= peak * (1 + share);
}

void Placer::give_back_chunk(Pool& pool, Chunk* chunk) {
  state_.blocks.clear_chunk(chunk->base);
  state_.space.vacate(chunk->zone, Run{chunk->zone_offset, kChunkBytes}, chunk->stamps);
  state_.counters.on_small_chunk(/*taken=*/false);
  pool.small.destroy_chunk(chunk);
}

Bytes Placer::release_idle_chunks() {
  drain_caches();
  Bytes released{};
  for (std::uint32_t i = 0; i < state_.pools.end(); ++i) {
    if (!state_.pools.is_pool(i)) continue;
    Pool& pool = state_.pools[PoolIndex{i}];
    for (Chunk* chunk : pool.small.release_idle()) {
      give_back_chunk(pool, chunk);
      released += kChunkBytes;
    }
  }
  return released;
}

Placer::Served Placer::serve_large(const Request& request, Pool& pool) {
  const Bytes unit = state_.space.unit();
  const Bytes span = pool.is_unsplit ? round_up(request.bytes, unit) : request.bytes;
  const auto choose = [&](const PlaceFilter& filter) {
    return pool.is_unsplit
               ? choose_aligned_place(state_.space, pool.scope(), span, unit, filter)
               : choose_place(state_.space, pool.scope(), span, request.lifetime, filter);
  };
  std::optional<Place> place;
  if (state_.streams.has_several()) [[unlikely]]
    place = choose_quiet(request, pool, span);
  if (!place) place = choose(filter_for(request));
  if (!place) return miss();
  const Served served = serve_place(request, pool, *place, BlockKind::kLarge, span);
  if (served.outcome != Outcome::kFailed || served.status.code != StatusCode::kNotReady) {
    return served;
  }
  // One of the streams captures, which the request did not know.
  const std::optional<Place> other = choose(waitable(request.stream));
  return other ? serve_place(request, pool, *other, BlockKind::kLarge, span) : miss();
}

// When no page for small blocks is to be had: the shortest run of the large space that is long
// enough, before memory is created for it.
Placer::Served Placer::serve_fragment(const Request& request, Pool& pool) {
  if (!request.takes_any_page && may_grow_small(pool)) return miss();
  const PlaceFilter clean = [&](const Place& candidate) {
    return needs_no_wait(request.stream, candidate);
  };
  const auto fragment_of = [&](const PlaceFilter& filter) {
    const std::optional<Place> place =
        choose_fragment(state_.space, pool.scope(), request.bytes, filter);
    return place ? serve_place(request, pool, *place, BlockKind::kFragment, request.bytes) : miss();
  };
  Served served = fragment_of(request.is_capturing ? clean : PlaceFilter{});
  if (served.status.code == StatusCode::kNotReady && !request.is_capturing) {
    served = fragment_of(waitable(request.stream));
  }
  if (served.status.code == StatusCode::kNotReady) return miss();
  return served;
}

Placer::Served Placer::serve_place(const Request& request, Pool& pool, const Place& place,
                                   BlockKind kind, Bytes span, Order order_of_streams) {
  if (order_of_streams == Order::kNeeded) {
    if (exceeds_limit(pool, place)) return miss();
    if (state_.streams.has_several()) {
      const Status ordered = order(request.stream, span, [&](auto&& visit) {
        state_.space.for_each_stamp(place.zone, place.run, visit);
      });
      if (!ordered.ok()) return failed(ordered);
    }
  }
  BlockRecord* block = state_.block_records.make();
  if (block == nullptr) return failed(Status{StatusCode::kInternal, 0});
  block->kind = kind;
  block->span = span;
  block->zone = place.zone;
  block->addr = state_.space.zone(place.zone).address(place.run.begin);
  occupy(pool, place);
  state_.blocks.set_block(block);
  return finish(request, pool, block);
}

bool Placer::exceeds_limit(const Pool& pool, const Place& place) const {
  if (pool.limit.value == 0) return false;
  Bytes added{};
  state_.space.for_each_page(place.zone, place.run, [&](PageIndex index) {
    if (state_.space.page(index).holder != pool.index) added += state_.space.page_bytes(index);
  });
  return state_.space.held_by(pool.index) + added > pool.limit;
}

void Placer::occupy(Pool& pool, const Place& place) {
  state_.space.occupy(place.zone, place.run, pool.index);
  if (!pool.is_captured) return;
  state_.space.for_each_page(place.zone, place.run,
                             [&](PageIndex index) { state_.space.pin(index, pool.index); });
}

Placer::Served Placer::finish(const Request& request, Pool& pool, BlockRecord* block) {
  block->bytes = request.bytes;
  block->requested = request.requested;
  block->pool = pool.index;
  block->stream = request.stream;
  block->state = BlockState::kLive;
  block->context = SlowPathContext::current();
  block->birth = state_.age.moment();
  block->ticket = request.ticket;
  ++pool.live_count;
  pool.active_bytes += block->bytes;
  state_.counters.on_alloc(block->bytes, block->requested, block->span);
  limit_credits();
  state_.note_use(block->addr, block->bytes, block->stream, request.use);
  state_.emit(EventKind::kAlloc, state_.streams.lane(block->stream), block->addr.value,
              pack_sizes(block->requested, block->bytes), pool.record_index, block->context);
  return {Outcome::kServed, describe(*block, pool), {}};
}

Placer::Served Placer::finish_object(const Request& request, Pool& pool, SmallHeap::Object object) {
  const DeviceAddr addr = object.addr();
  if (object.slab->live_count == 1) object.slab->birth = state_.age.moment();
  ++pool.live_count;
  pool.active_bytes += request.bytes;
  state_.counters.on_alloc(request.bytes, request.requested, class_bytes(object.slab->size_class));
  state_.note_use(addr, request.bytes, request.stream, request.use);
  state_.emit(EventKind::kAlloc, state_.streams.lane(request.stream), addr.value,
              pack_sizes(request.requested, request.bytes), pool.record_index,
              SlowPathContext::current());
  return {Outcome::kServed,
          Block{addr, request.bytes, request.requested, state_.streams.id(request.stream), pool.id},
          {}};
}

// ---- Finding and taking back

struct Placer::Located {
  BlockRecord* block = nullptr;
  SmallHeap::Object object;  // slab is null unless it is an object
  bool is_none() const { return block == nullptr && object.slab == nullptr; }
};

Placer::Located Placer::locate(DeviceAddr addr) const {
  const GranuleEntry entry = state_.blocks.lookup(addr);
  if (!entry.is_chunk()) return Located{state_.blocks.block_at(addr), {}};
  const Chunk* chunk = entry.chunk();
  Slab* slab = chunk->slab_at(addr);
  if (slab == nullptr) {
    BlockRecord* range = chunk->range_slot(addr);
    return range != nullptr && range->addr == addr ? Located{range, {}} : Located{};
  }
  const std::uint32_t index = object_at(slab->size_class, addr - slab->base);
  if (index >= slab->object_count || slab->object(index) != addr) return {};
  if (slab->requested_of(index) == 0_B || slab->is_waiting(index)) return {};
  return Located{nullptr, SmallHeap::Object{slab, index}};
}

Result<Block> Placer::take_back(DeviceAddr addr, FreedObject* kind) {
  const Located found = locate(addr);
  if (found.object.slab != nullptr) {
    const Slab& slab = *found.object.slab;
    if (kind != nullptr && slab.chunk->pool == kDefaultPool) {
      *kind = {true, slab.size_class, slab.stream};
    }
    return take_back_object(addr, found.object);
  }
  if (found.block == nullptr) return StatusCode::kNotOwned;
  BlockRecord* block = found.block;
  if (block->state != BlockState::kLive) return StatusCode::kNotOwned;
  const Pool& pool = state_.pools[block->pool];
  const Block described = describe(*block, pool);
  state_.emit(EventKind::kFree, state_.streams.lane(block->stream), addr.value,
              pack_sizes(block->requested, block->bytes), pool.record_index, block->context);
  state_.note_use(addr, block->bytes, block->stream, UseKind::kGiveBack);
  state_.predictor.on_free(block->ticket);
  block->ticket = nullptr;
  if (block->uses.empty()) [[likely]] {
    state_.counters.on_return(block->bytes, block->requested, block->span);
    const Stamp own = state_.streams.stamp_now(block->stream);
    release_block(block, {&own, 1});
  } else {
    state_.counters.on_free(block->bytes);
    const base::SmallVector<StreamIndex, 2> uses = block->uses;
    start_waiting(block, uses);
  }
  return described;
}

Block Placer::take_back_object(DeviceAddr addr, SmallHeap::Object object) {
  Slab& slab = *object.slab;
  Pool& pool = state_.pools[slab.chunk->pool];
  const Bytes requested = slab.requested_of(object.index);
  const Bytes bytes = allocated_size(requested);
  const Block block{addr, bytes, requested, state_.streams.id(slab.stream), pool.id};
  state_.predictor.on_small_free();
  state_.emit(EventKind::kFree, state_.streams.lane(slab.stream), addr.value,
              pack_sizes(requested, bytes), pool.record_index);
  state_.note_use(addr, bytes, slab.stream, UseKind::kGiveBack);
  if (slab.is_used_elsewhere(object.index)) [[unlikely]] {
    state_.counters.on_free(bytes);
    const auto uses = state_.object_uses.find(addr);
    BlockRecord* waiting = state_.block_records.make();
    LEVEE_CHECK(waiting != nullptr, "no host memory for a block that waits");
    waiting->kind = BlockKind::kObject;
    waiting->addr = addr;
    waiting->bytes = bytes;
    waiting->requested = requested;
    waiting->span = class_bytes(slab.size_class);
    waiting->pool = pool.index;
    waiting->stream = slab.stream;
    waiting->zone = slab.chunk->zone;
    waiting->chunk = slab.chunk;
    slab.waiting_bits[object.index / 64] |= 1ULL << (object.index % 64);
    start_waiting(waiting, uses->second);
    state_.object_uses.erase(uses);
    return block;
  }
  state_.counters.on_return(bytes, requested, class_bytes(slab.size_class));
  --pool.live_count;
  pool.active_bytes -= bytes;
  if (Chunk* chunk = pool.small.free_object(object, state_.streams.stamp_now(slab.stream))) {
    give_back_chunk(pool, chunk);
  }
  if (pool.live_count == 0 && pool.is_released) [[unlikely]]
    bury_if_dead(pool);
  return block;
}

void Placer::start_waiting(BlockRecord* block, const base::SmallVector<StreamIndex, 2>& uses) {
  block->state = BlockState::kWaiting;
  block->freed = state_.streams.stamp_now(block->stream);
  block->pending.clear();
  if (!mutated(Mutant::kForgetUses)) {
    for (StreamIndex stream : uses) block->pending.add(state_.streams.stamp_now(stream));
  }
  if (block->pending.empty()) {
    complete(block, StampSet{});
    return;
  }
  if (block->kind == BlockKind::kLarge && is_affine(state_.pools[block->pool]) &&
      std::all_of(block->pending.begin(), block->pending.end(),
                  [&](Stamp stamp) { return stamp.stream() == state_.streams.main(); })) {
    // Nothing is gained by keeping it back: the main stream, which used it last, may have it at
    // once, and side streams look elsewhere until it is done.
    const StampSet pending = block->pending;
    complete(block, pending);
    return;
  }
  state_.waiting.add(block, state_.streams);
}

// Everything that `stamps` does not say is known to be done, the own stream excepted.
void Placer::complete(BlockRecord* block, const StampSet& stamps) {
  state_.emit(EventKind::kFreeCompleted, state_.streams.lane(block->stream), block->addr.value,
              pack_sizes(block->requested, block->bytes), state_.pools[block->pool].record_index);
  StampSet all = stamps;
  all.add(block->freed);
  state_.counters.on_idle(block->bytes, block->requested, block->span);
  release_block(block, all);
}

// Everything but the counters, which know already.
void Placer::release_block(BlockRecord* block, std::span<const Stamp> stamps) {
  Pool& pool = state_.pools[block->pool];
  --pool.live_count;
  pool.active_bytes -= block->bytes;
  switch (block->kind) {
    case BlockKind::kLarge:
    case BlockKind::kFragment: {
      state_.blocks.clear_block(block);
      const Zone& zone = state_.space.zone(block->zone);
      state_.space.vacate(block->zone, block->run(zone.base), stamps);
      break;
    }
    case BlockKind::kRange:
      if (Chunk* chunk = pool.small.free_range(block, stamps)) give_back_chunk(pool, chunk);
      break;
    case BlockKind::kObject: {
      Slab* slab = block->chunk->slab_at(block->addr);
      const std::uint32_t index = object_at(slab->size_class, block->addr - slab->base);
      slab->waiting_bits[index / 64] &= ~(1ULL << (index % 64));
      slab->set_used_elsewhere(index, false);
      const Stamp own = state_.streams.stamp_now(slab->stream);
      if (Chunk* chunk = pool.small.free_object({slab, index}, own)) give_back_chunk(pool, chunk);
      break;
    }
  }
  state_.block_records.destroy(block);
  if (pool.live_count == 0 && pool.is_released) [[unlikely]]
    bury_if_dead(pool);
}

Status Placer::record_use(DeviceAddr addr, StreamIndex stream) {
  Located found = locate(addr);
  if (found.is_none()) {
    // Inside a block rather than at its start.
    const std::optional<Block> block = find(addr);
    if (!block) return Status{StatusCode::kNotOwned, 0};
    found = locate(block->addr);
    if (found.is_none()) return Status{StatusCode::kNotOwned, 0};
    addr = block->addr;
  }
  Bytes bytes{};
  StreamIndex own;
  if (found.object.slab != nullptr) {
    Slab& slab = *found.object.slab;
    own = slab.stream;
    bytes = allocated_size(slab.requested_of(found.object.index));
    if (stream == own) return Status{};
    auto& uses = state_.object_uses[addr];
    if (std::find(uses.begin(), uses.end(), stream) == uses.end()) uses.push_back(stream);
    slab.set_used_elsewhere(found.object.index, true);
  } else {
    BlockRecord& block = *found.block;
    if (block.state != BlockState::kLive) return Status{StatusCode::kNotOwned, 0};
    own = block.stream;
    bytes = block.bytes;
    if (stream == own) return Status{};
    if (std::find(block.uses.begin(), block.uses.end(), stream) == block.uses.end()) {
      block.uses.push_back(stream);
    }
  }
  state_.note_use(addr, bytes, stream, UseKind::kShare);
  state_.emit(EventKind::kRecordUse, state_.streams.lane(stream), addr.value, 0);
  return Status{};
}

std::optional<Block> Placer::find(DeviceAddr addr) const {
  const GranuleEntry entry = state_.blocks.lookup(addr);
  if (!entry.is_chunk()) {
    const BlockRecord* block = state_.blocks.block_containing(addr);
    if (block == nullptr || block->state != BlockState::kLive) return std::nullopt;
    return describe(*block);
  }
  const Chunk* chunk = entry.chunk();
  if (Slab* slab = chunk->slab_at(addr)) {
    const std::uint32_t index = object_at(slab->size_class, addr - slab->base);
    if (index >= slab->object_count) return std::nullopt;
    const Located found = locate(slab->object(index));
    if (found.is_none()) return std::nullopt;
    const Bytes requested = slab->requested_of(index);
    return Block{slab->object(index), allocated_size(requested), requested,
                 state_.streams.id(slab->stream), state_.pools[chunk->pool].id};
  }
  // The range with the highest start at or below.
  for (std::size_t i = (addr - chunk->base).value >> 14;; --i) {
    const BlockRecord* range = chunk->range_at[i];
    if (range != nullptr && range->addr <= addr) {
      if (addr >= range->addr + range->span || range->state != BlockState::kLive) {
        return std::nullopt;
      }
      return describe(*range);
    }
    if (i == 0) return std::nullopt;
  }
}

// ---- Blocks that wait

void Placer::release_done(bool ask) {
  for (std::uint32_t i = 0; i < state_.waiting.stream_end(); ++i) {
    const StreamIndex stream{i};
    if (!state_.waiting.has(stream)) continue;
    if (ask) {
      // A failure leaves the blocks waiting, which is always right. The epoch is closed before the
      // stream is asked: one that is idle already frees them at the first look.
      const Result<bool> captures = state_.streams.is_capturing(stream);
      if (captures.ok() && !*captures) {
        const Status closed = state_.streams.ensure_closed(state_.waiting.newest(stream));
        static_cast<void>(closed);  // they wait on; the next look tries again
      }
      const Status polled = state_.streams.poll(stream);
      static_cast<void>(polled);  // likewise; what is known done by then is free
    }
    while (BlockRecord* block = state_.waiting.take_done(stream, state_.streams)) {
      complete(block, StampSet{});
    }
  }
}

void Placer::catch_up_with_requests() {
  std::uint64_t looks = 0;
  state_.caches.for_each([&](ThreadCache& cache) { looks += cache.looks(); });
  const bool any = state_.calls_until_poll != State::kPollEvery || looks != looks_caught_up_with_;
  looks_caught_up_with_ = looks;
  if (!any) return;
  state_.calls_until_poll = State::kPollEvery;
  release_done(/*ask=*/true);
}

Bytes Placer::release_with_waits(PoolIndex pool) {
  Bytes released{};
  while (BlockRecord* block = state_.waiting.take_if([&](const BlockRecord& b) {
    return b.pool == pool && b.kind != BlockKind::kObject;
  })) {
    released += block->bytes;
    const StampSet pending = block->pending;
    complete(block, pending);
  }
  return released;
}

void Placer::abandon_blocks() {
  while (BlockRecord* block = state_.waiting.take_if(
             [](const BlockRecord& b) { return b.kind == BlockKind::kObject; })) {
    state_.block_records.destroy(block);
  }
  std::vector<BlockRecord*> abandoned;
  for (std::uint32_t i = 0; i < state_.space.zone_end(); ++i) {
    if (!state_.space.is_zone(i)) continue;
    const Zone& zone = state_.space.zone(ZoneIndex{i});
    if (zone.slots.empty()) continue;
    state_.blocks.for_each(
        zone.base, state_.space.unit() * zone.slots.size(),
        [&](BlockRecord& block) { abandoned.push_back(&block); },
        [&](Chunk& chunk) {
          for (BlockRecord* range : chunk.range_at) {
            if (range != nullptr) abandoned.push_back(range);
          }
        });
  }
  for (BlockRecord* block : abandoned) state_.block_records.destroy(block);
}

// ---- Pools

void Placer::capture(Pool& pool) {
  pool.is_captured = true;
  for (std::uint32_t i = 0; i < state_.space.pages().end(); ++i) {
    const Page& page = state_.space.page(PageIndex{i});
    if (page.units == 0 || page.is_wholly_free()) continue;
    if (state_.space.zone(page.owner).pool == pool.index) {
      state_.space.pin(PageIndex{i}, pool.index);
    }
  }
}

void Placer::release(Pool& pool) {
  pool.is_released = true;
  if (pool.is_captured) {
    // Its graphs were launched on streams that nobody told us of, and may still run.
    const Stamp unknown = state_.streams.stamp_unknown();
    for (std::uint32_t i = 0; i < state_.space.pages().end(); ++i) {
      const Page& page = state_.space.page(PageIndex{i});
      if (page.units != 0 && page.pinned_to == pool.index) {
        state_.space.add_stamp(PageIndex{i}, unknown);
      }
    }
    for (Chunk* chunk : pool.small.chunks()) chunk->stamps.add(unknown);
    pool.is_captured = false;
    state_.space.unpin_all(pool.index);
  }
  bury_if_dead(pool);
}

void Placer::bury_if_dead(Pool& pool) {
  if (!pool.is_released || pool.live_count != 0) return;
  if (works_ > 0) {
    has_dead_ = true;
    return;
  }
  for (Chunk* chunk : pool.small.release_idle()) give_back_chunk(pool, chunk);
  Pool& heir = state_.pools.default_pool();
  const auto inherit = [&](ZoneIndex zone) {
    const ZoneRole role = state_.space.zone(zone).role;
    state_.space.move_zone(zone, heir.index, role == ZoneRole::kSegment ? role : ZoneRole::kAlias);
    heir.others.push_back(zone);
  };
  if (!pool.primary.is_none()) inherit(pool.primary);
  for (ZoneIndex zone : pool.others) inherit(zone);
  state_.space.change_holder(pool.index, heir.index);
  state_.pools.remove(pool.index);
}

void Placer::end_work() {
  if (--works_ > 0 || !std::exchange(has_dead_, false)) return;
  for (std::uint32_t i = 0; i < state_.pools.end(); ++i) {
    if (state_.pools.is_pool(i)) bury_if_dead(state_.pools[PoolIndex{i}]);
  }
}

bool Placer::place_exactly(const Exact& exact, PoolIndex pool) {
  return place_at(exact, pool, Order::kNeeded);
}

// The stream had these bytes a moment ago, so it is ordered behind everybody before.
void Placer::put_back(const Exact& exact, PoolIndex pool) {
  if (revive(exact, pool)) return;
  LEVEE_CHECK(place_at(exact, pool, Order::kHeld), "a block just taken back cannot be put back");
}

// A block that waits for other streams has kept its bytes, and its record its uses.
// What is restored is asked for as it once was.
Request Placer::request_of(const Exact& exact, PoolIndex pool_index) {
  Request request;
  request.requested = exact.requested;
  request.bytes = exact.bytes;
  request.stream = exact.stream;
  request.pool = pool_index;
  request.use = UseKind::kRestore;
  return request;
}

bool Placer::revive(const Exact& exact, PoolIndex pool_index) {
  BlockRecord* block =
      state_.waiting.take_if([&](const BlockRecord& b) { return b.addr == exact.addr; });
  if (block == nullptr) return false;
  Pool& pool = state_.pools[pool_index];
  state_.emit(EventKind::kFreeCompleted, state_.streams.lane(block->stream), block->addr.value,
              pack_sizes(block->requested, block->bytes), pool.record_index);
  state_.counters.on_idle(block->bytes, block->requested, block->span);
  --pool.live_count;
  pool.active_bytes -= block->bytes;
  const StampSet pending = block->pending;
  block->pending.clear();
  const Request request = request_of(exact, pool_index);
  if (exact.kind == BlockKind::kObject) {
    Slab* slab = block->chunk->slab_at(block->addr);
    const std::uint32_t index = object_at(slab->size_class, block->addr - slab->base);
    slab->waiting_bits[index / 64] &= ~(1ULL << (index % 64));
    slab->set_used_elsewhere(index, false);
    state_.block_records.destroy(block);
    finish_object(request, pool, {slab, index});
  } else {
    block->uses.clear();
    finish(request, pool, block);
  }
  for (Stamp stamp : pending) {
    const Status used = record_use(exact.addr, stamp.stream());
    LEVEE_CHECK(used.ok(), "a block that is live again has no uses");
  }
  return true;
}

bool Placer::place_at(const Exact& exact, PoolIndex pool_index, Order order_of_streams) {
  Pool& pool = state_.pools[pool_index];
  // Memory of a pool that was not captured may have been given back meanwhile: a zone that is gone
  // is no pool's.
  const Zone& zone = state_.space.zone(exact.zone);
  if (zone.pool != pool_index || !zone.holds(exact.addr)) return false;
  const Request request = request_of(exact, pool_index);
  const bool is_ordered = order_of_streams == Order::kHeld;
  const auto order_after = [&](const auto& stamps) {
    return is_ordered || order(exact.stream, exact.bytes, [&](auto&& visit) {
                           for (Stamp stamp : stamps) visit(stamp);
                         }).ok();
  };
  if (exact.kind == BlockKind::kLarge || exact.kind == BlockKind::kFragment) {
    const Place place{exact.zone, Run{zone.offset(exact.addr), exact.span}};
    if (!zone.runs.contains(place.run)) return false;
    return serve_place(request, pool, place, exact.kind, exact.span, order_of_streams).outcome ==
           Outcome::kServed;
  }
  // Small: the chunk may have gone back meanwhile.
  const Bytes chunk_offset = round_down(zone.offset(exact.addr), kChunkBytes);
  const DeviceAddr chunk_base = zone.address(chunk_offset);
  GranuleEntry entry = state_.blocks.lookup(chunk_base);
  if (!entry.is_chunk()) {
    const Place place{exact.zone, Run{chunk_offset, kChunkBytes}};
    if (!zone.runs.contains(place.run)) return false;
    if (!is_ordered && exceeds_limit(pool, place)) return false;
    StampSet before;
    state_.space.for_each_stamp(place.zone, place.run, [&](Stamp stamp) {
      if (!state_.streams.is_complete(stamp)) before.add(stamp);
    });
    if (!order_after(before)) return false;
    Chunk* fresh =
        pool.small.add_chunk(chunk_base, exact.zone, chunk_offset, pool_index, exact.stream);
    if (fresh == nullptr) return false;
    // As in `take_chunk`: other streams are not ordered behind those who used the page.
    fresh->stamps.add_all(before);
    occupy(pool, place);
    state_.blocks.set_chunk(chunk_base, fresh);
    state_.counters.on_small_chunk(/*taken=*/true);
    entry = state_.blocks.lookup(chunk_base);
  }
  Chunk* chunk = entry.chunk();
  if (!order_after(chunk->stamps)) return false;
  if (exact.kind == BlockKind::kObject) {
    const SizeClass size_class = class_of(exact.bytes);
    if (!pool.small.take_object_at(chunk, exact.addr, size_class, exact.stream, exact.requested)) {
      return false;
    }
    Slab* slab = chunk->slab_at(exact.addr);
    finish_object(request, pool, {slab, object_at(size_class, exact.addr - slab->base)});
    return true;
  }
  BlockRecord* block = state_.block_records.make();
  if (block == nullptr) return false;
  block->kind = BlockKind::kRange;
  block->addr = exact.addr;
  block->span = exact.span;
  block->zone = exact.zone;
  if (!pool.small.take_range_at(chunk, block)) {
    state_.block_records.destroy(block);
    return false;
  }
  finish(request, pool, block);
  return true;
}

}  // namespace levee::core
