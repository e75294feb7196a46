// The main door: levee as PyTorch's CUDA caching allocator, a full subclass of `CUDAAllocator`.
//
// Owns: the translation between torch's types and levee's, and what belongs to neither (history for
// memory snapshots, observers, the uncached mode). Promises: every call that PyTorch offers on its
// own allocator works here or raises an error that names it; values become torch's exceptions here
// and nowhere else; a request of 0 bytes is answered with null; deleters never throw; the object is
// never destroyed. Does not: decide where memory comes from (allocator/core). Thread safety: all
// methods from any thread. Cost of allocate + free on a hit: levee's own, plus what PyTorch itself
// needs to know device and stream.
#pragma once

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/util/ApproximateClock.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <levee/runtime.h>

#include "torch_plugin/torch_history.h"
#include "torch_plugin/torch_versions.h"

namespace levee::torch_plugin {

namespace cca = c10::cuda::CUDACachingAllocator;

class TorchAllocator final : public cca::CUDAAllocator {
 public:
  explicit TorchAllocator(Runtime& runtime);

  /// The one that was installed, or null.
  static TorchAllocator* installed();
  /// Makes a new one PyTorch's allocator; a second call returns the first one. `capture_context`
  /// names the place in the program that asks, see `AllocatorHooks`. Throws c10::Error if CUDA has
  /// started already.
  static TorchAllocator& install(Runtime& runtime, std::function<ContextId()> capture_context);

  // c10::Allocator
  c10::DataPtr allocate(size_t bytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* dest, const void* src, std::size_t count) const override;

  // c10::DeviceAllocator
  bool initialized() override;
  void emptyCache(c10::MempoolId_t mempool_id = {0, 0}) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;

  // CUDAAllocator: memory
  void* raw_alloc(size_t bytes) override;
  void* raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override;
  void raw_delete(void* pointer) override;
  void init(int device_count) override;
  double getMemoryFraction(c10::DeviceIndex device) override;
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
  std::vector<cca::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex device) override;
  void enable(bool value) override;
  bool isEnabled() const override;
  void cacheInfo(c10::DeviceIndex device, size_t* largest_block) override;
  void* getBaseAllocation(void* pointer, size_t* bytes) override;
  using CUDAAllocator::recordStream;
  void recordStream(const c10::DataPtr& pointer, c10::cuda::CUDAStream stream) override;
  std::string name() override;

  // CUDAAllocator: private pools, graphs
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t mempool_id,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t mempool_id) override;
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t mempool_id) override;
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t mempool_id) override;
  void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t mempool_id,
                          std::shared_ptr<CUDAAllocator> allocator) override;
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t mempool_id, bool use_on_oom) override;
  void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t mempool_id) override;
  bool checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t mempool_id,
                                const std::unordered_set<void*>& expected) override;
  std::shared_ptr<cca::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                          c10::MempoolId_t id) override;
  cca::CheckpointDelta setCheckpointPoolState(c10::DeviceIndex device,
                                              std::shared_ptr<cca::AllocatorState> state) override;

  // CUDAAllocator: other devices and processes
  cca::ShareableHandle shareIpcHandle(void* pointer) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex peer) override;
  cudaError_t memcpyAsync(void* dst, int dst_device, const void* src, int src_device, size_t count,
                          cudaStream_t stream, bool p2p_enabled) override;

  // CUDAAllocator: looking
  cca::SnapshotInfo snapshot(c10::MempoolId_t mempool_id, bool include_traces) override;
  bool isHistoryEnabled() override;
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* pointer) override;
  void recordHistory(bool enabled, cca::CreateContextFn context_recorder, size_t max_entries,
                     cca::RecordContext when, bool clear_history,
                     const std::vector<std::string>& skip_actions) override;
  void recordAnnotation(const std::vector<std::pair<std::string, std::string>>& metadata) override;
  void pushCompileContext(std::string& metadata) override;
  void popCompileContext() override;
  bool supportsUserMetadata() override;
  void setUserMetadata(const std::string& metadata) override;
  std::string getUserMetadata() override;
  void annotateMemory(const void* pointer, const std::string& metadata) override;
  void attachOutOfMemoryObserver(cca::OutOfMemoryObserver observer) override;
  void attachOomRejectionObserver(cca::OomRejectionObserver observer) override;
  void attachAllocatorTraceTracker(cca::AllocatorTraceTracker tracker) override;

 private:
  // Why the fast path of allocate or free has to look closer; 0 almost always.
  enum Watch : std::uint32_t {
    kUncached = 1,  // every request goes to cudaMalloc
    kHistory = 2,   // history is recorded, or a tracker wants to see segments
    kForked = 4,    // a child of a process that uses CUDA: its memory belongs to the parent
  };
  static constexpr int kMaxDevices = C10_COMPILE_TIME_MAX_GPUS;

  static void delete_block(void* pointer) noexcept;
  static void delete_uncached(void* pointer) noexcept;

  /// The calling thread's device. Where there is only one, CUDA need not be asked.
  c10::DeviceIndex current_device() const { return device_count_ == 1 ? 0 : current_device_slow(); }
  c10::DeviceIndex current_device_slow() const;
  void* allocate_on(c10::DeviceIndex device, size_t bytes, cudaStream_t stream);
  levee::Allocator& allocator_of(c10::DeviceIndex device);
  levee::Allocator& allocator_slow(c10::DeviceIndex device);
  /// The allocator of a device that has been used, else null: a question about a device must not
  /// make a context on it.
  levee::Allocator* existing(c10::DeviceIndex device) const;
  Result<Block> allocate_watched(levee::Allocator& allocator, size_t bytes, StreamId stream,
                                 OomReport* report);
  /// Gives a block back; false if `pointer` is none of ours.
  bool free_block(void* pointer);
  void* allocate_uncached(size_t bytes);
  Result<Block> free_watched(levee::Allocator& allocator, DeviceAddr addr);
  [[noreturn]] void throw_failure(Status status, const char* call);
  [[noreturn]] void throw_out_of_memory(levee::Allocator& allocator, const OomReport& report);
  void require(Status status, const char* call) {
    if (!status.ok()) throw_failure(status, call);
  }
  void set_watch(Watch bit, bool on);
  void limit_to(levee::Allocator& allocator, double fraction);
  void report_to_profiler(levee::Allocator& allocator, const Block& block, bool is_free);
  /// Calls `function(levee::Allocator&)` for every device that levee has memory of.
  template <typename Function>
  void for_each_allocator(const Function& function);
  Block block_at(const void* pointer, const char* call, levee::Allocator** owner);
  template <typename Function>
  void for_each_pool_stat(c10::DeviceIndex device, const Function& function);
  void look_at_pool(c10::DeviceIndex device, c10::MempoolId_t pool, levee::Allocator& allocator);
  void add_private_pools(c10::DeviceIndex device, levee::Allocator& allocator,
                         c10::CachingDeviceAllocator::DeviceStats* stats);

  Runtime& runtime_;
  std::atomic<std::uint32_t> watch_{0};
  // The one allocator while a single device is in use, so that a free need not ask who owns it.
  std::atomic<levee::Allocator*> only_{nullptr};
  std::atomic<levee::Allocator*> allocators_[kMaxDevices] = {};
  std::atomic<bool> initialized_{false};
  int device_count_ = 0;  // written by `init` before anybody allocates

  History history_;
  // Anchored when it is made: the further back, the better it knows the clock's rate.
  c10::ApproximateClockToUnixTimeConverter clock_;

  mutable std::mutex mutex_;  // guards what follows; never held while levee is called
  std::vector<cca::OutOfMemoryObserver> oom_observers_;
  std::unordered_map<std::string, std::weak_ptr<void>> opened_ipc_;
  struct PrivatePool {
    c10::CachingAllocator::StatArray reserved;  // as last looked at
    bool is_gone = false;                       // it reserves nothing and never will
  };
  // Every private pool so far: like PyTorch, also those that are gone.
  std::map<std::pair<c10::DeviceIndex, c10::MempoolId_t>, PrivatePool> private_pools_;
  double fractions_[kMaxDevices];
};

}  // namespace levee::torch_plugin
