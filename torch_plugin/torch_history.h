// Memory history in PyTorch's own format: the trace behind torch.cuda.memory._record_memory_history
// and its snapshots, and the callbacks that want to hear of segments (NCCL's buffer registration).
//
// Owns: one ring of `TraceEntry` per device, annotations, the Python or C++ context of each live
// block, the set of address ranges that the trace has told of so far. Promises: replayed backwards
// from the segments of a snapshot, as PyTorch's viewer does it, every block of the trace lies in a
// segment at all times; allocations on several threads appear in the order in which they happened.
// To that end watched calls are serialised by `order()`. Does not: cost anything while nobody
// watches (the caller tests a flag of its own).
// Locks: `order()`, taken before any lock of the allocator; contexts are gathered before it, since
// they may want the GIL: what a callback frees in the middle of a watched request has none.
#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/ApproximateClock.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <levee/allocator.h>

namespace levee::torch_plugin {

/// Says that the running thread has gathered its own context, or must not gather one.
class NoStackScope {
 public:
  NoStackScope() { ++depth(); }
  ~NoStackScope() { --depth(); }
  NoStackScope(const NoStackScope&) = delete;
  NoStackScope& operator=(const NoStackScope&) = delete;
  static bool is_active() { return depth() != 0; }

 private:
  static int& depth();
};

class History {
 public:
  using Entry = c10::CachingDeviceAllocator::TraceEntry;
  using Context = std::shared_ptr<c10::GatheredContext>;
  using RecordContext = c10::CachingDeviceAllocator::RecordContext;

  History() = default;
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  /// Serialises watched calls. Recursive: a callback of the recovery ladder frees blocks.
  std::recursive_mutex& order() { return order_; }

  void configure(bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder,
                 std::size_t max_entries, RecordContext when, bool clear,
                 const std::vector<std::string>& skip_actions);
  void add_tracker(c10::CachingDeviceAllocator::AllocatorTraceTracker tracker);
  bool is_recording() const { return recording_.load(std::memory_order_relaxed); }
  /// Recording, or somebody listens.
  bool is_watched() const;

  /// Where the program is, if history wants to know at `level`. Before `order()`; may take the GIL.
  Context gather(RecordContext level) const;

  // Pre for all of these: `order()` is held.
  void allocated(Allocator& allocator, const Block& block, Context context);
  void freed(Allocator& allocator, const Block& block, Context context);
  void out_of_memory(Allocator& allocator, Bytes requested, Bytes device_free, StreamId stream,
                     Context context);
  /// Tells of segments that came or went since the last time.
  void sync_segments(Allocator& allocator);
  void snapshot_taken(DeviceId device);

  Context context_of(DeviceAddr addr) const;
  /// The trace of one device, oldest first. Times are still those of the approximate clock.
  std::vector<Entry> entries(DeviceId device, PoolId pool) const;
  std::vector<c10::CachingDeviceAllocator::AnnotationEntry> annotations() const;

  void annotate(DeviceId device, const std::vector<std::pair<std::string, std::string>>& metadata);
  void annotate_block(const Block& block, DeviceId device, const std::string& metadata);

  // Of the calling thread.
  static void push_compile_context(const std::string& name);
  static void pop_compile_context();
  static void set_user_metadata(const std::string& metadata);
  static std::string user_metadata();

 private:
  struct Range {
    std::uint64_t end = 0;
    StreamId stream;
    PoolId pool;
    bool is_pages = false;
  };
  struct DeviceTrace {
    std::deque<Entry> entries;
    std::map<std::uint64_t, Range> ranges;  // told of: start -> rest, disjoint
    std::uint64_t structure = 0;            // sum of the counters that move when segments change
    bool is_synced = false;
  };

  void add(DeviceTrace& trace, Entry entry);
  void add(DeviceTrace& trace, Entry::Action action, DeviceId device, std::uint64_t addr,
           Bytes bytes, StreamId stream, PoolId pool, Context context);
  void sync_segments(DeviceTrace& trace, const Snapshot& snapshot);
  static bool covers(const DeviceTrace& trace, const Block& block);
  void sync_if_changed(Allocator& allocator, DeviceTrace& trace, const Block* block);
  bool is_skipped(Entry::Action action) const {
    return (skipped_actions_ >> static_cast<unsigned>(action) & 1U) != 0;
  }

  mutable std::recursive_mutex order_;
  std::atomic<bool> recording_{false};
  std::atomic<c10::CachingDeviceAllocator::CreateContextFn> recorder_{nullptr};
  std::atomic<RecordContext> when_{RecordContext::NEVER};
  std::size_t max_entries_ = 1;
  std::uint32_t skipped_actions_ = 0;
  std::unordered_map<std::int32_t, DeviceTrace> traces_;
  std::unordered_map<std::uint64_t, Context> live_contexts_;
  std::deque<c10::CachingDeviceAllocator::AnnotationEntry> annotations_;
  std::vector<c10::CachingDeviceAllocator::AllocatorTraceTracker> trackers_;
};

}  // namespace levee::torch_plugin
