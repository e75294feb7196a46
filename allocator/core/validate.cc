#include "allocator/core/validate.h"

#include <vector>

#include "allocator/base/check.h"

namespace levee::core {
namespace {

struct Sums {
  std::uint64_t live_blocks = 0;
  std::uint64_t waiting_blocks = 0;
  std::uint64_t allocated = 0;
  std::uint64_t active = 0;
  std::uint64_t requested = 0;
  std::uint64_t rounding = 0;
  std::vector<std::uint64_t> by_pool;         // blocks
  std::vector<std::uint64_t> active_by_pool;  // bytes
};

void count(const State& state, Sums& sums, PoolIndex pool, Bytes bytes, Bytes requested, Bytes span,
           bool is_live) {
  LEVEE_CHECK_LE(requested, bytes);
  LEVEE_CHECK_LE(bytes, span);
  if (is_live) {
    ++sums.live_blocks;
    sums.allocated += bytes.value;
  } else {
    ++sums.waiting_blocks;
  }
  sums.active += bytes.value;
  sums.requested += requested.value;
  sums.rounding += (span - bytes).value;
  if (sums.by_pool.size() <= pool.value) {
    sums.by_pool.resize(pool.value + 1, 0);
    sums.active_by_pool.resize(pool.value + 1, 0);
  }
  ++sums.by_pool[pool.value];
  sums.active_by_pool[pool.value] += bytes.value;
  LEVEE_CHECK(state.pools.is_pool(pool.value), "a block of no pool");
}

// The blocks of a zone lie side by side without overlap, on pages that the zone owns (I1, I7).
void check_zone(const State& state, const Zone& zone, Sums& sums) {
  const Bytes unit = state.space.unit();
  if (zone.slots.empty()) return;
  std::vector<std::uint64_t> live_on(zone.slots.size(), 0);
  DeviceAddr end = zone.base;
  const auto cover = [&](DeviceAddr addr, Bytes span) {
    LEVEE_CHECK_GE(addr, end, "two blocks overlap");
    end = addr + span;
    const std::uint64_t begin = zone.offset(addr).value;
    for (std::uint64_t u = begin / unit.value; u * unit.value < begin + span.value; ++u) {
      const PageIndex page = zone.slots.at(u);
      LEVEE_CHECK(!page.is_none(), "a block on an empty slot");
      LEVEE_CHECK(state.space.page(page).owner == zone.index, "a block on a page of another zone");
      const std::uint64_t from = std::max(begin, u * unit.value);
      const std::uint64_t to = std::min(begin + span.value, (u + 1) * unit.value);
      live_on[u] += to - from;
    }
  };
  state.blocks.for_each(
      zone.base, unit * zone.slots.size(),
      [&](const BlockRecord& block) {
        LEVEE_CHECK(block.zone == zone.index);
        LEVEE_CHECK_EQ(block.addr.value % kMinBlock.value, 0U, "alignment of a block");
        cover(block.addr, block.span);
        count(state, sums, block.pool, block.bytes, block.requested, block.span,
              block.state == BlockState::kLive);
      },
      [&](const Chunk& chunk) {
        LEVEE_CHECK(chunk.zone == zone.index);
        cover(chunk.base, kChunkBytes);
        for (const BlockRecord* range : chunk.range_at) {
          if (range == nullptr) continue;
          LEVEE_CHECK(range->chunk == &chunk);
          count(state, sums, range->pool, range->bytes, range->requested, range->span,
                range->state == BlockState::kLive);
        }
        for (const Slab* slab : chunk.slab_of_cell) {
          if (slab == nullptr) continue;
          LEVEE_CHECK(slab->chunk == &chunk);
          for (std::uint32_t i = 0; i < slab->object_count; ++i) {
            const std::uint64_t bit = 1ULL << (i % 64);
            if ((slab->free_bits[i / 64] & bit) != 0) {
              LEVEE_CHECK_EQ(slab->waiting_bits[i / 64] & bit, 0U, "a free object waits");
              LEVEE_CHECK(slab->requested_of(i) == 0_B, "somebody has a free object");
              continue;
            }
            const Bytes requested = slab->requested_of(i);
            if (requested == 0_B) {  // in a thread cache
              LEVEE_CHECK(!slab->is_used_elsewhere(i), "a used object is in a thread cache");
              continue;
            }
            count(state, sums, chunk.pool, allocated_size(requested), requested,
                  class_bytes(slab->size_class), (slab->waiting_bits[i / 64] & bit) == 0);
          }
        }
      });
  for (std::size_t u = 0; u < zone.slots.size(); ++u) {
    const PageIndex index = zone.slots[u];
    if (index.is_none()) continue;
    const Page& page = state.space.page(index);
    if (page.units == 1 && page.owner == zone.index) {
      LEVEE_CHECK_EQ(page.live_bytes, live_on[u], "live bytes of a page");
    }
  }
}

}  // namespace

void validate_state(const State& state) {
  state.space.validate();
  state.streams.validate();
  Sums sums;
  for (std::uint32_t i = 0; i < state.space.zone_end(); ++i) {
    if (state.space.is_zone(i)) check_zone(state, state.space.zone(ZoneIndex{i}), sums);
  }
  std::vector<int> listed(state.space.zone_end(), 0);
  for (std::uint32_t i = 0; i < state.pools.end(); ++i) {
    if (!state.pools.is_pool(i)) continue;
    const Pool& pool = state.pools[PoolIndex{i}];
    pool.small.validate();
    const std::uint64_t blocks = i < sums.by_pool.size() ? sums.by_pool[i] : 0;
    LEVEE_CHECK_EQ(blocks, pool.live_count, "blocks of pool ", i);
    const std::uint64_t active = i < sums.by_pool.size() ? sums.active_by_pool[i] : 0;
    LEVEE_CHECK_EQ(active, pool.active_bytes.value, "active bytes of pool ", i);
    const auto see = [&](ZoneIndex zone) {
      LEVEE_CHECK(state.space.is_zone(zone.value), "a pool lists a zone that is gone");
      LEVEE_CHECK(state.space.zone(zone).pool == pool.index, "a zone of another pool");
      ++listed[zone.value];
    };
    if (!pool.primary.is_none()) see(pool.primary);
    for (ZoneIndex zone : pool.others) see(zone);
  }
  for (std::uint32_t i = 0; i < state.space.zone_end(); ++i) {
    LEVEE_CHECK_EQ(listed[i], state.space.is_zone(i) ? 1 : 0, "zone ", i, " in pools");
  }
  const Stats& stats = state.counters.stats();
  LEVEE_CHECK_EQ(stats.allocation[0].current, sums.live_blocks, "live blocks");
  LEVEE_CHECK_EQ(stats.active[0].current, sums.live_blocks + sums.waiting_blocks, "active blocks");
  LEVEE_CHECK_EQ(state.waiting.count(), sums.waiting_blocks, "waiting blocks");
  LEVEE_CHECK_EQ(stats.allocated_bytes[0].current, sums.allocated, "allocated bytes");
  LEVEE_CHECK_EQ(stats.active_bytes[0].current, sums.active, "active bytes");
  LEVEE_CHECK_EQ(stats.requested_bytes[0].current, sums.requested, "requested bytes");
  LEVEE_CHECK_EQ(stats.slack_rounding_bytes, sums.rounding, "bytes lost to rounding");
  LEVEE_CHECK_EQ(state.waiting.bytes().value, sums.active - sums.allocated, "waiting bytes");
  LEVEE_CHECK_EQ(stats.reserved_bytes[0].current, state.space.reserved().value, "reserved bytes");
#define LEVEE_FIELD(name, what)                                                               \
  LEVEE_CHECK_EQ(stats.name[0].current, stats.name[1].current + stats.name[2].current, #name, \
                 ": small and large");
  LEVEE_FIELD(allocation, "")
  LEVEE_FIELD(active, "")
  LEVEE_FIELD(allocated_bytes, "")
  LEVEE_FIELD(active_bytes, "")
  LEVEE_FIELD(requested_bytes, "")
  LEVEE_FIELD(reserved_bytes, "")
#undef LEVEE_FIELD
}

}  // namespace levee::core
