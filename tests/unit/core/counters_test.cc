#include "allocator/core/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace levee::core {
namespace {

TEST(Counters, ABlockCountsWhileLiveAndStaysActiveWhileItWaits) {
  Counters counters;
  counters.on_alloc(1536_B, 1100_B, 2048_B);
  EXPECT_EQ(counters.allocated(), 1536_B);
  EXPECT_EQ(counters.stats().requested_bytes[0].current, 1100);
  EXPECT_EQ(counters.stats().slack_rounding_bytes, 512);
  counters.on_free(1536_B);
  EXPECT_EQ(counters.allocated(), 0_B);
  EXPECT_EQ(counters.active(), 1536_B);
  EXPECT_EQ(counters.stats().requested_bytes[0].current, 1100);
  counters.on_idle(1536_B, 1100_B, 2048_B);
  EXPECT_EQ(counters.active(), 0_B);
  EXPECT_EQ(counters.stats().requested_bytes[0].current, 0);
  EXPECT_EQ(counters.stats().slack_rounding_bytes, 0);
  EXPECT_EQ(counters.stats().allocation[0].allocated, 1);
  EXPECT_EQ(counters.stats().allocation[0].freed, 1);
}

// The tallies against counting each number for itself.
TEST(Counters, TalliesGiveTheSameNumbersWheneverTheyAreRead) {
  struct Live {
    Bytes bytes, requested, span;
    bool waits = false;
  };
  std::mt19937 random(5);
  Counters counters;
  std::array<Stat, 3> blocks{};
  std::array<Stat, 3> bytes{};
  std::array<Stat, 3> requested{};
  std::array<Stat, 3> active{};
  std::int64_t most_active = 0;
  std::int64_t rounding = 0;
  std::vector<Live> live;
  const auto both = [](std::array<Stat, 3>& stats, Bytes of, std::int64_t n) {
    for (const std::size_t i : {std::size_t{0}, is_small(of) ? std::size_t{1} : std::size_t{2}}) {
      n >= 0 ? stats[i].increase(n) : stats[i].decrease(-n);
    }
  };
  const auto signed_of = [](Bytes of) { return static_cast<std::int64_t>(of.value); };
  for (int i = 0; i < 4000; ++i) {
    const std::size_t k = live.empty() ? 0 : random() % live.size();
    if (live.size() < 20 + random() % 20) {
      const Bytes of = 512_B * (1 + random() % 4096);
      const Live one{of, of - Bytes{random() % 512}, of + 512_B * (random() % 2)};
      counters.on_alloc(one.bytes, one.requested, one.span);
      both(blocks, of, 1);
      both(bytes, of, signed_of(of));
      both(requested, of, signed_of(one.requested));
      both(active, of, signed_of(of));
      most_active = std::max(most_active, active[0].current);
      rounding += signed_of(one.span - of);
      live.push_back(one);
    } else {
      Live& one = live[k];
      const bool begins_to_wait = !one.waits && random() % 8 == 0;
      if (!one.waits) {
        both(blocks, one.bytes, -1);
        both(bytes, one.bytes, -signed_of(one.bytes));
      }
      if (begins_to_wait) {
        counters.on_free(one.bytes);
        one.waits = true;
        continue;
      }
      one.waits ? counters.on_idle(one.bytes, one.requested, one.span)
                : counters.on_return(one.bytes, one.requested, one.span);
      both(active, one.bytes, -signed_of(one.bytes));
      both(requested, one.bytes, -signed_of(one.requested));
      rounding -= signed_of(one.span - one.bytes);
      one = live.back();
      live.pop_back();
    }
    ASSERT_EQ(counters.allocated(), Bytes{static_cast<std::uint64_t>(bytes[0].current)});
    ASSERT_EQ(counters.active(), Bytes{static_cast<std::uint64_t>(active[0].current)});
    ASSERT_EQ(counters.peak_active(), Bytes{static_cast<std::uint64_t>(most_active)});
    ASSERT_EQ(counters.headroom_bytes(), bytes[0].peak - bytes[0].current);
    if (random() % 50 == 0) {
      counters.reset_peaks();
      for (auto* stats : {&blocks, &bytes, &requested, &active}) {
        for (Stat& stat : *stats) stat.peak = stat.current;
      }
    }
    if (random() % 16 != 0) continue;
    const Stats& stats = counters.stats();
    ASSERT_EQ(stats.slack_rounding_bytes, rounding);
    const auto expect_same = [](const StatArray& found, const std::array<Stat, 3>& wanted) {
      for (std::size_t kind = 0; kind < 3; ++kind) {
        ASSERT_EQ(found[kind].current, wanted[kind].current);
        ASSERT_EQ(found[kind].peak, wanted[kind].peak);
        ASSERT_EQ(found[kind].allocated, wanted[kind].allocated);
        ASSERT_EQ(found[kind].freed, wanted[kind].freed);
      }
    };
    expect_same(stats.allocation, blocks);
    expect_same(stats.allocated_bytes, bytes);
    expect_same(stats.requested_bytes, requested);
    expect_same(stats.active_bytes, active);
  }
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
  counters.on_free(8192_B);
  counters.on_idle(8192_B, 8192_B, 8192_B);
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
