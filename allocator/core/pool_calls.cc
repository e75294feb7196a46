// The part of `DeviceAllocator` that concerns private pools: regions, use counts, settings.
//
// Which filters may call CUDA: the filter of a graph's region asks the driver whether its stream
// captures, so filters run with no lock held, on a list that is replaced and never changed.

#include <algorithm>

#include "allocator/core/checkpoint.h"
#include "allocator/core/device_allocator.h"

namespace levee::core {

Result<DeviceAllocator::Route> DeviceAllocator::route_slow(StreamId stream) {
  State& state = *state_;
  std::shared_ptr<const RegionList> regions;
  {
    PoolGuard guard(state);
    regions = state.regions;
  }
  Route route;
  for (auto region = regions->rbegin(); region != regions->rend(); ++region) {
    if (!region->accepts || region->accepts(stream)) {
      route.pool = region->pool;
      break;
    }
  }
  if (route.pool.is_default()) return route;
  if (stream.value > 1) {  // CUDA does not capture the legacy stream, by neither of its names
    const Result<device::CaptureInfo> info = state.device.capture_info(stream);
    if (info.code() == StatusCode::kDeviceLost) return info.status();
    // Neither answer may be assumed. A refusal without a report must not look like one for memory.
    if (!info.ok()) return Status{StatusCode::kInternal, info.status().native_code};
    route.is_capturing = info->status == device::CaptureStatus::kActive;
  }
  return route;
}

Status DeviceAllocator::change_pool(PoolId id, const std::function<Status(Pool&)>& change) {
  PoolGuard guard(*state_);
  Pool* pool = state_->pools.find(id);
  if (pool == nullptr) return Status{StatusCode::kInvalidArgument, 0};
  return change(*pool);
}

Pool& DeviceAllocator::retain(PoolId id) {
  State& state = *state_;
  const bool is_known = state.pools.find(id) != nullptr;
  Pool& pool = state.pools.find_or_add(id, state.pools.default_pool().backing);
  if (!is_known && state.recorder != nullptr) pool.record_index = state.recorder->intern_pool(id);
  pool.is_released = false;
  ++pool.use_count;
  return pool;
}

Status DeviceAllocator::create_or_retain_pool(PoolId id) {
  if (id.is_default()) return Status{StatusCode::kInvalidArgument, 0};
  PoolGuard guard(*state_);
  retain(id);
  return Status{};
}

Status DeviceAllocator::begin_allocate_to_pool(PoolId id, std::function<bool(StreamId)> filter) {
  if (id.is_default()) return Status{StatusCode::kInvalidArgument, 0};
  PoolGuard guard(*state_);
  retain(id);
  auto regions = std::make_shared<RegionList>(*state_->regions);
  regions->push_back(Region{id, std::move(filter)});
  state_->regions = std::move(regions);
  state_->has_regions.store(true, std::memory_order_release);
  state_->update_cache_use();
  return Status{};
}

// The use that `begin` took stays with the pool until `release_pool`: the graph or MemPool that
// asked for the region gives it back.
Status DeviceAllocator::end_allocate_to_pool(PoolId id) {
  PoolGuard guard(*state_);
  auto regions = std::make_shared<RegionList>(*state_->regions);
  const auto innermost = std::find_if(regions->rbegin(), regions->rend(),
                                      [&](const Region& r) { return r.pool == id; });
  if (innermost == regions->rend()) return Status{StatusCode::kInvalidArgument, 0};
  regions->erase(std::next(innermost).base());
  state_->has_regions.store(!regions->empty(), std::memory_order_release);
  state_->update_cache_use();
  state_->regions = std::move(regions);
  return Status{};
}

void DeviceAllocator::expect_stream(StreamId stream) {
  PoolGuard guard(*state_);
  state_->stream_index(stream);
}

Status DeviceAllocator::release_pool(PoolId id) {
  return change_pool(id, [&](Pool& pool) {
    if (!pool.is_private() || pool.use_count == 0) return Status{StatusCode::kInvalidArgument, 0};
    if (--pool.use_count > 0) return Status{};
    // Its settings were the last user's. Blocks may keep the pool itself, for whoever asks for this
    // id again.
    pool.limit = Bytes{};
    pool.serves_others_on_oom = false;
    pool.is_unsplit = false;
    placer_.release(pool);
    return Status{};
  });
}

int DeviceAllocator::pool_use_count(PoolId id) const {
  PoolGuard guard(*state_);
  const Pool* pool = state_->pools.find(id);
  return pool == nullptr ? 0 : pool->use_count;
}

Status DeviceAllocator::set_pool_limit(PoolId id, Bytes limit) {
  return change_pool(id, [&](Pool& pool) {
    pool.limit = limit;
    return Status{};
  });
}

Status DeviceAllocator::set_pool_use_on_oom(PoolId id, bool use) {
  return change_pool(id, [&](Pool& pool) {
    pool.serves_others_on_oom = use;
    return Status{};
  });
}

Status DeviceAllocator::set_pool_no_split(PoolId id) {
  return change_pool(id, [&](Pool& pool) {
    pool.is_unsplit = true;
    state_->update_cache_use();
    return Status{};
  });
}

Status DeviceAllocator::set_pool_backing(PoolId id, Backing backing) {
  return change_pool(id, [&](Pool& pool) {
    if (backing == Backing::kAuto) backing = state_->pools.default_pool().backing;
    if (backing == Backing::kPages && !state_->device.capabilities().has_vmm) {
      return Status{StatusCode::kUnsupported, 0};
    }
    pool.backing = backing;
    return Status{};
  });
}

bool DeviceAllocator::pool_has_exactly(PoolId id, std::span<const DeviceAddr> expected) const {
  PoolGuard guard(*state_);
  const Pool* pool = state_->pools.find(id);
  if (pool == nullptr) return expected.empty();
  const Placer::CachesHeld held(placer_);
  std::vector<DeviceAddr> live;
  for (const Placer::Exact& block : live_blocks(*state_, pool->index)) live.push_back(block.addr);
  std::vector<DeviceAddr> wanted(expected.begin(), expected.end());
  std::sort(live.begin(), live.end());
  std::sort(wanted.begin(), wanted.end());
  return live == wanted;
}

Result<std::shared_ptr<PoolCheckpoint>> DeviceAllocator::checkpoint_pool(PoolId id) {
  PoolGuard guard(*state_);
  const Pool* pool = state_->pools.find(id);
  if (pool == nullptr) return StatusCode::kInvalidArgument;
  const Placer::CachesHeld held(placer_);
  return std::shared_ptr<PoolCheckpoint>(
      std::make_shared<BlockCheckpoint>(id, live_blocks(*state_, pool->index)));
}

Result<CheckpointDelta> DeviceAllocator::restore_pool(PoolId id, const PoolCheckpoint& checkpoint) {
  const auto* blocks = dynamic_cast<const BlockCheckpoint*>(&checkpoint);
  if (blocks == nullptr || blocks->pool() != id) return StatusCode::kInvalidArgument;
  PoolGuard guard(*state_);
  Pool* pool = state_->pools.find(id);
  // A released pool ends with its last block, which may be in the middle of it.
  if (pool == nullptr || pool->is_released) return StatusCode::kInvalidArgument;
  placer_.drain_caches();
  const Placer::CachesHeld held(placer_);
  return restore_blocks(*state_, placer_, *pool, *blocks);
}

}  // namespace levee::core
