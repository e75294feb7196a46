#include "allocator/device/sim/latency_table.h"

#include <gtest/gtest.h>

namespace levee::device::sim {
namespace {

TEST(LatencyTable, ACallCostsItsFixedPartAndItsPagesRoundedUp) {
  LatencyTable table = LatencyTable::zero();
  table[CallKind::kMap] = CallCost{100, 10, 1};
  EXPECT_EQ(table.call_cost(CallKind::kMap, Bytes{}), 100_ns);
  EXPECT_EQ(table.call_cost(CallKind::kMap, 1_B), 110_ns);
  EXPECT_EQ(table.call_cost(CallKind::kMap, 3_MiB), 123_ns);
  EXPECT_EQ(table.call_cost(CallKind::kUnmap, 3_MiB), 0_ns);
}

TEST(LatencyTable, CarriesThePublishedFigures) {
  const LatencyTable table = LatencyTable::published();
  // Remapping one page, as the A100 figures have it: map, access and unmap, about 63 us.
  const Nanos remap = table.call_cost(CallKind::kMap, 2_MiB) +
                      table.call_cost(CallKind::kSetAccess, 2_MiB) +
                      table.call_cost(CallKind::kUnmap, 2_MiB);
  EXPECT_EQ(remap, 63'050_ns);
  EXPECT_EQ(table.call_cost(CallKind::kCreateHandle, 2_MiB), 193_us);
}

TEST(LatencyTable, WorkTakesTheLongerOfArithmeticAndTraffic) {
  const LatencyTable table = LatencyTable::published();
  EXPECT_EQ(table.kernel_duration(0, 0), Nanos{table.work.kernel_floor_ns});
  EXPECT_EQ(table.kernel_duration(table.work.flops, 0), Nanos{1'000'000'000});
  EXPECT_EQ(table.kernel_duration(table.work.flops, table.work.bytes_per_second * 2),
            Nanos{2'000'000'000});
}

TEST(LatencyTable, CopiesTakeTheirDirectionsRate) {
  const LatencyTable table = LatencyTable::published();
  EXPECT_EQ(table.copy_duration(Bytes{25'000'000'000}, CopyDirection::kHostToDevice, false),
            Nanos{1'000'000'000});
  EXPECT_GT(table.copy_duration(1_GiB, CopyDirection::kHostToDevice, true),
            table.copy_duration(1_GiB, CopyDirection::kHostToDevice, false));
  EXPECT_LT(table.copy_duration(1_GiB, CopyDirection::kDeviceToDevice, false),
            table.copy_duration(1_GiB, CopyDirection::kPeer, false));
  EXPECT_EQ(table.copy_duration(1_B, CopyDirection::kDeviceToDevice, false),
            Nanos{table.work.copy_floor_ns});
  EXPECT_GT(table.memset_duration(1_GiB), table.memset_duration(1_MiB));
}

}  // namespace
}  // namespace levee::device::sim
