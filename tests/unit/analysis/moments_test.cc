#include "allocator/analysis/moments.h"

#include <gtest/gtest.h>

#include "allocator/analysis/analyze.h"
#include "tests/unit/analysis/trace_builder.h"

namespace levee::analysis {
namespace {

using test::TraceBuilder;

constexpr std::uint64_t kBase = 0x4000'0000;  // a multiple of the page size

TEST(Moments, FreeBytesAreSplitByWhatTheirPageHolds) {
  TraceBuilder trace;
  trace.at(1_us).create(16_MiB);
  // Page 0 half full, page 1 empty, pages 2 to 4 whole plus 512 B on page 5.
  trace.at(2_us).alloc(kBase, 1_MiB);
  trace.at(3_us).alloc(kBase + (4U << 20), Bytes{(6U << 20) + 512});
  const TraceFacts facts = analyze(trace);
  const MemoryMoment& peak = facts.devices[0].at_reserved_peak;
  const MemoryMoment& full = facts.devices[0].at_allocated_peak;
  EXPECT_EQ(peak.free_bytes, 16U << 20);  // the first moment at the peak of reserved
  EXPECT_EQ(full.reserved_bytes, full.allocated_bytes + full.waiting_bytes + full.free_bytes);
  EXPECT_EQ(full.partial_page_bytes, (1U << 20) + (2U << 20) - 512U);
}

TEST(Moments, PinsNameTheOriginOfSmallBlocksOnEmptyPages) {
  TraceBuilder trace;
  const ContextId setup = trace.name("setup");
  trace.at(1_us).create(64_MiB).push(setup);
  trace.at(2_us);
  for (std::uint64_t page = 0; page < 8; ++page) trace.alloc(kBase + page * kPageBytes, 4_KiB);
  trace.pop(setup);
  // Eight full pages come and go; what they leave is only the small blocks.
  trace.at(10_us).alloc(kBase + 16 * kPageBytes, 16_MiB).free(kBase + 16 * kPageBytes, 16_MiB);
  trace.at(20_us).create(2_MiB);
  const TraceFacts facts = analyze(trace);
  ASSERT_EQ(facts.devices[0].pins.size(), 1U);
  const Pin& pin = facts.devices[0].pins[0];
  EXPECT_EQ(pin.origin, "setup");
  EXPECT_EQ(pin.blocks, 8U);
  EXPECT_EQ(pin.block_bytes, 8U * 4096U);
  EXPECT_EQ(pin.pinned_bytes, 8 * (kPageBytes - 4096));
  EXPECT_EQ(pin.oldest_ns, 18'000U);
}

TEST(Moments, FullPagesAndPrivatePoolsAreNoPins) {
  TraceBuilder trace;
  const std::uint16_t graph = trace.pool(0, 1);
  trace.at(1_us).create(64_MiB);
  trace.at(2_us).alloc(kBase, 2_MiB, {}, graph);
  const TraceFacts facts = analyze(trace);
  EXPECT_TRUE(facts.devices[0].pins.empty());
  EXPECT_EQ(facts.devices[0].at_allocated_peak.private_pool_bytes, 2U << 20);
}

}  // namespace
}  // namespace levee::analysis
