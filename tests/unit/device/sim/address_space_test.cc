#include "allocator/device/sim/address_space.h"

#include <gtest/gtest.h>

#include "allocator/device/sim/page_table.h"

namespace levee::device::sim {
namespace {

TEST(AddressSpace, RangesAreGivenOutLowestFirstAndMergeWhenTheyComeBack) {
  AddressSpace space(AddressSpaceMode::kNumbers);
  const Bytes all = space.free_bytes();
  const DeviceAddr a = space.take(2_MiB, Bytes{});
  const DeviceAddr b = space.take(4_MiB, Bytes{});
  const DeviceAddr c = space.take(2_MiB, Bytes{});
  EXPECT_EQ(a, space.base());
  EXPECT_EQ(b, a + 2_MiB);
  space.give_back(a, 2_MiB);
  space.give_back(c, 2_MiB);
  EXPECT_EQ(space.take(2_MiB, Bytes{}), a);
  space.give_back(a, 2_MiB);
  space.give_back(b, 4_MiB);
  EXPECT_EQ(space.free_bytes(), all);
  EXPECT_EQ(space.take(space.size(), Bytes{}), space.base())
      << "the pieces did not become one again";
}

TEST(AddressSpace, TheBestFittingHoleIsUsed) {
  AddressSpace space(AddressSpaceMode::kNumbers);
  const DeviceAddr large = space.take(8_MiB, Bytes{});
  static_cast<void>(space.take(2_MiB, Bytes{}));
  const DeviceAddr small = space.take(4_MiB, Bytes{});
  static_cast<void>(space.take(2_MiB, Bytes{}));
  space.give_back(large, 8_MiB);
  space.give_back(small, 4_MiB);
  EXPECT_EQ(space.take(4_MiB, Bytes{}), small);
}

TEST(AddressSpace, AlignmentIsKeptAndWhatItSkipsStaysFree) {
  AddressSpace space(AddressSpaceMode::kNumbers);
  static_cast<void>(space.take(2_MiB, Bytes{}));
  const DeviceAddr aligned = space.take(2_MiB, 1_GiB);
  EXPECT_EQ(aligned.value % (1ULL << 30), 0U);
  EXPECT_EQ(space.take(2_MiB, Bytes{}), space.base() + 2_MiB);
}

TEST(AddressSpace, MoreThanThereIsIsNull) {
  AddressSpace space(AddressSpaceMode::kNumbers);
  EXPECT_TRUE(space.take(space.size() + 2_MiB, Bytes{}).is_null());
  EXPECT_TRUE(space.contains(space.base()));
  EXPECT_FALSE(space.contains(space.base() + space.size()));
  EXPECT_FALSE(space.contains(DeviceAddr{}));
}

TEST(PageTable, FindsWhatWasSetAndNothingElse) {
  const DeviceAddr base{1ULL << 40};
  PageTable table(base, 16_GiB);
  auto* const mapping = reinterpret_cast<Mapping*>(std::uintptr_t{64});  // never followed
  table.set(base + 2046_MiB, 4_MiB, mapping);  // across two blocks of the table
  EXPECT_EQ(table.find(base + 2046_MiB), mapping);
  EXPECT_EQ(table.find(base + 2049_MiB), mapping);
  EXPECT_EQ(table.find(base + 2050_MiB), nullptr);
  EXPECT_EQ(table.find(base + 2045_MiB), nullptr);
  EXPECT_EQ(table.find(base + 16_GiB), nullptr);
  EXPECT_EQ(table.find(DeviceAddr{0}), nullptr);
  table.set(base + 2046_MiB, 4_MiB, nullptr);
  EXPECT_EQ(table.find(base + 2048_MiB), nullptr);
}

}  // namespace
}  // namespace levee::device::sim
