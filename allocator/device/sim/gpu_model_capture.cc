// Capture and graphs of GpuModel. What is legal while a stream captures, as CUDA's documentation
// has it:
//
//   a captured stream, event or its device may not be queried or waited for          900, 907; the
//   capture is lost a captured stream may not wait for an event recorded outside 905; lost an event
//   captured elsewhere may not be waited for in another capture              902; both lost the
//   legacy stream may not be used while a blocking stream of its device captures  906; lost unsafe
//   calls (`is_unsafe_in_capture`) are judged by the calling thread's mode     900; every capture
//   they disturb is lost
//     relaxed: allowed · thread-local: refused if this thread began a capture that is not relaxed
//     global: refused also if any thread began one in global mode
//
// The end of a lost capture gives 901 and no graph.
#include <algorithm>
#include <utility>

#include "allocator/base/check.h"
#include "allocator/device/sim/gpu_model_state.h"

namespace levee::device::sim {

namespace {

// A node's id holds its graph's place and its own place in it. Bit 3 tells it from ids of other
// things.
GraphNodeId node_id(std::uint64_t graph, std::size_t node) {
  const std::uint64_t place = (graph & 0xF'FFFF'FFFF) >> 4;
  return GraphNodeId{place << 36 | (std::uint64_t{node} + 1) << 4 | 8};
}
std::uint64_t place_of(GraphNodeId node) {
  return node.value >> 36;
}
std::size_t index_of(GraphNodeId node) {
  return static_cast<std::size_t>((node.value & 0xF'FFFF'FFFF) >> 4) - 1;
}
bool is_node_of(GraphNodeId node, const Graph& graph) {
  return (node.value & 15) == 8 && place_of(node) == (graph.id & 0xF'FFFF'FFFF) >> 4 &&
         index_of(node) < graph.nodes.size();
}

/// Adds to `list`, each once, kept in order.
void add_dependencies(std::vector<std::uint32_t>& list, const std::vector<std::uint32_t>& more) {
  list.insert(list.end(), more.begin(), more.end());
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

bool to_indices(std::span<const GraphNodeId> nodes, const Graph& graph,
                std::vector<std::uint32_t>& indices) {
  for (const GraphNodeId node : nodes) {
    if (!is_node_of(node, graph)) return false;
    indices.push_back(static_cast<std::uint32_t>(index_of(node)));
  }
  return true;
}

GraphNodeInfo describe(const Graph& graph, std::size_t index) {
  const GraphNode& node = graph.nodes[index];
  GraphNodeInfo info{node_id(graph.id, index), node.kind, node.name, {}};
  for (const std::uint32_t dependency : node.dependencies)
    info.dependencies.push_back(node_id(graph.id, dependency));
  return info;
}

}  // namespace

// ---- Rules

Capture* GpuModel::State::find_capture(std::uint64_t number) const {
  for (const auto& capture : captures) {
    if (capture->number == number) return capture.get();
  }
  return nullptr;
}

bool GpuModel::State::is_device_capturing(DeviceId device) const {
  return std::any_of(captures.begin(), captures.end(), [device](const auto& capture) {
    return std::any_of(capture->streams.begin(), capture->streams.end(),
                       [device](const Stream* stream) { return stream->device == device; });
  });
}

bool GpuModel::State::is_blocking_stream_capturing(DeviceId device) const {
  if (captures.empty()) return false;
  return std::any_of(captures.begin(), captures.end(), [device](const auto& capture) {
    return std::any_of(capture->streams.begin(), capture->streams.end(),
                       [device](const Stream* stream) {
                         return stream->device == device && !stream->options.non_blocking;
                       });
  });
}

Native GpuModel::State::break_capture(Capture& capture, Native answer) {
  if (!capture.is_invalid && is_judging()) {
    base::FixedBuffer<256> text;
    text << "a call that CUDA forbids there (it answers " << static_cast<std::int32_t>(answer)
         << ") ended the capture that began on " << capture.origin->id;
    Hazard hazard = new_hazard(JudgeRule::kCaptureIsLeftAlone);
    hazard.stream = capture.origin->id;
    file(std::move(hazard), text);
  }
  capture.is_invalid = true;
  return answer;
}

void GpuModel::State::break_captures_of(DeviceId device, bool blocking_streams_only) {
  for (const auto& capture : captures) {
    const bool is_concerned =
        std::any_of(capture->streams.begin(), capture->streams.end(), [&](const Stream* stream) {
          return stream->device == device &&
                 !(blocking_streams_only && stream->options.non_blocking);
        });
    if (is_concerned) {
      static_cast<void>(
          break_capture(*capture, Native::kCaptureUnsupported));  // it returns what it was given
    }
  }
}

Native GpuModel::State::check_capture(CallKind) {
  const CaptureMode mode = capture_mode_of_this_thread();
  if (mode == CaptureMode::kRelaxed) return Native::kSuccess;
  bool is_refused = false;
  for (const auto& capture : captures) {
    const bool is_mine =
        capture->thread == this_thread_number() && capture->mode != CaptureMode::kRelaxed;
    const bool is_global = mode == CaptureMode::kGlobal && capture->mode == CaptureMode::kGlobal;
    if (!is_mine && !is_global) continue;
    is_refused = true;
    static_cast<void>(
        break_capture(*capture, Native::kCaptureUnsupported));  // it returns what it was given
  }
  return is_refused ? Native::kCaptureUnsupported : Native::kSuccess;
}

Native GpuModel::State::join_capture(Stream& stream, const EventObject& event) {
  Capture* capture = find_capture(event.capture);
  if (capture == nullptr)
    return Native::kCapturedEvent;  // its capture has ended: the event has no state to wait for
  if (stream.capture != nullptr && stream.capture != capture) {
    static_cast<void>(
        break_capture(*stream.capture, Native::kCaptureMerge));  // it returns what it was given
    return break_capture(*capture, Native::kCaptureMerge);
  }
  if (capture->is_invalid) return Native::kCaptureInvalidated;
  if (stream.capture == nullptr) {
    if (stream.is_legacy) return break_capture(*capture, Native::kCaptureImplicit);
    stream.capture = capture;
    stream.capture_index = capture->order.add_stream();
    capture->streams.push_back(&stream);
  }
  capture->order.acquire(stream.capture_index, event.point);
  add_dependencies(stream.capture_dependencies, event.dependencies);
  return Native::kSuccess;
}

std::uint32_t GpuModel::State::capture_node(Stream& stream, GraphNode node) {
  node.dependencies = stream.capture_dependencies;
  std::sort(node.dependencies.begin(), node.dependencies.end());
  node.dependencies.erase(std::unique(node.dependencies.begin(), node.dependencies.end()),
                          node.dependencies.end());
  const std::uint32_t index = stream.capture->graph->add(std::move(node));
  stream.capture_dependencies.assign(1, index);
  return index;
}

void GpuModel::State::end_capture(Capture& capture) {
  for (Stream* stream : capture.streams) {
    stream->capture = nullptr;
    stream->capture_dependencies.clear();
  }
  captures.erase(std::find_if(captures.begin(), captures.end(),
                              [&capture](const auto& c) { return c.get() == &capture; }));
}

// ---- Capture

Status GpuModel::begin_capture(DeviceId device, StreamId stream, CaptureMode mode) {
  return begin_capture_to(device, stream, GraphId{}, {}, mode);
}

Status GpuModel::begin_capture_to(DeviceId device, StreamId id, GraphId graph_id,
                                  std::span<const GraphNodeId> dependencies, CaptureMode mode) {
  State& s = *state_;
  Call call(s, CallKind::kBeginCapture, device, CallArguments{{}, {}, id.value});
  if (!call.ok()) return call.status();
  Stream* stream = s.resolve(device, id);
  if (stream == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
  if (stream->is_legacy) return call.fail(Native::kCaptureUnsupported);
  if (stream->capture != nullptr) return call.fail(Native::kIllegalState);
  Graph* graph = nullptr;
  std::vector<std::uint32_t> indices;
  if (graph_id.value != 0) {
    graph = s.graphs.find(graph_id.value);
    if (graph == nullptr || !to_indices(dependencies, *graph, indices))
      return call.fail(Native::kInvalidValue);
  } else {
    auto owned = std::make_unique<Graph>();
    graph = owned.get();
    graph_id = GraphId{s.graphs.insert(std::move(owned))};
    graph->id = graph_id.value;
  }
  auto capture = std::make_unique<Capture>();
  capture->number = s.next_capture++;
  capture->mode = mode;
  capture->thread = this_thread_number();
  capture->origin = stream;
  capture->graph = graph;
  capture->graph_id = graph_id;
  capture->streams.push_back(stream);
  stream->capture = capture.get();
  stream->capture_index = capture->order.add_stream();
  stream->capture_dependencies = std::move(indices);
  s.captures.push_back(std::move(capture));
  return Status{};
}

Result<GraphId> GpuModel::end_capture(DeviceId device, StreamId id) {
  State& s = *state_;
  Call call(s, CallKind::kEndCapture, device, CallArguments{{}, {}, id.value});
  if (!call.ok()) return call.status();
  Stream* stream = s.resolve(device, id);
  if (stream == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
  if (stream->capture == nullptr) return call.fail(Native::kIllegalState);
  Capture& capture = *stream->capture;
  if (capture.origin != stream)
    return call.fail(s.break_capture(capture, Native::kCaptureUnmatched));
  if (capture.mode != CaptureMode::kRelaxed && capture.thread != this_thread_number()) {
    return call.fail(Native::kCaptureWrongThread);
  }
  const GraphId graph = capture.graph_id;
  Native native = Native::kSuccess;
  if (capture.is_invalid) {
    native = Native::kCaptureInvalidated;
  } else if (!capture.graph->all_reach(stream->capture_dependencies)) {
    native = s.break_capture(capture, Native::kCaptureUnjoined);
  }
  s.end_capture(capture);
  if (native != Native::kSuccess) {
    s.graphs.erase(graph.value);
    return call.fail(native);
  }
  return graph;
}

Result<CaptureInfo> GpuModel::capture_info(DeviceId device, StreamId stream) {
  const Result<CaptureDetails> details = capture_details(device, stream);
  if (!details.ok()) return details.status();
  return CaptureInfo{details->status, details->id};
}

Result<CaptureDetails> GpuModel::capture_details(DeviceId device, StreamId id) {
  State& s = *state_;
  Call call(s, CallKind::kCaptureInfo, device, CallArguments{{}, {}, id.value});
  if (!call.ok()) return call.status();
  const Stream* stream = s.resolve(device, id);
  if (stream == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
  // CUDA's answer, not a misuse: callers ask in order to find out.
  if (stream->is_legacy && s.is_blocking_stream_capturing(stream->device))
    return call.fail(Native::kCaptureImplicit);
  CaptureDetails details;
  if (stream->capture == nullptr) return details;
  const Capture& capture = *stream->capture;
  details.status = capture.is_invalid ? CaptureStatus::kInvalidated : CaptureStatus::kActive;
  details.id = capture.number;
  details.graph = capture.graph_id;
  for (const std::uint32_t dependency : stream->capture_dependencies) {
    details.dependencies.push_back(node_id(capture.graph_id.value, dependency));
  }
  return details;
}

Status GpuModel::update_capture_dependencies(DeviceId device, StreamId id,
                                             std::span<const GraphNodeId> dependencies,
                                             bool replace) {
  State& s = *state_;
  Call call(s, CallKind::kGraphBuild, device, CallArguments{{}, {}, id.value});
  if (!call.ok()) return call.status();
  Stream* stream = s.resolve(device, id);
  if (stream == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
  if (stream->capture == nullptr) return call.fail(Native::kIllegalState);
  std::vector<std::uint32_t> indices;
  if (!to_indices(dependencies, *stream->capture->graph, indices))
    return call.fail(Native::kInvalidValue);
  if (replace) stream->capture_dependencies.clear();
  add_dependencies(stream->capture_dependencies, indices);
  return Status{};
}

CaptureMode GpuModel::exchange_capture_mode(CaptureMode mode) {
  const Call call(*state_, CallKind::kExchangeCaptureMode, DeviceId{0});
  return std::exchange(capture_mode_of_this_thread(), mode);
}

RelaxedCapture::RelaxedCapture()
    : before_(std::exchange(capture_mode_of_this_thread(), CaptureMode::kRelaxed)) {}

RelaxedCapture::~RelaxedCapture() {
  capture_mode_of_this_thread() = before_;
}

// ---- Graphs

Result<GraphId> GpuModel::create_graph() {
  State& s = *state_;
  const Call call(s, CallKind::kGraphBuild, DeviceId{0});
  if (!call.ok()) return call.status();
  auto owned = std::make_unique<Graph>();
  Graph& graph = *owned;
  graph.id = s.graphs.insert(std::move(owned));
  return GraphId{graph.id};
}

Result<GraphNodeId> GpuModel::add_node(GraphId id, std::span<const GraphNodeId> dependencies,
                                       const Work& work) {
  State& s = *state_;
  Call call(s, CallKind::kGraphBuild, DeviceId{0}, CallArguments{{}, {}, id.value});
  if (!call.ok()) return call.status();
  Graph* graph = s.graphs.find(id.value);
  if (graph == nullptr) return call.fail(Native::kInvalidValue);
  GraphNode node;
  if (!to_indices(dependencies, *graph, node.dependencies)) return call.fail(Native::kInvalidValue);
  node.kind = work.kind;
  node.name = work.name;
  node.duration = work.duration;
  node.bytes = work.bytes;
  node.effect = work.effect;
  node.on_complete = work.on_complete;
  for (const Touch& touch : work.touches)
    graph->ranges.push_back(GraphRange{touch.addr, touch.bytes});
  return node_id(id.value, graph->add(std::move(node)));
}

Result<GraphNodeId> GpuModel::add_child_graph(GraphId id, std::span<const GraphNodeId> dependencies,
                                              GraphId child_id) {
  State& s = *state_;
  Call call(s, CallKind::kGraphBuild, DeviceId{0}, CallArguments{{}, {}, id.value});
  if (!call.ok()) return call.status();
  Graph* graph = s.graphs.find(id.value);
  const Graph* child = s.graphs.find(child_id.value);
  GraphNode node;
  if (graph == nullptr || child == nullptr || graph == child ||
      !to_indices(dependencies, *graph, node.dependencies)) {
    return call.fail(Native::kInvalidValue);
  }
  node.kind = WorkKind::kChildGraph;
  node.name = "child graph";
  node.child = std::make_shared<const Graph>(*child);  // CUDA takes a copy as well
  return node_id(id.value, graph->add(std::move(node)));
}

Result<std::vector<GraphNodeInfo>> GpuModel::graph_nodes(GraphId id) const {
  const base::MutexLock lock(state_->mutex);
  const Graph* graph = state_->graphs.find(id.value);
  if (graph == nullptr) return to_status(Native::kInvalidValue);
  std::vector<GraphNodeInfo> nodes;
  for (std::size_t i = 0; i < graph->nodes.size(); ++i) nodes.push_back(describe(*graph, i));
  return nodes;
}

Result<GraphNodeInfo> GpuModel::graph_node(GraphNodeId node) const {
  const base::MutexLock lock(state_->mutex);
  const Graph* found = nullptr;
  state_->graphs.for_each([&](const Graph& graph) {
    if (is_node_of(node, graph)) found = &graph;
  });
  if (found == nullptr) return to_status(Native::kInvalidValue);
  return describe(*found, index_of(node));
}

Result<GraphId> GpuModel::clone_graph(GraphId id) {
  State& s = *state_;
  Call call(s, CallKind::kGraphBuild, DeviceId{0}, CallArguments{{}, {}, id.value});
  if (!call.ok()) return call.status();
  const Graph* graph = s.graphs.find(id.value);
  if (graph == nullptr) return call.fail(Native::kInvalidValue);
  auto owned = std::make_unique<Graph>(*graph);
  Graph& clone = *owned;
  clone.id = s.graphs.insert(std::move(owned));
  return GraphId{clone.id};
}

Status GpuModel::destroy_graph(GraphId id) {
  State& s = *state_;
  Call call(s, CallKind::kDestroyGraph, DeviceId{0}, CallArguments{{}, {}, id.value});
  if (!call.ok()) return call.status();
  for (const auto& capture : s.captures) {
    if (capture->graph_id == id) return call.fail(Native::kInvalidValue);  // still being built
  }
  if (s.graphs.erase(id.value) == nullptr) return call.fail(Native::kInvalidValue);
  return Status{};
}

Result<ExecId> GpuModel::instantiate(GraphId id) {
  State& s = *state_;
  Call call(s, CallKind::kInstantiateGraph, DeviceId{0}, CallArguments{{}, {}, id.value});
  if (!call.ok()) return call.status();
  const Graph* graph = s.graphs.find(id.value);
  if (graph == nullptr) return call.fail(Native::kInvalidValue);
  auto owned = sim::instantiate(*graph);
  ExecGraph& exec = *owned;
  exec.id = s.execs.insert(std::move(owned));
  return ExecId{exec.id};
}

Status GpuModel::destroy_exec(ExecId id) {
  State& s = *state_;
  Call call(s, CallKind::kDestroyGraph, DeviceId{0}, CallArguments{{}, {}, id.value});
  if (!call.ok()) return call.status();
  if (s.execs.erase(id.value) == nullptr) return call.fail(Native::kInvalidValue);
  return Status{};
}

Status GpuModel::launch_graph(DeviceId device, StreamId id, ExecId exec_id,
                              std::uint64_t correlation) {
  State& s = *state_;
  std::vector<std::function<void()>> effects;
  {
    Call call(s, CallKind::kLaunchGraph, device, CallArguments{{}, {}, exec_id.value});
    if (!call.ok()) return call.status();
    Stream* stream = s.resolve(device, id);
    if (stream == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
    ExecGraph* exec = s.execs.find(exec_id.value);
    if (exec == nullptr) return call.fail(Native::kInvalidValue);
    if (stream->is_legacy && s.is_blocking_stream_capturing(stream->device)) {
      s.break_captures_of(stream->device, true);
      return call.fail(Native::kCaptureImplicit);
    }
    if (stream->capture != nullptr) {
      if (stream->capture->is_invalid) return call.fail(Native::kCaptureInvalidated);
      // A launch inside a capture becomes a child graph. Its branches were laid out when it was
      // made: a list with times.
      auto child = std::make_shared<Graph>();
      for (const ExecGraph::Node& node : exec->nodes) {
        GraphNode copy;
        copy.kind = node.kind;
        copy.name = node.name;
        copy.duration = node.end - node.start;
        copy.bytes = node.bytes;
        copy.effect = node.effect;
        copy.on_complete = node.on_complete;
        copy.event = node.event;
        if (!child->nodes.empty())
          copy.dependencies.push_back(static_cast<std::uint32_t>(child->nodes.size() - 1));
        child->add(std::move(copy));
      }
      child->ranges = exec->ranges;
      GraphNode node;
      node.kind = WorkKind::kChildGraph;
      node.name = "child graph";
      node.child = std::move(child);
      s.capture_node(*stream, std::move(node));
      return Status{};
    }
    s.queue_behind_legacy(*stream);
    if (exec->last_launch.has_value()) s.order.acquire(stream->index, *exec->last_launch);
    Nanos start = std::max({s.clock.now(), stream->tail, exec->busy_until});
    ++stream->ops;
    stream->overlap_from = 0;
    for (const ExecGraph::Node& node : exec->nodes) {
      if (node.kind == WorkKind::kEventWait) {
        if (EventObject* event = s.events.find(node.event.value);
            event != nullptr && event->state == EventObject::State::kRecorded) {
          s.order.acquire(stream->index, event->point);
          // What follows is late by as much as the event is; branches that do not wait for it as
          // well, which is a simplification.
          start = std::max(start, event->complete_at - node.start);
        }
        continue;
      }
      if (node.kind == WorkKind::kEventRecord) {
        if (EventObject* event = s.events.find(node.event.value); event != nullptr) {
          event->state = EventObject::State::kRecorded;
          event->complete_at = std::max(stream->tail, start + node.end);
          event->point = s.order.release(stream->index);
        }
        continue;
      }
      Work work;
      work.kind = node.kind;
      work.name = node.name;
      work.duration = node.end - node.start;
      work.bytes = node.bytes;
      work.correlation = correlation;
      work.on_complete = node.on_complete;
      s.run_work(*stream, work, start + node.start, exec->id, node.id);
      if (node.effect) effects.push_back(node.effect);
    }
    s.set_tail(*stream, std::max(stream->tail, start + exec->duration));
    if (s.is_judging()) {
      for (const GraphRange& range : exec->ranges) {
        State::UseAt use;
        use.stream = stream;
        use.is_launch = true;
        s.note_use(range.addr, range.bytes, use);
      }
    }
    s.order.stamp(stream->index);
    exec->busy_until = stream->tail;
    exec->last_launch = s.order.release(stream->index);
  }
  for (const auto& effect : effects) effect();
  return Status{};
}

}  // namespace levee::device::sim
