// Private pools of the main door: CUDA graphs, their trees, MemPool. Each call maps onto one of the
// allocator's; what PyTorch expects beyond it is said where it is done.

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <span>
#include <utility>

#include "torch_plugin/torch_allocator.h"
#include "torch_plugin/torch_convert.h"

namespace levee::torch_plugin {
namespace {

struct PoolState final : cca::AllocatorState {
  PoolState(PoolId pool_, std::shared_ptr<PoolCheckpoint> checkpoint_)
      : pool(pool_), checkpoint(std::move(checkpoint_)) {}
  PoolId pool;
  std::shared_ptr<PoolCheckpoint> checkpoint;
};

std::vector<DeviceAddr> live_blocks(const Snapshot& snapshot) {
  std::vector<DeviceAddr> live;
  for (const SnapshotSegment& segment : snapshot.segments) {
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state == BlockState::kLive) live.push_back(block.addr);
    }
  }
  std::sort(live.begin(), live.end());
  return live;
}

}  // namespace

void TorchAllocator::beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t mempool_id,
                                         std::function<bool(cudaStream_t)> filter) {
  levee::Allocator& allocator = allocator_of(device);
  require(allocator.begin_allocate_to_pool(
              id_of(mempool_id),
              [filter = std::move(filter)](StreamId stream) { return filter(stream_of(stream)); }),
          "beginAllocateToPool");
  // A graph's capture begins on the current stream next.
  allocator.expect_stream(id_of(c10::cuda::getCurrentCUDAStream(device).stream()));
  const std::lock_guard lock(mutex_);
  private_pools_[{device, mempool_id}].is_gone = false;
}

void TorchAllocator::endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t mempool_id) {
  require(allocator_of(device).end_allocate_to_pool(id_of(mempool_id)), "endAllocateToPool");
}

void TorchAllocator::releasePool(c10::DeviceIndex device, c10::MempoolId_t mempool_id) {
  levee::Allocator& allocator = allocator_of(device);
  look_at_pool(device, mempool_id, allocator);  // its peak, before it is gone
  require(allocator.release_pool(id_of(mempool_id)), "releasePool");
}

int TorchAllocator::getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t mempool_id) {
  return allocator_of(device).pool_use_count(id_of(mempool_id));
}

void TorchAllocator::createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t mempool_id,
                                        std::shared_ptr<CUDAAllocator> allocator) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      allocator == nullptr || allocator.get() == this,
      "levee: createOrIncrefPool with an allocator of its own (torch.cuda.MemPool(allocator)) is "
      "not "
      "supported; make the pool without one, or run this program with LEVEE_DISABLE=1");
  require(allocator_of(device).create_or_retain_pool(id_of(mempool_id)), "createOrIncrefPool");
  const std::lock_guard lock(mutex_);
  private_pools_[{device, mempool_id}].is_gone = false;
}

void TorchAllocator::setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t mempool_id,
                                 bool use_on_oom) {
  require(allocator_of(device).set_pool_use_on_oom(id_of(mempool_id), use_on_oom), "setUseOnOOM");
}

void TorchAllocator::setNoSplit(c10::DeviceIndex device, c10::MempoolId_t mempool_id) {
  require(allocator_of(device).set_pool_no_split(id_of(mempool_id)), "setNoSplit");
}

bool TorchAllocator::checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t mempool_id,
                                              const std::unordered_set<void*>& expected) {
  std::vector<DeviceAddr> addrs;
  addrs.reserve(expected.size());
  for (void* pointer : expected) addrs.push_back(addr_of(pointer));
  return allocator_of(device).pool_has_exactly(id_of(mempool_id), addrs);
}

std::shared_ptr<cca::AllocatorState> TorchAllocator::getCheckpointState(c10::DeviceIndex device,
                                                                        c10::MempoolId_t id) {
  Result<std::shared_ptr<PoolCheckpoint>> checkpoint =
      allocator_of(device).checkpoint_pool(id_of(id));
  if (!checkpoint.ok()) throw_failure(checkpoint.status(), "getCheckpointState");
  return std::make_shared<PoolState>(id_of(id), std::move(*checkpoint));
}

// PyTorch's own allocator frees every live block of the pool and hands the blocks of the checkpoint
// out again, so that a block which is live before and after is in both lists, and the storage that
// holds it now may be given a deleter. The same lists are made here from the smaller difference
// that levee reports.
cca::CheckpointDelta TorchAllocator::setCheckpointPoolState(
    c10::DeviceIndex device, std::shared_ptr<cca::AllocatorState> state) {
  const auto* pool_state = dynamic_cast<const PoolState*>(state.get());
  TORCH_CHECK(pool_state != nullptr,
              "levee: setCheckpointPoolState: this checkpoint was made by another allocator");
  levee::Allocator& allocator = allocator_of(device);
  const std::vector<DeviceAddr> live_before = live_blocks(allocator.snapshot(pool_state->pool));
  const Result<CheckpointDelta> restored =
      allocator.restore_pool(pool_state->pool, *pool_state->checkpoint);
  if (!restored.ok()) throw_failure(restored.status(), "setCheckpointPoolState");

  cca::CheckpointDelta delta;
  for (const DeviceAddr addr : live_before) delta.ptrs_freed.push_back(pointer_of(addr));
  for (const DeviceAddr addr : live_blocks(allocator.snapshot(pool_state->pool))) {
    void* pointer = pointer_of(addr);
    delta.dataptrs_allocd.emplace_back(pointer, pointer, &delete_block,
                                       c10::Device(c10::DeviceType::CUDA, device));
  }
  return delta;
}

}  // namespace levee::torch_plugin
