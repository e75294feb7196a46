#include "allocator/core/small_heap.h"

#include <algorithm>

#include "allocator/base/check.h"

namespace levee::core {

SmallHeap::~SmallHeap() {
  // Slabs hold nothing of their own and go with the memory of their records.
  for (Chunk* chunk : chunks_) records_.chunks.destroy(chunk);
}

std::optional<SmallHeap::Room> SmallHeap::find_room(std::uint32_t units,
                                                    std::uint32_t alignment_units,
                                                    StreamIndex stream, ChunkReach reach,
                                                    const StreamTable& streams) const {
  const auto count = static_cast<std::uint32_t>(chunks_.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    i += first_at_least(longest_.data() + i, count - i, units);
    if (i == count) break;
    Chunk* chunk = chunks_[i];
    if (!may_use(*chunk, stream, reach, streams)) continue;
    if (const auto unit = chunk->find(units, alignment_units)) return Room{chunk, *unit};
  }
  return std::nullopt;
}

Slab* SmallHeap::make_slab(Room room, SizeClass size_class, StreamIndex stream) {
  Slab* slab = records_.slabs.make();
  if (slab == nullptr) return nullptr;
  Chunk* chunk = room.chunk;
  if (chunk == spare_) spare_ = nullptr;
  chunk->take(room.unit, kSlabUnits);
  note_runs(*chunk);
  slab->base = chunk->base + 512_B * room.unit;
  slab->chunk = chunk;
  slab->size_class = size_class;
  slab->stream = stream;
  slab->object_count = static_cast<std::uint8_t>(objects_per_slab(size_class));
  const std::uint32_t count = slab->object_count;
  slab->free_bits[0] = count >= 64 ? ~0ULL : (1ULL << count) - 1;
  slab->free_bits[1] = count <= 64 ? 0 : count == 128 ? ~0ULL : (1ULL << (count - 64)) - 1;
  chunk->slab_of_cell[room.unit / kSlabUnits] = slab;
  if (lists_.size() <= stream.value) lists_.resize(stream.value + 1, SlabLists{});
  list(slab);
  return slab;
}

void SmallHeap::take_range(Room room, BlockRecord* block) {
  Chunk* chunk = room.chunk;
  if (chunk == spare_) spare_ = nullptr;
  chunk->take(room.unit, static_cast<std::uint32_t>(block->span.value / 512));
  note_runs(*chunk);
  block->chunk = chunk;
  block->addr = chunk->base + 512_B * room.unit;
  chunk->range_slot(block->addr) = block;
  ++chunk->live_count;
}

Chunk* SmallHeap::free_object(Object object, Stamp stamp) {
  Slab* slab = object.slab;
  Chunk* chunk = slab->chunk;
  slab->requested[object.index].store(0, std::memory_order_relaxed);
  slab->free_bits[object.index / 64] |= 1ULL << (object.index % 64);
  --slab->live_count;
  --chunk->live_count;
  slab->last_free_epoch = stamp.epoch();
  if (!slab->is_listed) list(slab);
  if (slab->live_count == 0 && lists_[slab->stream.value][slab->size_class.value] != slab) {
    // Others of its kind have room: its 64 KiB are worth more to everybody. The first of the list
    // stays, so that a lone block does not make and drop a slab each time.
    retire_slab(slab);
  }
  return chunk->live_count == 0 ? retire_if_empty(chunk) : nullptr;
}

Chunk* SmallHeap::free_range(BlockRecord* block, std::span<const Stamp> stamps) {
  Chunk* chunk = block->chunk;
  chunk->range_slot(block->addr) = nullptr;
  chunk->give_back(chunk->unit_of(block->addr),
                   static_cast<std::uint32_t>(block->span.value / 512));
  note_runs(*chunk);
  chunk->stamps.add_all(stamps);
  --chunk->live_count;
  return chunk->live_count == 0 ? retire_if_empty(chunk) : nullptr;
}

void SmallHeap::list(Slab* slab) {
  Slab*& head = lists_[slab->stream.value][slab->size_class.value];
  slab->previous = nullptr;
  slab->next = head;
  if (head != nullptr) head->previous = slab;
  head = slab;
  slab->is_listed = true;
}

void SmallHeap::unlist(Slab* slab) {
  if (slab->previous != nullptr) {
    slab->previous->next = slab->next;
  } else {
    lists_[slab->stream.value][slab->size_class.value] = slab->next;
  }
  if (slab->next != nullptr) slab->next->previous = slab->previous;
  slab->next = slab->previous = nullptr;
  slab->is_listed = false;
}

void SmallHeap::retire_slab(Slab* slab) {
  LEVEE_DCHECK_EQ(slab->live_count, 0);
  Chunk* chunk = slab->chunk;
  if (slab->is_listed) unlist(slab);
  const std::uint32_t unit = chunk->unit_of(slab->base);
  chunk->slab_of_cell[unit / kSlabUnits] = nullptr;
  chunk->give_back(unit, kSlabUnits);
  note_runs(*chunk);
  chunk->stamps.add(Stamp{slab->stream, slab->last_free_epoch});
  records_.slabs.destroy(slab);
}

// An empty chunk may still hold idle slabs: they keep their streams' order, and are retired when
// the chunk really goes.
Chunk* SmallHeap::retire_if_empty(Chunk* chunk) {
  if (spare_ == nullptr || spare_ == chunk) {
    spare_ = chunk;
    return nullptr;
  }
  remove_chunk(chunk);
  return chunk;
}

void SmallHeap::remove_chunk(Chunk* chunk) {
  for (Slab* slab : chunk->slab_of_cell) {
    if (slab != nullptr) retire_slab(slab);
  }
  if (spare_ == chunk) spare_ = nullptr;
  chunks_.erase(chunks_.begin() + chunk->place);
  number_chunks(chunk->place);
}

void SmallHeap::number_chunks(std::size_t from) {
  longest_.resize(chunks_.size() + kSearchPadding);
  for (std::size_t i = from; i < chunks_.size(); ++i) {
    chunks_[i]->place = static_cast<std::uint32_t>(i);
    note_runs(*chunks_[i]);
  }
}

Chunk* SmallHeap::add_chunk(DeviceAddr base, ZoneIndex zone, Bytes zone_offset, PoolIndex pool,
                            StreamIndex home) {
  Chunk* chunk = records_.chunks.make();
  if (chunk == nullptr) return nullptr;
  chunk->reset(base, zone, zone_offset, pool, home);
  const auto at = std::lower_bound(chunks_.begin(), chunks_.end(), base,
                                   [](const Chunk* c, DeviceAddr a) { return c->base < a; });
  const auto place = at - chunks_.begin();
  chunks_.insert(at, chunk);
  number_chunks(static_cast<std::size_t>(place));
  return chunk;
}

std::vector<Chunk*> SmallHeap::release_idle() {
  for (Chunk* chunk : chunks_) {
    for (Slab* slab : chunk->slab_of_cell) {
      if (slab != nullptr && slab->live_count == 0) {
        retire_slab(slab);
      }
    }
  }
  std::vector<Chunk*> idle;
  for (Chunk* chunk : chunks_) {
    if (chunk->live_count == 0) idle.push_back(chunk);
  }
  for (Chunk* chunk : idle) remove_chunk(chunk);
  return idle;
}

void SmallHeap::destroy_chunk(Chunk* chunk) {
  records_.chunks.destroy(chunk);
}

bool SmallHeap::take_object_at(Chunk* chunk, DeviceAddr addr, SizeClass size_class,
                               StreamIndex stream, Bytes requested) {
  Slab* slab = chunk->slab_at(addr);
  if (slab == nullptr) {
    const std::uint32_t unit = chunk->unit_of(addr) / kSlabUnits * kSlabUnits;
    if (!chunk->is_free(unit, kSlabUnits)) return false;
    slab = make_slab(Room{chunk, unit}, size_class, stream);
    if (slab == nullptr) return false;
  }
  const std::uint32_t index = object_at(slab->size_class, addr - slab->base);
  if (slab->size_class != size_class || slab->stream != stream || index >= slab->object_count ||
      slab->object(index) != addr || (slab->free_bits[index / 64] >> (index % 64) & 1) == 0) {
    return false;
  }
  commit_object(slab, index, requested);
  return true;
}

bool SmallHeap::take_range_at(Chunk* chunk, BlockRecord* block) {
  const std::uint32_t unit = chunk->unit_of(block->addr);
  if (!chunk->is_free(unit, static_cast<std::uint32_t>(block->span.value / 512))) return false;
  take_range(Room{chunk, unit}, block);
  return true;
}

std::uint32_t SmallHeap::partly_used_chunks() const {
  return static_cast<std::uint32_t>(std::count_if(
      chunks_.begin(), chunks_.end(), [](Chunk* c) { return c->used_units < Chunk::kUnits; }));
}

void SmallHeap::validate() const {
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    chunks_[i]->validate();
    LEVEE_CHECK_EQ(chunks_[i]->place, i, "a chunk knows its place");
    LEVEE_CHECK_EQ(longest_[i], chunks_[i]->longest_units, "longest run of chunk ", i);
    if (i > 0) LEVEE_CHECK_LT(chunks_[i - 1]->base, chunks_[i]->base, "chunks by address");
    LEVEE_CHECK(chunks_[i]->live_count > 0 || chunks_[i] == spare_, "an empty chunk is kept");
  }
  for (std::uint32_t s = 0; s < lists_.size(); ++s) {
    for (std::uint8_t c = 0; c < kClassCount; ++c) {
      for (const Slab* slab = lists_[s][c]; slab != nullptr; slab = slab->next) {
        LEVEE_CHECK(slab->is_listed && slab->has_free(), "a full slab is listed");
        LEVEE_CHECK_EQ(slab->stream.value, s);
        LEVEE_CHECK_EQ(slab->size_class.value, c);
      }
    }
  }
}

}  // namespace levee::core
