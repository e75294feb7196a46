#include "allocator/core/reports.h"

#include <algorithm>

namespace levee::core {
namespace {

std::int64_t signed_of(Bytes bytes) {
  return static_cast<std::int64_t>(bytes.value);
}

void set_level(Stat& stat, std::int64_t value) {
  if (value >= stat.current) {
    stat.increase(value - stat.current);
  } else {
    stat.decrease(stat.current - value);
  }
}

// The zone under which a page is listed.
ZoneIndex home_of(const Page& page) {
  if (!page.owner.is_none()) return page.owner;
  for (const Mapping& mapping : page.mappings) {
    if (mapping.usable) return mapping.slot.zone;
  }
  return ZoneIndex{};
}

class SnapshotBuilder {
 public:
  SnapshotBuilder(State& state, PoolIndex only) : state_(state), only_(only) {
    snapshot_.device = state.device.id();
  }

  Snapshot build() && {
    for (std::uint32_t i = 0; i < state_.space.zone_end(); ++i) {
      if (state_.space.is_zone(i)) add_zone(state_.space.zone(ZoneIndex{i}));
    }
    add_homeless();
    snapshot_.stats = current_stats(state_);
    return std::move(snapshot_);
  }

 private:
  bool is_wanted(PoolIndex pool) const { return only_.is_none() || only_ == pool; }

  // Consecutive pages listed in the zone that belong to one pool are one segment; a chunk is one of
  // its own.
  void add_zone(const Zone& zone) {
    const Bytes unit = state_.space.unit();
    std::size_t u = 0;
    while (u < zone.slots.size()) {
      if (!is_listed(zone, u)) {
        ++u;
        continue;
      }
      const PoolIndex holder = holder_of(zone, u);
      std::size_t v = u;
      while (v < zone.slots.size() && is_listed(zone, v) && holder_of(zone, v) == holder) ++v;
      // A block may cross from pages of one holder into the next only if they are the same pool's.
      if (is_wanted(holder)) {
        add_stretch(zone, Run{unit * u, unit * (v - u)}, holder);
      }
      u = v;
    }
  }

  bool is_listed(const Zone& zone, std::size_t unit) const {
    const PageIndex index = zone.slots[unit];
    return !index.is_none() && home_of(state_.space.page(index)) == zone.index;
  }
  PoolIndex holder_of(const Zone& zone, std::size_t unit) const {
    return state_.space.page(zone.slots[unit]).holder;
  }

  void add_stretch(const Zone& zone, Run run, PoolIndex holder) {
    SnapshotSegment segment = start(zone, run.begin, holder);
    Bytes at = run.begin;
    const auto close = [&](Bytes end) {
      fill_free(zone, segment, at, end);
      segment.bytes = end - zone.offset(segment.addr);
      if (segment.bytes.value > 0) snapshot_.segments.push_back(std::move(segment));
    };
    state_.blocks.for_each(
        zone.address(run.begin), run.size,
        [&](const BlockRecord& block) {
          const Bytes begin = zone.offset(block.addr);
          fill_free(zone, segment, at, begin);
          add_block(segment, block);
          at = begin + block.span;
        },
        [&](const Chunk& chunk) {
          close(chunk.zone_offset);
          snapshot_.segments.push_back(describe(chunk, holder));
          at = chunk.zone_offset + kChunkBytes;
          segment = start(zone, at, holder);
        });
    close(run.end());
  }

  SnapshotSegment start(const Zone& zone, Bytes begin, PoolIndex holder) const {
    SnapshotSegment segment;
    segment.addr = zone.address(begin);
    segment.pool = state_.pools[holder].id;
    segment.is_pages = zone.role != ZoneRole::kSegment;
    return segment;
  }

  StreamId last_stream(const StampSet& stamps) const {
    return stamps.empty() ? StreamId{} : state_.streams.id(stamps.begin()->stream());
  }

  void fill_free(const Zone& zone, SnapshotSegment& segment, Bytes from, Bytes to) const {
    if (from >= to) return;
    SnapshotBlock free;
    free.addr = zone.address(from);
    free.bytes = to - from;
    const PageIndex page = zone.slots[from / state_.space.unit()];
    free.stream = last_stream(state_.space.page(page).stamps);
    add(segment, free);
  }

  static void add(SnapshotSegment& segment, const SnapshotBlock& block) {
    if (segment.blocks.empty()) segment.stream = block.stream;
    segment.blocks.push_back(block);
  }

  void add_block(SnapshotSegment& segment, const BlockRecord& block) const {
    add(segment, SnapshotBlock{block.addr, block.bytes, block.requested,
                               state_.streams.id(block.stream), block.state, block.context});
    // What an unsplit pool adds to a block is free, but nobody's.
    if (block.span > block.bytes) {
      add(segment, SnapshotBlock{block.addr + block.bytes,
                                 block.span - block.bytes,
                                 0_B,
                                 state_.streams.id(block.stream),
                                 BlockState::kFree,
                                 {}});
    }
  }

  SnapshotSegment describe(const Chunk& chunk, PoolIndex holder) const {
    SnapshotSegment segment;
    segment.addr = chunk.base;
    segment.bytes = kChunkBytes;
    segment.pool = state_.pools[holder].id;
    segment.is_small = true;
    segment.is_pages = state_.space.zone(chunk.zone).role != ZoneRole::kSegment;
    Bytes at{};
    const auto free_until = [&](Bytes end) {
      if (at < end) {
        add(segment,
            SnapshotBlock{
                chunk.base + at, end - at, 0_B, last_stream(chunk.stamps), BlockState::kFree, {}});
      }
      at = std::max(at, end);
    };
    for (std::uint32_t granule = 0; granule < Chunk::kGranules; ++granule) {
      const Bytes begin = 16_KiB * granule;
      if (begin % kSlabBytes == 0_B) {
        if (const Slab* slab = chunk.slab_of_cell[begin / kSlabBytes]) {
          free_until(begin);
          add_slab(segment, *slab);
          at = begin + kSlabBytes;
        }
      }
      if (const BlockRecord* range = chunk.range_at[granule]) {
        free_until(range->addr - chunk.base);
        add_block(segment, *range);
        at = range->addr - chunk.base + range->span;
      }
    }
    free_until(kChunkBytes);
    return segment;
  }

  void add_slab(SnapshotSegment& segment, const Slab& slab) const {
    const StreamId stream = state_.streams.id(slab.stream);
    const Bytes size = class_bytes(slab.size_class);
    Bytes at{};
    const auto free_until = [&](Bytes end) {
      if (at < end) {
        add(segment, SnapshotBlock{slab.base + at, end - at, 0_B, stream, BlockState::kFree, {}});
      }
      at = end;
    };
    for (std::uint32_t i = 0; i < slab.object_count; ++i) {
      const Bytes requested = slab.requested_of(i);
      if (requested == 0_B) continue;  // free, or in a thread cache
      free_until(size * i);
      const Bytes bytes = allocated_size(requested);
      const bool waits = slab.is_waiting(i);
      add(segment, SnapshotBlock{slab.object(i),
                                 bytes,
                                 requested,
                                 stream,
                                 waits ? BlockState::kWaiting : BlockState::kLive,
                                 {}});
      at += bytes;
    }
    free_until(kSlabBytes);
  }

  // Pages that failed operations left without a usable slot: held, and nowhere.
  void add_homeless() {
    for (std::uint32_t i = 0; i < state_.space.pages().end(); ++i) {
      const Page& page = state_.space.page(PageIndex{i});
      if (page.units == 0 || !home_of(page).is_none() || !is_wanted(page.holder)) continue;
      SnapshotSegment segment;
      segment.bytes = state_.space.page_bytes(PageIndex{i});
      segment.pool = state_.pools[page.holder].id;
      segment.is_pages = true;
      segment.blocks.push_back(
          SnapshotBlock{DeviceAddr{}, segment.bytes, 0_B, {}, BlockState::kFree, {}});
      snapshot_.segments.push_back(std::move(segment));
    }
  }

  State& state_;
  PoolIndex only_;
  Snapshot snapshot_;
};

}  // namespace

Stats current_stats(State& state) {
  Stats& stats = state.counters.stats();
  stats.num_waits = state.streams.wait_count();
  stats.num_event_records = state.streams.record_count();
  stats.driver_calls = state.device.call_count();
  stats.driver_time_ns = state.device.time_ns();
  // Free bytes on pages that hold something: they cannot be given back. Chunks are such pages.
  const Bytes partial = state.space.used_page_bytes() - state.counters.active();
  stats.slack_partial_page_bytes = signed_of(partial) - stats.slack_rounding_bytes;
  std::int64_t partly_used = state.space.partly_used_pages();
  std::int64_t small_chunks = 0;
  Bytes idle_in_private{};
  for (std::uint32_t i = 0; i < state.pools.end(); ++i) {
    if (!state.pools.is_pool(i)) continue;
    const Pool& pool = state.pools[PoolIndex{i}];
    partly_used += pool.small.partly_used_chunks();
    small_chunks += static_cast<std::int64_t>(pool.small.chunks().size());
    if (pool.is_private()) {
      idle_in_private += state.space.held_by(pool.index) - pool.active_bytes;
    }
  }
  stats.slack_pool_bytes = signed_of(idle_in_private);
  std::int64_t zones = 0;
  for (std::uint32_t i = 0; i < state.space.zone_end(); ++i) {
    if (state.space.is_zone(i) && state.space.zone(ZoneIndex{i}).filled > 0) ++zones;
  }
  set_level(stats.inactive_split[0], partly_used);
  set_level(stats.inactive_split_bytes[0], signed_of(partial));
  set_level(stats.segment[0], zones + small_chunks);
  set_level(stats.segment[1], small_chunks);
  set_level(stats.segment[2], zones);
  const std::int64_t small_partial =
      small_chunks * signed_of(kChunkBytes) - stats.active_bytes[1].current;
  set_level(stats.inactive_split_bytes[1], std::max<std::int64_t>(0, small_partial));
  set_level(stats.inactive_split_bytes[2],
            stats.inactive_split_bytes[0].current - stats.inactive_split_bytes[1].current);
  std::int64_t partly_used_small = partly_used - state.space.partly_used_pages();
  set_level(stats.inactive_split[1], partly_used_small);
  set_level(stats.inactive_split[2], state.space.partly_used_pages());
  return stats;
}

Snapshot make_snapshot(State& state, PoolIndex only) {
  return SnapshotBuilder(state, only).build();
}

}  // namespace levee::core
