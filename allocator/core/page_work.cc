#include "allocator/core/page_work.h"

#include <algorithm>

#include "allocator/base/check.h"
#include "allocator/core/mutants.h"

namespace levee::core {
namespace {

std::uint16_t count_for_event(std::uint64_t count) {
  return static_cast<std::uint16_t>(std::min<std::uint64_t>(count, 0xFFFF));
}

}  // namespace

void PageWork::attach(PageIndex page, Slot slot, bool usable) {
  const Zone& zone = state_.space.zone(slot.zone);
  state_.space.attach(page, slot, usable);
  state_.blocks.mark(zone.address(state_.space.unit() * slot.unit), state_.space.page_bytes(page),
                     slot.zone);
}

PageIndex PageWork::adopt(HandleId handle, std::uint32_t units, PoolIndex pool) {
  const PageIndex page = state_.space.add_page(handle, units, pool);
  state_.counters.on_reserve(state_.space.unit() * units);
  return page;
}

Result<ZoneIndex> PageWork::add_zone(PoolGuard& guard, Pool& pool, ZoneRole role, Bytes least,
                                     Reach reach) {
  const Bytes unit = state_.space.unit();
  const Bytes total = state_.device.capabilities().total_memory;
  least = round_up(least, unit);
  // A zone holds a page once, so the device's memory is as much as one can fill. The same again,
  // for the pool that most memory is in, is room for a long run at the end when holes are many.
  const Bytes all = pool.is_private() ? total + total / 8 : total * 2;
  const Bytes now = state_.space.reserved() + state_.space.reserved() / 8;
  Bytes range =
      round_up(std::max(reach == Reach::kPagesOfNow ? std::min(now, all) : all, least), unit);
  Result<DeviceAddr> base = StatusCode::kOutOfMemory;
  {
    Unlocked window(guard);
    base = state_.device.reserve_range(range, unit);
    while (!base.ok() && range / 2 >= least && base.code() == StatusCode::kOutOfMemory) {
      range = round_up(range / 2, unit);
      base = state_.device.reserve_range(range, unit);
    }
  }
  if (!base.ok()) return base.status();
  const ZoneIndex zone = state_.space.add_zone(*base, range, pool.index, role);
  if (role == ZoneRole::kPrimary) {
    if (!pool.primary.is_none()) {
      state_.space.move_zone(pool.primary, pool.index, ZoneRole::kFormer);
      pool.others.push_back(pool.primary);
    }
    pool.primary = zone;
  } else {
    pool.others.push_back(zone);
    if (role == ZoneRole::kSmall) pool.small_zone = zone;
  }
  return zone;
}

PageWork::Grown PageWork::grow(PoolGuard& guard, Pool& pool, const GrowthPlan& plan) {
  Grown grown = grow_in_pages_of(guard, pool, plan, plan.largest_page);
  // What is too large as one handle may still be there in pieces.
  if (grown.status.code == StatusCode::kOutOfMemory && plan.largest_page > 1) {
    grown = grow_in_pages_of(guard, pool, plan, 1);
  }
  return grown;
}

PageWork::Grown PageWork::grow_in_pages_of(PoolGuard& guard, Pool& pool, const GrowthPlan& plan,
                                           std::uint32_t largest_page) {
  const Bytes unit = state_.space.unit();
  const DeviceAddr base = state_.space.zone(plan.zone).base;
  struct Made {
    std::uint32_t unit = 0;  // where it goes
    std::uint32_t units = 0;
    HandleId handle;
    bool is_mapped = false;
    bool is_held = false;
  };
  std::vector<Made> pages;
  std::vector<std::size_t> begins;  // by stretch: its first page
  std::vector<Bytes> sizes;
  for (const FillStretch& stretch : plan.stretches) {
    begins.push_back(pages.size());
    std::uint32_t at = stretch.first_unit;
    for (std::uint32_t units : page_sizes(stretch.units, largest_page, plan.is_first)) {
      pages.push_back(Made{at, units, HandleId{}, false, false});
      sizes.push_back(unit * units);
      at += units;
    }
  }
  begins.push_back(pages.size());
  Grown grown;
  std::uint32_t created_count = 0;
  {
    Unlocked window(guard);
    Mapper::Created created = mapper_.create(sizes);
    created_count = created.made;
    grown.made = static_cast<std::uint32_t>(created.made_bytes / unit);
    grown.status = created.status;
    for (std::size_t i = 0; i < created.handles.size(); ++i) {
      pages[i].handle = created.handles[i];
      pages[i].is_held = true;
    }
    for (std::size_t s = 0; s + 1 < begins.size() && grown.status.ok(); ++s) {
      std::vector<Mapper::Piece> pieces;
      for (std::size_t i = begins[s]; i < begins[s + 1]; ++i) {
        pieces.push_back({pages[i].handle, unit * pages[i].units});
      }
      const Mapper::Mapped mapped = mapper_.map(base + unit * pages[begins[s]].unit, pieces);
      grown.status = mapped.status;
      for (std::size_t i = begins[s]; i < begins[s + 1]; ++i)
        pages[i].is_mapped = mapped.status.ok();
      for (std::uint32_t stuck : mapped.leftover) pages[begins[s] + stuck].is_mapped = true;
    }
    if (!grown.status.ok()) {
      for (Made& one : pages) {
        if (one.is_mapped && mapper_.unmap(base + unit * one.unit, unit * one.units).ok()) {
          one.is_mapped = false;
        }
        if (one.is_held && !one.is_mapped && mapper_.release(one.handle).ok()) one.is_held = false;
      }
      for (const Mapper::Piece& left : created.leftover) {
        const auto units = static_cast<std::uint32_t>(left.bytes / unit);
        pages.push_back(Made{0, units, left.handle, /*is_mapped=*/false, /*is_held=*/true});
      }
    }
  }
  state_.counters.stats().num_device_alloc += created_count;
  if (grown.status.ok()) {
    for (const Made& one : pages) {
      attach(adopt(one.handle, one.units, pool.index), Slot{plan.zone, one.unit}, /*usable=*/true);
    }
    for (std::size_t s = 0; s + 1 < begins.size(); ++s) {
      const FillStretch& stretch = plan.stretches[s];
      state_.emit(EventKind::kPageCreate, LaneId{}, (base + unit * stretch.first_unit).value,
                  (unit * stretch.units).value, count_for_event(begins[s + 1] - begins[s]),
                  SlowPathContext::current());
    }
    return grown;
  }
  state_.counters.stats().num_device_free += created_count;
  for (const Made& one : pages) {
    if (!one.is_held) continue;
    // Could not be taken back: kept as a page, to be used or given back later.
    --state_.counters.stats().num_device_free;
    const PageIndex page = adopt(one.handle, one.units, pool.index);
    if (one.is_mapped) attach(page, Slot{plan.zone, one.unit}, /*usable=*/false);
  }
  return grown;
}

Status PageWork::stitch(PoolGuard& guard, Pool& pool, StitchPlan& plan) {
  const Bytes unit = state_.space.unit();
  for (PageIndex page : plan.pages) state_.space.withhold(page);
  const auto give_up = [&](Status status) {
    for (PageIndex page : plan.pages) state_.space.offer(page);
    return status;
  };
  const bool moves = state_.stitcher->unmaps_first();
  if (plan.needs_zone) {
    const Bytes least = unit * (plan.units + plan.missing);
    const Result<ZoneIndex> zone =
        moves ? add_zone(guard, pool, ZoneRole::kPrimary, least)
              : add_zone(guard, pool, ZoneRole::kAlias, least, Reach::kPagesOfNow);
    if (!zone.ok()) return give_up(zone.status());
    plan.needs_zone = false;
    plan.zone = *zone;
    plan.first_unit = 0;
  }
  if (moves) {
    const Status quiet = quiesce(guard, stamps_of(plan.pages));
    if (!quiet.ok()) return give_up(quiet);
    static_cast<void>(unmap_everywhere(guard, plan.pages));
    // A page that could not leave its old slot cannot go to the new one of the same zone.
    std::erase_if(plan.pages, [&](PageIndex page) {
      if (state_.space.page(page).mappings.empty()) return false;
      state_.space.offer(page);
      return true;
    });
    plan.first_unit = static_cast<std::uint32_t>(state_.space.zone(plan.zone).slots.size());
  }
  std::vector<Mapper::Piece> pieces;
  Bytes bytes{};
  for (PageIndex page : plan.pages) {
    pieces.push_back({state_.space.page(page).handle, state_.space.page_bytes(page)});
    bytes += pieces.back().bytes;
  }
  const DeviceAddr base = state_.space.zone(plan.zone).address(unit * plan.first_unit);
  Mapper::Mapped mapped;
  {
    Unlocked window(guard);
    mapped = mapper_.map(base, pieces);
  }
  std::uint32_t at = plan.first_unit;
  for (std::uint32_t i = 0; i < plan.pages.size(); ++i) {
    const PageIndex page = plan.pages[i];
    const std::uint32_t units = state_.space.page(page).units;
    const bool stuck =
        std::find(mapped.leftover.begin(), mapped.leftover.end(), i) != mapped.leftover.end();
    if (mapped.status.ok() || stuck) attach(page, Slot{plan.zone, at}, mapped.status.ok());
    at += units;
  }
  for (PageIndex page : plan.pages) state_.space.offer(page);
  if (!mapped.status.ok()) return mapped.status;
  ++state_.counters.stats().num_stitches;
  state_.counters.stats().num_stitched_pages += static_cast<std::int64_t>(plan.pages.size());
  state_.emit(EventKind::kStitch, LaneId{}, base.value, bytes.value,
              count_for_event(plan.pages.size()), SlowPathContext::current());
  return Status{};
}

// The pages stay in use meanwhile: another mapping disturbs nobody.
Status PageWork::map_behind(PoolGuard& guard, ZoneIndex zone, const std::vector<PageIndex>& order) {
  std::vector<Mapper::Piece> pieces;
  for (PageIndex page : order) {
    pieces.push_back({state_.space.page(page).handle, state_.space.page_bytes(page)});
  }
  auto at = static_cast<std::uint32_t>(state_.space.zone(zone).slots.size());
  const DeviceAddr base = state_.space.zone(zone).address(state_.space.unit() * at);
  Mapper::Mapped mapped;
  {
    Unlocked window(guard);
    mapped = mapper_.map(base, pieces);
  }
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    const std::uint32_t units = state_.space.page(order[i]).units;
    const bool stuck =
        std::find(mapped.leftover.begin(), mapped.leftover.end(), i) != mapped.leftover.end();
    if (mapped.status.ok() || stuck) attach(order[i], Slot{zone, at}, mapped.status.ok());
    at += units;
  }
  return mapped.status;
}

Bytes PageWork::bytes_of(const std::vector<PageIndex>& pages) const {
  Bytes bytes{};
  for (PageIndex page : pages) bytes += state_.space.page_bytes(page);
  return bytes;
}

Status PageWork::complete_primary(PoolGuard& guard, Pool& pool,
                                  const std::vector<PageIndex>& missing) {
  const Bytes bytes = bytes_of(missing);
  const Zone& zone = state_.space.zone(pool.primary);
  const DeviceAddr end = zone.address(state_.space.unit() * zone.slots.size());
  if (end + bytes > zone.base + zone.range_bytes) return Status{StatusCode::kOutOfMemory, 0};
  const Status status = map_behind(guard, pool.primary, missing);
  if (!status.ok()) return status;
  state_.emit(EventKind::kStitch, LaneId{}, end.value, bytes.value, count_for_event(missing.size()),
              SlowPathContext::current());
  ++state_.counters.stats().num_stitches;
  state_.counters.stats().num_stitched_pages += static_cast<std::int64_t>(missing.size());
  return status;
}

Status PageWork::rebase(PoolGuard& guard, Pool& pool, const std::vector<PageIndex>& order) {
  const Bytes bytes = bytes_of(order);
  // An alias until it is complete, so that a failure leaves the pool as it was.
  const Result<ZoneIndex> fresh = add_zone(guard, pool, ZoneRole::kAlias, bytes);
  if (!fresh.ok()) return fresh.status();
  const DeviceAddr base = state_.space.zone(*fresh).base;
  const Status mapped = map_behind(guard, *fresh, order);
  if (!mapped.ok()) {
    drop_empty_zones(guard);
    return mapped;
  }
  std::erase(pool.others, *fresh);
  state_.space.move_zone(pool.primary, pool.index, ZoneRole::kFormer);
  pool.others.push_back(pool.primary);
  state_.space.move_zone(*fresh, pool.index, ZoneRole::kPrimary);
  pool.primary = *fresh;
  ++state_.counters.stats().num_rebases;
  state_.emit(EventKind::kRebase, LaneId{}, base.value, bytes.value, count_for_event(order.size()),
              SlowPathContext::current());
  return Status{};
}

Status PageWork::add_segment(PoolGuard& guard, Pool& pool, Bytes bytes) {
  const Bytes unit = state_.space.unit();
  Result<DeviceAddr> allocation = StatusCode::kOutOfMemory;
  Bytes asked = bytes;
  {
    Unlocked window(guard);
    allocation = state_.device.allocate(asked);
    if (allocation.ok() && allocation->value % kChunkBytes.value != 0) {
      // Chunks and the block map need 2 MiB alignment, which cudaMalloc gives as a rule only. Ask
      // for room to align inside.
      const Status released = state_.device.release(*allocation);
      if (!released.ok()) return released;  // what cannot be released is the driver's to keep
      asked = bytes + kChunkBytes;
      allocation = state_.device.allocate(asked);
    }
  }
  if (!allocation.ok()) return allocation.status();
  const DeviceAddr base{round_up(Bytes{allocation->value}, kChunkBytes).value};
  const ZoneIndex index = state_.space.add_zone(base, bytes, pool.index, ZoneRole::kSegment);
  Zone& zone = state_.space.zone(index);
  zone.allocation = *allocation;
  zone.allocation_bytes = asked;
  pool.others.push_back(index);
  for (std::uint32_t i = 0; i < bytes / unit; ++i) {
    const PageIndex page = state_.space.add_page(HandleId{0}, 1, pool.index);
    attach(page, Slot{index, i}, /*usable=*/true);
  }
  state_.counters.on_reserve(bytes);
  ++state_.counters.stats().num_device_alloc;
  state_.emit(EventKind::kSegmentAlloc, LaneId{}, base.value, bytes.value, 0,
              SlowPathContext::current());
  return Status{};
}

// ---- Waiting for last users

Status PageWork::quiesce(PoolGuard& guard, const StampSet& stamps) {
  if (mutated(Mutant::kUnmapBeforeDone)) return Status{};
  std::vector<StreamTable::Held> held;
  Status status{};
  for (Stamp stamp : stamps) {
    if (state_.streams.is_complete(stamp)) continue;
    if (stamp.stream() == kUnknownStream || mutated(Mutant::kFenceAlways)) {
      for (const StreamTable::Held& one : held) state_.streams.give_back(one, /*is_done=*/false);
      return fence(guard);
    }
    const Result<StreamTable::Held> one = state_.streams.hold(stamp.stream());
    if (!one.ok()) {
      status = one.status();
      break;
    }
    held.push_back(*one);
  }
  std::size_t done = 0;
  if (status.ok() && !held.empty()) {
    const auto wait = [&] {
      for (; done < held.size() && status.ok(); ++done) {
        status = state_.device.synchronize_event(held[done].event);
        if (!status.ok()) break;
      }
    };
    if (mutated(Mutant::kBlockUnderLock)) {
      wait();
    } else {
      Unlocked window(guard);
      wait();
    }
  }
  for (std::size_t i = 0; i < held.size(); ++i) state_.streams.give_back(held[i], i < done);
  // A stream that was destroyed takes no event: the whole device then.
  if (status.ok() || status.code == StatusCode::kDeviceLost ||
      status.code == StatusCode::kNotReady) {
    return status;
  }
  return fence(guard);
}

// Streams that may still use memory which was given back.
std::vector<StreamId> PageWork::streams_with_memory() const {
  StampSet stamps;
  for (std::uint32_t i = 0; i < state_.space.pages().end(); ++i) {
    stamps.add_all(state_.space.page(PageIndex{i}).stamps);
  }
  for (std::uint32_t i = 0; i < state_.pools.end(); ++i) {
    if (!state_.pools.is_pool(i)) continue;
    for (const Chunk* chunk : state_.pools[PoolIndex{i}].small.chunks()) {
      stamps.add_all(chunk->stamps);
    }
  }
  state_.waiting.for_each([&](const BlockRecord& block) { stamps.add_all(block.pending); });
  std::vector<StreamId> streams;
  for (Stamp stamp : stamps) {
    if (stamp.stream() == kUnknownStream || state_.streams.is_complete(stamp)) continue;
    streams.push_back(state_.streams.handle(stamp.stream()));
  }
  return streams;
}

Status PageWork::fence(PoolGuard& guard) {
  if (state_.streams.any_capturing()) return Status{StatusCode::kNotReady, 0};
  const std::vector<Stamp> through = state_.streams.fence();
  const std::vector<StreamId> pending = streams_with_memory();
  Status status{};
  {
    Unlocked window(guard);
    status = state_.device.synchronize_device();
    // A stream of another device may use our memory as a peer. One that is gone has no answer.
    for (StreamId stream : pending) {
      if (!status.ok()) break;
      const Status waited = state_.device.synchronize_stream(stream);
      if (waited.code == StatusCode::kDeviceLost) status = waited;
    }
  }
  ++state_.counters.stats().num_sync_all_streams;
  if (!status.ok()) return status;
  for (Stamp stamp : through) state_.streams.set_complete(stamp);
  return status;
}

StampSet PageWork::stamps_of(const std::vector<PageIndex>& pages) const {
  StampSet all;
  for (PageIndex page : pages) all.add_all(state_.space.page(page).stamps);
  return all;
}

// ---- Giving back

std::vector<PageWork::Stretch> PageWork::stretches_of(const std::vector<PageIndex>& pages) const {
  std::vector<Stretch> slots;
  for (PageIndex index : pages) {
    const Page& page = state_.space.page(index);
    for (const Mapping& mapping : page.mappings) {
      slots.push_back(Stretch{mapping.slot.zone, mapping.slot.unit, page.units});
    }
  }
  std::sort(slots.begin(), slots.end(), [](const Stretch& a, const Stretch& b) {
    return a.zone != b.zone ? a.zone < b.zone : a.first_unit < b.first_unit;
  });
  std::vector<Stretch> joined;
  for (const Stretch& slot : slots) {
    if (!joined.empty() && joined.back().zone == slot.zone &&
        joined.back().first_unit + joined.back().units == slot.first_unit) {
      joined.back().units += slot.units;
    } else {
      joined.push_back(slot);
    }
  }
  return joined;
}

Status PageWork::unmap_everywhere(PoolGuard& guard, const std::vector<PageIndex>& pages) {
  const Bytes unit = state_.space.unit();
  std::vector<Stretch> stretches = stretches_of(pages);
  std::vector<Stretch> unmapped;
  std::vector<Stretch> refused;
  Status first_refusal{};
  for (int round = 0; round < 2 && !stretches.empty(); ++round) {
    std::vector<DeviceAddr> bases;
    for (const Stretch& s : stretches) {
      bases.push_back(state_.space.zone(s.zone).address(unit * s.first_unit));
    }
    refused.clear();
    {
      Unlocked window(guard);
      for (std::size_t i = 0; i < stretches.size(); ++i) {
        if (mutated(Mutant::kReleaseWhileMapped) && i > 0) {
          unmapped.push_back(stretches[i]);
          continue;
        }
        const Status status = mapper_.unmap(bases[i], unit * stretches[i].units);
        (status.ok() ? unmapped : refused).push_back(stretches[i]);
        if (first_refusal.ok()) first_refusal = status;
      }
    }
    // What was refused as a whole is tried page by page, once.
    stretches.clear();
    for (const Stretch& s : refused) {
      const Zone& zone = state_.space.zone(s.zone);
      for (std::uint32_t u = s.first_unit; u < s.first_unit + s.units;) {
        const std::uint32_t units = state_.space.page(zone.slots[u]).units;
        if (units != s.units) stretches.push_back(Stretch{s.zone, u, units});
        u += units;
      }
    }
  }
  for (const Stretch& s : unmapped) {
    const DeviceAddr base = state_.space.zone(s.zone).address(unit * s.first_unit);
    for (std::uint32_t u = s.first_unit; u < s.first_unit + s.units;) {
      const PageIndex page = state_.space.zone(s.zone).slots[u];
      const std::uint32_t units = state_.space.page(page).units;
      if (!mutated(Mutant::kNoDetach)) state_.space.detach(page, Slot{s.zone, u});
      u += units;
    }
    state_.emit(EventKind::kUnmap, LaneId{}, base.value, (unit * s.units).value,
                count_for_event(s.units), SlowPathContext::current());
  }
  return first_refusal;
}

Result<Bytes> PageWork::give_back(PoolGuard& guard, std::vector<PageIndex> victims) {
  for (PageIndex page : victims) state_.space.withhold(page);
  const Status quiet = quiesce(guard, stamps_of(victims));
  if (!quiet.ok()) {
    for (PageIndex page : victims) state_.space.offer(page);
    return quiet;
  }
  Status first_failure = unmap_everywhere(guard, victims);
  std::vector<PageIndex> loose;
  std::vector<HandleId> handles;
  for (PageIndex page : victims) {
    if (state_.space.page(page).mappings.empty()) {
      loose.push_back(page);
      handles.push_back(state_.space.page(page).handle);
    } else {
      state_.space.offer(page);
    }
  }
  std::vector<bool> released(loose.size(), false);
  {
    Unlocked window(guard);
    for (std::size_t i = 0; i < loose.size(); ++i) {
      const Status status = mutated(Mutant::kLeakHandle) ? Status{} : mapper_.release(handles[i]);
      released[i] = status.ok();
      if (!status.ok() && first_failure.ok()) first_failure = status;
    }
  }
  Bytes freed{};
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < loose.size(); ++i) {
    const Bytes bytes = state_.space.page_bytes(loose[i]);
    state_.space.offer(loose[i]);
    if (!released[i]) continue;
    if (!mutated(Mutant::kKeepReleasedPage)) state_.space.remove_page(loose[i]);
    state_.counters.on_release(bytes);
    freed += bytes;
    ++count;
  }
  state_.counters.stats().num_device_free += count;
  if (count > 0) {
    state_.emit(EventKind::kPageRelease, LaneId{}, 0, freed.value, count_for_event(count),
                SlowPathContext::current());
  }
  drop_empty_zones(guard);
  if (count == 0 && !victims.empty() && !first_failure.ok()) return first_failure;
  return freed;
}

std::vector<PageIndex> PageWork::removable_pages(PoolIndex only) const {
  std::vector<PageIndex> pages;
  for (std::uint32_t i = 0; i < state_.space.pages().end(); ++i) {
    const Page& page = state_.space.page(PageIndex{i});
    if (page.units == 0 || page.is_anchored() || !page.is_wholly_free() || page.withheld != 0 ||
        !page.pinned_to.is_none()) {
      continue;
    }
    if (!only.is_none() && page.holder != only) continue;
    pages.push_back(PageIndex{i});
  }
  // Pages without slots first, then from the top of the zones down: what stays lies at the bottom.
  const auto slot_of = [&](PageIndex index) {
    const Page& page = state_.space.page(index);
    return page.mappings.empty() ? Slot{ZoneIndex{kNoIndex}, kNoIndex} : page.mappings[0].slot;
  };
  std::stable_sort(pages.begin(), pages.end(),
                   [&](PageIndex a, PageIndex b) { return slot_of(b) < slot_of(a); });
  return pages;
}

Result<Bytes> PageWork::give_back_segments(PoolGuard& guard, PoolIndex only, Bytes at_least) {
  Bytes freed{};
  Status first_failure{};
  for (std::uint32_t zi = 0; zi < state_.space.zone_end() && freed < at_least; ++zi) {
    if (!state_.space.is_zone(zi)) continue;
    const ZoneIndex index{zi};
    const Zone& zone = state_.space.zone(index);
    if (zone.role != ZoneRole::kSegment || (!only.is_none() && zone.pool != only)) continue;
    std::vector<PageIndex> pages(zone.slots.begin(), zone.slots.end());
    const bool idle = std::all_of(pages.begin(), pages.end(), [&](PageIndex page) {
      return state_.space.page(page).is_wholly_free() && state_.space.page(page).withheld == 0 &&
             state_.space.page(page).pinned_to.is_none();
    });
    if (!idle) continue;
    for (PageIndex page : pages) state_.space.withhold(page);
    const DeviceAddr allocation = zone.allocation;
    const DeviceAddr base = zone.base;
    const Bytes bytes = zone.range_bytes;
    Status status = quiesce(guard, stamps_of(pages));
    if (status.ok()) {
      Unlocked window(guard);
      if (!mutated(Mutant::kLeakSegment)) status = state_.device.release(allocation);
    }
    if (!status.ok()) {
      for (PageIndex page : pages) state_.space.offer(page);
      if (first_failure.ok()) first_failure = status;
      continue;
    }
    for (std::uint32_t unit = 0; unit < pages.size(); ++unit) {
      state_.space.detach(pages[unit], Slot{index, unit});
      state_.space.offer(pages[unit]);
      state_.space.remove_page(pages[unit]);
    }
    state_.blocks.unmark(base, bytes);
    forget_zone(state_.pools[state_.space.zone(index).pool], index);
    state_.space.remove_zone(index);
    state_.counters.on_release(bytes);
    ++state_.counters.stats().num_device_free;
    state_.emit(EventKind::kSegmentFree, LaneId{}, base.value, bytes.value, 0,
                SlowPathContext::current());
    freed += bytes;
  }
  if (freed == 0_B && !first_failure.ok()) return first_failure;
  return freed;
}

void PageWork::forget_zone(Pool& pool, ZoneIndex zone) {
  std::erase(pool.others, zone);
  if (pool.primary == zone) pool.primary = ZoneIndex{};
  if (pool.small_zone == zone) pool.small_zone = ZoneIndex{};
}

void PageWork::drop_empty_zones(PoolGuard& guard) {
  for (std::uint32_t zi = 0; zi < state_.space.zone_end(); ++zi) {
    if (!state_.space.is_zone(zi)) continue;
    const Zone& zone = state_.space.zone(ZoneIndex{zi});
    if (zone.role == ZoneRole::kPrimary || zone.role == ZoneRole::kSegment || zone.filled != 0) {
      continue;
    }
    const DeviceAddr base = zone.base;
    const Bytes bytes = zone.range_bytes;
    Status status{};
    {
      Unlocked window(guard);
      status = state_.device.free_range(base, bytes);
    }
    if (!status.ok()) continue;  // the zone stays, empty, and serves as it is
    if (mutated(Mutant::kKeepFreedZone)) continue;
    state_.blocks.unmark_zone(base, bytes, ZoneIndex{zi});
    forget_zone(state_.pools[state_.space.zone(ZoneIndex{zi}).pool], ZoneIndex{zi});
    state_.space.remove_zone(ZoneIndex{zi});
  }
}

void PageWork::tear_down(PoolGuard& guard) {
  Unlocked window(guard);
  const Bytes unit = state_.space.unit();
  // Whatever still runs must not lose its memory; a device that is gone answers at once.
  Status ignored = state_.device.synchronize_device();
  for (std::uint32_t zi = 0; zi < state_.space.zone_end(); ++zi) {
    if (!state_.space.is_zone(zi)) continue;
    const Zone& zone = state_.space.zone(ZoneIndex{zi});
    if (zone.role == ZoneRole::kSegment) {
      ignored = state_.device.release(zone.allocation);
      continue;
    }
    for (std::size_t u = 0; u < zone.slots.size();) {
      std::size_t v = u;
      while (v < zone.slots.size() && !zone.slots[v].is_none()) ++v;
      if (v > u) ignored = state_.device.unmap(zone.address(unit * u), unit * (v - u));
      u = v + 1;
    }
    if (!mutated(Mutant::kLeakRange)) {
      ignored = state_.device.free_range(zone.base, zone.range_bytes);
    }
  }
  for (std::uint32_t i = 0; i < state_.space.pages().end(); ++i) {
    const Page& page = state_.space.page(PageIndex{i});
    if (page.units == 0 || page.is_anchored()) continue;
    ignored = state_.device.release_handle(page.handle);
  }
  static_cast<void>(ignored);  // the allocator ends here; there is nobody to tell
}

}  // namespace levee::core
