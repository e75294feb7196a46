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

// However full its page: what is free beside live blocks adds up to the moment's own figure.
TEST(Moments, WhatIsFreeBetweenLiveBlocksIsListedByWhatLivesThere) {
  TraceBuilder trace;
  const ContextId setup = trace.name("setup");
  const ContextId stack = trace.name("train.py:7 main", record::ContextKind::kStack);
  trace.device(0, "GPU", 8_MiB);
  trace.at(1_us).create(8_MiB).push(setup);
  trace.at(2_us).alloc(kBase, 1_MiB).alloc(kBase + kPageBytes, Bytes{kPageBytes - 512});
  trace.alloc(kBase + 2 * kPageBytes, 4_KiB, {}, 0, stack).alloc(kBase + 3 * kPageBytes, 2_MiB);
  trace.pop(setup);
  trace.at(9_us).emergency(EmergencyCause::kDeviceFull, 2_MiB, 8_MiB);
  trace.at(12_us).emergency_end(false, 8_MiB, 3_us);
  const TraceFacts facts = analyze(trace);
  const std::vector<Pin>& between = facts.devices[0].between;
  ASSERT_EQ(between.size(), 2U);
  EXPECT_EQ(between[0].origin, "train.py:7 main");
  EXPECT_EQ(between[0].pinned_bytes, kPageBytes - 4096);
  EXPECT_EQ(between[1].origin, "setup");
  EXPECT_EQ(between[1].blocks, 2U);
  EXPECT_EQ(between[0].pinned_bytes + between[1].pinned_bytes,
            facts.devices[0].at_refusal.partial_page_bytes);
  EXPECT_EQ(facts.devices[0].at_refusal.partial_page_bytes, facts.devices[0].at_refusal.free_bytes);
}

TEST(Moments, APlaceIsWhereTheProgramsOwnCodeIs) {
  const std::string packages = "/venv/lib/python3.11/site-packages/";
  const std::string module = packages + "torch/nn/modules/module.py:";
  EXPECT_EQ(place_text(packages + "torch/nn/functional.py:1777 relu\n" + module +
                       "1794 _call_impl\n/home/u/net.py:22 forward\n" + module +
                       "1794 _call_impl\ntrain.py:5 <module>"),
            "/home/u/net.py:22 forward < train.py:5 <module>, in torch/nn/functional.py:1777 relu");
  EXPECT_EQ(place_text("a.py:1 f\nb.py:2 g\nc.py:3 h\nd.py:4 i"), "a.py:1 f < b.py:2 g < c.py:3 h");
  EXPECT_EQ(place_text("/usr/lib/python3.11/copy.py:9 deepcopy\nx.py:1 <module>"),
            "x.py:1 <module>, in /usr/lib/python3.11/copy.py:9 deepcopy");
  // A folder of one's own that is called as Python's is not.
  EXPECT_EQ(place_text("/home/u/lib/python/x.py:1 f"), "/home/u/lib/python/x.py:1 f");
  // None of the program's own: the innermost that there are.
  EXPECT_EQ(place_text(module + "2 a\n" + module + "3 b"),
            "torch/nn/modules/module.py:2 a < torch/nn/modules/module.py:3 b");
  EXPECT_EQ(place_text("(no Python frame on this thread, as on autograd's)"),
            "(no Python frame on this thread, as on autograd's)");
  EXPECT_EQ(place_text(""), "");
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
