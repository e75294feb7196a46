// What PyTorch does on small cases, stated as numbers. That the model reserves what PyTorch itself
// reserves on whole jobs is tested by tests/replay/test_models.py and by row S19 of the scoreboard.
#include "bench/replay/policies/torch_model.h"

#include <malloc.h>

#include <gtest/gtest.h>

#include "tests/unit/replay/small_traces.h"

namespace levee::replay {
namespace {

class TorchModelTest : public ::testing::Test {
 protected:
  TorchModel& model(TorchOptions options = {}, Limits limits = {}) {
    model_ = std::make_unique<TorchModel>(std::move(options), limits);
    next_ = 0;
    return *model_;
  }
  std::uint32_t alloc(Bytes bytes, std::uint16_t stream = 0) {
    EXPECT_TRUE(model_->allocate(next_, bytes, stream));
    return next_++;
  }

  std::unique_ptr<TorchModel> model_;
  std::uint32_t next_ = 0;
};

TEST_F(TorchModelTest, SegmentsAre2Or20MiBOrTheRequest) {
  TorchModel& m = model();
  alloc(1_B);
  EXPECT_EQ(m.reserved(), 2_MiB);
  alloc(1_MiB);  // small, and the rest of the segment holds it
  EXPECT_EQ(m.reserved(), 2_MiB);
  alloc(1_MiB + 1_B);
  EXPECT_EQ(m.reserved(), 22_MiB);
  alloc(10_MiB);
  EXPECT_EQ(m.reserved(), 22_MiB) << "the rest of the 20 MiB segment holds it";
  alloc(10_MiB + 512_KiB);
  EXPECT_EQ(m.reserved(), 34_MiB);
}

TEST_F(TorchModelTest, TheOrderOfSizesAloneDoublesReserved) {
  // PyTorch's own example: eight of 16 MiB then four of 32 need 256 MiB, the other order 128.
  TorchModel& grown = model();
  for (int i = 0; i < 8; ++i) alloc(16_MiB);
  for (std::uint32_t i = 0; i < 8; ++i) grown.free(i);
  for (int i = 0; i < 4; ++i) alloc(32_MiB);
  EXPECT_EQ(grown.reserved(), 256_MiB);
  TorchModel& split = model();
  for (int i = 0; i < 4; ++i) alloc(32_MiB);
  for (std::uint32_t i = 0; i < 4; ++i) split.free(i);
  for (int i = 0; i < 8; ++i) alloc(16_MiB);
  EXPECT_EQ(split.reserved(), 128_MiB);
}

TEST_F(TorchModelTest, ExpandableSegmentsJoinAndMap20MiBPieces) {
  TorchOptions options;
  options.expandable_segments = true;
  TorchModel& m = model(options);
  for (int i = 0; i < 8; ++i) alloc(16_MiB);
  EXPECT_EQ(m.reserved(), 140_MiB);
  for (std::uint32_t i = 0; i < 8; ++i) m.free(i);
  for (int i = 0; i < 4; ++i) alloc(32_MiB);
  EXPECT_EQ(m.reserved(), 140_MiB);
  alloc(16_MiB, /*stream=*/3);
  EXPECT_EQ(m.reserved(), 160_MiB) << "each stream has a segment of its own";
}

class ExpandableModel : public TorchModelTest {
 protected:
  TorchModel& expandable(Limits limits = {}) {
    TorchOptions options;
    options.expandable_segments = true;
    return model(options, limits);
  }
  /// A request that does not fit either when all that is cached was given back.
  void refuse(Bytes bytes) { EXPECT_FALSE(model_->allocate(next_, bytes, 0)); }
};

TEST_F(ExpandableModel, TheBlockBeforeUnmappedSpaceIsTakenLast) {
  TorchModel& m = expandable();
  const std::uint32_t first = alloc(6_MiB);
  alloc(12_MiB);  // 2 MiB are free behind it
  m.free(first);
  alloc(2_MiB);  // of the 6, so that these are there no more
  alloc(6_MiB);
  EXPECT_EQ(m.reserved(), 40_MiB);
}

TEST_F(ExpandableModel, OfOtherBlocksTheSmallestIsTaken) {
  TorchModel& m = expandable();
  const std::uint32_t small = alloc(3_MiB);
  alloc(9_MiB);
  const std::uint32_t large = alloc(5_MiB);
  alloc(2_MiB);
  m.free(small);
  m.free(large);
  alloc(3_MiB);
  alloc(5_MiB);
  EXPECT_EQ(m.reserved(), 20_MiB);
}

TEST_F(ExpandableModel, GrowthBeginsWithWhatIsFreeAtTheEnd) {
  TorchModel& m = expandable();
  alloc(16_MiB);
  alloc(22_MiB);  // 4 of the first 20 MiB, and 18
  EXPECT_EQ(m.reserved(), 40_MiB);
}

TEST_F(ExpandableModel, WhatDoesNotFitIsRefused) {
  TorchModel& m = expandable(Limits{50_MiB});
  refuse(Bytes{1ULL << 45});  // more than the addresses of a segment
  refuse(60_MiB);
  alloc(36_MiB);  // 40 are mapped
  refuse(16_MiB);
  EXPECT_EQ(m.emergencies(), 3U);
  alloc(4_MiB);
  EXPECT_EQ(m.reserved(), 40_MiB);
}

// Handles are given back where they are wholly free: 4 MiB before and 16 behind them stay, since a
// segment begins between two multiples of 20 MiB.
TEST_F(ExpandableModel, WhatStaysAroundReleasedHandlesJoinsItsNeighbours) {
  TorchModel& m = expandable(Limits{220_MiB});
  const std::uint32_t before = alloc(20_MiB);
  const std::uint32_t middle = alloc(60_MiB);
  const std::uint32_t after = alloc(20_MiB);
  alloc(100_MiB, /*stream=*/1);
  m.free(middle);
  refuse(90_MiB);
  EXPECT_EQ(m.reserved(), 160_MiB);
  EXPECT_EQ(m.costs().released, 2U);
  m.free(before);
  m.free(after);
  alloc(36_MiB);
  alloc(24_MiB);
  EXPECT_EQ(m.reserved(), 160_MiB);
}

TEST_F(ExpandableModel, AHoleThatIsMappedAgainInPartIsStillAHole) {
  TorchModel& m = expandable(Limits{220_MiB});
  const std::uint32_t first = alloc(60_MiB);
  const std::uint32_t behind = alloc(20_MiB);
  alloc(120_MiB, /*stream=*/1);
  m.free(first);
  refuse(90_MiB);
  EXPECT_EQ(m.reserved(), 160_MiB);
  const std::uint32_t part = alloc(18_MiB);  // 4 that stayed, and one of the two handles
  EXPECT_EQ(m.reserved(), 180_MiB);
  m.free(behind);
  m.free(part);
  alloc(50_MiB);  // 24, the other handle, and 36 behind it
  EXPECT_EQ(m.reserved(), 200_MiB);
}

TEST_F(TorchModelTest, UnderALimitItGivesItsCacheBackOnce) {
  TorchModel& m = model({}, Limits{64_MiB});
  const std::uint32_t first = alloc(32_MiB);
  m.free(first);
  alloc(48_MiB);
  EXPECT_EQ(m.emergencies(), 1U);
  EXPECT_EQ(m.costs().frees, 1U);
  EXPECT_EQ(m.reserved(), 48_MiB);
  EXPECT_FALSE(m.allocate(next_, 32_MiB, 0));
}

TEST_F(TorchModelTest, RecordedUsesDelayReuse) {
  TorchOptions options;
  options.event_lag = 2;
  TorchModel& m = model(options);
  const std::uint32_t block = alloc(32_MiB);
  m.record_use(block, 1);
  m.free(block);
  alloc(32_MiB);
  EXPECT_EQ(m.reserved(), 64_MiB);
  EXPECT_EQ(m.costs().event_records, 1U);
  alloc(32_MiB);
  EXPECT_EQ(m.reserved(), 64_MiB) << "two requests later it is back";
}

TEST_F(TorchModelTest, RoundingDivisionsRaiseSizes) {
  TorchOptions options;
  options.roundup_power2_divisions = 4;
  TorchModel& m = model(options);
  alloc(33_MiB);
  EXPECT_EQ(m.reserved(), 40_MiB) << "steps of 8 MiB between 32 and 64";
}

TEST_F(TorchModelTest, BlocksAboveMaxSplitSizeAreNeverSplit) {
  TorchOptions options;
  options.max_split_size = 32_MiB;
  TorchModel& m = model(options);
  const std::uint32_t large = alloc(64_MiB);
  m.free(large);
  alloc(20_MiB);
  EXPECT_EQ(m.reserved(), 84_MiB) << "a small request takes nothing of a large block";
  alloc(60_MiB);
  EXPECT_EQ(m.reserved(), 84_MiB) << "a large one within 20 MiB takes all of it";
}

TEST_F(TorchModelTest, ABlockThatIsFarTooLargeIsGivenBackBeforeAnythingElse) {
  TorchOptions options;
  options.max_split_size = 32_MiB;
  TorchModel& m = model(options, Limits{100_MiB});
  m.free(alloc(80_MiB));
  alloc(40_MiB);  // takes no 80
  EXPECT_EQ(m.emergencies(), 0U);
  EXPECT_EQ(m.costs().frees, 1U);
  EXPECT_EQ(m.reserved(), 40_MiB);
}

TEST_F(TorchModelTest, APartOfASegmentIsNotGivenBack) {
  TorchOptions options;
  options.max_split_size = 4_MiB;
  TorchModel& m = model(options, Limits{30_MiB});
  alloc(2_MiB);  // of 20, and a small request takes nothing of the 18 that are left
  EXPECT_FALSE(m.allocate(next_, 2_MiB, 0));
  EXPECT_EQ(m.emergencies(), 1U);
  EXPECT_EQ(m.costs().frees, 0U);
  EXPECT_EQ(m.reserved(), 20_MiB);
}

TEST_F(TorchModelTest, AUseOnTheOwnStreamDelaysNothing) {
  TorchModel& m = model();
  const std::uint32_t block = alloc(32_MiB);
  m.record_use(block, 0);
  m.free(block);
  alloc(32_MiB);
  EXPECT_EQ(m.reserved(), 32_MiB);
  EXPECT_EQ(m.costs().event_records, 0U);
}

// A block of 100 bytes or so is behind each number. A sanitizer's heap counts nothing here, and
// looks for leaks itself.
TEST_F(TorchModelTest, NothingIsLeftOfAModelWithLiveBlocks) {
  const std::size_t before = ::mallinfo2().uordblks;
  model();
  for (int i = 0; i < 1000; ++i) alloc(12_MiB);
  model_.reset();
  EXPECT_LT(::mallinfo2().uordblks, before + 50'000);
}

TEST_F(TorchModelTest, GarbageCollectionFreesOldSegmentsBeforeTheLimit) {
  TorchOptions options;
  options.garbage_collection_threshold = 0.5;
  TorchModel& m = model(options, Limits{200_MiB});
  const std::uint32_t old_block = alloc(120_MiB);
  m.free(old_block);
  alloc(130_MiB);
  EXPECT_EQ(m.emergencies(), 0U);
  EXPECT_EQ(m.costs().frees, 1U);
}

}  // namespace
}  // namespace levee::replay
