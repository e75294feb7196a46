// Capture and graphs. The graphs themselves are the model's; here are the handles that it does not
// know (user objects, conditions) and the list of live graphs, through which a node finds its
// graph.
#include "tools/simgpu/cudart/graph_registry.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "tools/simgpu/core/host_functions.h"
#include "tools/simgpu/core/work.h"
#include "tools/simgpu/cudart/face.h"

using levee::device::CaptureStatus;
using levee::device::sim::CaptureMode;
using levee::device::sim::ExecId;
using levee::device::sim::GraphId;
using levee::device::sim::GraphNodeId;
using levee::device::sim::GraphNodeInfo;
using levee::device::sim::Work;
using levee::device::sim::WorkKind;
using levee::simgpu::ApiDomain;
using levee::simgpu::ApiFunction;
using levee::simgpu::current_device;
using levee::simgpu::native_code;
using levee::simgpu::Process;
using levee::simgpu::this_thread;
using levee::simgpu::to_stream;
using levee::simgpu::cudart::answer;
using levee::simgpu::cudart::graphs;
using levee::simgpu::cudart::put;

namespace {

GraphId to_graph(cudaGraph_t graph) {
  return GraphId{reinterpret_cast<std::uintptr_t>(graph)};
}
cudaGraph_t to_cuda(GraphId graph) {
  return reinterpret_cast<cudaGraph_t>(graph.value);
}
GraphNodeId to_node(cudaGraphNode_t node) {
  return GraphNodeId{reinterpret_cast<std::uintptr_t>(node)};
}
cudaGraphNode_t to_cuda(GraphNodeId node) {
  return reinterpret_cast<cudaGraphNode_t>(node.value);
}
ExecId to_exec(cudaGraphExec_t exec) {
  return ExecId{reinterpret_cast<std::uintptr_t>(exec)};
}
cudaGraphExec_t to_cuda(ExecId exec) {
  return reinterpret_cast<cudaGraphExec_t>(exec.value);
}

cudaStreamCaptureStatus to_cuda(CaptureStatus status) {
  switch (status) {
    case CaptureStatus::kActive:
      return cudaStreamCaptureStatusActive;
    case CaptureStatus::kInvalidated:
      return cudaStreamCaptureStatusInvalidated;
    default:
      return cudaStreamCaptureStatusNone;
  }
}

std::vector<GraphNodeId> to_nodes(const cudaGraphNode_t* nodes, std::size_t count) {
  std::vector<GraphNodeId> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(to_node(nodes[i]));
  return out;
}

cudaGraphNodeType type_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::kKernel:
      return cudaGraphNodeTypeKernel;
    case WorkKind::kMemcpyHostToDevice:
    case WorkKind::kMemcpyDeviceToHost:
    case WorkKind::kMemcpyDeviceToDevice:
    case WorkKind::kMemcpyPeer:
    case WorkKind::kMemcpyHostToHost:
      return cudaGraphNodeTypeMemcpy;
    case WorkKind::kMemset:
      return cudaGraphNodeTypeMemset;
    case WorkKind::kHostFunction:
      return cudaGraphNodeTypeHost;
    case WorkKind::kChildGraph:
      return cudaGraphNodeTypeGraph;
    case WorkKind::kEventRecord:
      return cudaGraphNodeTypeEventRecord;
    case WorkKind::kEventWait:
      return cudaGraphNodeTypeWaitEvent;
    case WorkKind::kEmpty:
      return cudaGraphNodeTypeEmpty;
  }
  return cudaGraphNodeTypeEmpty;
}

/// Writes what fits of a list, as CUDA's list calls do: with a null array only the number.
template <typename From>
void put_list(const std::vector<From>& from, cudaGraphNode_t* to, std::size_t* count) {
  if (to != nullptr) {
    const std::size_t room = *count;
    for (std::size_t i = 0; i < room; ++i) to[i] = i < from.size() ? to_cuda(from[i]) : nullptr;
    *count = std::min(room, from.size());
  } else {
    *count = from.size();
  }
}

int list_nodes(Process& process, cudaGraph_t graph, bool roots_only, cudaGraphNode_t* to,
               std::size_t* count) {
  if (count == nullptr) return cudaErrorInvalidValue;
  const auto nodes = process.model().graph_nodes(to_graph(graph));
  if (!nodes.ok()) return native_code(nodes.status());
  std::vector<GraphNodeId> out;
  for (const GraphNodeInfo& node : *nodes) {
    if (!roots_only || node.dependencies.empty()) out.push_back(node.id);
  }
  put_list(out, to, count);
  return 0;
}

/// The node and its graph's other nodes; false if no live graph has it.
bool find_node(Process& process, cudaGraphNode_t node, GraphNodeInfo* out,
               std::vector<GraphNodeInfo>* all) {
  for (const GraphId graph : graphs().live()) {
    const auto nodes = process.model().graph_nodes(graph);
    if (!nodes.ok()) continue;
    for (const GraphNodeInfo& info : *nodes) {
      if (info.id != to_node(node)) continue;
      *out = info;
      *all = *nodes;
      return true;
    }
  }
  return false;
}

int begin_capture(Process& process, cudaStream_t stream, cudaStreamCaptureMode mode) {
  process.activate(this_thread().device);
  return native_code(process.model().begin_capture(current_device(), to_stream(stream),
                                                   static_cast<CaptureMode>(mode)));
}

int add_node(Process& process, cudaGraphNode_t* node, cudaGraph_t graph,
             const cudaGraphNode_t* dependencies, std::size_t count, const Work& work) {
  const auto made = process.model().add_node(to_graph(graph), to_nodes(dependencies, count), work);
  if (!made.ok()) return native_code(made.status());
  put(node, to_cuda(*made));
  return 0;
}

/// A conditional node: its bodies run once at each launch, since nothing ever computes the
/// condition.
int add_conditional(Process& process, cudaGraphNode_t* node, cudaGraph_t graph,
                    const cudaGraphNode_t* dependencies, std::size_t count,
                    cudaConditionalNodeParams* parameters) {
  std::vector<GraphNodeId> after = to_nodes(dependencies, count);
  auto* bodies =
      new cudaGraph_t[parameters->size];  // belongs to the graph; CUDA frees it with the graph
  graphs().keep_until_destroyed(to_graph(graph), [bodies] { delete[] bodies; });
  for (unsigned i = 0; i < parameters->size; ++i) {
    const auto body = process.model().create_graph();
    if (!body.ok()) return native_code(body.status());
    graphs().add(*body);
    bodies[i] = to_cuda(*body);
  }
  parameters->phGraph_out = bodies;
  Work work;
  work.kind = WorkKind::kEmpty;
  work.name = "conditional node";
  return add_node(process, node, graph, dependencies, count, work);
}

int add_any_node(Process& process, cudaGraphNode_t* node, cudaGraph_t graph,
                 const cudaGraphNode_t* dependencies, std::size_t count,
                 cudaGraphNodeParams* parameters) {
  if (parameters == nullptr) return cudaErrorInvalidValue;
  Work work;
  switch (parameters->type) {
    case cudaGraphNodeTypeEmpty:
      work.kind = WorkKind::kEmpty;
      break;
    case cudaGraphNodeTypeKernel: {
      const levee::simgpu::Kernel* kernel = levee::simgpu::kernels().find(parameters->kernel.func);
      if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
      work.kind = WorkKind::kKernel;
      work.name = kernel->name();
      work.duration = process.latency().kernel_duration(0, 0);
      break;
    }
    case cudaGraphNodeTypeHost:
      work.kind = WorkKind::kHostFunction;
      work.effect = [fn = parameters->host.fn, data = parameters->host.userData] { fn(data); };
      break;
    case cudaGraphNodeTypeGraph: {
      const auto made = process.model().add_child_graph(
          to_graph(graph), to_nodes(dependencies, count), to_graph(parameters->graph.graph));
      if (!made.ok()) return native_code(made.status());
      put(node, to_cuda(*made));
      return 0;
    }
    case cudaGraphNodeTypeConditional:
      return add_conditional(process, node, graph, dependencies, count, &parameters->conditional);
    default:
      return cudaErrorNotSupported;
  }
  return add_node(process, node, graph, dependencies, count, work);
}

int instantiate(Process& process, cudaGraphExec_t* exec, cudaGraph_t graph) {
  if (exec == nullptr) return cudaErrorInvalidValue;
  const auto made = process.model().instantiate(to_graph(graph));
  if (!made.ok()) return native_code(made.status());
  graphs().instantiated(to_graph(graph), *made);
  *exec = to_cuda(*made);
  return 0;
}

}  // namespace

extern "C" {

// ---- Capture

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  static ApiFunction api{"cudaStreamBeginCapture", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamBeginCapture_v10000};
  return answer(api, [&](Process& process) { return begin_capture(process, stream, mode); });
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* dependencies,
                                          const cudaGraphEdgeData*, size_t count,
                                          cudaStreamCaptureMode mode) {
  static ApiFunction api{"cudaStreamBeginCaptureToGraph", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamBeginCaptureToGraph_v12030};
  return answer(api, [&](Process& process) {
    return process.model().begin_capture_to(current_device(), to_stream(stream), to_graph(graph),
                                            to_nodes(dependencies, count),
                                            static_cast<CaptureMode>(mode));
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  static ApiFunction api{"cudaStreamEndCapture", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamEndCapture_v10000};
  return answer(api, [&](Process& process) {
    put(graph, cudaGraph_t{nullptr});
    const auto made = process.model().end_capture(current_device(), to_stream(stream));
    if (!made.ok()) return native_code(made.status());
    graphs().add(*made);
    put(graph, to_cuda(*made));
    return 0;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  static ApiFunction api{"cudaStreamIsCapturing", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000};
  return answer(api, [&](Process& process) {
    if (status == nullptr) return int{cudaErrorInvalidValue};
    const auto info = process.model().capture_info(current_device(), to_stream(stream));
    if (!info.ok()) return native_code(info.status());
    *status = to_cuda(info->status);
    return 0;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, size_t* count) {
  static ApiFunction api{"cudaStreamGetCaptureInfo", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamGetCaptureInfo_v10010};
  return answer(api, [&](Process& process) {
    if (status == nullptr) return int{cudaErrorInvalidValue};
    const auto info = process.model().capture_details(current_device(), to_stream(stream));
    if (!info.ok()) return native_code(info.status());
    *status = to_cuda(info->status);
    if (info->status != CaptureStatus::kActive) {
      put(id, 0ULL);
      return 0;
    }
    put(id, static_cast<unsigned long long>(info->id));
    graphs().add(info->graph);
    put(graph, to_cuda(info->graph));
    // CUDA's array is valid until the next call that concerns the capture.
    thread_local std::vector<cudaGraphNode_t> kept;
    kept.clear();
    for (const GraphNodeId node : info->dependencies) kept.push_back(to_cuda(node));
    put(dependencies, static_cast<const cudaGraphNode_t*>(kept.data()));
    put(edges, static_cast<const cudaGraphEdgeData*>(nullptr));
    put(count, kept.size());
    return 0;
  });
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* dependencies,
                                                const cudaGraphEdgeData*, size_t count,
                                                unsigned int flags) {
  static ApiFunction api{"cudaStreamUpdateCaptureDependencies", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaStreamUpdateCaptureDependencies_v11030};
  return answer(api, [&](Process& process) {
    return process.model().update_capture_dependencies(current_device(), to_stream(stream),
                                                       to_nodes(dependencies, count),
                                                       flags == cudaStreamSetCaptureDependencies);
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  static ApiFunction api{"cudaThreadExchangeStreamCaptureMode", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaThreadExchangeStreamCaptureMode_v10010};
  return answer(api, [&](Process& process) {
    if (mode == nullptr) return int{cudaErrorInvalidValue};
    *mode = static_cast<cudaStreamCaptureMode>(
        process.model().exchange_capture_mode(static_cast<CaptureMode>(*mode)));
    return 0;
  });
}

// ---- Building

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int) {
  static ApiFunction api{"cudaGraphCreate", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphCreate_v10000};
  return answer(api, [&](Process& process) {
    const auto made = process.model().create_graph();
    if (!made.ok()) return native_code(made.status());
    graphs().add(*made);
    put(graph, to_cuda(*made));
    return 0;
  });
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  static ApiFunction api{"cudaGraphClone", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphClone_v10000};
  return answer(api, [&](Process& process) {
    const auto made = process.model().clone_graph(to_graph(graph));
    if (!made.ok()) return native_code(made.status());
    graphs().cloned(to_graph(graph), *made);
    put(clone, to_cuda(*made));
    return 0;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  static ApiFunction api{"cudaGraphDestroy", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphDestroy_v10000};
  return answer(api, [&](Process& process) {
    const int code = native_code(process.model().destroy_graph(to_graph(graph)));
    if (code == 0) graphs().destroyed(to_graph(graph));
    return code;
  });
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                             const cudaGraphNode_t* dependencies, const cudaGraphEdgeData*,
                             size_t count, cudaGraphNodeParams* parameters) {
  static ApiFunction api{"cudaGraphAddNode", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphAddNode_v12020};
  return answer(api, [&](Process& process) {
    return add_any_node(process, node, graph, dependencies, count, parameters);
  });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                  const cudaGraphNode_t* dependencies, size_t count) {
  static ApiFunction api{"cudaGraphAddEmptyNode", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphAddEmptyNode_v10000};
  return answer(api, [&](Process& process) {
    Work work;
    work.kind = WorkKind::kEmpty;
    return add_node(process, node, graph, dependencies, count, work);
  });
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                       const cudaGraphNode_t* dependencies, size_t count,
                                       cudaGraph_t child) {
  static ApiFunction api{"cudaGraphAddChildGraphNode", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphAddChildGraphNode_v10000};
  return answer(api, [&](Process& process) {
    const auto made = process.model().add_child_graph(
        to_graph(graph), to_nodes(dependencies, count), to_graph(child));
    if (!made.ok()) return native_code(made.status());
    put(node, to_cuda(*made));
    return 0;
  });
}

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph,
                                             unsigned int, unsigned int) {
  static ApiFunction api{"cudaGraphConditionalHandleCreate", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphConditionalHandleCreate_v12030};
  return answer(api, [&](Process& process) {
    const auto nodes = process.model().graph_nodes(to_graph(graph));
    if (!nodes.ok()) return native_code(nodes.status());
    put(handle, static_cast<cudaGraphConditionalHandle>(graphs().next_condition()));
    return 0;
  });
}

// ---- Looking

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  static ApiFunction api{"cudaGraphGetNodes", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphGetNodes_v10000};
  return answer(api,
                [&](Process& process) { return list_nodes(process, graph, false, nodes, count); });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  static ApiFunction api{"cudaGraphGetRootNodes", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphGetRootNodes_v10000};
  return answer(api,
                [&](Process& process) { return list_nodes(process, graph, true, nodes, count); });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData*, size_t* count) {
  static ApiFunction api{"cudaGraphGetEdges", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphGetEdges_v10000};
  return answer(api, [&](Process& process) {
    if (count == nullptr) return int{cudaErrorInvalidValue};
    const auto nodes = process.model().graph_nodes(to_graph(graph));
    if (!nodes.ok()) return native_code(nodes.status());
    std::vector<GraphNodeId> sources;
    std::vector<GraphNodeId> targets;
    for (const GraphNodeInfo& node : *nodes) {
      for (const GraphNodeId dependency : node.dependencies) {
        sources.push_back(dependency);
        targets.push_back(node.id);
      }
    }
    std::size_t room = *count;
    if (from != nullptr) put_list(sources, from, &room);
    room = *count;
    put_list(targets, to, &room);
    *count = room;
    return 0;
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  static ApiFunction api{"cudaGraphNodeGetType", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphNodeGetType_v10000};
  return answer(api, [&](Process& process) {
    GraphNodeInfo info;
    std::vector<GraphNodeInfo> all;
    if (type == nullptr || !find_node(process, node, &info, &all))
      return int{cudaErrorInvalidValue};
    *type = type_of(info.kind);
    return 0;
  });
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                         cudaGraphEdgeData*, size_t* count) {
  static ApiFunction api{"cudaGraphNodeGetDependencies", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphNodeGetDependencies_v10000};
  return answer(api, [&](Process& process) {
    GraphNodeInfo info;
    std::vector<GraphNodeInfo> all;
    if (count == nullptr || !find_node(process, node, &info, &all))
      return int{cudaErrorInvalidValue};
    put_list(info.dependencies, dependencies, count);
    return 0;
  });
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* dependents,
                                           cudaGraphEdgeData*, size_t* count) {
  static ApiFunction api{"cudaGraphNodeGetDependentNodes", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphNodeGetDependentNodes_v10000};
  return answer(api, [&](Process& process) {
    GraphNodeInfo info;
    std::vector<GraphNodeInfo> all;
    if (count == nullptr || !find_node(process, node, &info, &all))
      return int{cudaErrorInvalidValue};
    std::vector<GraphNodeId> out;
    for (const GraphNodeInfo& other : all) {
      const auto& its = other.dependencies;
      if (std::find(its.begin(), its.end(), info.id) != its.end()) out.push_back(other.id);
    }
    put_list(out, dependents, count);
    return 0;
  });
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int) {
  static ApiFunction api{"cudaGraphDebugDotPrint", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphDebugDotPrint_v11030};
  return answer(api, [&](Process& process) {
    const auto nodes = process.model().graph_nodes(to_graph(graph));
    if (!nodes.ok()) return native_code(nodes.status());
    std::FILE* file = path != nullptr ? std::fopen(path, "w") : nullptr;
    if (file == nullptr) return int{cudaErrorOperatingSystem};
    std::fputs("digraph simgpu {\n", file);
    for (const GraphNodeInfo& node : *nodes) {
      std::fprintf(file, "  n%llu [label=\"%s\"];\n",
                   static_cast<unsigned long long>(node.id.value), node.name);
      for (const GraphNodeId dependency : node.dependencies) {
        std::fprintf(file, "  n%llu -> n%llu;\n", static_cast<unsigned long long>(dependency.value),
                     static_cast<unsigned long long>(node.id.value));
      }
    }
    std::fputs("}\n", file);
    std::fclose(file);
    return 0;
  });
}

// ---- Running

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  static ApiFunction api{"cudaGraphInstantiate", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiate_v12000};
  return answer(api, [&](Process& process) { return instantiate(process, exec, graph); });
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long) {
  static ApiFunction api{"cudaGraphInstantiateWithFlags", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiateWithFlags_v11040};
  return answer(api, [&](Process& process) { return instantiate(process, exec, graph); });
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams* parameters) {
  static ApiFunction api{"cudaGraphInstantiateWithParams", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiateWithParams_v12000};
  return answer(api, [&](Process& process) {
    if (parameters == nullptr) return int{cudaErrorInvalidValue};
    const int code = instantiate(process, exec, graph);
    parameters->result_out = code == 0 ? cudaGraphInstantiateSuccess : cudaGraphInstantiateError;
    return code;
  });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  static ApiFunction api{"cudaGraphUpload", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphUpload_v10000};
  return answer(api, [](Process&) { return 0; });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  static ApiFunction api{"cudaGraphLaunch", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000};
  return answer(api, [&](Process& process) {
    const int code = native_code(process.model().launch_graph(
        current_device(), to_stream(stream), to_exec(exec), this_thread().correlation));
    process.host_functions().wake();
    return code;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  static ApiFunction api{"cudaGraphExecDestroy", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphExecDestroy_v10000};
  return answer(api, [&](Process& process) {
    const int code = native_code(process.model().destroy_exec(to_exec(exec)));
    if (code == 0) graphs().destroyed(to_exec(exec));
    return code;
  });
}

// ---- User objects

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* data, cudaHostFn_t destroy,
                                 unsigned int references, unsigned int) {
  static ApiFunction api{"cudaUserObjectCreate", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaUserObjectCreate_v11030};
  return answer(api, [&](Process&) {
    if (object == nullptr || destroy == nullptr || references == 0)
      return int{cudaErrorInvalidValue};
    *object = reinterpret_cast<cudaUserObject_t>(graphs().make_object(data, destroy, references));
    return 0;
  });
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  static ApiFunction api{"cudaUserObjectRetain", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaUserObjectRetain_v11030};
  return answer(api, [&](Process&) {
    return graphs().retain(object, count) ? 0 : int{cudaErrorInvalidValue};
  });
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  static ApiFunction api{"cudaUserObjectRelease", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaUserObjectRelease_v11030};
  return answer(api, [&](Process&) {
    return graphs().release(object, count) ? 0 : int{cudaErrorInvalidValue};
  });
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                      unsigned int count, unsigned int flags) {
  static ApiFunction api{"cudaGraphRetainUserObject", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphRetainUserObject_v11030};
  return answer(api, [&](Process&) {
    const bool moves = (flags & cudaGraphUserObjectMove) != 0;
    return graphs().attach(to_graph(graph), object, count, moves) ? 0 : int{cudaErrorInvalidValue};
  });
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                       unsigned int count) {
  static ApiFunction api{"cudaGraphReleaseUserObject", ApiDomain::kRuntime,
                         CUPTI_RUNTIME_TRACE_CBID_cudaGraphReleaseUserObject_v11030};
  return answer(api, [&](Process&) {
    return graphs().detach(to_graph(graph), object, count) ? 0 : int{cudaErrorInvalidValue};
  });
}

}  // extern "C"
