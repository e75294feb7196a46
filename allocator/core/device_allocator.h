// The allocator of one device: the public interface over the State and its parts.
//
// Takes the locks and routes: the fast attempt first, under the pool mutex alone; then, with no
// lock held, whatever the slow path needs from outside (the filters of regions, the context hook);
// then the slow path under the growth mutex. Small blocks of the default pool go through the
// calling thread's cache first, with no lock at all. Owns the State. Promises: those of
// allocator.h.
#pragma once

#include <memory>

#include <levee/allocator.h>

#include "allocator/core/page_work.h"
#include "allocator/core/placer.h"
#include "allocator/core/slow_path.h"
#include "allocator/core/state.h"

namespace levee::core {

class DeviceAllocator final : public Allocator {
 public:
  DeviceAllocator(device::Device& device, const Config& config, record::Recorder* recorder);
  ~DeviceAllocator() override;

  DeviceId device() const override { return state_->device.id(); }

  Result<Block> allocate(Bytes requested, StreamId stream, OomReport* report) override;
  Result<Block> free(DeviceAddr addr) override;
  Status record_use(DeviceAddr addr, StreamId stream) override;

  Result<Block> find(DeviceAddr addr) const override;
  Result<Block> base_allocation(DeviceAddr addr) const override;
  bool owns(DeviceAddr addr) const override { return !state_->blocks.zone_of(addr).is_none(); }
  Stats stats() const override;
  void reset_peak_stats() override;
  void reset_accumulated_stats() override;
  Snapshot snapshot() const override;
  Snapshot snapshot(PoolId pool) const override;
  CacheInfo cache_info() const override;

  void set_limit(Bytes limit) override;
  Bytes limit() const override;
  Result<Bytes> trim(Bytes keep) override;
  Result<Bytes> trim_pool(PoolId pool) override;

  Status create_or_retain_pool(PoolId pool) override;
  Status begin_allocate_to_pool(PoolId pool, std::function<bool(StreamId)> filter) override;
  Status end_allocate_to_pool(PoolId pool) override;
  void expect_stream(StreamId stream) override;
  Status release_pool(PoolId pool) override;
  int pool_use_count(PoolId pool) const override;
  Status set_pool_limit(PoolId pool, Bytes limit) override;
  Status set_pool_use_on_oom(PoolId pool, bool use) override;
  Status set_pool_no_split(PoolId pool) override;
  Status set_pool_backing(PoolId pool, Backing backing) override;
  bool pool_has_exactly(PoolId pool, std::span<const DeviceAddr> expected) const override;
  Result<std::shared_ptr<PoolCheckpoint>> checkpoint_pool(PoolId pool) override;
  Result<CheckpointDelta> restore_pool(PoolId pool, const PoolCheckpoint& checkpoint) override;

  void mark_step() override;
  void set_hooks(AllocatorHooks hooks) override;
  void validate() const override;

 private:
  Result<Block> allocate_shared(Bytes requested, StreamId stream, OomReport* report);
  Result<Block> free_shared(DeviceAddr addr);
  /// From the calling thread's cache; false if that cannot serve.
  bool allocate_cached(Bytes requested, StreamId stream, Block* block);
  bool free_cached(DeviceAddr addr, Block* block);
  /// The calling thread's cache, or null. Called with the pool lock held.
  ThreadCache* my_cache() {
    ThreadCache* cache = nullptr;
    return state_->caches.find_mine(&cache) ? cache : claim_cache_slow();
  }
  LEVEE_SLOW_PATH ThreadCache* claim_cache_slow();
  LEVEE_SLOW_PATH void fold_slow();
  Result<Block> allocate_with_stack_slow(Bytes requested, StreamId stream, OomReport* report);
  /// Where a request goes while regions are open: evaluates filters with no lock held.
  struct Route {
    PoolId pool;
    bool is_capturing = false;
  };
  Result<Route> route_slow(StreamId stream);
  /// Adds the request to the history and asks how long a large block will live. Called with the
  /// pool lock held.
  void guess(Request& request);
  /// One more use of the pool, which comes to life with the first. Called with the pool lock held.
  Pool& retain(PoolId id);
  Status change_pool(PoolId id, const std::function<Status(Pool&)>& change);

  const std::unique_ptr<State> state_;
  // Work on the State; `const` questions take the lock and change nothing.
  mutable Placer placer_;
  PageWork pages_;
  SlowPath slow_path_;
};

}  // namespace levee::core
