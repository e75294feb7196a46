#include "allocator/analysis/phases.h"

#include <gtest/gtest.h>

namespace levee::analysis {
namespace {

constexpr ContextId kOuter{1};
constexpr ContextId kInner{2};

TEST(Phases, TheSameNamesUnderTheSameParentAreOneNode) {
  PhaseTracker phases;
  for (std::uint64_t step = 0; step < 3; ++step) {
    phases.push(0, kOuter, step * 100);
    phases.push(0, kInner, step * 100 + 10);
    EXPECT_EQ(phases.node(phases.current(0)).name, kInner);
    EXPECT_EQ(phases.node(phases.current(0)).depth, 2U);
    phases.pop(0, kInner, step * 100 + 30);
    phases.pop(0, kOuter, step * 100 + 50);
  }
  phases.push(0, kInner, 900);  // at the top: another node than below kOuter
  phases.finish(1000);
  const auto nodes = phases.take_nodes();
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[1].entries, 3U);
  EXPECT_EQ(nodes[1].total_ns, 150U);
  EXPECT_EQ(nodes[2].total_ns, 60U);
  EXPECT_EQ(nodes[3].parent, 0U);
  EXPECT_EQ(nodes[3].total_ns, 100U);
}

TEST(Phases, ThreadsHaveStacksOfTheirOwn) {
  PhaseTracker phases;
  phases.push(0, kOuter, 0);
  phases.push(7, kInner, 5);
  EXPECT_EQ(phases.node(phases.current(0)).name, kOuter);
  EXPECT_EQ(phases.node(phases.current(7)).name, kInner);
  EXPECT_EQ(phases.current(8), 0U);
}

TEST(Phases, APopOfAnOuterPhaseClosesWhatIsInside) {
  PhaseTracker phases;
  phases.push(0, kOuter, 0);
  phases.push(0, kInner, 10);
  phases.pop(0, kOuter, 30);
  EXPECT_EQ(phases.current(0), 0U);
  const auto spans = phases.take_spans();
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0].begin_ns, 0U);
  EXPECT_EQ(spans[1].end_ns, 30U);
}

TEST(Phases, APopOfAPhaseThatIsNotOpenChangesNothing) {
  PhaseTracker phases;
  phases.pop(0, kOuter, 5);
  phases.push(0, kOuter, 10);
  phases.pop(0, kInner, 20);
  EXPECT_EQ(phases.node(phases.current(0)).name, kOuter);
}

}  // namespace
}  // namespace levee::analysis
