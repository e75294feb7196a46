#include "allocator/device/sim/graph.h"

#include <gtest/gtest.h>

namespace levee::device::sim {
namespace {

GraphNode node(Nanos duration, std::vector<std::uint32_t> dependencies) {
  GraphNode result;
  result.kind = WorkKind::kKernel;
  result.duration = duration;
  result.dependencies = std::move(dependencies);
  return result;
}

TEST(Graph, NodesStartWhenTheirLastDependencyEnds) {
  Graph graph;
  graph.add(node(10_ns, {}));
  graph.add(node(5_ns, {}));
  graph.add(node(1_ns, {0, 1}));
  const auto exec = instantiate(graph);
  EXPECT_EQ(exec->nodes[1].start, 0_ns);
  EXPECT_EQ(exec->nodes[2].start, 10_ns);
  EXPECT_EQ(exec->duration, 11_ns);
}

TEST(Graph, ChildrenAreLaidOutInPlace) {
  auto child = std::make_shared<Graph>();
  child->add(node(5_ns, {}));
  child->add(node(7_ns, {}));
  Graph graph;
  graph.add(node(10_ns, {}));
  GraphNode holder = node(0_ns, {0});
  holder.child = child;
  graph.add(std::move(holder));
  graph.add(node(1_ns, {1}));
  const auto exec = instantiate(graph);
  ASSERT_EQ(exec->nodes.size(), 4U);
  EXPECT_EQ(exec->nodes[1].start, 10_ns);
  EXPECT_EQ(exec->nodes[3].start, 17_ns);
}

TEST(Graph, RangesThatTouchBecomeOne) {
  Graph graph;
  graph.ranges = {{DeviceAddr{4096}, 4096_B},
                  {DeviceAddr{0}, 4096_B},
                  {DeviceAddr{5000}, 100_B},
                  {DeviceAddr{9000}, 1_B}};
  const auto exec = instantiate(graph);
  ASSERT_EQ(exec->ranges.size(), 2U);
  EXPECT_EQ(exec->ranges[0].bytes, 8192_B);
  EXPECT_EQ(exec->ranges[1].addr, DeviceAddr{9000});
}

TEST(Graph, KnowsWhetherEveryNodeIsReached) {
  Graph graph;
  graph.add(node(1_ns, {}));
  graph.add(node(1_ns, {0}));
  graph.add(node(1_ns, {0}));
  EXPECT_FALSE(graph.all_reach({1}));
  EXPECT_TRUE(graph.all_reach({1, 2}));
  EXPECT_TRUE(Graph{}.all_reach({}));
}

}  // namespace
}  // namespace levee::device::sim
