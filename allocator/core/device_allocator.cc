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
      slow_path_(*state_, placer_, pages_) {}

DeviceAllocator::~DeviceAllocator() {
  base::MutexLock growth(state_->growth_mutex);
  PoolGuard guard(*state_);
  placer_.abandon_blocks();
  pages_.tear_down(guard);
}

// ---- The hot pair

Result<Block> DeviceAllocator::allocate(Bytes requested, StreamId stream, OomReport* report) {
  if (state_->config.record_stacks) [[unlikely]] {
    return allocate_with_stack_slow(requested, stream, report);
  }
  return allocate_here(requested, stream, report);
}

// The stack is asked for with no lock held; every event of the request then carries it.
Result<Block> DeviceAllocator::allocate_with_stack_slow(Bytes requested, StreamId stream,
                                                        OomReport* report) {
  std::shared_ptr<const AllocatorHooks> hooks;
  {
    PoolGuard guard(*state_);
    hooks = state_->hooks;
  }
  const SlowPathContext context(hooks->capture_context ? hooks->capture_context() : ContextId{});
  return allocate_here(requested, stream, report);
}

Result<Block> DeviceAllocator::allocate_here(Bytes requested, StreamId stream, OomReport* report) {
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
  request.pool = route.pool;
  request.is_capturing = route.is_capturing;
  {
    PoolGuard guard(state);
    request.stream = state.stream_index(stream);
    placer_.tick();
    guess(request);
    const Placer::Served served = placer_.serve(request);
    if (served.outcome == Placer::Outcome::kServed) return served.block;
  }
  Result<Block> result = slow_path_.serve(request, report);
  if (!result.ok() && request.ticket != nullptr) {
    PoolGuard guard(state);
    state.predictor.drop(request.ticket);
  }
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
  request.lifetime = guess.lifetime;
  request.ticket = guess.ticket;
}

Result<Block> DeviceAllocator::free(DeviceAddr addr) {
  PoolGuard guard(*state_);
  return placer_.take_back(addr);
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
  return current_stats(*state_);
}

void DeviceAllocator::reset_peak_stats() {
  PoolGuard guard(*state_);
  state_->counters.reset_peaks();
}

void DeviceAllocator::reset_accumulated_stats() {
  PoolGuard guard(*state_);
  state_->counters.reset_accumulated();
}

Snapshot DeviceAllocator::snapshot() const {
  PoolGuard guard(*state_);
  return make_snapshot(*state_, PoolIndex{});
}

Snapshot DeviceAllocator::snapshot(PoolId id) const {
  PoolGuard guard(*state_);
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
  return trim_to(*state_, placer_, pages_, guard, PoolIndex{}, keep);
}

Result<Bytes> DeviceAllocator::trim_pool(PoolId id) {
  base::MutexLock growth(state_->growth_mutex);
  PoolGuard guard(*state_);
  const Pool* pool = state_->pools.find(id);
  if (pool == nullptr) return 0_B;
  return trim_to(*state_, placer_, pages_, guard, pool->index, 0_B);
}

// ---- Advice

void DeviceAllocator::mark_step() {
  PoolGuard guard(*state_);
  state_->age.begin_step();
  if (state_->config.predict) state_->predictor.begin_step();
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
  validate_state(*state_);
}

}  // namespace levee::core
