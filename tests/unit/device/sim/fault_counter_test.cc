// Faults as data, and that a call which fails by one has changed nothing.
#include "tests/unit/device/sim/model_fixture.h"

#include "allocator/device/sim/fault_counter.h"

namespace levee::device::sim {
namespace {

using ::testing::ElementsAre;

std::vector<bool> failures(FaultCounter& faults, CallKind kind, int calls) {
  std::vector<bool> failed;
  for (int i = 0; i < calls; ++i)
    failed.push_back(faults.consult(kind, kGpu).status != Native::kSuccess);
  return failed;
}

TEST(FaultCounter, FailsTheNthCallOfItsKindAlone) {
  FaultCounter faults;
  faults.install({Fault::fail_nth(CallKind::kMap, 3)});
  EXPECT_THAT(failures(faults, CallKind::kUnmap, 4), ElementsAre(false, false, false, false));
  EXPECT_THAT(failures(faults, CallKind::kMap, 4), ElementsAre(false, false, true, false));
}

TEST(FaultCounter, FailsEveryKthCallForever) {
  FaultCounter faults;
  faults.install({Fault::fail_every(CallKind::kMap, 2)});
  EXPECT_THAT(failures(faults, CallKind::kMap, 6),
              ElementsAre(false, true, false, true, false, true));
}

TEST(FaultCounter, FailsAWindow) {
  FaultCounter faults;
  faults.install({Fault::fail_window(CallKind::kMap, 2, 3)});
  EXPECT_THAT(failures(faults, CallKind::kMap, 5), ElementsAre(false, true, true, false, false));
}

TEST(FaultCounter, TheFirstRuleThatAppliesDecidesAndAllCount) {
  FaultCounter faults;
  faults.install({Fault::fail_nth(CallKind::kMap, 1, Native::kNotSupported),
                  Fault::fail_nth(CallKind::kMap, 1),
                  Fault::fail_nth(CallKind::kMap, 2, Native::kUnknown)});
  EXPECT_EQ(faults.consult(CallKind::kMap, kGpu).status, Native::kNotSupported);
  // The second rule would have applied to the call that the first one took; it still has its
  // failure to give.
  EXPECT_EQ(faults.consult(CallKind::kMap, kGpu).status, Native::kOutOfMemory);
}

TEST(FaultCounter, ADeviceCanBeNamed) {
  FaultCounter faults;
  Fault fault = Fault::fail_nth(CallKind::kMap, 1);
  fault.device = kOtherGpu;
  faults.install({fault});
  EXPECT_EQ(faults.consult(CallKind::kMap, kGpu).status, Native::kSuccess);
  EXPECT_EQ(faults.consult(CallKind::kMap, kOtherGpu).status, Native::kOutOfMemory);
}

class Faults : public ModelTest {};

TEST_F(Faults, EachMemoryCallCanFailAndThenLeavesEverythingAsItWas) {
  const HandleId handle = model.create_handle(kGpu, 2_MiB).value();
  const DeviceAddr range = model.reserve_range(kGpu, 2_MiB, Bytes{}).value();
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  const auto fail = [this](CallKind kind) { model.set_faults({Fault::fail_nth(kind, 1)}); };

  fail(CallKind::kCreateHandle);
  EXPECT_EQ(model.create_handle(kGpu, 2_MiB).code(), StatusCode::kOutOfMemory);
  fail(CallKind::kReserveRange);
  EXPECT_EQ(model.reserve_range(kGpu, 2_MiB, Bytes{}).code(), StatusCode::kOutOfMemory);
  fail(CallKind::kMalloc);
  EXPECT_EQ(model.allocate(kGpu, 2_MiB).code(), StatusCode::kOutOfMemory);
  fail(CallKind::kFree);
  EXPECT_FALSE(model.release(block).ok());
  fail(CallKind::kMap);
  EXPECT_FALSE(model.map(range, 2_MiB, handle).ok());
  EXPECT_EQ(model.find(range).kind, MemoryKind::kReserved);
  ASSERT_TRUE(model.map(range, 2_MiB, handle).ok());
  fail(CallKind::kSetAccess);
  EXPECT_FALSE(model.set_access(range, 2_MiB, kGpu).ok());
  EXPECT_EQ(model.access_of(range, kGpu), Access::kNone);
  fail(CallKind::kUnmap);
  EXPECT_FALSE(model.unmap(range, 2_MiB).ok());
  EXPECT_EQ(model.find(range).kind, MemoryKind::kMapped);
  ASSERT_TRUE(model.unmap(range, 2_MiB).ok());
  fail(CallKind::kReleaseHandle);
  EXPECT_FALSE(model.release_handle(handle).ok());
  fail(CallKind::kFreeRange);
  EXPECT_FALSE(model.free_range(range, 2_MiB).ok());

  model.validate();
  EXPECT_TRUE(model.release_handle(handle).ok());
  EXPECT_TRUE(model.free_range(range, 2_MiB).ok());
  EXPECT_TRUE(model.release(block).ok());
  EXPECT_EQ(model.memory_use(kGpu).used, Bytes{});
}

TEST_F(Faults, AFailedRecordOrWaitOrdersNothing) {
  const StreamId s1 = new_stream();
  const StreamId s2 = new_stream();
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  const EventId event = new_event();
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  model.set_faults({Fault::fail_nth(CallKind::kRecordEvent, 1, Native::kUnknown)});
  EXPECT_EQ(model.record_event(event, kGpu, s1).code, StatusCode::kInternal);
  EXPECT_TRUE(model.wait_event(kGpu, s2, event).ok());
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  give_back(s2, block, 1_MiB);
  ASSERT_TRUE(model.record_event(event, kGpu, s2).ok());
  model.set_faults({Fault::fail_nth(CallKind::kWaitEvent, 1, Native::kUnknown)});
  EXPECT_FALSE(model.wait_event(kGpu, s1, event).ok());
  hand_out(s1, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  give_back(s1, block, 1_MiB);
  ASSERT_TRUE(model.release(block).ok());
}

TEST_F(Faults, ALateEventIsLateForQueriesAndForWaitingStreams) {
  const StreamId s1 = new_stream();
  const StreamId s2 = new_stream();
  const EventId event = new_event();
  model.set_faults({Fault::late_event(1, 50_us)});
  run(s1, 10_us);
  ASSERT_TRUE(model.record_event(event, kGpu, s1).ok());
  ASSERT_TRUE(model.wait_event(kGpu, s2, event).ok());
  ASSERT_TRUE(model.synchronize_stream(kGpu, s1).ok());
  EXPECT_EQ(model.now(), 10_us);
  EXPECT_EQ(model.query_event(event).code, StatusCode::kNotReady);
  ASSERT_TRUE(model.synchronize_stream(kGpu, s2).ok());
  EXPECT_EQ(model.now(), 60_us);
  EXPECT_TRUE(model.query_event(event).ok());
}

TEST_F(Faults, AStickyErrorReadsAsALostDevice) {
  model.set_faults({Fault::fail_nth(CallKind::kSynchronizeDevice, 1, Native::kLaunchFailure)});
  const Status status = model.synchronize_device(kGpu);
  EXPECT_EQ(status.code, StatusCode::kDeviceLost);
  EXPECT_EQ(native_of(status), Native::kLaunchFailure);
}

TEST_F(Faults, CallsAreCountedByKindAndDeviceAlsoWhenTheyFail) {
  GpuModel two(small_config(2));
  two.set_faults({Fault::fail_nth(CallKind::kMalloc, 2)});
  const DeviceAddr a = two.allocate(kGpu, 2_MiB).value();
  EXPECT_FALSE(two.allocate(kOtherGpu, 2_MiB).ok());
  EXPECT_EQ(two.calls(CallKind::kMalloc), 2U);
  EXPECT_EQ(two.calls(CallKind::kMalloc, kOtherGpu), 1U);
  ASSERT_TRUE(two.release(a).ok());
  EXPECT_EQ(two.calls(CallKind::kFree, kGpu), 1U);
  EXPECT_TRUE(two.note_call(CallKind::kOther, kGpu).ok());
  EXPECT_EQ(two.total_calls(), 4U);
  two.reset_call_counts();
  EXPECT_EQ(two.total_calls(), 0U);
  EXPECT_EQ(two.note_call(CallKind::kOther, DeviceId{2}).native_code,
            static_cast<int>(Native::kInvalidDevice));
}

TEST(NativeStatus, EveryNumberHasAMeaning) {
  EXPECT_TRUE(to_status(Native::kSuccess).ok());
  EXPECT_EQ(to_status(Native::kOutOfMemory).code, StatusCode::kOutOfMemory);
  EXPECT_EQ(to_status(Native::kNotReady).code, StatusCode::kNotReady);
  EXPECT_EQ(to_status(Native::kUnloading).code, StatusCode::kShuttingDown);
  EXPECT_EQ(to_status(Native::kOldDriver).code, StatusCode::kUnsupported);
  EXPECT_EQ(to_status(Native::kCapturedEvent).code, StatusCode::kUnsupported);
  EXPECT_EQ(to_status(Native::kInvalidHandle).code, StatusCode::kInvalidArgument);
  EXPECT_EQ(to_status(710).code, StatusCode::kDeviceLost);
  EXPECT_EQ(to_status(214).code, StatusCode::kDeviceLost);
  EXPECT_EQ(to_status(12345), (Status{StatusCode::kInternal, 12345}));
}

}  // namespace
}  // namespace levee::device::sim
