#include "torch_plugin/torch_history.h"

#include <algorithm>
#include <iterator>

#include "torch_plugin/torch_convert.h"

namespace levee::torch_plugin {
namespace {

using c10::CachingDeviceAllocator::parseTraceEntryAction;

struct ThreadNames {
  std::vector<std::string> compile_contexts;
  std::string user_metadata;
};
ThreadNames& thread_names() {
  static thread_local ThreadNames names;
  return names;
}

/// Moves whenever levee takes memory from the device, gives it back or maps it anew.
std::uint64_t structure_of(const Stats& stats) {
  return static_cast<std::uint64_t>(stats.num_device_alloc + stats.num_device_free +
                                    stats.num_stitches + stats.num_rebases +
                                    stats.segment[0].allocated + stats.segment[0].freed);
}

}  // namespace

int& NoStackScope::depth() {
  static thread_local int depth = 0;
  return depth;
}

void History::configure(bool enabled, c10::CachingDeviceAllocator::CreateContextFn recorder,
                        std::size_t max_entries, RecordContext when, bool clear,
                        const std::vector<std::string>& skip_actions) {
  TORCH_CHECK(when == RecordContext::NEVER || recorder != nullptr,
              "levee: recordHistory needs a context recorder unless context is off");
  std::uint32_t skipped = 0;
  for (const std::string& action : skip_actions) {
    skipped |= 1U << static_cast<unsigned>(parseTraceEntryAction(action));
  }
  const std::lock_guard lock(order_);
  recorder_.store(enabled ? recorder : nullptr);
  when_.store(enabled ? when : RecordContext::NEVER);
  max_entries_ = std::max<std::size_t>(max_entries, 1);
  skipped_actions_ = skipped;
  if (!enabled || clear) {
    for (auto& [device, trace] : traces_) trace.entries.clear();
    annotations_.clear();
    live_contexts_.clear();
  }
  recording_.store(enabled);
}

void History::add_tracker(c10::CachingDeviceAllocator::AllocatorTraceTracker tracker) {
  const std::lock_guard lock(order_);
  trackers_.push_back(std::move(tracker));
}

bool History::is_watched() const {
  const std::lock_guard lock(order_);
  return is_recording() || !trackers_.empty();
}

History::Context History::gather(RecordContext level) const {
  const auto recorder = recorder_.load(std::memory_order_relaxed);
  if (recorder == nullptr || when_.load(std::memory_order_relaxed) < level) return nullptr;
  return recorder();
}

void History::add(DeviceTrace& trace, Entry entry) {
  for (const auto& tracker : trackers_) tracker(entry);
  if (!is_recording() || is_skipped(entry.action_)) return;
  trace.entries.push_back(std::move(entry));
  while (trace.entries.size() > max_entries_) trace.entries.pop_front();
}

void History::add(DeviceTrace& trace, Entry::Action action, DeviceId device, std::uint64_t addr,
                  Bytes bytes, StreamId stream, PoolId pool, Context context) {
  const ThreadNames& names = thread_names();
  add(trace,
      Entry(action, index_of(device), addr, bytes.value, stream_of(stream), pool_of(pool),
            c10::getApproximateTime(),
            when_.load(std::memory_order_relaxed) >= RecordContext::ALLOC ? std::move(context)
                                                                          : nullptr,
            names.compile_contexts.empty() ? "N/A" : names.compile_contexts.back(),
            names.user_metadata));
}

void History::allocated(Allocator& allocator, const Block& block, Context context) {
  DeviceTrace& trace = traces_[allocator.device().value];
  sync_if_changed(allocator, trace, &block);
  if (context != nullptr) live_contexts_[block.addr.value] = context;
  add(trace, Entry::ALLOC, allocator.device(), block.addr.value, block.requested_bytes,
      block.stream, block.pool, std::move(context));
}

void History::freed(Allocator& allocator, const Block& block, Context context) {
  DeviceTrace& trace = traces_[allocator.device().value];
  live_contexts_.erase(block.addr.value);
  // A block that waits for other streams is told as complete: when it really is, nobody calls.
  for (const Entry::Action action : {Entry::FREE_REQUESTED, Entry::FREE_COMPLETED}) {
    add(trace, action, allocator.device(), block.addr.value, block.requested_bytes, block.stream,
        block.pool, context);
  }
}

void History::out_of_memory(Allocator& allocator, Bytes requested, Bytes device_free,
                            StreamId stream, Context context) {
  DeviceTrace& trace = traces_[allocator.device().value];
  sync_if_changed(allocator, trace, nullptr);
  add(trace, Entry::OOM, allocator.device(), device_free.value, requested, stream, {},
      std::move(context));
}

bool History::covers(const DeviceTrace& trace, const Block& block) {
  auto it = trace.ranges.upper_bound(block.addr.value);
  if (it == trace.ranges.begin()) return false;
  --it;
  // Neighbouring ranges may be told apart although a block spans them.
  std::uint64_t covered = it->second.end;
  const std::uint64_t end = (block.addr + block.bytes).value;
  for (++it; covered < end && it != trace.ranges.end() && it->first == covered; ++it) {
    covered = it->second.end;
  }
  return covered >= end;
}

void History::sync_if_changed(Allocator& allocator, DeviceTrace& trace, const Block* block) {
  const std::uint64_t structure = structure_of(allocator.stats());
  const bool is_known = block == nullptr || covers(trace, *block);
  if (trace.is_synced && structure == trace.structure && is_known) return;
  trace.structure = structure;
  sync_segments(trace, allocator.snapshot());
}

void History::sync_segments(Allocator& allocator) {
  DeviceTrace& trace = traces_[allocator.device().value];
  trace.structure = structure_of(allocator.stats());
  sync_segments(trace, allocator.snapshot());
}

// The difference between the ranges told of and those that are: first what came, then what went, so
// that a block never lies outside of both.
void History::sync_segments(DeviceTrace& trace, const Snapshot& snapshot) {
  std::map<std::uint64_t, Range> now;
  for (const SnapshotSegment& segment : snapshot.segments) {
    if (segment.bytes.value == 0) continue;
    now[segment.addr.value] =
        Range{(segment.addr + segment.bytes).value, segment.stream, segment.pool, segment.is_pages};
  }
  const auto subtract_and_tell = [&](const std::map<std::uint64_t, Range>& from,
                                     const std::map<std::uint64_t, Range>& what, bool came) {
    for (const auto& [start, range] : from) {
      std::uint64_t at = start;
      auto it = what.upper_bound(start);
      if (it != what.begin()) --it;
      while (at < range.end) {
        while (it != what.end() && it->second.end <= at) ++it;
        if (it != what.end() && it->first <= at) {  // inside a range of the other side
          at = it->second.end;
          continue;
        }
        const std::uint64_t gap_end = it == what.end() ? range.end : std::min(range.end, it->first);
        const Entry::Action action = range.is_pages
                                         ? (came ? Entry::SEGMENT_MAP : Entry::SEGMENT_UNMAP)
                                         : (came ? Entry::SEGMENT_ALLOC : Entry::SEGMENT_FREE);
        add(trace, action, snapshot.device, at, Bytes{gap_end - at}, range.stream, range.pool,
            nullptr);
        at = gap_end;
      }
    }
  };
  subtract_and_tell(now, trace.ranges, true);
  subtract_and_tell(trace.ranges, now, false);
  trace.ranges = std::move(now);
  trace.is_synced = true;
}

void History::snapshot_taken(DeviceId device) {
  if (!is_recording()) return;
  add(traces_[device.value], Entry::SNAPSHOT, device, 0, {}, {}, {}, nullptr);
}

History::Context History::context_of(DeviceAddr addr) const {
  const std::lock_guard lock(order_);
  const auto it = live_contexts_.find(addr.value);
  return it == live_contexts_.end() ? nullptr : it->second;
}

std::vector<History::Entry> History::entries(DeviceId device, PoolId pool) const {
  const std::lock_guard lock(order_);
  const auto it = traces_.find(device.value);
  if (it == traces_.end()) return {};
  if (pool.is_default()) return {it->second.entries.begin(), it->second.entries.end()};
  std::vector<Entry> of_pool;
  std::copy_if(it->second.entries.begin(), it->second.entries.end(), std::back_inserter(of_pool),
               [&](const Entry& entry) { return entry.mempool_ == pool_of(pool); });
  return of_pool;
}

std::vector<c10::CachingDeviceAllocator::AnnotationEntry> History::annotations() const {
  const std::lock_guard lock(order_);
  return {annotations_.begin(), annotations_.end()};
}

void History::annotate(DeviceId device,
                       const std::vector<std::pair<std::string, std::string>>& metadata) {
  if (!is_recording()) return;
  c10::CachingDeviceAllocator::AnnotationEntry entry(index_of(device), c10::getApproximateTime());
  for (const auto& [name, value] : metadata) entry.recordUserMetadata(name, value);
  const std::lock_guard lock(order_);
  annotations_.push_back(std::move(entry));
  while (annotations_.size() > max_entries_) annotations_.pop_front();
}

void History::annotate_block(const Block& block, DeviceId device, const std::string& metadata) {
  if (!is_recording()) return;
  const std::lock_guard lock(order_);
  const ThreadNames& names = thread_names();
  add(traces_[device.value],
      Entry(Entry::ANNOTATE, index_of(device), block.addr.value, block.requested_bytes.value,
            stream_of(block.stream), pool_of(block.pool), c10::getApproximateTime(), nullptr,
            names.compile_contexts.empty() ? "N/A" : names.compile_contexts.back(), metadata));
}

void History::push_compile_context(const std::string& name) {
  thread_names().compile_contexts.push_back(name);
}
void History::pop_compile_context() {
  auto& contexts = thread_names().compile_contexts;
  if (!contexts.empty()) contexts.pop_back();
}
void History::set_user_metadata(const std::string& metadata) {
  thread_names().user_metadata = metadata;
}
std::string History::user_metadata() {
  return thread_names().user_metadata;
}

}  // namespace levee::torch_plugin
