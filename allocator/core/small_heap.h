// Small blocks of one pool: slabs and ranges packed into chunks.
//
// Owns: the pool's chunks, the slabs in them, and for each (stream, size class) the list of slabs
// that have a free object. Promises: an object of a slab is given to that slab's stream alone, so
// no order is needed; a chunk that holds nothing goes back to its owner, one spare excepted, which
// `release_idle` gives up too. Does not: take pages from the space, order streams, or count: it
// says where there is room, its owner orders the stream after the chunk's stamps, then commits.
// Guarded by the pool lock. Cost: an object from a listed slab, about ten instructions; a range,
// linear in the number of chunks (eight a nanosecond) and in the runs of the chunk taken.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <levee/units.h>

#include "allocator/base/record_arena.h"
#include "allocator/base/small_vector.h"
#include "allocator/core/chunk.h"
#include "allocator/core/ids.h"
#include "allocator/core/size_class.h"
#include "allocator/core/streams.h"

namespace levee::core {

/// Records shared by the small heaps of all pools.
struct SmallRecords {
  base::RecordArena<Chunk> chunks{16};
  base::RecordArena<Slab> slabs{64};
};

/// Which chunks a stream may use, from what costs nothing to what costs a wait.
enum class ChunkReach : std::uint8_t {
  kHome,    ///< chunks it took itself, and whose free bytes need no wait
  kNoWait,  ///< any chunk whose free bytes need no wait
  kAny,     ///< any chunk
};

class SmallHeap {
 public:
  explicit SmallHeap(SmallRecords& records) : records_(records) {}
  ~SmallHeap();
  SmallHeap(const SmallHeap&) = delete;
  SmallHeap& operator=(const SmallHeap&) = delete;

  /// A `requested` of 0 takes it for a thread cache: nobody has it yet.
  struct Object {
    Slab* slab = nullptr;
    std::uint32_t index = 0;
    DeviceAddr addr() const { return slab->object(index); }
  };
  /// A free object for the stream from a slab that exists; none if there is no such slab.
  std::optional<Object> take_object(SizeClass size_class, StreamIndex stream, Bytes requested) {
    if (stream.value >= lists_.size()) return std::nullopt;
    Slab* slab = lists_[stream.value][size_class.value];
    if (slab == nullptr) return std::nullopt;
    return take_from(slab, requested);
  }

  struct Room {
    Chunk* chunk = nullptr;
    std::uint32_t unit = 0;
  };
  /// Lowest room for `units` of 512 B at the alignment. Changes nothing.
  std::optional<Room> find_room(std::uint32_t units, std::uint32_t alignment_units,
                                StreamIndex stream, ChunkReach reach,
                                const StreamTable& streams) const;

  // Commits. Pre: the stream was ordered after the stamps of the chunk.
  /// Makes a slab; the next `take_object` of its class and stream finds it.
  Slab* make_slab(Room room, SizeClass size_class, StreamIndex stream);
  void take_range(Room room, BlockRecord* block);

  /// Gives an object back. Returns a chunk to be given back to the space, or null.
  Chunk* free_object(Object object, Stamp stamp);
  Chunk* free_range(BlockRecord* block, std::span<const Stamp> stamps);

  Chunk* add_chunk(DeviceAddr base, ZoneIndex zone, Bytes zone_offset, PoolIndex pool,
                   StreamIndex home);
  /// Takes chunks that hold nothing out of the heap, after giving up idle slabs. The caller gives
  /// their bytes back to the space and then calls `destroy_chunk`.
  std::vector<Chunk*> release_idle();
  void destroy_chunk(Chunk* chunk);
  /// Takes the spare chunk out of the heap, as `release_idle` would; null if there is none.
  Chunk* take_spare() {
    Chunk* spare = spare_;
    if (spare != nullptr) remove_chunk(spare);
    return spare;
  }

  // Restoring a checkpoint: exactly these bytes. False if they are not free or the slab differs.
  bool take_object_at(Chunk* chunk, DeviceAddr addr, SizeClass size_class, StreamIndex stream,
                      Bytes requested);
  bool take_range_at(Chunk* chunk, BlockRecord* block);

  const std::vector<Chunk*>& chunks() const { return chunks_; }
  std::uint32_t partly_used_chunks() const;

  void validate() const;

 private:
  using SlabLists = std::array<Slab*, kClassCount>;

  std::optional<Object> take_from(Slab* slab, Bytes requested) {
    const std::uint32_t half = slab->free_bits[0] != 0 ? 0 : 1;
    const std::uint32_t bit = static_cast<std::uint32_t>(std::countr_zero(slab->free_bits[half]));
    return commit_object(slab, half * 64 + bit, requested);
  }
  Object commit_object(Slab* slab, std::uint32_t index, Bytes requested) {
    slab->free_bits[index / 64] &= ~(1ULL << (index % 64));
    slab->requested[index].store(static_cast<std::uint16_t>(requested.value),
                                 std::memory_order_relaxed);
    ++slab->live_count;
    ++slab->chunk->live_count;
    if (spare_ == slab->chunk) spare_ = nullptr;
    if (!slab->has_free()) unlist(slab);
    return Object{slab, index};
  }
  void list(Slab* slab);
  void unlist(Slab* slab);
  void retire_slab(Slab* slab);
  Chunk* retire_if_empty(Chunk* chunk);
  void remove_chunk(Chunk* chunk);
  static bool may_use(const Chunk& chunk, StreamIndex stream, ChunkReach reach,
                      const StreamTable& streams) {
    if (reach == ChunkReach::kAny) return true;
    if (reach == ChunkReach::kHome && chunk.home != stream) return false;
    for (Stamp stamp : chunk.stamps) {
      if (streams.must_wait(stream, stamp)) return false;
    }
    return true;
  }
  /// After the chunk's free runs changed.
  void note_runs(const Chunk& chunk) {
    longest_[chunk.place] = static_cast<std::uint16_t>(chunk.longest_units);
  }
  void number_chunks(std::size_t from);

  SmallRecords& records_;
  std::vector<Chunk*> chunks_;          // by address
  std::vector<std::uint16_t> longest_;  // of each chunk its longest free run; room to be searched
  std::vector<SlabLists> lists_;        // by stream: slabs with a free object
  Chunk* spare_ = nullptr;              // one empty chunk, kept so that a lone block costs no page
};

}  // namespace levee::core
