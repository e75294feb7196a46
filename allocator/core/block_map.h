// From an address to what lives there: two table look-ups, no hash.
//
// The address space is cut into granules of 1 MiB. A block above 1 MiB begins in each granule at
// most once, and a chunk (the 2 MiB page of small blocks) covers whole granules, so one word a
// granule says everything: nothing, a block record, or a chunk. Small blocks that lie in a large
// run (fragments) are few; each granule has a list of those that begin in it. A second table of the
// same shape says which zone each granule belongs to. Owns: the tables. Promises: `lookup` and
// `zone_of` may run without the lock, concurrently with changes elsewhere; what they return for a
// live block's address is stable. Does not: own records. Changes are guarded by the pool lock.
// Cost: 3 loads for `lookup`.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include <levee/units.h>

#include "allocator/base/attributes.h"
#include "allocator/core/block.h"
#include "allocator/core/ids.h"

namespace levee::core {

/// What a granule says.
class GranuleEntry {
 public:
  GranuleEntry() = default;
  explicit GranuleEntry(BlockRecord* block) : word_(reinterpret_cast<std::uintptr_t>(block)) {}
  explicit GranuleEntry(Chunk* chunk) : word_(reinterpret_cast<std::uintptr_t>(chunk) | 1) {}
  static GranuleEntry from_word(std::uintptr_t word) {
    GranuleEntry entry;
    entry.word_ = word;
    return entry;
  }

  bool is_empty() const { return word_ == 0; }
  bool is_chunk() const { return (word_ & 1) != 0; }
  BlockRecord* block() const { return reinterpret_cast<BlockRecord*>(word_); }
  Chunk* chunk() const { return reinterpret_cast<Chunk*>(word_ & ~std::uintptr_t{1}); }
  std::uintptr_t word() const { return word_; }

 private:
  std::uintptr_t word_ = 0;
};

class BlockMap {
 public:
  BlockMap();
  BlockMap(const BlockMap&) = delete;
  BlockMap& operator=(const BlockMap&) = delete;

  /// Addresses that belong to a zone from now on. Whole granules.
  void mark(DeviceAddr base, Bytes bytes, ZoneIndex zone);
  void unmark(DeviceAddr base, Bytes bytes);
  /// The same for whatever of a large range was marked: skips what was never touched.
  void unmark_zone(DeviceAddr base, Bytes bytes, ZoneIndex zone);
  /// Zone that `addr` belongs to, or none. Lock-free.
  ZoneIndex zone_of(DeviceAddr addr) const {
    const std::uint64_t granule = addr.value >> kGranuleShift;
    const std::uint64_t top = granule >> kLeafBits;
    if (top >= kTopEntries) return ZoneIndex{};
    const Leaf* leaf = tops_[top].load(std::memory_order_acquire);
    if (leaf == nullptr) return ZoneIndex{};
    return ZoneIndex{leaf->zones[granule & kLeafMask].load(std::memory_order_acquire)};
  }

  void set_block(BlockRecord* block);
  void clear_block(const BlockRecord* block);
  void set_chunk(DeviceAddr base, Chunk* chunk);
  void clear_chunk(DeviceAddr base);

  /// What begins in, or covers, the granule of `addr`. Lock-free.
  GranuleEntry lookup(DeviceAddr addr) const {
    const std::uint64_t granule = addr.value >> kGranuleShift;
    const std::uint64_t top = granule >> kLeafBits;
    if (top >= kTopEntries) [[unlikely]]
      return GranuleEntry{};
    const Leaf* leaf = tops_[top].load(std::memory_order_acquire);
    if (leaf == nullptr) return GranuleEntry{};
    return GranuleEntry::from_word(
        leaf->words[granule & kLeafMask].load(std::memory_order_acquire));
  }
  /// The block that begins exactly at `addr`, fragments included; null if none does.
  BlockRecord* block_at(DeviceAddr addr) const;
  /// The block (not of a chunk) that contains `addr`; searches back to the start of its zone.
  BlockRecord* block_containing(DeviceAddr addr) const;
  /// Calls f(BlockRecord&) and g(Chunk&) in order of address for everything in [base, base+bytes).
  template <typename F, typename G>
  void for_each(DeviceAddr base, Bytes bytes, F&& f, G&& g) const {
    const DeviceAddr end = base + bytes;
    std::uint64_t granule = base.value >> kGranuleShift;
    const std::uint64_t last = (end.value - 1) >> kGranuleShift;
    for (; granule <= last; ++granule) {
      const DeviceAddr at{granule << kGranuleShift};
      const GranuleEntry entry = lookup(at);
      BlockRecord* fragment = first_fragment(at);
      const auto fragments_below = [&](DeviceAddr limit) {
        for (; fragment != nullptr && fragment->addr < limit; fragment = fragment->next_fragment) {
          if (fragment->addr >= base && fragment->addr < end) f(*fragment);
        }
      };
      if (entry.is_chunk()) {
        if (is_chunk_start(at, entry.chunk()) && at >= base && at < end) g(*entry.chunk());
      } else if (!entry.is_empty() && entry.block()->addr >= base && entry.block()->addr < end) {
        fragments_below(entry.block()->addr);
        f(*entry.block());
      }
      fragments_below(end);
    }
  }

 private:
  static constexpr int kGranuleShift = 20;
  static constexpr int kLeafBits = 10;
  static constexpr std::uint64_t kLeafMask = (1U << kLeafBits) - 1;
  // 47 bits of addresses: what user programs get on x86-64 and what CUDA maps into them.
  static constexpr std::uint64_t kTopEntries = 1ULL << (47 - kGranuleShift - kLeafBits);
  struct Leaf {
    Leaf();
    std::atomic<std::uintptr_t> words[1U << kLeafBits];
    std::atomic<std::uint32_t> zones[1U << kLeafBits];
    BlockRecord* fragments[1U << kLeafBits] = {};  // by address; under the pool lock alone
  };

  BlockRecord* first_fragment(DeviceAddr addr) const {
    const std::uint64_t granule = addr.value >> kGranuleShift;
    const std::uint64_t top = granule >> kLeafBits;
    if (top >= kTopEntries) return nullptr;
    const Leaf* leaf = tops_[top].load(std::memory_order_relaxed);
    return leaf == nullptr ? nullptr : leaf->fragments[granule & kLeafMask];
  }
  static bool is_chunk_start(DeviceAddr at, const Chunk* chunk);
  Leaf& leaf_of(DeviceAddr addr) {
    const std::uint64_t top = addr.value >> (kGranuleShift + kLeafBits);
    Leaf* leaf = top < kTopEntries ? tops_[top].load(std::memory_order_relaxed) : nullptr;
    if (leaf == nullptr) [[unlikely]]
      leaf = add_leaf(top, addr);
    return *leaf;
  }
  LEVEE_SLOW_PATH Leaf* add_leaf(std::uint64_t top, DeviceAddr addr);
  std::atomic<std::uintptr_t>& word(DeviceAddr addr) {
    return leaf_of(addr).words[(addr.value >> kGranuleShift) & kLeafMask];
  }

  std::unique_ptr<std::atomic<Leaf*>[]> tops_;  // one for each GiB
  std::vector<std::unique_ptr<Leaf>> leaves_;   // never given back: readers hold no lock
};

}  // namespace levee::core
