// levee's allocator of one device, as its users see it: the torch plugin, the C ABI, the replay
// lab, tests.
//
// Owns all memory it reserves from the device. Promises (numbers as in allocator/README.md): P1 a
// request succeeds whenever the pages that hold live bytes plus those it needs fit the capacity; P2
// steady state makes no driver memory call; P3 no byte is live twice and none is reused before its
// last reader is done; P4 each operation completes or leaves no trace, whichever driver call fails;
// P5 the numbers add up. Thread safety: every method may be called from any thread. Callbacks run
// with no lock of the allocator held. Costs: a hit makes no device call, no heap allocation, no
// system call and takes at most one lock.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <levee/config.h>
#include <levee/event.h>
#include <levee/ids.h>
#include <levee/snapshot.h>
#include <levee/stats.h>
#include <levee/status.h>
#include <levee/units.h>

namespace levee {

/// A block handed out, or described. `bytes` >= `requested_bytes`.
struct Block {
  DeviceAddr addr;
  Bytes bytes;
  Bytes requested_bytes;
  StreamId stream;
  PoolId pool;
};

/// Why a request failed, in numbers; text is made of it elsewhere (allocator/analysis,
/// torch_plugin).
struct OomReport {
  Bytes requested_bytes;
  Bytes reserved_bytes;
  Bytes allocated_bytes;
  Bytes waiting_bytes;       ///< of blocks that wait for events
  Bytes free_bytes;          ///< reserved but not usable for this request
  Bytes largest_run_bytes;   ///< longest free run, of any pool
  Bytes partial_page_bytes;  ///< part of free_bytes that lies on pages with live bytes
  Bytes private_pool_bytes;  ///< reserved by private pools
  Bytes device_free_bytes;   ///< what the driver says is free
  Bytes device_total_bytes;
  Bytes limit_bytes;  ///< 0 = none
  EmergencyCause cause = EmergencyCause::kDeviceFull;
  struct Rung {
    LadderRung rung = LadderRung::kOutOfMemory;
    Bytes freed;  ///< bytes made usable by this rung
    Nanos took;
  };
  std::array<Rung, 6> rungs{};
  std::uint32_t rung_count = 0;
};

/// What torch calls cacheInfo: how much could be had in one piece without growth.
struct CacheInfo {
  Bytes largest_free_block;
};

/// Calls out of the allocator. All optional; made with no lock held.
struct AllocatorHooks {
  /// Names the place in the program that asks, for slow paths (growth, stitch, emergency). May take
  /// the GIL.
  std::function<ContextId()> capture_context;
  /// Rung kCallbacks: give memory back if you can; true if something was freed.
  std::function<bool()> free_memory;
  /// Told of each out-of-memory before it is returned.
  std::function<void(const OomReport&)> out_of_memory;
};

/// Opaque picture of a private pool's live blocks, for CUDA graph trees.
class PoolCheckpoint {
 public:
  virtual ~PoolCheckpoint() = default;
};

struct CheckpointDelta {
  std::vector<DeviceAddr> freed;  ///< live before, not live in the checkpoint
  std::vector<Block> allocated;   ///< live in the checkpoint, not before; now live again
};

class Allocator {
 public:
  Allocator() = default;
  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;
  virtual ~Allocator() = default;

  virtual DeviceId device() const = 0;

  // The hot pair.
  /// Hands out at least `requested` bytes, aligned to 512 B, usable by work on `stream` enqueued
  /// from now on. 0 bytes: kInvalidArgument (doors answer it before). On kOutOfMemory, `report` (if
  /// given) says why.
  virtual Result<Block> allocate(Bytes requested, StreamId stream, OomReport* report = nullptr) = 0;
  /// Gives a block back. Work already enqueued on its own stream and on streams named by
  /// `record_use` may still read it. Returns what it was; kNotOwned if `addr` is no live block
  /// (nothing happens).
  virtual Result<Block> free(DeviceAddr addr) = 0;
  /// Declares that work on `stream` uses the live block that contains `addr`.
  virtual Status record_use(DeviceAddr addr, StreamId stream) = 0;

  // Questions.
  virtual Result<Block> find(DeviceAddr addr) const = 0;  ///< the live block that contains `addr`
  /// Base and size of the range that could be shared as a whole with another process; kUnsupported
  /// for pages.
  virtual Result<Block> base_allocation(DeviceAddr addr) const = 0;
  virtual bool owns(
      DeviceAddr addr) const = 0;  ///< lock-free; true for any address inside a held range
  virtual Stats stats() const = 0;
  virtual void reset_peak_stats() = 0;
  virtual void reset_accumulated_stats() = 0;
  virtual Snapshot snapshot() const = 0;
  virtual Snapshot snapshot(PoolId pool) const = 0;
  virtual CacheInfo cache_info() const = 0;

  // Limits and giving back.
  virtual void set_limit(
      Bytes limit) = 0;  ///< most bytes to reserve from now on; 0 = none. Nothing is freed by it
  virtual Bytes limit() const = 0;
  /// Gives free memory back to the device until at most `keep` bytes are reserved (fewer if live
  /// bytes need more stay). Waits for our own events first. Returns the bytes given back.
  virtual Result<Bytes> trim(Bytes keep) = 0;
  /// The same for one private pool, as torch's empty_cache inside a pool.
  virtual Result<Bytes> trim_pool(PoolId pool) = 0;

  // Private pools. Semantics of torch's beginAllocateToPool family.
  virtual Status create_or_retain_pool(PoolId pool) = 0;
  /// Requests on streams that `filter` accepts go to `pool` until the matching end. Nested regions:
  /// innermost first.
  virtual Status begin_allocate_to_pool(PoolId pool, std::function<bool(StreamId)> filter) = 0;
  virtual Status end_allocate_to_pool(PoolId pool) = 0;
  /// The stream is about to capture, or to ask for memory. While a stream captures the allocator
  /// must not wait for the device, and it can only ask the streams that it knows.
  virtual void expect_stream(StreamId stream) = 0;
  /// Drops one use. At 0 its settings end and its memory becomes free for others once not live.
  virtual Status release_pool(PoolId pool) = 0;
  virtual int pool_use_count(PoolId pool) const = 0;
  virtual Status set_pool_limit(PoolId pool, Bytes limit) = 0;
  virtual Status set_pool_use_on_oom(PoolId pool, bool use) = 0;
  virtual Status set_pool_no_split(PoolId pool) = 0;
  virtual Status set_pool_backing(PoolId pool, Backing backing) = 0;
  /// True if exactly `expected` are the live blocks of the pool.
  virtual bool pool_has_exactly(PoolId pool, std::span<const DeviceAddr> expected) const = 0;
  virtual Result<std::shared_ptr<PoolCheckpoint>> checkpoint_pool(PoolId pool) = 0;
  virtual Result<CheckpointDelta> restore_pool(PoolId pool, const PoolCheckpoint& checkpoint) = 0;

  // Advice.
  virtual void mark_step() = 0;                      ///< a new training step or request begins
  virtual void set_hooks(AllocatorHooks hooks) = 0;  ///< before the first allocation

  /// Checks every invariant of every structure; ends the process with the broken one. For tests;
  /// O(everything).
  virtual void validate() const = 0;
};

}  // namespace levee
