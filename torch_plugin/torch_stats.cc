// Statistics, limits and giving memory back, as PyTorch asks for them.

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <vector>

#include "torch_plugin/torch_allocator.h"
#include "torch_plugin/torch_convert.h"

namespace levee::torch_plugin {
namespace {

void copy(const Stat& from, c10::CachingAllocator::Stat* to) {
  to->current = from.current;
  to->peak = from.peak;
  to->allocated = from.allocated;
  to->freed = from.freed;
}

void copy(const StatArray& from, c10::CachingAllocator::StatArray* to) {
  static_assert(std::tuple_size_v<c10::CachingAllocator::StatArray> ==
                std::tuple_size_v<StatArray>);
  for (size_t i = 0; i < from.size(); ++i) copy(from[i], &(*to)[i]);
}

}  // namespace

template <typename Function>
void TorchAllocator::for_each_allocator(const Function& function) {
  for (const auto& slot : allocators_) {
    if (levee::Allocator* allocator = slot.load(std::memory_order_acquire)) function(*allocator);
  }
}

void TorchAllocator::enable(bool value) {
  set_watch(kUncached, !value);
}

bool TorchAllocator::isEnabled() const {
  return (watch_.load(std::memory_order_relaxed) & kUncached) == 0;
}

void TorchAllocator::emptyCache(c10::MempoolId_t mempool_id) {
  const PoolId pool = id_of(mempool_id);
  for_each_allocator([&](levee::Allocator& allocator) {
    const Result<Bytes> given_back =
        pool.is_default() ? allocator.trim(Bytes{}) : allocator.trim_pool(pool);
    // A pool lives on one device; the others do not know it.
    if (!given_back.ok() && pool.is_default()) throw_failure(given_back.status(), "emptyCache");
    if (history_.is_watched()) {
      const std::lock_guard order(history_.order());
      history_.sync_segments(allocator);
    }
  });
}

c10::CachingDeviceAllocator::DeviceStats TorchAllocator::getDeviceStats(c10::DeviceIndex device) {
  c10::CachingDeviceAllocator::DeviceStats out;
  // No block is too large to be split here; PyTorch says so with its largest number.
  out.max_split_size = static_cast<std::int64_t>(
      c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size());
  levee::Allocator* allocator = existing(device);
  if (allocator == nullptr) return out;
  const Stats stats = allocator->stats();
#define LEVEE_COPY(name, what) copy(stats.name, &out.name);
  LEVEE_STAT_ARRAYS(LEVEE_COPY)
#undef LEVEE_COPY
  out.num_alloc_retries = stats.num_alloc_retries;
  out.num_ooms = stats.num_ooms;
  out.num_sync_all_streams = stats.num_sync_all_streams;
  out.num_device_alloc = stats.num_device_alloc;
  out.num_device_free = stats.num_device_free;
  add_private_pools(device, *allocator, &out);
  return out;
}

void TorchAllocator::look_at_pool(c10::DeviceIndex device, c10::MempoolId_t pool,
                                  levee::Allocator& allocator) {
  const Snapshot snapshot = allocator.snapshot(id_of(pool));
  std::array<std::int64_t, static_cast<size_t>(StatKind::kLarge) + 1> now{};
  for (const SnapshotSegment& segment : snapshot.segments) {
    for (const StatKind kind :
         {StatKind::kAll, segment.is_small ? StatKind::kSmall : StatKind::kLarge}) {
      now[static_cast<size_t>(kind)] += static_cast<std::int64_t>(segment.bytes.value);
    }
  }
  const bool is_gone = snapshot.segments.empty() && allocator.pool_use_count(id_of(pool)) <= 0;
  const std::lock_guard lock(mutex_);
  PrivatePool& entry = private_pools_[{device, pool}];
  entry.is_gone = is_gone;
  auto& array = entry.reserved;
  for (size_t kind = 0; kind < now.size(); ++kind) {
    const std::int64_t change = now[kind] - array[kind].current;
    if (change > 0) array[kind].increase(static_cast<size_t>(change));
    if (change < 0) array[kind].decrease(static_cast<size_t>(-change));
  }
}

void TorchAllocator::add_private_pools(c10::DeviceIndex device, levee::Allocator& allocator,
                                       c10::CachingDeviceAllocator::DeviceStats* stats) {
  std::vector<c10::MempoolId_t> to_look_at;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [of_device_and_pool, pool] : private_pools_) {
      if (of_device_and_pool.first == device && !pool.is_gone) {
        to_look_at.push_back(of_device_and_pool.second);
      }
    }
  }
  for (const c10::MempoolId_t& pool : to_look_at) look_at_pool(device, pool, allocator);
  const std::lock_guard lock(mutex_);
  for (const auto& [of_device_and_pool, pool] : private_pools_) {
    if (of_device_and_pool.first != device) continue;
    stats->reserved_bytes_by_private_pools[of_device_and_pool.second] = pool.reserved;
  }
}

template <typename Function>
void TorchAllocator::for_each_pool_stat(c10::DeviceIndex device, const Function& function) {
  const std::lock_guard lock(mutex_);
  for (auto& [of_device_and_pool, pool] : private_pools_) {
    if (of_device_and_pool.first != device) continue;
    for (auto& stat : pool.reserved) function(stat);
  }
}

void TorchAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  if (levee::Allocator* allocator = existing(device)) allocator->reset_accumulated_stats();
  for_each_pool_stat(device, [](auto& stat) { stat.reset_accumulated(); });
}

void TorchAllocator::resetPeakStats(c10::DeviceIndex device) {
  if (levee::Allocator* allocator = existing(device)) allocator->reset_peak_stats();
  for_each_pool_stat(device, [](auto& stat) { stat.reset_peak(); });
}

double TorchAllocator::getMemoryFraction(c10::DeviceIndex device) {
  static_cast<void>(existing(device));
  const std::lock_guard lock(mutex_);
  return fractions_[device];
}

void TorchAllocator::limit_to(levee::Allocator& allocator, double fraction) {
  const auto total = static_cast<double>(getMemoryInfo(device_of(allocator).index()).second);
  // A limit of 0 bytes means none; nothing can be reserved under a limit of 1 byte.
  const auto bytes = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(total * fraction));
  allocator.set_limit(fraction < 1 ? Bytes{bytes} : Bytes{});
}

void TorchAllocator::setMemoryFraction(double fraction, c10::DeviceIndex device) {
  TORCH_CHECK(0 <= fraction && fraction <= 1, "invalid fraction:", fraction,
              ". Please set within [0, 1].");
  levee::Allocator* allocator = existing(device);
  {
    const std::lock_guard lock(mutex_);
    fractions_[device] = fraction;  // of a device that is not in use yet: for when it is
  }
  if (allocator != nullptr) limit_to(*allocator, fraction);
}

std::vector<cca::StreamSegmentSize> TorchAllocator::getExpandableSegmentSizes(
    c10::DeviceIndex device) {
  std::vector<cca::StreamSegmentSize> sizes;
  levee::Allocator* allocator = existing(device);
  if (allocator == nullptr) return sizes;
  for (const SnapshotSegment& segment : allocator->snapshot().segments) {
    if (segment.is_pages) {
      sizes.emplace_back(stream_of(segment.stream), segment.is_small, segment.bytes.value);
    }
  }
  return sizes;
}

// cuDNN asks before it chooses a workspace. PyTorch's own answer starts from what the device has
// free when the caller passes 0, and is never below the largest cached piece.
void TorchAllocator::cacheInfo(c10::DeviceIndex device, size_t* largest_block) {
  if (*largest_block == 0) *largest_block = getMemoryInfo(device).first;
  *largest_block =
      std::max<size_t>(*largest_block, allocator_of(device).cache_info().largest_free_block.value);
}

// A tensor whose deleter is not ours was made elsewhere (CUDA IPC, an extension): its owner has to
// see to its streams, as with PyTorch's own allocator. That one compares handles alone, so that the
// default stream of another device counts as the block's own and is not waited for; here it is.
void TorchAllocator::recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) {
  if (pointer.get() == nullptr || pointer.get_deleter() != &delete_block) return;
  if ((watch_.load(std::memory_order_relaxed) & kForked) != 0) return;
  levee::Allocator* owner = only_.load(std::memory_order_acquire);
  if (owner == nullptr) owner = runtime_.owner_of(addr_of(pointer.get()));
  TORCH_CHECK(owner != nullptr, "levee: record_stream of memory that levee does not hold");
  StreamId used_on = id_of(stream.stream());
  if (const DeviceId device{stream.device_index()}; device != owner->device()) {
    used_on = StreamId::on_device(device, used_on);
  }
  require(owner->record_use(addr_of(pointer.get()), used_on), "record_stream");
}

}  // namespace levee::torch_plugin
