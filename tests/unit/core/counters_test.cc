#include "allocator/core/counters.h"

#include <gtest/gtest.h>

namespace levee::core {
namespace {

TEST(Counters, ABlockCountsWhileLiveAndStaysActiveWhileItWaits) {
  Counters counters;
  counters.on_alloc(1536_B, 1100_B, 2048_B);
  EXPECT_EQ(counters.allocated(), 1536_B);
  EXPECT_EQ(counters.stats().requested_bytes[0].current, 1100);
  EXPECT_EQ(counters.stats().slack_rounding_bytes, 512);
  counters.on_free(1536_B, 1100_B);
  EXPECT_EQ(counters.allocated(), 0_B);
  EXPECT_EQ(counters.active(), 1536_B);
  counters.on_idle(1536_B, 2048_B);
  EXPECT_EQ(counters.active(), 0_B);
  EXPECT_EQ(counters.stats().slack_rounding_bytes, 0);
  EXPECT_EQ(counters.stats().allocation[0].allocated, 1);
  EXPECT_EQ(counters.stats().allocation[0].freed, 1);
}

TEST(Counters, SmallAndLargeAddUpToAll) {
  Counters counters;
  counters.on_alloc(1_MiB, 1_MiB, 1_MiB);
  counters.on_alloc(1_MiB + 512_B, 1_MiB + 1_B, 1_MiB + 512_B);
  const Stats& stats = counters.stats();
  EXPECT_EQ(stats.allocation[1].current, 1);
  EXPECT_EQ(stats.allocation[2].current, 1);
  EXPECT_EQ(stats.allocated_bytes[0].current,
            stats.allocated_bytes[1].current + stats.allocated_bytes[2].current);
}

TEST(Counters, AChunkOfSmallBlocksMovesReservedBytesBetweenTheKinds) {
  Counters counters;
  counters.on_reserve(8_MiB);
  counters.on_small_chunk(/*taken=*/true);
  EXPECT_EQ(counters.stats().reserved_bytes[1].current, 2097152);
  EXPECT_EQ(counters.stats().reserved_bytes[2].current, 6291456);
  EXPECT_EQ(counters.reserved(), 8_MiB);
  counters.on_small_chunk(/*taken=*/false);
  EXPECT_EQ(counters.stats().reserved_bytes[1].current, 0);
  counters.on_release(8_MiB);
  EXPECT_EQ(counters.reserved(), 0_B);
}

TEST(Counters, ResetsTouchPeaksOrSumsAndNeverWhatIsLive) {
  Counters counters;
  counters.on_alloc(4096_B, 4096_B, 4096_B);
  counters.on_alloc(8192_B, 8192_B, 8192_B);
  counters.on_free(8192_B, 8192_B);
  counters.on_idle(8192_B, 8192_B);
  ++counters.stats().num_ooms;
  counters.reset_peaks();
  EXPECT_EQ(counters.stats().allocated_bytes[0].peak, 4096);
  EXPECT_EQ(counters.stats().allocated_bytes[0].allocated, 12288);
  EXPECT_EQ(counters.stats().num_ooms, 1);
  counters.reset_accumulated();
  EXPECT_EQ(counters.stats().allocated_bytes[0].allocated, 0);
  EXPECT_EQ(counters.stats().allocated_bytes[0].current, 4096);
  EXPECT_EQ(counters.stats().num_ooms, 0);
  // Growth is judged by what was ever in use, whatever anybody reset.
  EXPECT_EQ(counters.peak_active(), 12288_B);
}

}  // namespace
}  // namespace levee::core
