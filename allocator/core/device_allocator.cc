#include "allocator/core/device_allocator.h"

#include <algorithm>

#include "allocator/core/reports.h"
#include "allocator/core/trim.h"
#include "allocator/core/validate.h"

namespace levee::core {

DeviceAllocator::DeviceAllocator(device::Device& device, const Config& config,
                                 record::Recorder* recorder)
    : state_(std::make_unique<State>(device, config, recorder)),
      placer_(*state_),
      pages_(*state_),
      slow_path_(*state_, placer_, pages_) {
  state_->caches.open([this](std::uint64_t thread) {
    PoolGuard guard(*state_);
    placer_.retire_caches(thread);
  });
}

DeviceAllocator::~DeviceAllocator() {
  state_->caches.close();
  base::MutexLock growth(state_->growth_mutex);
  PoolGuard guard(*state_);
  placer_.abandon_blocks();
  pages_.tear_down(guard);
}

// ---- The hot pair: the calling thread's cache

LEVEE_ALWAYS_INLINE bool DeviceAllocator::allocate_cached(Bytes requested, StreamId stream,
                                                          Block* block) {
  State& state = *state_;
  ThreadCache* cache = nullptr;
  const CacheUse use = state.cache_use.load(std::memory_order_acquire);
  if (use == CacheUse::kNever || !state.caches.find_mine(&cache) || cache == nullptr ||
      (use == CacheUse::kMostly && cache->is_look_due(State::kPollEvery)) || !cache->enter())
      [[unlikely]] {
    return false;
  }
  const Bytes bytes = allocated_size(requested);
  const SizeClass c = class_of(bytes);
  ThreadCache::Shelf* shelf = cache->shelf_of(stream);
  if (shelf == nullptr || shelf->count[c.value] == 0) [[unlikely]] {
    cache->leave();
    return false;
  }
  DeviceAddr addr;
  const bool is_over_credit = cache->hand_out(*shelf, c, requested, bytes, &addr);
  const LaneId lane = shelf->lane;
  cache->leave();
  if (state.is_judging) [[unlikely]] {
    state.device.note_use(addr, bytes, stream, device::UseKind::kHandOut);
  }
  if (state.is_recording()) {
    state.recorder->record(EventKind::kAlloc, lane, addr.value, pack_sizes(requested, bytes));
  }
  if (is_over_credit) [[unlikely]]
    fold_slow();
  *block = Block{addr, bytes, requested, stream, PoolId{}};
  return true;
}

Result<Block> DeviceAllocator::allocate(Bytes requested, StreamId stream, OomReport* report) {
  // 0 wraps around and is none of the small ones.
  if (requested.value - 1 < kSlabLimit.value) [[likely]] {
    Block block;
    if (allocate_cached(requested, stream, &block)) [[likely]]
      return block;
  }
  if (state_->config.record_stacks) [[unlikely]] {
    return allocate_with_stack_slow(requested, stream, report);
  }
  return allocate_shared(requested, stream, report);
}

// What is read of the block's chunk and slab stays while the block is live. For an address that is
// no live block the answer may be any, but "cached" only if a slab says that somebody has it; all
// else goes to the shared way, which knows. Two threads that give the same block back at once are
// not told apart.
LEVEE_ALWAYS_INLINE bool DeviceAllocator::free_cached(DeviceAddr addr, Block* block) {
  State& state = *state_;
  const GranuleEntry entry = state.blocks.lookup(addr);
  if (!entry.is_chunk()) return false;
  const Chunk& chunk = *entry.chunk();
  Slab* slab = chunk.slab_at(addr);
  if (slab == nullptr || chunk.pool != kDefaultPool) return false;
  const SizeClass c = slab->size_class;
  const std::uint32_t index = object_at(c, addr - slab->base);
  if (index >= slab->object_count || slab->object(index) != addr) [[unlikely]]
    return false;
  const Bytes requested = slab->requested_of(index);
  ThreadCache* cache = nullptr;
  if (requested == 0_B || slab->is_used_elsewhere(index) || !state.caches.find_mine(&cache) ||
      cache == nullptr || !cache->enter()) [[unlikely]] {
    return false;
  }
  ThreadCache::Shelf* shelf = cache->shelf_of(slab->stream);
  if (shelf == nullptr || shelf->count[c.value] == ThreadCache::capacity(c)) [[unlikely]] {
    cache->leave();
    return false;
  }
  const Bytes bytes = allocated_size(requested);
  const StreamId stream = shelf->id;
  // Before anybody can have it again.
  if (state.is_recording()) {
    state.recorder->record(EventKind::kFree, shelf->lane, addr.value, pack_sizes(requested, bytes));
  }
  if (state.is_judging) [[unlikely]] {
    state.device.note_use(addr, bytes, stream, device::UseKind::kGiveBack);
  }
  cache->put_back(*shelf, c, {addr, &slab->requested[index]}, requested, bytes);
  cache->leave();
  *block = Block{addr, bytes, requested, stream, PoolId{}};
  return true;
}

Result<Block> DeviceAllocator::free(DeviceAddr addr) {
  Block block;
  if (free_cached(addr, &block)) [[likely]]
    return block;
  return free_shared(addr);
}

ThreadCache* DeviceAllocator::claim_cache_slow() {
  ThreadCache* cache = state_->caches.claim_locked();
  if (cache != nullptr) {
    cache->set_listens(state_->config.predict && state_->predictor.is_on());
    cache->end_turn();  // its first hit takes it
  }
  return cache;
}

void DeviceAllocator::fold_slow() {
  PoolGuard guard(*state_);
  placer_.fold_caches();
}

// ---- The hot pair: what all threads share

// The stack is asked for with no lock held; every event of the request then carries it.
Result<Block> DeviceAllocator::allocate_with_stack_slow(Bytes requested, StreamId stream,
                                                        OomReport* report) {
  std::shared_ptr<const AllocatorHooks> hooks;
  {
    PoolGuard guard(*state_);
    hooks = state_->hooks;
  }
  const SlowPathContext context(hooks->capture_context ? hooks->capture_context() : ContextId{});
  return allocate_shared(requested, stream, report);
}

Result<Block> DeviceAllocator::allocate_shared(Bytes requested, StreamId stream,
                                               OomReport* report) {
  if (requested.value == 0) return StatusCode::kInvalidArgument;
  State& state = *state_;
  Request request;
  request.requested = requested;
  // More than any device has: no arithmetic on it, but it takes the same way to its report.
  request.bytes = allocated_size(std::min(requested, kLargestRequest));
  Route route;
  if (state.has_regions.load(std::memory_order_acquire)) [[unlikely]] {
    const Result<Route> routed = route_slow(stream);
    if (!routed.ok()) return routed.status();
    route = *routed;
  }
  request.is_capturing = route.is_capturing;
  {
    PoolGuard guard(state);
    if (!route.pool.is_default()) [[unlikely]] {
      // Gone since it was asked for: the request is as good as one that came later.
      if (const Pool* pool = state.pools.find(route.pool)) request.pool = pool->index;
    }
    placer_.fold_caches();
    request.stream = state.stream_index(stream);
    ThreadCache* cache = state.caches.mine();
    placer_.tick(cache == nullptr ? 1 : 1 + cache->take_looks());
    state.update_cache_use();
    guess(request);
    Placer::Served served = placer_.serve(request);
    // What thread caches hold gives way before anything is called a miss.
    if (served.outcome == Placer::Outcome::kMiss && placer_.drain_caches() > 0_B) {
      served = placer_.serve(request);
    }
    if (served.outcome == Placer::Outcome::kServed) {
      if (is_slab_size(request.bytes) &&
          state.cache_use.load(std::memory_order_relaxed) != CacheUse::kNever) {
        cache = my_cache();
        if (cache != nullptr) {
          placer_.fill_cache(*cache, class_of(request.bytes), request.stream);
        }
      }
      return served.block;
    }
    placer_.begin_work();  // the pool stays, although the lock is left
  }
  // Also if a callback throws: else no pool would ever go again.
  class WorkEnd {
   public:
    WorkEnd(State& of, Placer& placer, Predictor::Ticket* ticket)
        : state_(of), placer_(placer), ticket_(ticket) {}
    ~WorkEnd() {
      PoolGuard guard(state_);
      placer_.end_work();
      if (!is_served && ticket_ != nullptr) state_.predictor.drop(ticket_);
    }
    WorkEnd(const WorkEnd&) = delete;
    WorkEnd& operator=(const WorkEnd&) = delete;

    bool is_served = false;

   private:
    State& state_;
    Placer& placer_;
    Predictor::Ticket* const ticket_;
  };
  WorkEnd end(state, placer_, request.ticket);
  Result<Block> result = slow_path_.serve(request, report);
  end.is_served = result.ok();
  return result;
}

void DeviceAllocator::guess(Request& request) {
  State& state = *state_;
  if (request.is_small()) {
    state.predictor.on_small_request(request.bytes);
    return;
  }
  state.age.pass_bytes(request.bytes.value, state.counters.peak_active().value);
  if (!state.config.predict) return;
  const Predictor::Guess guess = state.predictor.on_request(request.bytes);
  // Where the guard is on, nothing that was seen tells what comes.
  request.lifetime = state.guard.is_on() ? Lifetime::kLong : guess.lifetime;
  // Blocks of side streams cut long runs up anyway, and short ones are what their memory comes back
  // in: there it was measured to cost more mapping than it saves.
  if (request.lifetime == Lifetime::kBrief && state.streams.has_several()) {
    request.lifetime = Lifetime::kShort;
  }
  request.ticket = guess.ticket;
}

Result<Block> DeviceAllocator::free_shared(DeviceAddr addr) {
  PoolGuard guard(*state_);
  placer_.fold_caches();
  Placer::FreedObject kind;
  const Result<Block> freed = placer_.take_back(addr, &kind);
  state_->update_cache_use();
  if (kind.is_cacheable) {
    // The next one of its kind finds room, or a place at all.
    if (ThreadCache* cache = my_cache()) {
      placer_.relieve_cache(*cache, kind.size_class, kind.stream);
    }
  }
  return freed;
}

Status DeviceAllocator::record_use(DeviceAddr addr, StreamId stream) {
  PoolGuard guard(*state_);
  return placer_.record_use(addr, state_->stream_index(stream));
}

// ---- Questions

Result<Block> DeviceAllocator::find(DeviceAddr addr) const {
  PoolGuard guard(*state_);
  const std::optional<Block> block = placer_.find(addr);
  if (!block) return StatusCode::kNotOwned;
  return *block;
}

Result<Block> DeviceAllocator::base_allocation(DeviceAddr addr) const {
  PoolGuard guard(*state_);
  const ZoneIndex index = state_->blocks.zone_of(addr);
  if (index.is_none()) return StatusCode::kNotOwned;
  const Zone& zone = state_->space.zone(index);
  if (zone.role != ZoneRole::kSegment) return StatusCode::kUnsupported;
  return Block{zone.allocation, zone.allocation_bytes, zone.allocation_bytes, StreamId{},
               state_->pools[zone.pool].id};
}

Stats DeviceAllocator::stats() const {
  PoolGuard guard(*state_);
  const Placer::CachesHeld held(placer_);
  placer_.catch_up_with_requests();
  return current_stats(*state_);
}

void DeviceAllocator::reset_peak_stats() {
  PoolGuard guard(*state_);
  const Placer::CachesHeld held(placer_);
  state_->counters.reset_peaks();
  placer_.limit_credits();
}

void DeviceAllocator::reset_accumulated_stats() {
  PoolGuard guard(*state_);
  const Placer::CachesHeld held(placer_);
  state_->counters.reset_accumulated();
}

Snapshot DeviceAllocator::snapshot() const {
  PoolGuard guard(*state_);
  const Placer::CachesHeld held(placer_);
  return make_snapshot(*state_, PoolIndex{});
}

Snapshot DeviceAllocator::snapshot(PoolId id) const {
  PoolGuard guard(*state_);
  const Placer::CachesHeld held(placer_);
  const Pool* pool = state_->pools.find(id);
  if (pool == nullptr) return Snapshot{state_->device.id(), {}, current_stats(*state_)};
  return make_snapshot(*state_, pool->index);
}

CacheInfo DeviceAllocator::cache_info() const {
  PoolGuard guard(*state_);
  const Bytes longest = longest_run(state_->space, state_->pools.default_pool().scope());
  // A stitch brings all wholly free pages together without growth.
  const Bytes stitched = state_->stitcher->mode() == StitchMode::kNone
                             ? 0_B
                             : state_->space.unit() * state_->space.lendable_units();
  return CacheInfo{std::max(longest, stitched)};
}

// ---- Limits and giving back

void DeviceAllocator::set_limit(Bytes limit) {
  PoolGuard guard(*state_);
  state_->limits.process = limit;
  state_->counters.stats().limit_bytes = static_cast<std::int64_t>(limit.value);
  state_->emit(EventKind::kLimit, LaneId{}, limit.value, 0);
}

Bytes DeviceAllocator::limit() const {
  PoolGuard guard(*state_);
  return state_->limits.process;
}

Result<Bytes> DeviceAllocator::trim(Bytes keep) {
  base::MutexLock growth(state_->growth_mutex);
  PoolGuard guard(*state_);
  const Placer::Work work(placer_);
  return trim_to(*state_, placer_, pages_, guard, PoolIndex{}, keep);
}

Result<Bytes> DeviceAllocator::trim_pool(PoolId id) {
  base::MutexLock growth(state_->growth_mutex);
  PoolGuard guard(*state_);
  const Pool* pool = state_->pools.find(id);
  if (pool == nullptr) return 0_B;
  const Placer::Work work(placer_);
  return trim_to(*state_, placer_, pages_, guard, pool->index, 0_B);
}

// ---- Advice

void DeviceAllocator::mark_step() {
  PoolGuard guard(*state_);
  placer_.fold_caches();
  state_->age.begin_step();
  if (state_->config.predict) {
    state_->predictor.begin_step();
    state_->caches.for_each([](ThreadCache& cache) { cache.set_listens(true); });
  }
  ++state_->counters.stats().num_steps;
  state_->emit_counters();
}

void DeviceAllocator::set_hooks(AllocatorHooks hooks) {
  auto shared = std::make_shared<const AllocatorHooks>(std::move(hooks));
  PoolGuard guard(*state_);
  state_->hooks = std::move(shared);
}

void DeviceAllocator::validate() const {
  base::MutexLock growth(state_->growth_mutex);
  PoolGuard guard(*state_);
  const Placer::CachesHeld held(placer_);
  validate_state(*state_);
}

}  // namespace levee::core
