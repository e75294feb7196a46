// Snapshots, memory history and observers, in the form that torch.cuda.memory_snapshot and
// PyTorch's viewer take.

#include <c10/cuda/CUDAFunctions.h>

#include <algorithm>

#include "torch_plugin/torch_allocator.h"
#include "torch_plugin/torch_convert.h"

namespace levee::torch_plugin {
namespace {

cca::AllocatorConfigInfo settings() {
  using Accelerator = c10::CachingAllocator::AcceleratorAllocatorConfig;
  using Cuda = cca::CUDAAllocatorConfig;
  cca::AllocatorConfigInfo info{};
  info.garbage_collection_threshold = Accelerator::garbage_collection_threshold();
  info.max_split_size = Accelerator::max_split_size();
  info.pinned_num_register_threads = Cuda::pinned_num_register_threads();
  info.expandable_segments = Accelerator::use_expandable_segments();
  info.release_lock_on_malloc = Cuda::release_lock_on_cudamalloc();
  info.pinned_use_host_register = Cuda::pinned_use_cuda_host_register();
  info.graph_capture_record_stream_reuse = Cuda::graph_capture_record_stream_reuse();
  info.last_allocator_settings = c10::CachingAllocator::getAllocatorSettings();
  info.roundup_power2_divisions = Accelerator::roundup_power2_divisions();
  info.max_round_threshold = Accelerator::pinned_max_round_threshold();
  info.max_cached_size = Accelerator::pinned_max_cached_size();
  return info;
}

c10::CachingDeviceAllocator::SegmentInfo segment_info(const SnapshotSegment& segment,
                                                      DeviceId device, const History& history) {
  c10::CachingDeviceAllocator::SegmentInfo info;
  info.device = index_of(device);
  info.address = segment.addr.value;
  info.total_size = segment.bytes.value;
  info.stream = stream_of(segment.stream);
  info.is_large = !segment.is_small;
  info.is_expandable = segment.is_pages;
  info.owner_private_pool_id = pool_of(segment.pool);
  info.blocks.reserve(segment.blocks.size());
  for (const SnapshotBlock& block : segment.blocks) {
    c10::CachingDeviceAllocator::BlockInfo& out = info.blocks.emplace_back();
    out.size = block.bytes.value;
    out.requested_size = block.requested_bytes.value;
    out.allocated = block.state == BlockState::kLive;
    out.active = block.state != BlockState::kFree;
    if (out.allocated) {
      info.allocated_size += out.size;
      info.requested_size += out.requested_size;
      out.context_when_allocated = history.context_of(block.addr);
    }
    if (out.active) info.active_size += out.size;
  }
  return info;
}

}  // namespace

cca::SnapshotInfo TorchAllocator::snapshot(c10::MempoolId_t mempool_id, bool include_traces) {
  const PoolId pool = id_of(mempool_id);
  cca::SnapshotInfo info;
  info.config_metadata = settings();
  // PyTorch's viewer wants one trace, possibly empty, for every device.
  info.device_traces.resize(static_cast<size_t>(std::max(device_count_, 0)));
  for (const auto& slot : allocators_) {
    levee::Allocator* allocator = slot.load(std::memory_order_acquire);
    if (allocator == nullptr) continue;
    // The trace and the segments have to belong to the same moment.
    const std::lock_guard order(history_.order());
    if (history_.is_watched()) history_.sync_segments(*allocator);
    const Snapshot taken = pool.is_default() ? allocator->snapshot() : allocator->snapshot(pool);
    for (const SnapshotSegment& segment : taken.segments) {
      if (segment.bytes.value != 0) {
        info.segments.push_back(segment_info(segment, allocator->device(), history_));
      }
    }
    if (include_traces) {
      const auto index = static_cast<size_t>(allocator->device().value);
      if (index < info.device_traces.size()) {
        info.device_traces[index] = history_.entries(allocator->device(), pool);
      }
    }
    history_.snapshot_taken(allocator->device());
  }
  std::sort(info.segments.begin(), info.segments.end(), [](const auto& a, const auto& b) {
    return std::pair{a.device, a.address} < std::pair{b.device, b.address};
  });
  if (include_traces) info.external_annotations = history_.annotations();

  const auto to_ns = clock_.makeConverter();
  const auto to_us = [&](auto& time) { time.t_ = to_ns(time.approx_t_) / 1000; };
  for (auto& trace : info.device_traces) {
    for (auto& entry : trace) to_us(entry.time_);
  }
  for (auto& annotation : info.external_annotations) to_us(annotation.time_);
  return info;
}

bool TorchAllocator::isHistoryEnabled() {
  return history_.is_recording();
}

std::shared_ptr<c10::GatheredContext> TorchAllocator::getContextForPointer(const void* pointer) {
  return history_.context_of(addr_of(pointer));
}

void TorchAllocator::recordHistory(bool enabled, cca::CreateContextFn context_recorder,
                                   size_t max_entries, cca::RecordContext when, bool clear_history,
                                   const std::vector<std::string>& skip_actions) {
  // Who switches off must not overtake who switches on, or attaches a tracker.
  const std::lock_guard order(history_.order());
  history_.configure(enabled, context_recorder, max_entries, when, clear_history, skip_actions);
  set_watch(kHistory, history_.is_watched());
}

void TorchAllocator::recordAnnotation(
    const std::vector<std::pair<std::string, std::string>>& metadata) {
  c10::DeviceIndex device = 0;
  if (!history_.is_recording() || c10::cuda::GetDevice(&device) != cudaSuccess) return;
  history_.annotate(DeviceId{device}, metadata);
}

void TorchAllocator::pushCompileContext(std::string& metadata) {
  History::push_compile_context(metadata);
}
void TorchAllocator::popCompileContext() {
  History::pop_compile_context();
}

bool TorchAllocator::supportsUserMetadata() {
  return true;
}
void TorchAllocator::setUserMetadata(const std::string& metadata) {
  History::set_user_metadata(metadata);
}
std::string TorchAllocator::getUserMetadata() {
  return History::user_metadata();
}

void TorchAllocator::annotateMemory(const void* pointer, const std::string& metadata) {
  levee::Allocator* owner = nullptr;
  const Block block = block_at(pointer, "annotateMemory", &owner);
  history_.annotate_block(block, owner->device(), metadata);
}

void TorchAllocator::attachOutOfMemoryObserver(cca::OutOfMemoryObserver observer) {
  const std::lock_guard lock(mutex_);
  oom_observers_.push_back(std::move(observer));
}

// levee never turns a request down before it has tried to serve it, so there is nothing to tell;
// PyTorch attaches one of these by itself in some set-ups, hence no error.
void TorchAllocator::attachOomRejectionObserver(cca::OomRejectionObserver /*observer*/) {}

void TorchAllocator::attachAllocatorTraceTracker(cca::AllocatorTraceTracker tracker) {
  const std::lock_guard order(history_.order());
  history_.add_tracker(std::move(tracker));
  set_watch(kHistory, true);
}

}  // namespace levee::torch_plugin
