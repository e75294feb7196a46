// Calls of the model that a fault plan refuses, one after the other: each answers with the plan's
// error and does nothing else.
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/device/sim/model_fixture.h"

namespace levee::device::sim {
namespace {

class Refusal : public ModelTest {
 protected:
  Refusal() : ModelTest(without_leak_reports()) {}
  static ModelConfig without_leak_reports() {
    ModelConfig config = small_config();
    config.report_leaks = false;
    return config;
  }

  struct Attempt {
    const char* name;
    CallKind kind;
    std::function<Status()> call;
  };
  template <typename F>
  void add(const char* name, CallKind kind, F call) {
    attempts_.push_back({name, kind, [call] {
                           auto answer = call();
                           if constexpr (std::is_same_v<decltype(answer), Status>) {
                             return answer;
                           } else {
                             return answer.status();
                           }
                         }});
  }
  void expect_all_refused() {
    for (const Attempt& attempt : attempts_) {
      model.set_faults({Fault::fail_every(attempt.kind, 1, Native::kNotPermitted)});
      const Status refused = attempt.call();
      model.set_faults({});
      EXPECT_EQ(refused.native_code, static_cast<int>(Native::kNotPermitted)) << attempt.name;
    }
  }

  std::vector<Attempt> attempts_;
};

TEST_F(Refusal, OfMemoryCallsIsTheirAnswer) {
  const StreamId stream = model.create_stream(kGpu).value();
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  const DeviceAddr async = model.allocate_async(kGpu, 4_MiB, stream).value();
  const DeviceAddr imported = model.import_allocation(kGpu, 2_MiB).value();
  const DeviceAddr range = model.reserve_range(kGpu, 8_MiB, Bytes{}).value();
  const HandleId handle = model.create_handle(kGpu, 2_MiB).value();
  ASSERT_TRUE(model.map(range, 2_MiB, handle).ok());
  const std::uint64_t mappings = model.memory_use(kGpu).mappings;
  const Bytes used = model.memory_use(kGpu).used;

  add("allocate", CallKind::kMalloc, [&] { return model.allocate(kGpu, 2_MiB); });
  add("release", CallKind::kFree, [&] { return model.release(block); });
  add("import_allocation", CallKind::kOther, [&] { return model.import_allocation(kGpu, 2_MiB); });
  add("close_import", CallKind::kOther, [&] { return model.close_import(imported); });
  add("allocate_async", CallKind::kMallocAsync,
      [&] { return model.allocate_async(kGpu, 2_MiB, stream); });
  add("release_async", CallKind::kFreeAsync, [&] { return model.release_async(async, stream); });
  add("trim_async_pool", CallKind::kPoolTrim, [&] { return model.trim_async_pool(kGpu, 0_B); });
  add("threshold", CallKind::kOther, [&] { return model.set_async_pool_threshold(kGpu, 2_MiB); });
  add("reset peaks", CallKind::kOther, [&] { return model.reset_async_pool_peaks(kGpu); });
  add("reserve_range", CallKind::kReserveRange,
      [&] { return model.reserve_range(kGpu, 2_MiB, Bytes{}); });
  add("free_range", CallKind::kFreeRange, [&] { return model.free_range(range, 8_MiB); });
  add("create_handle", CallKind::kCreateHandle, [&] { return model.create_handle(kGpu, 2_MiB); });
  add("import_handle", CallKind::kOther, [&] { return model.import_handle(kGpu, 2_MiB); });
  add("release_handle", CallKind::kReleaseHandle, [&] { return model.release_handle(handle); });
  add("retain_handle", CallKind::kRetainHandle, [&] { return model.retain_handle(range); });
  add("map", CallKind::kMap, [&] { return model.map(range + 2_MiB, 2_MiB, handle); });
  add("unmap", CallKind::kUnmap, [&] { return model.unmap(range, 2_MiB); });
  add("set_access", CallKind::kSetAccess, [&] { return model.set_access(range, 2_MiB, kGpu); });
  add("memory_info", CallKind::kMemoryInfo, [&] { return model.memory_info(kGpu); });
  expect_all_refused();
  EXPECT_EQ(model.memory_use(kGpu).used, used);
  EXPECT_EQ(model.memory_use(kGpu).mappings, mappings);
  // Unbroken, what was refused works.
  EXPECT_TRUE(model.reset_async_pool_peaks(kGpu).ok());
  EXPECT_TRUE(model.close_import(imported).ok());
  EXPECT_TRUE(model.release_async(async, stream).ok());
  EXPECT_TRUE(model.unmap(range, 2_MiB).ok());
  EXPECT_TRUE(model.release_handle(handle).ok());
  EXPECT_TRUE(model.free_range(range, 8_MiB).ok());
  EXPECT_TRUE(model.release(block).ok());
  model.validate();
}

TEST_F(Refusal, OfCallsAboutStreamsAndEventsIsTheirAnswer) {
  const StreamId stream = model.create_stream(kGpu).value();
  const EventId event = model.create_event(kGpu, {.timing = true}).value();
  const EventId other = model.create_event(kGpu, {.timing = true}).value();
  ASSERT_TRUE(model.record_event(event, kGpu, stream).ok());
  ASSERT_TRUE(model.record_event(other, kGpu, stream).ok());
  const GpuModel::StreamOn both[] = {{kGpu, stream}, {kGpu, StreamId{0}}};

  add("create_stream", CallKind::kCreateStream, [&] { return model.create_stream(kGpu); });
  add("destroy_stream", CallKind::kDestroyStream, [&] { return model.destroy_stream(stream); });
  add("query_stream", CallKind::kQueryStream, [&] { return model.query_stream(kGpu, stream); });
  add("synchronize_stream", CallKind::kSynchronizeStream,
      [&] { return model.synchronize_stream(kGpu, stream); });
  add("synchronize_device", CallKind::kSynchronizeDevice,
      [&] { return model.synchronize_device(kGpu); });
  add("enqueue", CallKind::kLaunchKernel,
      [&] { return model.enqueue(kGpu, stream, CallKind::kLaunchKernel, Work{}); });
  add("enqueue_together", CallKind::kLaunchKernel,
      [&] { return model.enqueue_together(both, CallKind::kLaunchKernel, Work{}); });
  add("create_event", CallKind::kCreateEvent, [&] { return model.create_event(kGpu); });
  add("destroy_event", CallKind::kDestroyEvent, [&] { return model.destroy_event(event); });
  add("record_event", CallKind::kRecordEvent,
      [&] { return model.record_event(event, kGpu, stream); });
  add("wait_event", CallKind::kWaitEvent, [&] { return model.wait_event(kGpu, stream, event); });
  add("query_event", CallKind::kQueryEvent, [&] { return model.query_event(event); });
  add("synchronize_event", CallKind::kSynchronizeEvent,
      [&] { return model.synchronize_event(event); });
  add("elapsed", CallKind::kElapsedTime, [&] { return model.elapsed(event, other); });
  expect_all_refused();
  EXPECT_TRUE(model.elapsed(event, other).ok());
  EXPECT_TRUE(model.destroy_event(event).ok());
  EXPECT_TRUE(model.destroy_stream(stream).ok());
}

TEST_F(Refusal, OfCallsAboutCapturesAndGraphsIsTheirAnswer) {
  const StreamId stream = model.create_stream(kGpu).value();
  const StreamId captured = model.create_stream(kGpu).value();
  const GraphId graph = model.create_graph().value();
  const GraphId child = model.create_graph().value();
  const GraphNodeId node = model.add_node(graph, {}, Work{}).value();
  const ExecId exec = model.instantiate(graph).value();
  ASSERT_TRUE(model.begin_capture(kGpu, captured, CaptureMode::kRelaxed).ok());
  const GraphNodeId nodes[] = {node};

  add("begin_capture", CallKind::kBeginCapture,
      [&] { return model.begin_capture(kGpu, stream, CaptureMode::kRelaxed); });
  add("begin_capture_to", CallKind::kBeginCapture,
      [&] { return model.begin_capture_to(kGpu, stream, graph, nodes, CaptureMode::kRelaxed); });
  add("end_capture", CallKind::kEndCapture, [&] { return model.end_capture(kGpu, captured); });
  add("capture_info", CallKind::kCaptureInfo, [&] { return model.capture_info(kGpu, captured); });
  add("capture_details", CallKind::kCaptureInfo,
      [&] { return model.capture_details(kGpu, captured); });
  add("update_capture_dependencies", CallKind::kGraphBuild,
      [&] { return model.update_capture_dependencies(kGpu, captured, {}, true); });
  add("create_graph", CallKind::kGraphBuild, [&] { return model.create_graph(); });
  add("add_node", CallKind::kGraphBuild, [&] { return model.add_node(graph, {}, Work{}); });
  add("add_child_graph", CallKind::kGraphBuild,
      [&] { return model.add_child_graph(graph, {}, child); });
  add("clone_graph", CallKind::kGraphBuild, [&] { return model.clone_graph(graph); });
  add("instantiate", CallKind::kInstantiateGraph, [&] { return model.instantiate(graph); });
  add("launch_graph", CallKind::kLaunchGraph,
      [&] { return model.launch_graph(kGpu, stream, exec); });
  add("destroy_graph", CallKind::kDestroyGraph, [&] { return model.destroy_graph(child); });
  add("destroy_exec", CallKind::kDestroyGraph, [&] { return model.destroy_exec(exec); });
  expect_all_refused();
  const GraphId clone = model.clone_graph(graph).value();
  EXPECT_EQ(model.graph_nodes(clone)->size(), 1U);
  const GraphId made = model.end_capture(kGpu, captured).value();
  for (const GraphId one : {graph, child, clone, made}) EXPECT_TRUE(model.destroy_graph(one).ok());
  EXPECT_TRUE(model.destroy_exec(exec).ok());
}

// What names a graph, a node, a capture or memory that is not there.
TEST_F(Refusal, OfWhatIsNotThereIsAnInvalidValue) {
  model.set_judge(JudgeMode::kCount);
  const StreamId stream = model.create_stream(kGpu).value();
  const GraphId none{77'777};
  const GraphNodeId no_node[] = {GraphNodeId{77'777}};
  const GraphId graph = model.create_graph().value();
  const GraphId child = model.create_graph().value();
  EXPECT_FALSE(model.begin_capture_to(kGpu, stream, none, {}, CaptureMode::kRelaxed).ok());
  EXPECT_FALSE(model.begin_capture_to(kGpu, stream, graph, no_node, CaptureMode::kRelaxed).ok());
  EXPECT_FALSE(model.update_capture_dependencies(kGpu, stream, {}, true).ok());
  EXPECT_FALSE(model.add_node(none, {}, Work{}).ok());
  EXPECT_FALSE(model.add_node(graph, no_node, Work{}).ok());
  EXPECT_FALSE(model.add_child_graph(none, {}, child).ok());
  EXPECT_FALSE(model.add_child_graph(graph, {}, none).ok());
  EXPECT_FALSE(model.add_child_graph(graph, {}, graph).ok());
  EXPECT_FALSE(model.add_child_graph(graph, no_node, child).ok());
  EXPECT_FALSE(model.graph_nodes(none).ok());
  EXPECT_FALSE(model.clone_graph(none).ok());
  EXPECT_FALSE(model.instantiate(none).ok());
  EXPECT_FALSE(model.destroy_graph(none).ok());
  EXPECT_FALSE(model.destroy_exec(ExecId{77'777}).ok());
  EXPECT_FALSE(model.handle_bytes(HandleId{77'777}).ok());
  EXPECT_FALSE(model.handle_device(HandleId{77'777}).ok());
  EXPECT_FALSE(model.event_device(EventId{77'777}).ok());
  EXPECT_FALSE(model.stream_info(kGpu, StreamId{77'777}).ok());
  const DeviceAddr nowhere{1ULL << 50};
  EXPECT_FALSE(model.retain_handle(nowhere).ok());
  EXPECT_FALSE(model.is_device_memory(nowhere, 1_B));
  EXPECT_TRUE(model.physical_spans(nowhere, 1_B).empty());
  EXPECT_FALSE(model.physical_bytes(nowhere).has_value());
  EXPECT_FALSE(model.physical_of(HandleId{77'777}).has_value());
  const HandleId handle = model.create_handle(kGpu, 2_MiB).value();
  EXPECT_EQ(*model.handle_bytes(handle), 2_MiB);
  EXPECT_EQ(*model.handle_device(handle), kGpu);
  EXPECT_EQ(model.physical_of(handle)->bytes, 2_MiB);
  const EventId event = model.create_event(kGpu).value();
  EXPECT_EQ(*model.event_device(event), kGpu);
}

TEST_F(Refusal, OfWhatACaptureForbids) {
  model.set_judge(JudgeMode::kCount);
  const StreamId captured = new_stream();
  const StreamId other = new_stream();
  const EventId event = new_event();
  EXPECT_EQ(model.allocate_async(kGpu, 1_GiB, other).code(), StatusCode::kOutOfMemory);
  ASSERT_TRUE(model.begin_capture(kGpu, captured, CaptureMode::kRelaxed).ok());
  EXPECT_FALSE(model.allocate_async(kGpu, 2_MiB, captured).ok());
  // One piece of work on a stream that captures and one that does not.
  for (const auto& [first, second] : {std::pair(captured, other), std::pair(other, captured)}) {
    const GpuModel::StreamOn both[] = {{kGpu, first}, {kGpu, second}};
    EXPECT_EQ(model.enqueue_together(both, CallKind::kLaunchKernel, Work{}).native_code,
              static_cast<int>(Native::kCaptureIsolation));
  }
  const GpuModel::StreamOn alone[] = {{kGpu, captured}};
  EXPECT_TRUE(model.enqueue_together(alone, CallKind::kLaunchKernel, Work{}).ok());
  const GpuModel::StreamOn nowhere[] = {{kGpu, StreamId{77'777}}};
  EXPECT_FALSE(model.enqueue_together(nowhere, CallKind::kLaunchKernel, Work{}).ok());
  EXPECT_FALSE(model.enqueue_together({}, CallKind::kLaunchKernel, Work{}).ok());
  // An event of the capture can be waited for by nobody outside of it.
  ASSERT_TRUE(model.record_event(event, kGpu, captured).ok());
  EXPECT_FALSE(model.synchronize_event(event).ok());
  EXPECT_FALSE(model.enqueue_together(alone, CallKind::kLaunchKernel, Work{}).ok())
      << "the question ended the capture";
  EXPECT_FALSE(model.end_capture(kGpu, captured).ok());
  EXPECT_TRUE(model.enqueue_together(alone, CallKind::kLaunchKernel, Work{}).ok());
  model.clear_hazards();
}

TEST_F(Refusal, WorkOfTwoStreamsInOneCaptureIsOneNodeForBoth) {
  const StreamId first = new_stream();
  const StreamId second = new_stream();
  const EventId fork = new_event();
  ASSERT_TRUE(model.begin_capture(kGpu, first, CaptureMode::kRelaxed).ok());
  ASSERT_TRUE(model.record_event(fork, kGpu, first).ok());
  ASSERT_TRUE(model.wait_event(kGpu, second, fork).ok());
  run(first, 1_ms);
  run(second, 2_ms);
  int effects = 0;
  int completed = 0;
  Work together;
  together.name = "together";
  together.duration = 4_ms;
  together.effect = [&] { ++effects; };
  together.on_complete = [&] { ++completed; };
  const GpuModel::StreamOn both[] = {{kGpu, first}, {kGpu, second}};
  ASSERT_TRUE(model.enqueue_together(both, CallKind::kLaunchKernel, together).ok());
  const EventId join = new_event();
  ASSERT_TRUE(model.record_event(join, kGpu, second).ok());
  ASSERT_TRUE(model.wait_event(kGpu, first, join).ok());
  const GraphId graph = model.end_capture(kGpu, first).value();
  std::size_t most = 0;
  const std::vector<GraphNodeInfo> nodes = model.graph_nodes(graph).value();
  for (const GraphNodeInfo& node : nodes) {
    if (std::string(node.name) == "together") most = std::max(most, node.dependencies.size());
  }
  EXPECT_EQ(most, 2U) << "it waits for what both streams did";
  const ExecId exec = model.instantiate(graph).value();
  ASSERT_TRUE(model.launch_graph(kGpu, first, exec).ok());
  ASSERT_TRUE(model.synchronize_stream(kGpu, first).ok());
  EXPECT_EQ(effects, 1);
  EXPECT_EQ(completed, 1);
  EXPECT_TRUE(model.destroy_exec(exec).ok());
  EXPECT_TRUE(model.destroy_graph(graph).ok());
}

}  // namespace
}  // namespace levee::device::sim
