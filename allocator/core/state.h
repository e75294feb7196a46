// Everything that the allocator of one device knows, and the two locks that guard it.
//
// Lock order: growth mutex -> pool mutex -> leaf (recorder). The growth mutex serialises work that
// calls the device for memory (create, map, unmap, release, synchronise); such calls are made with
// the pool mutex released. While it is held, nobody else adds or removes zones, slots or pages;
// other threads may still hand out and take back bytes. The pool mutex guards every structure
// below. `State` has no behaviour of its own beyond what all parts need: events, notes for a judge.
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>

#include <levee/allocator.h>
#include <levee/config.h>
#include <levee/event.h>

#include "allocator/base/clock.h"
#include "allocator/base/mutex.h"
#include "allocator/base/record_arena.h"
#include "allocator/core/age.h"
#include "allocator/core/block.h"
#include "allocator/core/block_map.h"
#include "allocator/core/counters.h"
#include "allocator/core/driver_guard.h"
#include "allocator/core/limits.h"
#include "allocator/core/observed_device.h"
#include "allocator/core/pool.h"
#include "allocator/core/space.h"
#include "allocator/core/stitcher.h"
#include "allocator/core/streams.h"
#include "allocator/core/thread_caches.h"
#include "allocator/core/waiting_list.h"
#include "allocator/record/recorder.h"

namespace levee::core {

/// A request on its way.
struct Request {
  Bytes requested;
  Bytes bytes;  ///< allocated size
  StreamIndex stream;
  PoolIndex pool = kDefaultPool;
  Lifetime lifetime = Lifetime::kLong;
  bool is_capturing =
      false;  ///< its stream captures: no memory that needs a wait, no synchronising
  Predictor::Ticket* ticket = nullptr;
  bool takes_any_page = false;  ///< small: a page among large blocks is as good as one apart
  device::UseKind use = device::UseKind::kHandOut;  ///< what a judging device is told

  bool is_small() const { return core::is_small(bytes); }
};

enum class CacheUse : std::uint8_t {
  kNever,   ///< a region is open, a stack is wanted with each request, or pages are not split
  kMostly,  ///< blocks wait for other streams: somebody has to look after them now and then
  kAlways,
};

struct State {
  State(device::Device& real_device, const Config& settings, record::Recorder* event_recorder);
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  ObservedDevice device;
  const Config config;
  record::Recorder* const recorder;

  base::Mutex growth_mutex;
  base::Mutex pool_mutex;

  // Guarded by the pool mutex.
  Space space;
  BlockMap blocks;
  StreamTable streams;
  SmallRecords small_records;
  PoolTable pools;
  base::RecordArena<BlockRecord> block_records;
  WaitingList waiting;
  std::unordered_map<DeviceAddr, base::SmallVector<StreamIndex, 2>, DeviceAddrHash> object_uses;
  ThreadCaches caches;
  Counters counters;
  Limits limits;
  std::unique_ptr<Stitcher> stitcher;
  Age age;
  DriverGuard guard;
  Predictor predictor;
  std::uint32_t calls_until_poll = kPollEvery;
  /// How often the pool mutex was taken, windows that close again not counted: whoever opens one
  /// sees by it whether others came in.
  std::uint64_t visits = 0;
  std::shared_ptr<const RegionList> regions = std::make_shared<RegionList>();
  std::shared_ptr<const AllocatorHooks> hooks = std::make_shared<AllocatorHooks>();

  /// Whether any region is open: read before the lock on the hot path.
  std::atomic<bool> has_regions{false};
  /// Whether small requests are served from thread caches: read before the lock on the hot path.
  std::atomic<CacheUse> cache_use{CacheUse::kAlways};
  const bool is_judging;
  /// Blocks are placed to see whether they can be: nobody used them if they are taken away again.
  bool is_trying = false;

  /// Requests between two looks at blocks that wait for other streams. Chosen: a look costs about a
  /// microsecond for each such stream.
  static constexpr std::uint32_t kPollEvery = 16;

  bool is_recording() const { return recorder != nullptr && recorder->enabled(); }
  void emit(EventKind kind, LaneId lane, std::uint64_t a, std::uint64_t b, std::uint16_t aux = 0,
            ContextId context = {}) {
    // What concerns the device as a whole is told on its default stream's lane: readers tell
    // devices apart by lanes.
    if (is_recording()) {
      recorder->record(kind, lane.value == 0 ? device.lane() : lane, a, b, aux, context);
    }
  }
  /// A checkpoint of the two main numbers, for readers that skip through the record.
  void emit_counters() {
    emit(EventKind::kCounters, LaneId{}, counters.reserved().value, counters.allocated().value);
  }
  void note_use(DeviceAddr addr, Bytes bytes, StreamIndex stream, device::UseKind kind) {
    if (is_judging && !is_trying) device.note_use(addr, bytes, streams.handle(stream), kind);
  }
  StreamIndex stream_index(StreamId id) {
    return streams.is_latest(id) ? streams.intern(id) : stream_index_slow(id);
  }
  LEVEE_SLOW_PATH StreamIndex stream_index_slow(StreamId id);
  /// After anything that `cache_use` depends on has changed.
  void update_cache_use() {
    const bool goes_astray = has_regions.load(std::memory_order_relaxed) || config.record_stacks ||
                             pools.default_pool().is_unsplit;
    const CacheUse use = goes_astray       ? CacheUse::kNever
                         : waiting.empty() ? CacheUse::kAlways
                                           : CacheUse::kMostly;
    if (cache_use.load(std::memory_order_relaxed) != use) {
      cache_use.store(use, std::memory_order_release);
    }
  }
};

/// Holds the pool mutex, and tells a judging device so.
class LEVEE_SCOPED_CAPABILITY PoolGuard {
 public:
  explicit PoolGuard(State& state) LEVEE_ACQUIRE(state.pool_mutex)
      : state_(state), lock_(state.pool_mutex) {
    ++state_.visits;
    if (state_.is_judging) state_.device.note_pool_lock(true);
  }
  ~PoolGuard() LEVEE_RELEASE() {
    if (held_ && state_.is_judging) state_.device.note_pool_lock(false);
  }
  PoolGuard(const PoolGuard&) = delete;
  PoolGuard& operator=(const PoolGuard&) = delete;

  /// Opens a window for calls that must not be made under the lock.
  void unlock() LEVEE_RELEASE() {
    if (state_.is_judging) state_.device.note_pool_lock(false);
    held_ = false;
    lock_.unlock();
  }
  void lock() LEVEE_ACQUIRE() {
    lock_.lock();
    held_ = true;
    if (state_.is_judging) state_.device.note_pool_lock(true);
  }

 private:
  State& state_;
  base::MutexLock lock_;
  bool held_ = true;
};

/// A window in a PoolGuard, closed at the end of the scope.
class Unlocked {
 public:
  explicit Unlocked(PoolGuard& guard) LEVEE_NO_THREAD_SAFETY_ANALYSIS : guard_(guard) {
    guard_.unlock();
  }
  ~Unlocked() LEVEE_NO_THREAD_SAFETY_ANALYSIS { guard_.lock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PoolGuard& guard_;
};

}  // namespace levee::core
