#include <levee/units.h>

#include <limits>

#include <gtest/gtest.h>

namespace levee {
namespace {

constexpr Bytes kMostBytes{std::numeric_limits<std::uint64_t>::max()};

TEST(Units, LiteralsScale) {
  EXPECT_EQ(3_KiB, Bytes{3072});
  EXPECT_EQ(2_MiB, Bytes{2097152});
  EXPECT_EQ(1_GiB, Bytes{1073741824});
  EXPECT_EQ(2_us, Nanos{2000});
  EXPECT_EQ(2_ms, Nanos{2000000});
}

TEST(Units, Arithmetic) {
  EXPECT_EQ(1_KiB + 24_B, 1048_B);
  EXPECT_EQ(1_KiB - 24_B, 1000_B);
  EXPECT_EQ(5_B * 3, 15_B);
  EXPECT_EQ(1_MiB / 1_KiB, 1024);
  EXPECT_EQ(1_MiB / 4, 256_KiB);
  EXPECT_EQ(1000_B % 512_B, 488_B);
  EXPECT_EQ((DeviceAddr{4096} + 4_KiB) - DeviceAddr{4096}, 4_KiB);
}

TEST(Units, Rounding) {
  EXPECT_EQ(round_up(0_B, 512_B), 0_B);
  EXPECT_EQ(round_up(1_B, 512_B), 512_B);
  EXPECT_EQ(round_up(512_B, 512_B), 512_B);
  EXPECT_EQ(round_down(1023_B, 512_B), 512_B);
  EXPECT_EQ(round_up(3_B * 7, 3_B), 21_B);
}

TEST(UnitsDeathTest, ResultsOutOfRangeEndTheProcess) {
  EXPECT_DEATH(static_cast<void>(kMostBytes + 1_B), "arithmetic on Bytes left its range");
  EXPECT_DEATH(static_cast<void>(1_B - 2_B), "arithmetic on Bytes left its range");
  EXPECT_DEATH(static_cast<void>(kMostBytes * 2), "arithmetic on Bytes left its range");
  EXPECT_DEATH(static_cast<void>(round_up(kMostBytes, 512_B)), "left its range");
  EXPECT_DEATH(static_cast<void>(DeviceAddr{16} - 17_B), "left its range");
  EXPECT_DEATH(static_cast<void>(DeviceAddr{16} - DeviceAddr{17}), "left its range");
}

}  // namespace
}  // namespace levee
