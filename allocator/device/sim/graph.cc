#include "allocator/device/sim/graph.h"

#include <algorithm>

namespace levee::device::sim {

bool Graph::all_reach(const std::vector<std::uint32_t>& of) const {
  std::vector<bool> reached(nodes.size(), false);
  for (const std::uint32_t node : of) reached[node] = true;
  // Dependencies come earlier in the list, so one pass from the end reaches everything that can be
  // reached.
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (!reached[i]) return false;
    for (const std::uint32_t dependency : nodes[i].dependencies) reached[dependency] = true;
  }
  return true;
}

namespace {

/// Appends the nodes of `graph`, started at `start`; returns when the last of them ends.
Nanos flatten(const Graph& graph, Nanos start, std::vector<ExecGraph::Node>& nodes,
              std::vector<GraphRange>& ranges) {
  std::vector<Nanos> ends(graph.nodes.size());
  Nanos last = start;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    Nanos begin = start;
    for (const std::uint32_t dependency : node.dependencies)
      begin = std::max(begin, ends[dependency]);
    if (node.child != nullptr) {
      ends[i] = flatten(*node.child, begin, nodes, ranges);
    } else {
      ends[i] = begin + node.duration;
      nodes.push_back(ExecGraph::Node{i + 1, node.kind, node.name, node.bytes, begin, ends[i],
                                      node.effect, node.on_complete, node.event});
    }
    last = std::max(last, ends[i]);
  }
  ranges.insert(ranges.end(), graph.ranges.begin(), graph.ranges.end());
  return last;
}

}  // namespace

std::unique_ptr<ExecGraph> instantiate(const Graph& graph) {
  auto exec = std::make_unique<ExecGraph>();
  exec->duration = flatten(graph, Nanos{}, exec->nodes, exec->ranges);
  std::vector<GraphRange>& ranges = exec->ranges;
  std::sort(ranges.begin(), ranges.end(),
            [](const GraphRange& a, const GraphRange& b) { return a.addr < b.addr; });
  std::size_t write = 0;
  for (std::size_t read = 0; read < ranges.size(); ++read) {
    if (write > 0 && ranges[read].addr <= ranges[write - 1].addr + ranges[write - 1].bytes) {
      const DeviceAddr end = std::max(ranges[write - 1].addr + ranges[write - 1].bytes,
                                      ranges[read].addr + ranges[read].bytes);
      ranges[write - 1].bytes = end - ranges[write - 1].addr;
    } else {
      ranges[write++] = ranges[read];
    }
  }
  ranges.resize(write);
  return exec;
}

}  // namespace levee::device::sim
