// Graphs of work: what a capture builds, what a program adds by hand, and what is launched.
//
// Owns nodes and the bytes they touch. Promises: a node depends on earlier nodes alone, so that the
// order of the list is a legal order to run them; an executable graph is a copy that later changes
// of its graph do not reach. Timing: every node starts when the last of its dependencies has ended;
// branches run side by side without contention. Not thread-safe; the model's mutex guards it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/order.h"

namespace levee::device::sim {

struct Graph;

struct GraphNode {
  WorkKind kind = WorkKind::kEmpty;
  const char* name = "";
  Nanos duration{};
  Bytes bytes;
  std::vector<std::uint32_t> dependencies;
  std::function<void()> effect;
  std::function<void()> on_complete;
  EventId event;                       ///< of kEventRecord and kEventWait
  std::shared_ptr<const Graph> child;  ///< of kChildGraph
};

struct GraphRange {
  DeviceAddr addr;
  Bytes bytes;
};

struct Graph {
  std::uint64_t id = 0;
  std::vector<GraphNode> nodes;
  std::vector<GraphRange> ranges;  ///< bytes handed out to, or touched by, captured work

  std::uint32_t add(GraphNode node) {
    nodes.push_back(std::move(node));
    return static_cast<std::uint32_t>(nodes.size() - 1);
  }
  /// True if every node is `of`, or something it depends on, for one of `of`.
  bool all_reach(const std::vector<std::uint32_t>& of) const;
};

/// A graph ready to be launched: all nodes, those of child graphs included, with their times.
struct ExecGraph {
  struct Node {
    std::uint64_t id = 0;
    WorkKind kind = WorkKind::kEmpty;
    const char* name = "";
    Bytes bytes;
    Nanos start;  ///< after the launch
    Nanos end;
    std::function<void()> effect;
    std::function<void()> on_complete;
    EventId event;
  };
  std::uint64_t id = 0;
  std::vector<Node> nodes;
  std::vector<GraphRange> ranges;  ///< sorted, none touches the next
  Nanos duration{};
  Nanos busy_until{};  ///< end of the last launch: launches of one graph do not overlap
  std::optional<Order::Point> last_launch;  ///< the next launch is ordered after it
};

std::unique_ptr<ExecGraph> instantiate(const Graph& graph);

}  // namespace levee::device::sim
