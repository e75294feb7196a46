// Events inside of graphs (external records and waits): what they order at each launch, what they
// do once the event is gone; and what a graph that is launched inside of a capture hands on.
#include <string>

#include "tests/unit/device/sim/model_fixture.h"

namespace levee::device::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class GraphEvents : public ModelTest {
 protected:
  void begin(StreamId stream) {
    ASSERT_TRUE(model.begin_capture(kGpu, stream, CaptureMode::kGlobal).ok());
  }
  GraphId end(StreamId stream) { return model.end_capture(kGpu, stream).value(); }
  ExecId exec_of(StreamId stream) { return model.instantiate(end(stream)).value(); }
  ExecId graph_that_waits(EventId awaited) {
    begin(s1);
    EXPECT_TRUE(model.wait_event(kGpu, s1, awaited, true).ok());
    run(s1, 10_us);
    return exec_of(s1);
  }
  ExecId graph_that_records(EventId recorded) {
    begin(s1);
    run(s1, 10_us);
    EXPECT_TRUE(model.record_event(recorded, kGpu, s1, true).ok());
    return exec_of(s1);
  }
  /// A graph that launches `inner` and does nothing else.
  ExecId graph_that_launches(ExecId inner) {
    begin(s2);
    EXPECT_TRUE(model.launch_graph(kGpu, s2, inner).ok());
    return exec_of(s2);
  }
  void launch(StreamId stream, ExecId exec) {
    ASSERT_TRUE(model.launch_graph(kGpu, stream, exec).ok());
  }

  const StreamId s1 = new_stream();
  const StreamId s2 = new_stream();
  const StreamId s3 = new_stream();
  const EventId event = new_event();
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
};

TEST_F(GraphEvents, ALaunchIsOrderedAfterTheEventsThatItsGraphWaitsFor) {
  const ExecId exec = graph_that_waits(event);
  hand_out(s2, block, 1_MiB);
  give_back(s2, block, 1_MiB);
  ASSERT_TRUE(model.record_event(event, kGpu, s2).ok());
  launch(s1, exec);
  hand_out(s1, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  hand_out(s3, block + 1_MiB, 4_KiB);
  give_back(s3, block + 1_MiB, 4_KiB);
  hand_out(s1, block + 1_MiB, 4_KiB);  // s3 is not what it waited for
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

TEST_F(GraphEvents, WhoWaitsForAnEventThatALaunchRecordsIsOrderedAfterItsStream) {
  const ExecId exec = graph_that_records(event);
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  launch(s1, exec);
  hand_out(s1, block + 1_MiB, 4_KiB);
  give_back(s1, block + 1_MiB, 4_KiB);
  ASSERT_TRUE(model.wait_event(kGpu, s2, event).ok());
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  hand_out(s2, block + 1_MiB, 4_KiB);  // this use came after the record
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

TEST_F(GraphEvents, ALaunchDoesNotWaitForAnEventThatIsGoneOrWasNeverRecorded) {
  const EventId never = new_event();
  const ExecId waits_for_never = graph_that_waits(never);
  const ExecId waits_for_gone = graph_that_waits(event);
  ASSERT_TRUE(model.destroy_event(event).ok());
  const Nanos before = model.now();
  launch(s1, waits_for_never);
  launch(s1, waits_for_gone);
  ASSERT_TRUE(model.synchronize_stream(kGpu, s1).ok());
  EXPECT_EQ(model.now() - before, 20_us);
}

TEST_F(GraphEvents, ALaunchThatRecordsAnEventThatIsGoneDoesTheRest) {
  const ExecId exec = graph_that_records(event);
  ASSERT_TRUE(model.destroy_event(event).ok());
  const Nanos before = model.now();
  launch(s1, exec);
  ASSERT_TRUE(model.synchronize_stream(kGpu, s1).ok());
  EXPECT_EQ(model.now() - before, 10_us);
}

TEST_F(GraphEvents, NodesOfEventsAreNamed) {
  begin(s1);
  ASSERT_TRUE(model.wait_event(kGpu, s1, event, true).ok());
  ASSERT_TRUE(model.record_event(event, kGpu, s1, true).ok());
  const auto nodes = model.graph_nodes(end(s1)).value();
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].kind, WorkKind::kEventWait);
  EXPECT_EQ(std::string(nodes[0].name), "event wait");
  EXPECT_EQ(nodes[1].kind, WorkKind::kEventRecord);
  EXPECT_EQ(std::string(nodes[1].name), "event record");
}

// ---- A graph launched inside of a capture

TEST_F(GraphEvents, AGraphInAGraphRecordsItsEvents) {
  const ExecId outer = graph_that_launches(graph_that_records(event));
  launch(s3, outer);
  EXPECT_EQ(model.query_event(event).code, StatusCode::kNotReady);
  const Nanos before = model.now();
  ASSERT_TRUE(model.synchronize_event(event).ok());
  EXPECT_EQ(model.now() - before, 10_us);
}

TEST_F(GraphEvents, AGraphInAGraphWaitsForItsEvents) {
  const ExecId outer = graph_that_launches(graph_that_waits(event));
  run(s2, 5_us);
  ASSERT_TRUE(model.record_event(event, kGpu, s2).ok());
  const Nanos before = model.now();
  launch(s3, outer);
  ASSERT_TRUE(model.synchronize_stream(kGpu, s3).ok());
  EXPECT_EQ(model.now() - before, 15_us);
}

TEST_F(GraphEvents, AGraphInAGraphUsesItsBytesAtEachLaunch) {
  begin(s1);
  touch(s1, block, 4_KiB);
  const ExecId outer = graph_that_launches(exec_of(s1));
  hand_out(s3, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  launch(s3, outer);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kGraphOverLive));
}

TEST_F(GraphEvents, WorkOfAGraphInAGraphIsReportedAsWhatItIs) {
  std::vector<WorkKind> kinds;
  model.set_activity_hook([&](const ActivityRecord& record) { kinds.push_back(record.kind); });
  Work work;
  work.kind = WorkKind::kMemset;
  begin(s1);
  ASSERT_TRUE(model.enqueue(kGpu, s1, CallKind::kMemsetAsync, work).ok());
  launch(s3, graph_that_launches(exec_of(s1)));
  ASSERT_TRUE(model.synchronize_stream(kGpu, s3).ok());
  EXPECT_THAT(kinds, ElementsAre(WorkKind::kMemset));
}

}  // namespace
}  // namespace levee::device::sim
