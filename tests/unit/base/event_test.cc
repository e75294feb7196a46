#include <levee/event.h>

#include <gtest/gtest.h>

namespace levee {
namespace {

TEST(Event, KeepsKindAndContextApart) {
  const Event event =
      make_event(EventKind::kStitch, 12_ns, LaneId{3}, 4, 5, 6, ContextId{kMaxContexts});
  EXPECT_EQ(event.kind(), EventKind::kStitch);
  EXPECT_EQ(event.context(), ContextId{kMaxContexts});
  EXPECT_EQ(event.time_ns, 12);
  EXPECT_EQ(event.lane, LaneId{3});
  EXPECT_EQ(event.a, 4);
  EXPECT_EQ(event.b, 5);
  EXPECT_EQ(event.aux, 6);
}

TEST(Event, SizesSurvivePackingUpToTheLimits) {
  for (const Bytes requested : {0_B, 1_B, 513_B, 7_GiB, kMaxRequest}) {
    for (const Bytes rounding : {0_B, 511_B, 1_MiB - 1_B}) {
      const std::uint64_t packed = pack_sizes(requested, requested + rounding);
      EXPECT_EQ(requested_of(packed), requested);
      EXPECT_EQ(block_of(packed), requested + rounding);
    }
  }
}

}  // namespace
}  // namespace levee
