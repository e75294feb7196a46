#include "allocator/core/size_class.h"

#include <gtest/gtest.h>

namespace levee::core {
namespace {

TEST(SizeClass, EachSizeGetsTheSmallestClassThatHoldsIt) {
  for (std::uint64_t n = 1; n <= kSlabLimit.value; ++n) {
    const Bytes allocated = allocated_size(Bytes{n});
    const SizeClass c = class_of(allocated);
    ASSERT_GE(class_bytes(c), allocated) << n;
    if (c.value > 0) {
      ASSERT_LT(class_bytes(SizeClass{static_cast<std::uint8_t>(c.value - 1)}), allocated);
    }
  }
}

TEST(SizeClass, ClassesWasteAtMostAFifth) {
  for (std::uint64_t n = 512; n <= kSlabLimit.value; n += 512) {
    EXPECT_LE(class_bytes(class_of(Bytes{n})).value * 4, n * 5) << n;
  }
}

TEST(SizeClass, EveryOffsetOfASlabNamesTheObjectThatHoldsIt) {
  for (std::uint8_t c = 0; c < kClassCount; ++c) {
    const std::uint64_t size = class_bytes(SizeClass{c}).value;
    for (std::uint64_t offset = 0; offset < kSlabBytes.value; offset += 512) {
      ASSERT_EQ(object_at(SizeClass{c}, Bytes{offset}), offset / size) << int{c} << " " << offset;
    }
  }
}

TEST(SizeClass, RoundingIsToFiveHundredTwelveBytes) {
  EXPECT_EQ(allocated_size(1_B), 512_B);
  EXPECT_EQ(allocated_size(512_B), 512_B);
  EXPECT_EQ(allocated_size(513_B), 1_KiB);
  EXPECT_TRUE(is_small(1_MiB));
  EXPECT_FALSE(is_small(allocated_size(1_MiB + 1_B)));
}

}  // namespace
}  // namespace levee::core
