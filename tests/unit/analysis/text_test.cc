#include "allocator/analysis/text.h"

#include <gtest/gtest.h>

namespace levee::analysis {
namespace {

TEST(Text, BytesHaveThreeDigitsAndNeverReadAs1024) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.00 KiB");
  EXPECT_EQ(bytes_text(1536), "1.50 KiB");
  EXPECT_EQ(bytes_text((std::uint64_t{1} << 20) - 1), "1.00 MiB");
  EXPECT_EQ(bytes_text(std::uint64_t{412} << 30 >> 4), "25.8 GiB");
  EXPECT_EQ(bytes_text(~std::uint64_t{0}), "16.0 EiB");
}

TEST(Text, DurationsChangeUnitWithoutAGap) {
  EXPECT_EQ(duration_text(0), "0 s");
  EXPECT_EQ(duration_text(999), "999 ns");
  EXPECT_EQ(duration_text(12'345), "12.3 us");
  EXPECT_EQ(duration_text(999'499), "999 us");
  EXPECT_EQ(duration_text(999'500), "1.00 ms");
  EXPECT_EQ(duration_text(1'250'000'000), "1.25 s");
  EXPECT_EQ(duration_text(200'000'000'000), "3 min 20 s");
  EXPECT_EQ(duration_text(7'500'000'000'000), "2 h 05 min");
}

TEST(Text, CountsSharesAndRatios) {
  EXPECT_EQ(count_text(999), "999");
  EXPECT_EQ(count_text(1'234'567), "1,234,567");
  EXPECT_EQ(counted(1, "storm", "storms"), "1 storm");
  EXPECT_EQ(counted(2, "storm", "storms"), "2 storms");
  EXPECT_EQ(share_text(1, 0), "-");
  EXPECT_EQ(share_text(1, 8), "12.5 %");
  EXPECT_EQ(share_text(1, 1'000'000), "<0.01 %");
  EXPECT_EQ(ratio_text(3, 2), "1.500");
  EXPECT_EQ(ratio_text(3, 0), "-");
}

}  // namespace
}  // namespace levee::analysis
