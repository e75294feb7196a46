// Several GPUs in one process.
#include "tests/unit/device/sim/model_fixture.h"

#include "allocator/device/sim/sim_device.h"

namespace levee::device::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TwoDevices : public ModelTest {
 protected:
  TwoDevices() : ModelTest(small_config(2)) {}
};

TEST_F(TwoDevices, EachHasItsOwnCapacityAndAccount) {
  const DeviceAddr a = model.allocate(kGpu, 200_MiB).value();
  EXPECT_EQ(model.memory_info(kOtherGpu)->free, 256_MiB);
  const DeviceAddr b = model.allocate(kOtherGpu, 200_MiB).value();
  EXPECT_EQ(model.find(a).device, kGpu);
  EXPECT_EQ(model.find(b).device, kOtherGpu);
  EXPECT_NE(a, b);
  ASSERT_TRUE(model.release(b).ok());
  EXPECT_EQ(model.memory_info(kGpu)->free, 56_MiB);
  ASSERT_TRUE(model.release(a).ok());
}

TEST_F(TwoDevices, AFreeWaitsForItsOwnDeviceAlone) {
  const StreamId here = new_stream(true, kGpu);
  const StreamId there = new_stream(true, kOtherGpu);
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  run(here, 10_us, kGpu);
  run(there, 500_us, kOtherGpu);
  ASSERT_TRUE(model.release(block).ok());
  EXPECT_EQ(model.now(), 10_us);
}

TEST_F(TwoDevices, MemoryIsLentToAPeerCopyWithoutAccess) {
  const StreamId here = new_stream(true, kGpu);
  const StreamId there = new_stream(true, kOtherGpu);
  const DeviceAddr block = map_run({model.create_handle(kGpu, 2_MiB).value()});
  hand_out(here, block, 1_MiB);
  model.note_use(kOtherGpu, block, 1_MiB, there, UseKind::kShare);
  EXPECT_THAT(take_hazards(), IsEmpty());
  model.note_use(kOtherGpu, block, 1_MiB, there, UseKind::kWrite);  // a kernel there needs it
  EXPECT_EQ(take_hazards().size(), 1U);
}

TEST_F(TwoDevices, AnEventOrdersStreamsOfDifferentDevices) {
  const StreamId here = new_stream(true, kGpu);
  const StreamId there = new_stream(true, kOtherGpu);
  const EventId event = new_event(kGpu);
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  touch(here, block, 4_KiB);
  ASSERT_TRUE(model.record_event(event, kGpu, here).ok());
  touch(there, block, 4_KiB, true, kOtherGpu);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  touch(here, block, 4_KiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  ASSERT_TRUE(model.record_event(event, kGpu, here).ok());
  ASSERT_TRUE(model.wait_event(kOtherGpu, there, event).ok());
  touch(there, block, 4_KiB, true, kOtherGpu);
  EXPECT_THAT(take_hazards(), IsEmpty());
  ASSERT_TRUE(model.synchronize_device(kOtherGpu).ok());
  ASSERT_TRUE(model.release(block).ok());
}

TEST_F(TwoDevices, AMappingServesOnlyTheDevicesThatWereGivenAccess) {
  const StreamId there = new_stream(true, kOtherGpu);
  const auto pages = new_pages(1);
  const DeviceAddr base = map_run(pages);
  touch(there, base, 4_KiB, false, kOtherGpu);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kTouchWithoutAccess));
  ASSERT_TRUE(model.set_access(base, 2_MiB, kOtherGpu, Access::kRead).ok());
  touch(there, base, 4_KiB, false, kOtherGpu);
  EXPECT_THAT(take_hazards(), IsEmpty());
  EXPECT_EQ(model.access_of(base, kOtherGpu), Access::kRead);
  EXPECT_EQ(model.access_of(base, kGpu), Access::kReadWrite);
}

TEST_F(TwoDevices, ACollectiveIsOrderedAfterAllAndBeforeAll) {
  const StreamId here = new_stream(true, kGpu);
  const StreamId there = new_stream(true, kOtherGpu);
  const StreamId third = new_stream(true, kGpu);
  const DeviceAddr mine = model.allocate(kGpu, 2_MiB).value();
  const DeviceAddr theirs = model.allocate(kOtherGpu, 2_MiB).value();
  touch(here, mine, 4_KiB);
  touch(there, theirs, 4_KiB, true, kOtherGpu);
  const Touch buffers[] = {{mine, 4_KiB, true}, {theirs, 4_KiB, true}};
  Work work;
  work.touches = buffers;
  const GpuModel::StreamOn members[] = {{kGpu, here}, {kOtherGpu, there}};
  ASSERT_TRUE(model.enqueue_together(members, CallKind::kLaunchKernel, work).ok());
  touch(here, theirs, 4_KiB);  // after the collective, by either
  touch(there, mine, 4_KiB, true, kOtherGpu);
  // The two touches cross: each is ordered after the collective, and they concern different bytes.
  EXPECT_THAT(take_hazards(), IsEmpty());
  touch(third, mine, 4_KiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  ASSERT_TRUE(model.synchronize_device(kGpu).ok());
  ASSERT_TRUE(model.synchronize_device(kOtherGpu).ok());
  ASSERT_TRUE(model.release(mine).ok());
  ASSERT_TRUE(model.release(theirs).ok());
}

TEST_F(TwoDevices, SimDevicesShareTheModel) {
  SimDevice first(model, kGpu);
  SimDevice second(model, kOtherGpu);
  EXPECT_EQ(second.id(), kOtherGpu);
  EXPECT_TRUE(first.capabilities().judges_use);
  const DeviceAddr block = second.allocate(4_MiB).value();
  EXPECT_EQ(second.memory_info()->free, 252_MiB);
  EXPECT_EQ(first.memory_info()->free, 256_MiB);
  EXPECT_EQ(model.calls(CallKind::kMalloc, kOtherGpu), 1U);
  EXPECT_TRUE(second.release(block).ok());
}

}  // namespace
}  // namespace levee::device::sim
