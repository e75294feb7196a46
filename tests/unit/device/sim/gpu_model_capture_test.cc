// Capture: what joins one, what ends one, which calls are legal meanwhile; graphs and their
// launches; the judge on both.
#include "tests/unit/device/sim/model_fixture.h"

#include <thread>

namespace levee::device::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class CaptureTest : public ModelTest {
 protected:
  void begin(StreamId stream, CaptureMode mode = CaptureMode::kGlobal) {
    ASSERT_TRUE(model.begin_capture(kGpu, stream, mode).ok());
  }
  Result<GraphId> end(StreamId stream) { return model.end_capture(kGpu, stream); }
  CaptureStatus status_of(StreamId stream) { return model.capture_info(kGpu, stream)->status; }
  ExecId exec_of(StreamId stream) { return model.instantiate(end(stream).value()).value(); }
  void fork(StreamId from, StreamId to, EventId event) {
    ASSERT_TRUE(model.record_event(event, kGpu, from).ok());
    ASSERT_TRUE(model.wait_event(kGpu, to, event).ok());
  }
  /// Ends a capture that a call has broken; the finding is what the caller tests.
  void expect_broken(StreamId stream) {
    EXPECT_EQ(status_of(stream), CaptureStatus::kInvalidated);
    EXPECT_EQ(native_of(end(stream).status()), Native::kCaptureInvalidated);
    EXPECT_EQ(status_of(stream), CaptureStatus::kNone);
    EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kCaptureBroken));
  }

  const StreamId s1 = new_stream();
  const StreamId s2 = new_stream();
  const EventId e1 = new_event();
  const EventId e2 = new_event();
};

// ---- Building

TEST_F(CaptureTest, CapturedWorkBecomesNodesAndDoesNotRun) {
  begin(s1);
  run(s1, 10_us);
  run(s1, 10_us);
  const GraphId graph = end(s1).value();
  EXPECT_TRUE(model.query_stream(kGpu, s1).ok());
  const auto nodes = model.graph_nodes(graph).value();
  ASSERT_THAT(nodes, SizeIs(2));
  EXPECT_THAT(nodes[0].dependencies, IsEmpty());
  EXPECT_THAT(nodes[1].dependencies, ElementsAre(nodes[0].id));
  EXPECT_EQ(model.graph_node(nodes[1].id)->id, nodes[1].id);
  EXPECT_FALSE(model.graph_node(GraphNodeId{nodes[1].id.value + 16}).ok());
}

TEST_F(CaptureTest, AForkedStreamIsInTheCaptureUntilItEnds) {
  begin(s1);
  fork(s1, s2, e1);
  EXPECT_EQ(model.capture_info(kGpu, s1)->id, model.capture_info(kGpu, s2)->id);
  run(s2, 10_us);
  fork(s2, s1, e2);
  EXPECT_TRUE(end(s1).ok());
  EXPECT_EQ(status_of(s2), CaptureStatus::kNone);
}

TEST_F(CaptureTest, BranchesRunSideBySideWhenLaunched) {
  begin(s1);
  run(s1, 1_us);
  fork(s1, s2, e1);
  run(s1, 10_us);
  run(s2, 20_us);
  fork(s2, s1, e2);
  run(s1, 1_us);
  const ExecId exec = exec_of(s1);
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  ASSERT_TRUE(model.synchronize_stream(kGpu, s1).ok());
  EXPECT_EQ(model.now(), 22_us);
}

TEST_F(CaptureTest, LaunchesOfOneGraphDoNotOverlap) {
  begin(s1);
  run(s1, 10_us);
  const ExecId exec = exec_of(s1);
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
  ASSERT_TRUE(model.synchronize_device(kGpu).ok());
  EXPECT_EQ(model.now(), 20_us);
}

TEST_F(CaptureTest, AGraphCanBeBuiltByHandWithChildren) {
  Work work;
  work.duration = 5_us;
  const GraphId child = model.create_graph().value();
  ASSERT_TRUE(model.add_node(child, {}, work).ok());
  const GraphId graph = model.create_graph().value();
  const GraphNodeId first = model.add_node(graph, {}, work).value();
  const GraphNodeId second = model.add_child_graph(graph, std::span(&first, 1), child).value();
  ASSERT_TRUE(model.add_node(graph, std::span(&second, 1), work).ok());
  EXPECT_FALSE(model.add_node(child, std::span(&first, 1), work).ok());  // a node of another graph
  const ExecId exec = model.instantiate(graph).value();
  ASSERT_TRUE(model.destroy_graph(graph).ok());
  ASSERT_TRUE(model.destroy_graph(child).ok());
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  ASSERT_TRUE(model.synchronize_stream(kGpu, s1).ok());
  EXPECT_EQ(model.now(), 15_us);
  EXPECT_TRUE(model.destroy_exec(exec).ok());
  EXPECT_FALSE(model.launch_graph(kGpu, s1, exec).ok());
}

TEST_F(CaptureTest, ALaunchInsideACaptureBecomesAChild) {
  begin(s1);
  run(s1, 10_us);
  const ExecId inner = exec_of(s1);
  begin(s2);
  run(s2, 1_us);
  ASSERT_TRUE(model.launch_graph(kGpu, s2, inner).ok());
  const ExecId outer = exec_of(s2);
  ASSERT_TRUE(model.launch_graph(kGpu, s1, outer).ok());
  ASSERT_TRUE(model.synchronize_stream(kGpu, s1).ok());
  EXPECT_EQ(model.now(), 11_us);
}

TEST_F(CaptureTest, ACaptureCanContinueAGraph) {
  Work work;
  work.duration = 5_us;
  const GraphId graph = model.create_graph().value();
  const GraphNodeId node = model.add_node(graph, {}, work).value();
  ASSERT_TRUE(
      model.begin_capture_to(kGpu, s1, graph, std::span(&node, 1), CaptureMode::kGlobal).ok());
  run(s1, 5_us);
  EXPECT_EQ(end(s1).value(), graph);
  EXPECT_THAT(model.graph_nodes(graph)->at(1).dependencies, ElementsAre(node));
}

TEST_F(CaptureTest, DependenciesOfTheNextNodeCanBeReplaced) {
  begin(s1);
  run(s1, 5_us);
  run(s1, 5_us);
  const auto details = model.capture_details(kGpu, s1).value();
  const auto nodes = model.graph_nodes(details.graph).value();
  EXPECT_THAT(details.dependencies, ElementsAre(nodes[1].id));
  ASSERT_TRUE(model.update_capture_dependencies(kGpu, s1, std::span(&nodes[0].id, 1), false).ok());
  EXPECT_THAT(model.capture_details(kGpu, s1)->dependencies, ElementsAre(nodes[0].id, nodes[1].id));
  ASSERT_TRUE(model.update_capture_dependencies(kGpu, s1, std::span(&nodes[1].id, 1), true).ok());
  run(s1, 5_us);
  EXPECT_THAT(model.graph_nodes(details.graph)->back().dependencies, ElementsAre(nodes[1].id));
  EXPECT_TRUE(end(s1).ok());
}

TEST_F(CaptureTest, ExternalRecordsAndWaitsHappenAtTheLaunch) {
  begin(s1);
  ASSERT_TRUE(model.wait_event(kGpu, s1, e1, true).ok());
  run(s1, 10_us);
  ASSERT_TRUE(model.record_event(e2, kGpu, s1, true).ok());
  const ExecId exec = exec_of(s1);
  run(s2, 5_us);
  ASSERT_TRUE(model.record_event(e1, kGpu, s2).ok());
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  EXPECT_EQ(model.query_event(e2).code, StatusCode::kNotReady);
  ASSERT_TRUE(model.synchronize_event(e2).ok());
  EXPECT_EQ(model.now(), 15_us);
}

TEST_F(CaptureTest, EffectsHappenAtOnceOrAtEachLaunch) {
  int count = 0;
  Work work;
  work.effect = [&count] { ++count; };
  ASSERT_TRUE(model.enqueue(kGpu, s1, CallKind::kMemcpyAsync, work).ok());
  EXPECT_EQ(count, 1);
  begin(s1);
  ASSERT_TRUE(model.enqueue(kGpu, s1, CallKind::kMemcpyAsync, work).ok());
  EXPECT_EQ(count, 1);
  const ExecId exec = exec_of(s1);
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
  EXPECT_EQ(count, 3);
}

// ---- Ending badly

TEST_F(CaptureTest, TheLegacyStreamCannotCapture) {
  EXPECT_EQ(native_of(model.begin_capture(kGpu, kLegacy, CaptureMode::kGlobal)),
            Native::kCaptureUnsupported);
}

TEST_F(CaptureTest, ACaptureBeginsOnceAndEndsWhereItBegan) {
  EXPECT_EQ(native_of(end(s1).status()), Native::kIllegalState);
  begin(s1);
  EXPECT_EQ(native_of(model.begin_capture(kGpu, s1, CaptureMode::kGlobal)), Native::kIllegalState);
  fork(s1, s2, e1);
  EXPECT_EQ(native_of(end(s2).status()), Native::kCaptureUnmatched);
  expect_broken(s1);
}

TEST_F(CaptureTest, AStreamThatWasNotJoinedSpoilsTheGraph) {
  begin(s1);
  fork(s1, s2, e1);
  run(s2, 1_us);
  EXPECT_EQ(native_of(end(s1).status()), Native::kCaptureUnjoined);
  EXPECT_EQ(status_of(s2), CaptureStatus::kNone);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kCaptureBroken));
}

TEST_F(CaptureTest, AnotherThreadCannotEndItUnlessItIsRelaxed) {
  begin(s1);
  std::thread([this] {
    EXPECT_EQ(native_of(end(s1).status()), Native::kCaptureWrongThread);
  }).join();
  EXPECT_TRUE(end(s1).ok());
  begin(s1, CaptureMode::kRelaxed);
  std::thread([this] { EXPECT_TRUE(end(s1).ok()); }).join();
}

TEST_F(CaptureTest, WaitingForAnEventOfTheOutsideBreaksIt) {
  ASSERT_TRUE(model.record_event(e1, kGpu, s2).ok());
  begin(s1);
  EXPECT_EQ(native_of(model.wait_event(kGpu, s1, e1)), Native::kCaptureIsolation);
  expect_broken(s1);
}

TEST_F(CaptureTest, WaitingForAnotherCapturesEventBreaksBoth) {
  begin(s1);
  begin(s2);
  ASSERT_TRUE(model.record_event(e1, kGpu, s1).ok());
  EXPECT_EQ(native_of(model.wait_event(kGpu, s2, e1)), Native::kCaptureMerge);
  EXPECT_FALSE(end(s1).ok());
  EXPECT_FALSE(end(s2).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kCaptureBroken, HazardKind::kCaptureBroken));
}

TEST_F(CaptureTest, ACapturedEventCannotBeQueriedOrWaitedFor) {
  begin(s1, CaptureMode::kRelaxed);
  ASSERT_TRUE(model.record_event(e1, kGpu, s1).ok());
  const RelaxedCapture relaxed;
  EXPECT_EQ(native_of(model.query_event(e1)), Native::kCapturedEvent);
  expect_broken(s1);
  EXPECT_EQ(native_of(model.synchronize_event(e1)),
            Native::kCapturedEvent);  // its capture is over; it has no state
  EXPECT_EQ(native_of(model.wait_event(kGpu, s2, e1)), Native::kCapturedEvent);
  ASSERT_TRUE(model.record_event(e1, kGpu, s1).ok());
  EXPECT_TRUE(model.query_event(e1).ok());
}

TEST_F(CaptureTest, AnEventOfACaptureThatHasEndedBreaksNoOther) {
  begin(s1);
  ASSERT_TRUE(model.record_event(e1, kGpu, s1).ok());
  EXPECT_TRUE(end(s1).ok());
  begin(s1, CaptureMode::kRelaxed);
  EXPECT_EQ(native_of(model.query_event(e1)), Native::kCapturedEvent);
  EXPECT_EQ(native_of(model.synchronize_event(e1)), Native::kCapturedEvent);
  EXPECT_EQ(status_of(s1), CaptureStatus::kActive);
  EXPECT_TRUE(end(s1).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(CaptureTest, ACapturingStreamCannotBeDestroyed) {
  begin(s1);
  EXPECT_EQ(native_of(model.destroy_stream(s1)), Native::kCaptureUnsupported);
  expect_broken(s1);
  EXPECT_TRUE(model.destroy_stream(s1).ok());
}

TEST_F(CaptureTest, ACapturingStreamCannotBeQueriedOrWaitedForNorItsDevice) {
  const RelaxedCapture relaxed;
  begin(s1);
  EXPECT_EQ(native_of(model.query_stream(kGpu, s1)), Native::kCaptureUnsupported);
  expect_broken(s1);
  begin(s1);
  EXPECT_EQ(native_of(model.synchronize_stream(kGpu, s1)), Native::kCaptureUnsupported);
  expect_broken(s1);
  begin(s1);
  EXPECT_EQ(native_of(model.synchronize_device(kGpu)), Native::kCaptureUnsupported);
  expect_broken(s1);
  begin(s1);
  EXPECT_TRUE(model.query_stream(kGpu, s2).ok());
  EXPECT_TRUE(end(s1).ok());
}

TEST_F(CaptureTest, TheLegacyStreamMayNotBeUsedBesideABlockingStreamThatCaptures) {
  const StreamId blocking = new_stream(false);
  begin(s1);
  run(kLegacy, 1_us);  // s1 does not block
  EXPECT_TRUE(end(s1).ok());
  begin(blocking);
  Work work;
  EXPECT_EQ(native_of(model.enqueue(kGpu, kLegacy, CallKind::kLaunchKernel, work)),
            Native::kCaptureImplicit);
  expect_broken(blocking);
}

// ---- Unsafe calls and modes

TEST_F(CaptureTest, AnUnsafeCallOfAnyThreadBreaksAGlobalCapture) {
  begin(s1);
  std::thread([this] {
    EXPECT_EQ(native_of(model.allocate(kGpu, 2_MiB).status()), Native::kCaptureUnsupported);
  }).join();
  expect_broken(s1);
}

TEST_F(CaptureTest, AThreadLocalCaptureMindsItsOwnThreadAlone) {
  begin(s1, CaptureMode::kThreadLocal);
  std::thread([this] { EXPECT_TRUE(model.query_event(e1).ok()); }).join();
  EXPECT_EQ(status_of(s1), CaptureStatus::kActive);
  EXPECT_EQ(native_of(model.query_event(e1)), Native::kCaptureUnsupported);
  expect_broken(s1);
}

TEST_F(CaptureTest, ARelaxedThreadMayCallAnything) {
  begin(s1);
  EXPECT_EQ(model.exchange_capture_mode(CaptureMode::kRelaxed), CaptureMode::kGlobal);
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  EXPECT_TRUE(model.query_event(e1).ok());
  EXPECT_TRUE(model.release(block).ok());
  EXPECT_EQ(model.exchange_capture_mode(CaptureMode::kGlobal), CaptureMode::kRelaxed);
  EXPECT_TRUE(end(s1).ok());
}

TEST_F(CaptureTest, AThreadWhoseModeIsThreadLocalDoesNotMindOthersCaptures) {
  begin(s1);
  std::thread([this] {
    model.exchange_capture_mode(CaptureMode::kThreadLocal);
    EXPECT_TRUE(model.query_event(e1).ok());
  }).join();
  EXPECT_TRUE(end(s1).ok());
}

TEST_F(CaptureTest, MemoryMappingCallsAreSafe) {
  begin(s1);
  const auto pages = new_pages(1);
  const DeviceAddr base = map_run(pages);
  EXPECT_TRUE(end(s1).ok());
  EXPECT_TRUE(model.unmap(base, 2_MiB).ok());
}

// ---- The judge

TEST_F(CaptureTest, InsideACaptureTheOrderOfTheCaptureCounts) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  hand_out(s1, block, 1_MiB);  // in its own stream
  give_back(s1, block, 1_MiB);
  fork(s1, s2, e1);
  hand_out(s2, block, 1_MiB);  // after the fork
  give_back(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  hand_out(s1, block, 1_MiB);  // s2 was not joined
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  give_back(s1, block, 1_MiB);
  fork(s2, s1, e2);
  EXPECT_TRUE(end(s1).ok());
}

TEST_F(CaptureTest, AStreamThatWaitsAgainInItsCaptureIsTheSameStreamThere) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  fork(s1, s2, e1);
  hand_out(s2, block, 1_MiB);
  give_back(s2, block, 1_MiB);
  fork(s1, s2, e1);
  hand_out(s2, block, 1_MiB);  // after its own use
  give_back(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  fork(s2, s1, e2);
  EXPECT_TRUE(end(s1).ok());
}

TEST_F(CaptureTest, AUseInACaptureLastsUntilItIsGivenBack) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  fork(s1, s2, e1);
  hand_out(s1, block, 1_MiB);
  ASSERT_TRUE(model.record_event(e2, kGpu, s1).ok());
  give_back(s1, block, 1_MiB);  // after what s2 waits for
  ASSERT_TRUE(model.wait_event(kGpu, s2, e2).ok());
  hand_out(s2, block, 1_MiB);
  ASSERT_EQ(model.hazard_count(HazardKind::kUnorderedUse), 1U);
  EXPECT_EQ(model.hazards().front().stream, s2);
  EXPECT_EQ(model.hazards().front().other_stream, s1);
  take_hazards();
  give_back(s2, block, 1_MiB);
  fork(s2, s1, e1);
  EXPECT_TRUE(end(s1).ok());
}

TEST_F(CaptureTest, WhatACaptureNotesDoesNotMakeItsStreamWaitForTheLegacyStream) {
  const StreamId blocking = new_stream(false);
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  hand_out(kLegacy, block, 1_MiB);
  run(kLegacy, 10_us);
  give_back(kLegacy, block, 1_MiB);
  begin(blocking);
  hand_out(blocking, block + 2_MiB, 1_MiB);
  give_back(blocking, block + 2_MiB, 1_MiB);
  EXPECT_TRUE(end(blocking).ok());
  // Nothing was enqueued on it, so this says nothing about the legacy stream.
  ASSERT_TRUE(model.synchronize_stream(kGpu, blocking).ok());
  hand_out(s1, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

TEST_F(CaptureTest, CapturedWorkIsNoPredecessorOfWorkThatRuns) {
  const HandleId page = new_pages(1).front();
  const DeviceAddr first = map_run({page});
  const DeviceAddr second = map_run({page});
  touch(s1, first, 4_KiB);
  begin(s1);
  run(s1, 1_us);
  EXPECT_TRUE(end(s1).ok());
  // What runs before this in the stream is the touch above, and this may start before it ends.
  const Touch through_second{second, 4_KiB, true};
  Work work;
  work.touches = std::span<const Touch>(&through_second, 1);
  work.overlaps_predecessor = true;
  ASSERT_TRUE(model.enqueue(kGpu, s1, CallKind::kLaunchKernel, work).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kAliasUse));
}

TEST_F(CaptureTest, BytesWithAnOwnerAreNotHandedOutInACapture) {
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  hand_out(s1, block, 1_MiB);  // an owner outside
  begin(s1);
  hand_out(s1, block, 1_MiB);
  ASSERT_EQ(model.hazard_count(), 1U);
  EXPECT_EQ(model.hazards().front().rule, JudgeRule::kGraphHandOutFree);
  take_hazards();
  hand_out(s1, block + 2_MiB, 1_MiB);  // one inside
  hand_out(s1, block + 2_MiB, 1_MiB);
  ASSERT_EQ(model.hazard_count(), 1U);
  EXPECT_EQ(model.hazards().front().rule, JudgeRule::kGraphHandOutFree);
  take_hazards();
  EXPECT_TRUE(end(s1).ok());
}

TEST_F(CaptureTest, AnOrderMadeInACaptureOrdersNothingOutside) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  begin(s1);
  fork(s1, s2, e1);
  fork(s2, s1, e2);
  EXPECT_TRUE(end(s1).ok());
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

TEST_F(CaptureTest, ALaunchUsesTheBytesThatWereHandedOutInTheCapture) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  const ExecId exec = exec_of(s1);
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  hand_out(s2, block, 1_MiB);  // the launch may still run
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  give_back(s2, block, 1_MiB);
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());  // s2 may still run
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  order(s1, s2);
  hand_out(s2, block, 1_MiB);
  give_back(s2, block, 1_MiB);
  order(s2, s1);
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(CaptureTest, ALaunchOverBytesWithAnotherOwnerIsFound) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  const ExecId exec = exec_of(s1);
  hand_out(s1, block + 512_KiB, 4_KiB);  // lent to somebody while the graph lives
  EXPECT_THAT(take_hazards(), IsEmpty());
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kGraphOverLive));
}

TEST_F(CaptureTest, WhatACaptureLeavesLiveIsItsOwn) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  hand_out(s1, block, 1_MiB);  // an output: never given back while the graph is launched
  const ExecId exec = exec_of(s1);
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
  hand_out(s1, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kLiveTwice));
  give_back(s1, block, 1_MiB);
}

TEST_F(CaptureTest, AnOutputThatWasReadMustBeOrderedBeforeItsBytesAreReused) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  hand_out(s1, block, 1_MiB);
  const ExecId exec = exec_of(s1);
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  give_back(s1, block, 1_MiB);  // read on s1 until here
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  give_back(s2, block, 1_MiB);
}

TEST_F(CaptureTest, ARestoredBlockIsTheGraphsToWriteAndLiveAllTheSame) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  hand_out(s1, block, 1_MiB);
  const ExecId exec = exec_of(s1);
  give_back(s1, block, 1_MiB);
  model.note_use(kGpu, block, 1_MiB, s1, UseKind::kRestore);
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
  model.note_use(kGpu, block, 4_KiB, s1, UseKind::kRestore);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kLiveTwice));
  hand_out(s1, block + 512_KiB, 4_KiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kLiveTwice));
}

// PyTorch's graph trees: captured on one stream, launched and read on another.
TEST_F(CaptureTest, AnOutputMayBeReadWhereItsGraphWasLaunchedLast) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  hand_out(s1, block, 1_MiB);
  const ExecId exec = exec_of(s1);
  ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
  give_back(s1, block, 1_MiB);  // its allocator knows the stream of the capture alone
  ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
  model.note_use(kGpu, block, 1_MiB, s1, UseKind::kRestore);
  ASSERT_TRUE(model.synchronize_stream(kGpu, s2).ok());
  touch(s2, block, 4_KiB);
  ASSERT_TRUE(model.synchronize_stream(kGpu, s2).ok());
  touch(s2, block,
        4_KiB);  // the launch is complete by now, which is no reason to forget where it was
  give_back(s1, block, 1_MiB);
  ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(CaptureTest, WhatACaptureLeftLiveWasNotUsedBeforeTheFirstLaunch) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  hand_out(s1, block, 1_MiB);  // a workspace: given back when the capture is over
  const ExecId exec = exec_of(s1);
  give_back(s1, block, 1_MiB);
  ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
  hand_out(s1, block, 1_MiB);  // the launch on s2 may still run
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

TEST_F(CaptureTest, AnOutputMayBeReadWhereItWasCaptured) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  hand_out(s1, block, 1_MiB);
  const ExecId exec = exec_of(s1);
  ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
  order(s2, s1);
  run(s1, 1_us);  // reads it, as nobody tells
  run(s2, 1_us);  // something else
  give_back(s1, block, 1_MiB);
  hand_out(s1, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  give_back(s1, block, 1_MiB);
}

TEST_F(CaptureTest, WhoKnowsOnlyTheLaunchMayNotWriteOverAnOutputThatWasReadLater) {
  const StreamId s3 = new_stream();
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  for (const bool by_launch : {true, false}) {
    begin(s1);
    hand_out(s1, block, 1_MiB);
    const ExecId exec = exec_of(s1);
    ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
    order(s2, s3);
    run(s2, 1_us);  // reads it
    give_back(s1, block, 1_MiB);
    if (by_launch) {
      ASSERT_TRUE(model.launch_graph(kGpu, s3, exec).ok());
    } else {
      hand_out(s3, block, 1_MiB);
    }
    EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse)) << by_launch;
    ASSERT_TRUE(model.synchronize_device(kGpu).ok());
    if (!by_launch) give_back(s3, block, 1_MiB);
    ASSERT_TRUE(model.synchronize_device(kGpu).ok());
  }
}

// Touches are told of: a copy that reads the output counts where it was enqueued.
TEST_F(CaptureTest, AnOutputThatWasSeenToBeReadWhereItWasCapturedIsNotFreeForTheLaunch) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  hand_out(s1, block, 1_MiB);
  const ExecId exec = exec_of(s1);
  ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
  order(s2, s1);
  touch(s1, block, 4_KiB, /*writes=*/false);
  give_back(s1, block, 1_MiB);
  ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

TEST_F(CaptureTest, AReadThatWasSeenAfterTheLaunchIsNotOverWithTheLaunch) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  hand_out(s1, block, 1_MiB);
  const ExecId exec = exec_of(s1);
  ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
  order(s2, s1);  // after the launch alone
  touch(s2, block, 4_KiB, /*writes=*/false);
  give_back(s1, block, 1_MiB);
  hand_out(s1, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  give_back(s1, block, 1_MiB);
}

TEST_F(CaptureTest, AnotherStreamWithTheNumberOfTheLastLaunchsStreamDidNotUseTheOutput) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  begin(s1);
  hand_out(s1, block, 1_MiB);
  const ExecId exec = exec_of(s1);
  const StreamId launched = new_stream();
  ASSERT_TRUE(model.launch_graph(kGpu, launched, exec).ok());
  ASSERT_TRUE(model.synchronize_stream(kGpu, launched).ok());
  ASSERT_TRUE(model.destroy_stream(launched).ok());
  const StreamId other = new_stream();
  give_back(s1, block, 1_MiB);
  hand_out(other, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

TEST_F(CaptureTest, ALaunchOverUnmappedBytesIsFound) {
  const auto pages = new_pages(1);
  const DeviceAddr base = map_run(pages);
  begin(s1);
  hand_out(s1, base, 1_MiB);
  give_back(s1, base, 1_MiB);
  const ExecId exec = exec_of(s1);
  ASSERT_TRUE(model.unmap(base, 2_MiB).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kTouchUnmapped));
}

TEST_F(CaptureTest, ALaunchThroughAnAliasOfBytesInUseIsFound) {
  const auto pages = new_pages(1);
  const DeviceAddr first = map_run(pages);
  const DeviceAddr second = map_run(pages);
  begin(s1);
  hand_out(s1, first, 1_MiB);
  give_back(s1, first, 1_MiB);
  const ExecId exec = exec_of(s1);
  hand_out(s2, second, 1_MiB);
  give_back(s2, second, 1_MiB);
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kAliasUse));
}

TEST_F(CaptureTest, AnEagerUseBeforeTheCaptureMustBeOrderedBeforeTheLaunch) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  hand_out(s2, block, 1_MiB);
  give_back(s2, block, 1_MiB);
  begin(s1);
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  const ExecId exec = exec_of(s1);
  EXPECT_THAT(take_hazards(), IsEmpty());
  ASSERT_TRUE(model.launch_graph(kGpu, s1, exec).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

// ---- Where all work is seen, an owner's use ends with the last work on its stream

class SeenWorkTest : public ModelTest {
 protected:
  static ModelConfig config() {
    ModelConfig config = small_config();
    config.sees_all_work = true;
    return config;
  }
  SeenWorkTest() : ModelTest(config()) {}

  ExecId captured_on_s1() { return model.instantiate(model.end_capture(kGpu, s1).value()).value(); }
  const StreamId s1 = new_stream();
  const StreamId s2 = new_stream();
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
};

TEST_F(SeenWorkTest, WorkAfterTheOrderWasMadeIsNotOrdered) {
  hand_out(s1, block, 1_MiB);
  run(s1, 1_us);
  order(s1, s2);
  give_back(s1, block, 1_MiB);  // nothing ran on s1 since
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  run(s2, 1_us);
  order(s2, s1);
  run(s2, 1_us);
  give_back(s2, block, 1_MiB);
  hand_out(s1, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  give_back(s1, block, 1_MiB);
}

TEST_F(SeenWorkTest, AnOwnerOnAStreamWithoutWorkHasNotUsedItsBytes) {
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  give_back(s2, block, 1_MiB);
}

// PyTorch's graph trees: what a first, uncaptured run on the stream returned dies while the graph
// is captured, which reuses the bytes and is launched elsewhere.
TEST_F(SeenWorkTest, ABlockThatIsGivenBackWhileItsStreamCapturesWasUsedBefore) {
  for (const bool is_joined : {true, false}) {
    hand_out(s1, block, 1_MiB);
    run(s1, 1_us);
    if (is_joined) order(s1, s2);
    ASSERT_TRUE(model.begin_capture(kGpu, s1, CaptureMode::kGlobal).ok());
    run(s1, 1_us);  // captured: it does not run
    give_back(s1, block, 1_MiB);
    hand_out(s1, block, 1_MiB);
    give_back(s1, block, 1_MiB);
    const ExecId exec = captured_on_s1();
    ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
    if (is_joined) {
      EXPECT_THAT(take_hazards(), IsEmpty());
    } else {
      EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
    }
    ASSERT_TRUE(model.synchronize_device(kGpu).ok());
  }
}

TEST_F(SeenWorkTest, AnOutputThatWasReadWhereItsGraphWasLaunchedIsNotFreeElsewhere) {
  const StreamId s3 = new_stream();
  ASSERT_TRUE(model.begin_capture(kGpu, s1, CaptureMode::kGlobal).ok());
  hand_out(s1, block, 1_MiB);
  const ExecId exec = captured_on_s1();
  run(s1, 1_us);
  ASSERT_TRUE(model.launch_graph(kGpu, s2, exec).ok());
  order(s2, s3);
  run(s2, 1_us);  // reads it
  give_back(s1, block, 1_MiB);
  ASSERT_TRUE(model.launch_graph(kGpu, s3, exec).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

class GraphInGraph : public ModelTest {};

TEST_F(GraphInGraph, ALaunchInsideACaptureRunsWithEveryLaunchOfTheOuterGraph) {
  const StreamId stream = new_stream();
  std::vector<std::string> names;
  std::vector<Bytes> moved;
  model.set_activity_hook([&](const ActivityRecord& record) {
    names.emplace_back(record.name);
    moved.push_back(record.bytes);
  });
  int effects = 0;
  int completed = 0;
  const GraphId inner = model.create_graph().value();
  Work copy;
  copy.kind = WorkKind::kMemcpyDeviceToDevice;
  copy.name = "inner copy";
  copy.bytes = 3_MiB;
  copy.duration = 2_ms;
  copy.effect = [&] { ++effects; };
  copy.on_complete = [&] { ++completed; };
  const GraphNodeId first = model.add_node(inner, {}, copy).value();
  Work kernel;
  kernel.name = "inner kernel";
  kernel.duration = 3_ms;
  const GraphNodeId after[] = {first};
  ASSERT_TRUE(model.add_node(inner, after, kernel).ok());
  const ExecId inner_exec = model.instantiate(inner).value();

  ASSERT_TRUE(model.begin_capture(kGpu, stream, CaptureMode::kRelaxed).ok());
  ASSERT_TRUE(model.launch_graph(kGpu, stream, inner_exec).ok());
  const GraphId outer = model.end_capture(kGpu, stream).value();
  const auto nodes = model.graph_nodes(outer).value();
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].kind, WorkKind::kChildGraph);
  EXPECT_EQ(std::string(nodes[0].name), "child graph");
  const ExecId outer_exec = model.instantiate(outer).value();
  const Nanos before = model.now();
  ASSERT_TRUE(model.launch_graph(kGpu, stream, outer_exec).ok());
  ASSERT_TRUE(model.synchronize_stream(kGpu, stream).ok());
  EXPECT_GE(model.now() - before, 5_ms) << "one after the other";
  EXPECT_EQ(effects, 1);
  EXPECT_EQ(completed, 1);
  EXPECT_EQ(names, (std::vector<std::string>{"inner copy", "inner kernel"}));
  EXPECT_EQ(moved.at(0), 3_MiB);
  for (const ExecId exec : {inner_exec, outer_exec}) EXPECT_TRUE(model.destroy_exec(exec).ok());
  for (const GraphId graph : {inner, outer}) EXPECT_TRUE(model.destroy_graph(graph).ok());
}

}  // namespace
}  // namespace levee::device::sim
