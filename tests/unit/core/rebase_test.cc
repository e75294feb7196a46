#include "allocator/core/rebase.h"

#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

// Ten blocks of 4 MiB; the odd ones stay.
class RebaseTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 10; ++i) blocks_.push_back(rig_.alloc(4_MiB));
  }
  void let_the_odd_ones_age() {
    for (int i = 0; i < 4; ++i) rig_.state.age.begin_step();
    for (std::size_t i = 0; i < blocks_.size(); i += 2) rig_.free(blocks_[i]);
  }
  Pool& pool() { return rig_.state.pools.default_pool(); }
  StateRig rig_;
  std::vector<DeviceAddr> blocks_;
};

TEST_F(RebaseTest, IsDueOnceStitchingHasCostItsShare) {
  let_the_odd_ones_age();
  EXPECT_FALSE(is_rebase_due(rig_.state, pool()));
  pool().stitched_units = 1000;
  EXPECT_TRUE(is_rebase_due(rig_.state, pool()));
  pool().rebase_count = 100;
  EXPECT_FALSE(is_rebase_due(rig_.state, pool()));
}

TEST_F(RebaseTest, LaterOnlyWhenStitchingHasCostAsMuchAsARebase) {
  const std::uint64_t units = rig_.state.space.reserved() / rig_.state.space.unit();
  for (int i = 0; i < 10; ++i) rig_.state.age.begin_step();
  pool().stitched_units = units / 2;
  EXPECT_TRUE(is_rebase_due(rig_.state, pool())) << "a program that finds its shape";
  for (int i = 0; i < 20; ++i) rig_.state.age.begin_step();
  EXPECT_FALSE(is_rebase_due(rig_.state, pool()));
  pool().stitched_units = units + 1;
  EXPECT_TRUE(is_rebase_due(rig_.state, pool()));
}

TEST_F(RebaseTest, IsNeverDueWhereItIsSwitchedOff) {
  Config config;
  config.rebase = false;
  StateRig rig(256_MiB, config);
  rig.alloc(4_MiB);
  for (int i = 0; i < 4; ++i) rig.state.age.begin_step();
  rig.state.pools.default_pool().stitched_units = 1000;
  EXPECT_FALSE(is_rebase_due(rig.state, rig.state.pools.default_pool()));
}

TEST_F(RebaseTest, IsUsefulWhereOldBlocksKeepFreePagesApart) {
  rig_.free(rig_.alloc(12_MiB));  // the longest run, which is there already
  let_the_odd_ones_age();
  EXPECT_TRUE(is_rebase_useful(rig_.state, pool(), 16_MiB));
  EXPECT_FALSE(is_rebase_useful(rig_.state, pool(), 12_MiB)) << "there is such a run";
  EXPECT_FALSE(is_rebase_useful(rig_.state, pool(), 80_MiB)) << "more than is kept apart";
}

TEST_F(RebaseTest, APoolWithoutPagesHasNothingToMapAgain) {
  PoolGuard guard(rig_.state);
  const Pool& other = rig_.state.pools.find_or_add(PoolId{0, 9}, Backing::kPages);
  EXPECT_FALSE(is_rebase_useful(rig_.state, other, 2_MiB));
  EXPECT_TRUE(choose_missing_pages(rig_.state, other).empty());
}

TEST_F(RebaseTest, YoungBlocksAreNoReason) {
  for (int i = 0; i < 4; ++i) rig_.state.age.begin_step();
  for (DeviceAddr block : blocks_) rig_.free(block);
  std::vector<DeviceAddr> young;
  for (int i = 0; i < 10; ++i) young.push_back(rig_.alloc(4_MiB));
  for (std::size_t i = 0; i < young.size(); i += 2) rig_.free(young[i]);
  EXPECT_FALSE(is_rebase_useful(rig_.state, pool(), 16_MiB));
}

TEST_F(RebaseTest, PagesOfOldBlocksStayAndTheOthersKeepTheirOrder) {
  let_the_odd_ones_age();
  const std::vector<PageIndex> order = choose_rebase_pages(rig_.state, pool());
  ASSERT_EQ(order.size(), 10U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end(),
                             [](PageIndex a, PageIndex b) { return a.value < b.value; }));
  for (PageIndex page : order) {
    EXPECT_TRUE(rig_.state.space.page(page).is_wholly_free());
  }
}

TEST(RebaseSmallBlocks, PagesOfOldOnesStayAndThoseOfYoungOnesGo) {
  for (Bytes bytes : {Bytes{1_KiB}, Bytes{100_KiB}}) {
    StateRig rig;
    Pool& pool = rig.state.pools.default_pool();
    rig.alloc(4_MiB);
    Request request = rig.request(bytes);
    request.takes_any_page = true;
    const Result<Block> small = rig.slow_path.serve(request, nullptr);
    ASSERT_TRUE(small.ok());
    const Zone& zone = rig.state.space.zone(rig.state.blocks.zone_of(small->addr));
    const PageIndex page = zone.slots[zone.offset(small->addr) / rig.state.space.unit()];
    const auto goes = [&] {
      const std::vector<PageIndex> order = choose_rebase_pages(rig.state, pool);
      return std::find(order.begin(), order.end(), page) != order.end();
    };
    EXPECT_TRUE(goes()) << "the block is young";
    for (int i = 0; i < 4; ++i) rig.state.age.begin_step();
    EXPECT_FALSE(goes()) << "the block is old";
    rig.free(small->addr);
    EXPECT_TRUE(goes()) << "nothing lives there any more";
  }
}

}  // namespace
}  // namespace levee::core
