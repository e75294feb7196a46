#include "allocator/core/block_map.h"

#include "allocator/base/check.h"
#include "allocator/core/chunk.h"

namespace levee::core {

BlockMap::Leaf::Leaf() {
  for (auto& word : words) word.store(0, std::memory_order_relaxed);
  for (auto& zone : zones) zone.store(kNoIndex, std::memory_order_relaxed);
}

BlockMap::BlockMap() : tops_(std::make_unique<std::atomic<Leaf*>[]>(kTopEntries)) {}

BlockMap::Leaf* BlockMap::add_leaf(std::uint64_t top, DeviceAddr addr) {
  LEVEE_CHECK_LT(top, kTopEntries, "device address ", addr, " is above 47 bits");
  leaves_.push_back(std::make_unique<Leaf>());
  Leaf* leaf = leaves_.back().get();
  tops_[top].store(leaf, std::memory_order_release);
  return leaf;
}

void BlockMap::mark(DeviceAddr base, Bytes bytes, ZoneIndex zone) {
  for (Bytes at{}; at < bytes; at += Bytes{1ULL << kGranuleShift}) {
    const DeviceAddr addr = base + at;
    leaf_of(addr).zones[(addr.value >> kGranuleShift) & kLeafMask].store(zone.value,
                                                                         std::memory_order_release);
  }
}

void BlockMap::unmark(DeviceAddr base, Bytes bytes) {
  mark(base, bytes, ZoneIndex{});
}

void BlockMap::unmark_zone(DeviceAddr base, Bytes bytes, ZoneIndex zone) {
  const std::uint64_t first = base.value >> kGranuleShift;
  const std::uint64_t last = ((base + bytes).value - 1) >> kGranuleShift;
  for (std::uint64_t granule = first; granule <= last;) {
    Leaf* leaf = tops_[granule >> kLeafBits].load(std::memory_order_relaxed);
    if (leaf == nullptr) {
      granule = ((granule >> kLeafBits) + 1) << kLeafBits;
      continue;
    }
    std::atomic<std::uint32_t>& entry = leaf->zones[granule & kLeafMask];
    if (entry.load(std::memory_order_relaxed) == zone.value) {
      entry.store(kNoIndex, std::memory_order_release);
    }
    ++granule;
  }
}

void BlockMap::set_block(BlockRecord* block) {
  if (block->kind == BlockKind::kFragment) {
    BlockRecord** at =
        &leaf_of(block->addr).fragments[(block->addr.value >> kGranuleShift) & kLeafMask];
    while (*at != nullptr && (*at)->addr < block->addr) at = &(*at)->next_fragment;
    block->next_fragment = *at;
    *at = block;
    return;
  }
  std::atomic<std::uintptr_t>& at = word(block->addr);
  LEVEE_DCHECK_EQ(at.load(std::memory_order_relaxed), 0U, "two blocks in one granule, at ",
                  block->addr);
  at.store(GranuleEntry{block}.word(), std::memory_order_release);
}

void BlockMap::clear_block(const BlockRecord* block) {
  if (block->kind == BlockKind::kFragment) {
    BlockRecord** at =
        &leaf_of(block->addr).fragments[(block->addr.value >> kGranuleShift) & kLeafMask];
    while (*at != block) at = &(*at)->next_fragment;
    *at = block->next_fragment;
    return;
  }
  word(block->addr).store(0, std::memory_order_release);
}

void BlockMap::set_chunk(DeviceAddr base, Chunk* chunk) {
  for (Bytes at{}; at < kChunkBytes; at += Bytes{1ULL << kGranuleShift}) {
    LEVEE_DCHECK_EQ(word(base + at).load(std::memory_order_relaxed), 0U, "chunk over a block");
    word(base + at).store(GranuleEntry{chunk}.word(), std::memory_order_release);
  }
}

void BlockMap::clear_chunk(DeviceAddr base) {
  for (Bytes at{}; at < kChunkBytes; at += Bytes{1ULL << kGranuleShift}) {
    word(base + at).store(0, std::memory_order_release);
  }
}

bool BlockMap::is_chunk_start(DeviceAddr at, const Chunk* chunk) {
  return chunk->base == at;
}

BlockRecord* BlockMap::block_at(DeviceAddr addr) const {
  const GranuleEntry entry = lookup(addr);
  if (!entry.is_empty() && !entry.is_chunk() && entry.block()->addr == addr) return entry.block();
  for (BlockRecord* f = first_fragment(addr); f != nullptr; f = f->next_fragment) {
    if (f->addr == addr) return f;
  }
  return nullptr;
}

BlockRecord* BlockMap::block_containing(DeviceAddr addr) const {
  const ZoneIndex zone = zone_of(addr);
  if (zone.is_none()) return nullptr;
  // The block with the highest start at or below `addr` contains it, or none does.
  BlockRecord* nearest = nullptr;
  for (std::uint64_t granule = addr.value >> kGranuleShift; nearest == nullptr; --granule) {
    const DeviceAddr at{granule << kGranuleShift};
    if (zone_of(at) != zone) break;
    const GranuleEntry entry = lookup(at);
    if (entry.is_chunk()) break;
    if (!entry.is_empty() && entry.block()->addr <= addr) nearest = entry.block();
    for (BlockRecord* f = first_fragment(at); f != nullptr && f->addr <= addr;
         f = f->next_fragment) {
      if (nearest == nullptr || nearest->addr < f->addr) nearest = f;
    }
    if (granule == 0) break;
  }
  return nearest != nullptr && addr < nearest->addr + nearest->span ? nearest : nullptr;
}

}  // namespace levee::core
