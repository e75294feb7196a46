// Each line of `validate` notices what it is about: the state is broken by hand, one thing at a
// time, and the process ends with the words of that line.
#include "allocator/core/validate.h"

#include <cstdlib>
#include <functional>
#include <string>

#include "tests/support/private_member.h"
#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

LEVEE_PRIVATE_MEMBER(waiting_count_of, WaitingList, count_)
LEVEE_PRIVATE_MEMBER(waiting_bytes_of, WaitingList, bytes_)

struct Damage {
  const char* name;
  const char* words;
  std::function<void(StateRig&)> break_it;
};

BlockRecord& large_block(StateRig& rig, DeviceAddr addr) {
  return *rig.state.blocks.block_at(addr);
}

// Of the 700 bytes that every case begins with: its slab has further objects, all of them free.
Chunk& chunk_of(StateRig& rig) {
  return *rig.state.pools.default_pool().small.chunks()[0];
}

Slab& slab_of(StateRig& rig) {
  for (Slab* slab : chunk_of(rig).slab_of_cell) {
    if (slab != nullptr) return *slab;
  }
  std::abort();
}

std::uint32_t last_object(StateRig& rig) {
  return slab_of(rig).object_count - 1U;
}

std::vector<Damage> damages() {
  return {
      {"requested_beyond_allocated", "requested <= bytes",
       [](StateRig& rig) { large_block(rig, rig.alloc(4_MiB)).requested = 5_MiB; }},
      {"allocated_beyond_span", "bytes <= span",
       [](StateRig& rig) { large_block(rig, rig.alloc(4_MiB)).span = 3_MiB; }},
      {"overlap", "overlap",
       [](StateRig& rig) {
         const DeviceAddr first = rig.alloc(4_MiB);
         rig.alloc(4_MiB);
         large_block(rig, first).span = 5_MiB;
       }},
      {"zone_of_a_block", "block.zone",
       [](StateRig& rig) { large_block(rig, rig.alloc(4_MiB)).zone = ZoneIndex{77}; }},
      {"state_of_a_block", "live blocks",
       [](StateRig& rig) { large_block(rig, rig.alloc(4_MiB)).state = BlockState::kWaiting; }},
      {"pool_of_a_block", "pool",
       [](StateRig& rig) {
         Pool& other = rig.state.pools.find_or_add(PoolId{0, 6}, Backing::kPages);
         large_block(rig, rig.alloc(4_MiB)).pool = other.index;
       }},
      {"a_block_of_no_pool", "a block of no pool",
       [](StateRig& rig) {
         const PoolIndex gone = rig.state.pools.find_or_add(PoolId{0, 6}, Backing::kPages).index;
         rig.state.pools.remove(gone);
         large_block(rig, rig.alloc(4_MiB)).pool = gone;
       }},
      {"a_block_on_an_empty_slot", "a block on an empty slot",
       [](StateRig& rig) {
         BlockRecord& block = large_block(rig, rig.alloc(4_MiB));
         Space& space = rig.state.space;
         const auto end = static_cast<std::uint32_t>(space.zone(block.zone).slots.size());
         const PageIndex page = space.add_page(HandleId{999}, 1, kDefaultPool);
         space.attach(page, Slot{block.zone, end + 1});
         block.span = space.zone(block.zone).address(2_MiB * (end + 1)) - block.addr;
       }},
      {"a_block_on_a_page_of_another_zone", "a block on a page of another zone",
       [](StateRig& rig) {
         BlockRecord& block = large_block(rig, rig.alloc(4_MiB));
         const DeviceAddr behind = rig.alloc(4_MiB);
         ASSERT_EQ(behind, block.addr + 4_MiB);
         rig.free(behind);
         block.span = 8_MiB;
       }},
      {"alignment_of_a_block", "alignment of a block",
       [](StateRig& rig) {
         BlockRecord& block = large_block(rig, rig.alloc(4_MiB));
         block.addr = block.addr + 1_B;
       }},
      {"zone_of_a_chunk", "chunk.zone == zone.index",
       [](StateRig& rig) { chunk_of(rig).zone = ZoneIndex{77}; }},
      {"chunk_of_a_range", "range->chunk == &chunk",
       [](StateRig& rig) {
         rig.alloc(100_KiB);
         for (BlockRecord* range : chunk_of(rig).range_at) {
           if (range != nullptr) range->chunk = nullptr;
         }
       }},
      {"chunk_of_a_slab", "slab->chunk == &chunk",
       [](StateRig& rig) { slab_of(rig).chunk = nullptr; }},
      {"a_free_object_that_waits", "a free object waits",
       [](StateRig& rig) { slab_of(rig).waiting_bits = slab_of(rig).free_bits; }},
      {"a_free_object_of_somebody", "somebody has a free object",
       [](StateRig& rig) { slab_of(rig).requested[last_object(rig)] = 5; }},
      {"a_cached_object_that_is_used", "a used object is in a thread cache",
       [](StateRig& rig) {
         Slab& slab = slab_of(rig);
         slab.requested[0] = 0;
         slab.set_used_elsewhere(0, true);
       }},
      {"a_pool_of_a_zone_that_is_gone", "a pool lists a zone that is gone",
       [](StateRig& rig) {
         Space& space = rig.state.space;
         const ZoneIndex zone =
             space.add_zone(DeviceAddr{1ULL << 46}, 2_MiB, kDefaultPool, ZoneRole::kAlias);
         space.remove_zone(zone);
         rig.state.pools.default_pool().others.push_back(zone);
       }},
      {"pool_of_a_zone", "a zone of another pool",
       [](StateRig& rig) {
         Pool& other = rig.state.pools.find_or_add(PoolId{0, 6}, Backing::kPages);
         rig.state.space.zone(rig.state.pools.default_pool().primary).pool = other.index;
       }},
      {"waiting_blocks", "waiting blocks",
       [](StateRig& rig) { ++waiting_count_of(rig.state.waiting); }},
      {"waiting_bytes", "waiting bytes",
       [](StateRig& rig) { waiting_bytes_of(rig.state.waiting) += 512_B; }},
      {"live_count_of_a_pool", "blocks of pool",
       [](StateRig& rig) {
         rig.alloc(4_MiB);
         ++rig.state.pools.default_pool().live_count;
       }},
      {"active_bytes_of_a_pool", "active bytes of pool",
       [](StateRig& rig) { rig.state.pools.default_pool().active_bytes += 512_B; }},
      {"a_zone_that_no_pool_lists", "zone",
       [](StateRig& rig) {
         rig.alloc(4_MiB);
         rig.state.pools.default_pool().primary = ZoneIndex{};
       }},
      {"a_zone_listed_twice", "zone",
       [](StateRig& rig) {
         rig.alloc(4_MiB);
         Pool& pool = rig.state.pools.default_pool();
         pool.others.push_back(pool.primary);
       }},
      {"a_count_of_blocks", "live blocks",
       [](StateRig& rig) { ++rig.state.counters.stats().allocation[0].current; }},
      {"active_blocks", "active blocks",
       [](StateRig& rig) { ++rig.state.counters.stats().active[0].current; }},
      {"allocated_bytes", "allocated bytes",
       [](StateRig& rig) { ++rig.state.counters.stats().allocated_bytes[0].current; }},
      {"active_bytes", "active bytes",
       [](StateRig& rig) { ++rig.state.counters.stats().active_bytes[0].current; }},
      {"requested_bytes", "requested bytes",
       [](StateRig& rig) { ++rig.state.counters.stats().requested_bytes[0].current; }},
      {"rounding", "rounding",
       [](StateRig& rig) { ++rig.state.counters.stats().slack_rounding_bytes; }},
      {"reserved_bytes", "reserved bytes",
       [](StateRig& rig) { ++rig.state.counters.stats().reserved_bytes[0].current; }},
      {"small_and_large_blocks", "allocation: small and large",
       [](StateRig& rig) { ++rig.state.counters.stats().allocation[1].current; }},
      {"small_and_large_active_blocks", "active: small and large",
       [](StateRig& rig) { ++rig.state.counters.stats().active[1].current; }},
      {"small_and_large_allocated_bytes", "allocated_bytes: small and large",
       [](StateRig& rig) { ++rig.state.counters.stats().allocated_bytes[1].current; }},
      {"small_and_large_active_bytes", "active_bytes: small and large",
       [](StateRig& rig) { ++rig.state.counters.stats().active_bytes[1].current; }},
      {"small_and_large_requested_bytes", "requested_bytes: small and large",
       [](StateRig& rig) { ++rig.state.counters.stats().requested_bytes[1].current; }},
      {"small_and_large_reserved_bytes", "reserved_bytes: small and large",
       [](StateRig& rig) { ++rig.state.counters.stats().reserved_bytes[1].current; }},
      {"live_bytes_of_a_page", "",
       [](StateRig& rig) {
         const DeviceAddr addr = rig.alloc(4_MiB);
         const BlockRecord& block = large_block(rig, addr);
         rig.state.space.vacate(block.zone,
                                Run{block.addr - rig.state.space.zone(block.zone).base, 512_B},
                                rig.state.streams.stamp_now(block.stream));
       }},
  };
}

class ValidateTest : public testing::TestWithParam<Damage> {};

TEST_P(ValidateTest, NoticesWhatIsBroken) {
  const Damage& damage = GetParam();
  EXPECT_DEATH(
      {
        StateRig rig;
        rig.alloc(6_MiB);
        rig.alloc(700_B);
        rig.validate();
        damage.break_it(rig);
        rig.validate();
      },
      damage.words);
}

INSTANTIATE_TEST_SUITE_P(Lines, ValidateTest, testing::ValuesIn(damages()),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(Validate, HasNothingToSayOfAWholeState) {
  StateRig rig;
  const StreamId side = rig.stream();
  const DeviceAddr block = rig.alloc(6_MiB);
  rig.alloc(300_KiB);
  rig.alloc(700_B, side);
  rig.validate();
  rig.free(block);
  rig.validate();
}

}  // namespace
}  // namespace levee::core
