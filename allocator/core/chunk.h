// A chunk: the 2 MiB of one page into which small blocks are packed, and the slabs inside it.
//
// Owns: the map of what lies where. Up to 16 KiB, objects of one size class share a 64 KiB slab
// that belongs to one stream while anything lives in it. Above, blocks are ranges of the chunk,
// lowest address first, in units of 512 B. Free space is kept as a sorted list of runs inside the
// record: at most one more than there are ranges and slabs. `stamps` says who gave back what is
// free now. Sums, checked by `validate`: used units = slabs * 128 + units of ranges; used + free =
// 4,096. Guarded by the pool lock, but for what thread caches touch (marked). Cost: taking and
// giving back move a few bytes of the run list.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include <levee/units.h>

#include "allocator/core/block.h"
#include "allocator/core/first_at_least.h"
#include "allocator/core/ids.h"
#include "allocator/core/size_class.h"
#include "allocator/core/stamp.h"

namespace levee::core {

struct Chunk;

struct Slab {
  DeviceAddr base;
  Chunk* chunk = nullptr;
  SizeClass size_class;
  std::uint8_t object_count = 0;
  std::uint8_t live_count = 0;  ///< objects that are not free here (live, waiting or in a cache)
  bool is_listed = false;       ///< in its heap's list of slabs with free objects
  StreamIndex stream;
  Age::Moment birth;          ///< when it last went from empty to not empty
  Epoch last_free_epoch = 0;  ///< of its stream, when an object last came back
  Slab* next = nullptr;
  Slab* previous = nullptr;
  std::array<std::uint64_t, 2> free_bits{};  ///< 1: the object is free
  /// Of live and of waiting objects; 0: nobody has it. kSlabLimit fits. Changed without the pool
  /// lock by whoever owns the object or the thread cache that holds it.
  std::array<std::atomic<std::uint16_t>, 128> requested{};
  /// 1: used on further streams, see uses in heap, or waiting. Such an object passes no cache.
  std::array<std::atomic<std::uint64_t>, 2> use_bits{};
  std::array<std::uint64_t, 2> waiting_bits{};  ///< 1: given back, still waiting

  bool has_free() const { return (free_bits[0] | free_bits[1]) != 0; }
  /// What was asked for by whoever has the object; 0: nobody.
  Bytes requested_of(std::uint32_t i) const {
    return Bytes{requested[i].load(std::memory_order_relaxed)};
  }
  bool is_used_elsewhere(std::uint32_t i) const {
    return (use_bits[i / 64].load(std::memory_order_relaxed) >> (i % 64) & 1) != 0;
  }
  void set_used_elsewhere(std::uint32_t i, bool on) {
    const std::uint64_t bit = 1ULL << (i % 64);
    const std::uint64_t bits = use_bits[i / 64].load(std::memory_order_relaxed);
    use_bits[i / 64].store(on ? bits | bit : bits & ~bit, std::memory_order_relaxed);
  }
  bool is_waiting(std::uint32_t i) const { return (waiting_bits[i / 64] >> (i % 64) & 1) != 0; }
  DeviceAddr object(std::uint32_t i) const { return base + class_bytes(size_class) * i; }
};

struct Chunk {
  static constexpr std::uint32_t kUnits = 4096;    // of 512 B
  static constexpr std::uint32_t kCells = 32;      // of 64 KiB
  static constexpr std::uint32_t kGranules = 128;  // of 16 KiB: a range begins in each at most once
  static constexpr std::uint32_t kMostRuns = 130;
  static constexpr std::uint32_t kRunRoom = kMostRuns + kSearchPadding;

  DeviceAddr base;
  ZoneIndex zone;
  Bytes zone_offset;
  PoolIndex pool;
  StreamIndex home;  ///< stream that took it first: others come here before growth only
  std::uint32_t used_units = 0;
  std::uint32_t live_count = 0;     ///< ranges plus objects that are not free; slabs themselves not
  std::uint32_t longest_units = 0;  ///< longest free run, exact
  std::uint32_t run_count = 0;
  StampSet stamps;
  std::uint32_t place = 0;  ///< of its heap: index in the list of chunks
  std::array<std::uint16_t, kRunRoom> run_begin{};
  std::array<std::uint16_t, kRunRoom> run_units{};
  /// Read without the pool lock for addresses of live objects, whose slab stays.
  std::array<std::atomic<Slab*>, kCells> slab_of_cell{};
  std::array<BlockRecord*, kGranules> range_at{};

  void reset(DeviceAddr at, ZoneIndex in_zone, Bytes offset, PoolIndex of_pool, StreamIndex stream);
  /// Lowest free stretch of `units` that begins at a multiple of `alignment_units`.
  std::optional<std::uint32_t> find(std::uint32_t units, std::uint32_t alignment_units) const {
    if (longest_units < units) return std::nullopt;
    if (alignment_units == 1) return run_begin[first_at_least(run_units.data(), run_count, units)];
    return find_aligned(units, alignment_units);
  }
  void take(std::uint32_t begin, std::uint32_t units);
  void give_back(std::uint32_t begin, std::uint32_t units);
  bool is_free(std::uint32_t begin, std::uint32_t units) const;

  std::uint32_t unit_of(DeviceAddr addr) const {
    return static_cast<std::uint32_t>((addr - base).value / 512);
  }
  Slab* slab_at(DeviceAddr addr) const {
    return slab_of_cell[(addr - base).value / kSlabBytes.value].load(std::memory_order_acquire);
  }
  BlockRecord*& range_slot(DeviceAddr addr) { return range_at[(addr - base).value >> 14]; }
  BlockRecord* range_slot(DeviceAddr addr) const { return range_at[(addr - base).value >> 14]; }

  void validate() const;

 private:
  std::optional<std::uint32_t> find_aligned(std::uint32_t units,
                                            std::uint32_t alignment_units) const;
  void find_longest();
  void remove_run(std::uint32_t i);
  void insert_run(std::uint32_t i, std::uint32_t begin, std::uint32_t units);
};

}  // namespace levee::core
