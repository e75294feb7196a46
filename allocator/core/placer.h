// The fast half: serves a request from memory that is held and mapped, and takes blocks back.
//
// Owns nothing; works on the State under the pool mutex, which every method needs held. Promises:
// no call that blocks; a block is handed out only after its stream was ordered behind everybody who
// used the bytes before (same stream: nothing to do; other streams: a stream-side wait on a shared
// event); on a capturing stream memory that would need a wait is skipped. A failed attempt changes
// nothing. Cost of a hit: no device call, no heap allocation.
#pragma once

#include <optional>

#include <levee/allocator.h>

#include "allocator/core/state.h"

namespace levee::core {

class Placer {
 public:
  explicit Placer(State& state) : state_(state) {}

  enum class Outcome : std::uint8_t {
    kServed,
    kMiss,    ///< nothing that is held fits
    kFailed,  ///< `status` of the device: the order between streams could not be established
  };
  struct Served {
    Outcome outcome = Outcome::kMiss;
    Block block;
    Status status;
  };
  Served serve(const Request& request);

  /// What was at an address: whether it was an object that a thread cache may hold, and of which
  /// kind.
  struct FreedObject {
    bool is_cacheable = false;
    SizeClass size_class;
    StreamIndex stream;
  };
  /// The reverse. kNotOwned, and nothing done, if no live block begins at `addr`.
  Result<Block> take_back(DeviceAddr addr, FreedObject* kind = nullptr);
  Status record_use(DeviceAddr addr, StreamIndex stream);
  std::optional<Block> find(DeviceAddr addr) const;

  /// Frees the blocks whose other streams are known to be done. Asks the device if `ask`.
  void release_done(bool ask);
  /// Frees every waiting block of the pool now: whoever gets the memory waits on the device for
  /// those streams, the host does not. Returns the bytes freed.
  Bytes release_with_waits(PoolIndex pool);
  /// Gives idle chunks of all pools back to their zones, after the thread caches gave up what they
  /// hold. Returns their bytes.
  Bytes release_idle_chunks();
  /// Counts requests and looks after waiting blocks now and then.
  void tick(std::uint32_t requests) {
    if (state_.waiting.empty()) return;
    if (state_.calls_until_poll > requests) {
      state_.calls_until_poll -= requests;
      return;
    }
    state_.calls_until_poll = State::kPollEvery;
    release_done(/*ask=*/true);
  }
  /// Brings waiting blocks to where a look at each request, as PyTorch's own allocator takes it,
  /// would have them: for statistics. Pre: the caches are held.
  void catch_up_with_requests();

  /// Whether a page for small blocks is to be created rather than taken from where large ones go.
  bool may_grow_small(const Pool& pool) const;

  // Thread caches (cache_exchange.cc).
  /// Tells the counters what went through the caches. Others than the calling thread's are not
  /// stopped: the sums are those of a moment ago.
  void fold_caches();
  /// Caches may have been given more credit than what is now missing to a new maximum allows.
  void limit_credits() {
    if (most_credit_ > kLeastCredit) lower_credits();
  }
  /// Fills the stack of the class from slabs that exist.
  void fill_cache(ThreadCache& cache, SizeClass size_class, StreamIndex stream);
  /// Makes room in the stack of the class if it is full.
  void relieve_cache(ThreadCache& cache, SizeClass size_class, StreamIndex stream);
  /// Empties every cache, counted. Returns the bytes of blocks that went back to their slabs.
  Bytes drain_caches();
  /// What an exiting thread leaves.
  void retire_caches(std::uint64_t thread);
  /// Nobody hands out or takes back small blocks while it lives, and all are counted. The pool lock
  /// must be held all the while.
  class CachesHeld {
   public:
    explicit CachesHeld(Placer& placer) : placer_(placer) { placer_.hold_caches(); }
    ~CachesHeld() { placer_.state_.caches.resume_others(); }
    CachesHeld(const CachesHeld&) = delete;
    CachesHeld& operator=(const CachesHeld&) = delete;

   private:
    Placer& placer_;
  };

  /// Block that is exactly there, for a checkpoint. Null if the bytes are not free.
  struct Exact {
    DeviceAddr addr;
    Bytes bytes;
    Bytes requested;
    Bytes span;
    BlockKind kind = BlockKind::kLarge;
    StreamIndex stream;
    ZoneIndex zone;
  };
  bool place_exactly(const Exact& exact, PoolIndex pool);
  /// Undoes `take_back` of the block, under the same hold of the pool lock and with nothing placed
  /// since: it is live again, with its uses. Calls no device.
  void put_back(const Exact& exact, PoolIndex pool);

  /// At the allocator's end: records of blocks that nobody gave back go; their bytes do not matter
  /// any more.
  void abandon_blocks();

  /// From now on the pages of the pool serve nobody else.
  void capture(Pool& pool);
  /// The pool lost its last user: its pages may serve others once what runs on them is done.
  void release(Pool& pool);
  /// A pool without users and without live blocks ends: its zones go to the default pool. Put off
  /// while work is going on.
  void bury_if_dead(Pool& pool);
  /// Work that opens windows in the pool lock, and holds on to pools and their lists of zones
  /// across them. From begin to end no pool goes.
  void begin_work() { ++works_; }
  void end_work();
  class Work {
   public:
    explicit Work(Placer& placer) : placer_(placer) { placer_.begin_work(); }
    ~Work() { placer_.end_work(); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    Placer& placer_;
  };

 private:
  struct Located;  // what begins at an address

  /// Whether a stream has to be ordered behind earlier users of what it is given.
  enum class Order : std::uint8_t { kNeeded, kHeld };
  bool place_at(const Exact& exact, PoolIndex pool, Order order);
  bool revive(const Exact& exact, PoolIndex pool);
  static Request request_of(const Exact& exact, PoolIndex pool_index);

  Served serve_in(const Request& request, Pool& pool);
  Served serve_object(const Request& request, Pool& pool);
  Served serve_range(const Request& request, Pool& pool);
  Served serve_large(const Request& request, Pool& pool);
  Served serve_fragment(const Request& request, Pool& pool);

  struct RoomFound {
    Outcome outcome = Outcome::kMiss;
    SmallHeap::Room room;
    Status status;
  };
  RoomFound find_small_room(const Request& request, Pool& pool, std::uint32_t units,
                            std::uint32_t alignment_units);
  RoomFound take_chunk(const Request& request, Pool& pool);
  void give_back_chunk(Pool& pool, Chunk* chunk);

  /// Orders the stream after every stamp that `stamps` yields. kNotReady: a capture forbids it.
  template <typename ForEach>
  Status order(StreamIndex stream, Bytes bytes, ForEach&& for_each_stamp);
  bool needs_no_wait(StreamIndex stream, const Place& place) const;
  /// For large requests once there are several streams: a place that needs no wait, if the
  /// request's stream should rather have one. None: any place will do.
  std::optional<Place> choose_quiet(const Request& request, const Pool& pool, Bytes span);
  bool is_affine(const Pool& pool) const;
  PlaceFilter filter_for(const Request& request) const;
  PlaceFilter waitable(StreamIndex stream) const;
  bool exceeds_limit(const Pool& pool, const Place& place) const;
  Served serve_place(const Request& request, Pool& pool, const Place& place, BlockKind kind,
                     Bytes span, Order order = Order::kNeeded);
  Served finish(const Request& request, Pool& pool, BlockRecord* block);
  Served finish_object(const Request& request, Pool& pool, SmallHeap::Object object);
  Block take_back_object(DeviceAddr addr, SmallHeap::Object object);
  void occupy(Pool& pool, const Place& place);

  Located locate(DeviceAddr addr) const;
  ThreadCache::Shelf* shelf_for(ThreadCache& cache, StreamIndex stream);
  void give_back_cached(const ThreadCache::Object& object);
  void spill(ThreadCache::Shelf& shelf, SizeClass size_class, std::uint32_t keep);
  void empty_shelf(ThreadCache::Shelf& shelf, std::uint32_t keep);
  void fold(ThreadCache& cache, bool is_still);
  void tell_predictor(ThreadCache& cache);
  void take_turn(ThreadCache& own);
  std::int64_t fair_credit() const;
  void lower_credits();
  void hold_caches();
  void start_waiting(BlockRecord* block, const base::SmallVector<StreamIndex, 2>& uses);
  void release_block(BlockRecord* block, std::span<const Stamp> stamps);
  void complete(BlockRecord* block, const StampSet& stamps);
  Block describe(const BlockRecord& block) const {
    return describe(block, state_.pools[block.pool]);
  }
  Block describe(const BlockRecord& block, const Pool& pool) const {
    return Block{block.addr, block.bytes, block.requested, state_.streams.id(block.stream),
                 pool.id};
  }

  // Bytes that a cache may hand out near the maximum before the counters hear of it; chosen.
  static constexpr std::int64_t kLeastCredit = 64 << 10;
  // Of reserved memory: pages that nobody uses, for small blocks to go where large ones do. Chosen
  // on the traces in README.
  static constexpr double kIdleShare = 0.8;
  // Turns of threads are paid with blocks handed out; chosen: a turn costs two or three times the
  // lock, a microsecond, so two nanoseconds a pair; and 64 in a row.
  static constexpr std::int64_t kTurnCost = 512;
  static constexpr std::int64_t kMostTurns = 64;
  static constexpr std::int64_t kTurnEarnings = 8;  // of a request that took the lock anyway

  State& state_;
  std::uint32_t works_ = 0;  // going on
  bool has_dead_ = false;    // pools that end when the last of them does
  std::int64_t turn_budget_ = kMostTurns * kTurnCost;
  std::int64_t most_credit_ = 0;  // no cache has more
  std::uint64_t looks_caught_up_with_ = 0;
};

}  // namespace levee::core
