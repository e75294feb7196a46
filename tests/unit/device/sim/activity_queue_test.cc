// Records of completed work, host functions, and when they run.
#include "tests/unit/device/sim/model_fixture.h"

#include <string>

namespace levee::device::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Activity : public ModelTest {
 protected:
  Activity() {
    model.set_activity_hook([this](const ActivityRecord& record) { records.push_back(record); });
  }
  void run_named(StreamId stream, const char* name, Nanos duration, std::uint64_t correlation = 0) {
    Work work;
    work.name = name;
    work.duration = duration;
    work.correlation = correlation;
    ASSERT_TRUE(model.enqueue(kGpu, stream, CallKind::kLaunchKernel, work).ok());
  }
  std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const ActivityRecord& record : records) result.emplace_back(record.name);
    return result;
  }
  std::vector<ActivityRecord> records;
};

TEST_F(Activity, WorkIsRecordedOnceItHasCompletedInOrderOfCompletion) {
  const StreamId a = new_stream();
  const StreamId b = new_stream();
  run_named(a, "long", 10_us, 1);
  run_named(b, "short", 1_us, 2);
  run_named(a, "later", 10_us, 3);
  EXPECT_THAT(records, IsEmpty());
  EXPECT_EQ(model.next_due(), 1_us);
  model.advance(10_us);
  EXPECT_THAT(names(), ElementsAre("short", "long"));
  EXPECT_EQ(records[1].start, 0_ns);
  EXPECT_EQ(records[1].end, 10_us);
  EXPECT_EQ(records[1].correlation, 1U);
  EXPECT_EQ(records[1].stream, a);
  ASSERT_TRUE(model.synchronize_device(kGpu).ok());
  EXPECT_THAT(names(), ElementsAre("short", "long", "later"));
  EXPECT_EQ(model.next_due(), kNever);
}

TEST_F(Activity, WorkEnqueuedWithoutAHookIsNotRecorded) {
  const StreamId s = new_stream();
  model.set_activity_hook({});
  run_named(s, "unseen", 1_us);
  model.set_activity_hook([this](const ActivityRecord& record) { records.push_back(record); });
  run_named(s, "seen", 1_us);
  ASSERT_TRUE(model.synchronize_stream(kGpu, s).ok());
  EXPECT_THAT(names(), ElementsAre("seen"));
}

TEST_F(Activity, NodesOfAGraphAreRecordedAtEachLaunch) {
  const StreamId s = new_stream();
  ASSERT_TRUE(model.begin_capture(kGpu, s, CaptureMode::kGlobal).ok());
  run_named(s, "node", 5_us);
  const ExecId exec = model.instantiate(model.end_capture(kGpu, s).value()).value();
  ASSERT_TRUE(model.launch_graph(kGpu, s, exec, 77).ok());
  ASSERT_TRUE(model.launch_graph(kGpu, s, exec, 78).ok());
  ASSERT_TRUE(model.synchronize_stream(kGpu, s).ok());
  EXPECT_THAT(names(), ElementsAre("node", "node"));
  EXPECT_EQ(records[1].start, 5_us);
  EXPECT_EQ(records[1].correlation, 78U);
  EXPECT_EQ(records[1].graph, exec.value);
  EXPECT_NE(records[1].node, 0U);
}

TEST_F(Activity, AHostFunctionRunsBeforeAWaitForItReturns) {
  const StreamId s = new_stream();
  bool has_run = false;
  Work work;
  work.kind = WorkKind::kHostFunction;
  work.on_complete = [&has_run] { has_run = true; };
  run(s, 10_us);
  ASSERT_TRUE(model.enqueue(kGpu, s, CallKind::kLaunchHostFunction, work).ok());
  EXPECT_FALSE(has_run);
  EXPECT_EQ(model.query_stream(kGpu, s).code, StatusCode::kNotReady);
  EXPECT_FALSE(has_run);
  ASSERT_TRUE(model.synchronize_stream(kGpu, s).ok());
  EXPECT_TRUE(has_run);
}

TEST_F(Activity, AHostFunctionMayCallTheModelAndCallsThatDoNotWaitRunNone) {
  const StreamId s = new_stream();
  const EventId event = new_event();
  int runs = 0;
  Work work;
  work.on_complete = [&] {
    ++runs;
    EXPECT_TRUE(
        model.query_event(event).ok());  // must not deadlock, nor run callbacks inside of one
  };
  ASSERT_TRUE(model.enqueue(kGpu, s, CallKind::kLaunchHostFunction, work).ok());
  ASSERT_TRUE(model.record_event(event, kGpu, s).ok());
  ASSERT_TRUE(model.create_stream(kGpu).ok());
  EXPECT_EQ(runs, 0);
  model.run_due();
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace levee::device::sim
