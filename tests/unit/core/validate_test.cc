// Each line of `validate` notices what it is about: the state is broken by hand, one thing at a
// time, and the process ends with the words of that line.
#include "allocator/core/validate.h"

#include <functional>
#include <string>

#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

struct Damage {
  const char* name;
  const char* words;
  std::function<void(StateRig&)> break_it;
};

BlockRecord& large_block(StateRig& rig, DeviceAddr addr) {
  return *rig.state.blocks.block_at(addr);
}

std::vector<Damage> damages() {
  return {
      {"requested_beyond_allocated", "requested",
       [](StateRig& rig) { large_block(rig, rig.alloc(4_MiB)).requested = 5_MiB; }},
      {"allocated_beyond_span", "bytes",
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
      {"small_and_large", "small and large",
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
