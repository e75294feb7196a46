// What levee believes of a device. `core` may rely on what is stated here and on nothing else.
//
// Runs on the in-process model always, on CudaDevice over tools/simgpu where that is built, and on
// hardware where there is some (the CUDA half is skipped, with the reason, where there is none).
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "allocator/device/device.h"
#include "tests/contract/rig.h"

namespace levee::contract {
namespace {

using device::CaptureStatus;
using device::Device;

enum class Kind { kSim, kCuda };

class DeviceContract : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    std::string why_not;
    rig_ = GetParam() == Kind::kSim ? make_sim_rig() : make_cuda_rig(&why_not);
    if (rig_ == nullptr) GTEST_SKIP() << "NOT RUN on CUDA: " << why_not;
    device_before_ = rig_->current_device();
  }
  void TearDown() override {
    if (rig_ == nullptr) return;
    rig_->let_go();
    EXPECT_TRUE(dev().synchronize_device().ok());
    EXPECT_EQ(rig_->last_error(), 0) << "an error was left for the program to find";
    EXPECT_EQ(rig_->current_device(), device_before_) << "the current device was changed";
  }

  Device& dev() { return rig_->device(); }
  Rig& rig() { return *rig_; }
  Bytes page() { return dev().capabilities().vmm_granularity; }
  Bytes free_memory() { return dev().memory_info()->free; }
  /// Other processes use real devices as well.
  void expect_free(Bytes expected) {
    if (rig_->is_real()) return;
    EXPECT_EQ(free_memory(), expected);
  }
  bool has_vmm() { return dev().capabilities().has_vmm; }
  std::vector<HandleId> new_handles(std::size_t count) {
    std::vector<HandleId> handles;
    for (std::size_t i = 0; i < count; ++i) handles.push_back(dev().create_handle(page()).value());
    return handles;
  }
  void release(const std::vector<HandleId>& handles) {
    for (const HandleId handle : handles) EXPECT_TRUE(dev().release_handle(handle).ok());
  }

  std::unique_ptr<Rig> rig_;
  int device_before_ = -1;
};

/// Virtual memory is optional; every device of PyTorch's present generations has it.
class VmmContract : public DeviceContract {
 protected:
  void SetUp() override {
    DeviceContract::SetUp();
    if (rig_ != nullptr && !has_vmm())
      GTEST_SKIP() << "NOT RUN: the device has no virtual memory calls";
  }
};

class OrderContract : public DeviceContract {};
class CaptureContract : public DeviceContract {};
class ForkContract : public DeviceContract {};

// ---- What the device says of itself

TEST_P(DeviceContract, DescribesItself) {
  const device::Capabilities& capabilities = dev().capabilities();
  EXPECT_FALSE(capabilities.name.empty());
  EXPECT_GE(capabilities.total_memory, 256_MiB);
  EXPECT_GE(capabilities.compute_major, 5);
  const Result<device::MemoryInfo> memory = dev().memory_info();
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(memory->total, capabilities.total_memory);
  EXPECT_LE(memory->free, memory->total);
  if (has_vmm()) {
    EXPECT_EQ(page() % 2_MiB, Bytes{});
  }
}

// ---- Whole allocations

TEST_P(DeviceContract, AnAllocationTakesMemoryAndItsReleaseGivesItBack) {
  const Bytes before = free_memory();
  const DeviceAddr block = dev().allocate(64_MiB).value();
  EXPECT_FALSE(block.is_null());
  EXPECT_EQ(block.value % 256, 0U);
  EXPECT_LE(free_memory() + 64_MiB, before);
  EXPECT_TRUE(dev().release(block).ok());
  expect_free(before);
}

TEST_P(DeviceContract, MoreThanTheDeviceHasIsOutOfMemoryAndHarmless) {
  const Bytes before = free_memory();
  EXPECT_EQ(dev().allocate(dev().capabilities().total_memory * 2).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(rig().last_error(), 0);
  expect_free(before);
  const DeviceAddr block = dev().allocate(2_MiB).value();
  EXPECT_TRUE(dev().release(block).ok());
}

TEST_P(DeviceContract, ReleasingNothingIsFine) {
  EXPECT_TRUE(dev().release(DeviceAddr{}).ok());
}

TEST_P(DeviceContract, ReleasingTwiceIsRefused) {
  const DeviceAddr block = dev().allocate(4_MiB).value();
  ASSERT_TRUE(dev().release(block).ok());
  EXPECT_EQ(dev().release(block).code, StatusCode::kInvalidArgument);
}

TEST_P(DeviceContract, AReleaseWaitsForWorkOnTheDevice) {
  const StreamId stream = rig().new_stream();
  const EventId event = dev().create_event().value();
  const DeviceAddr block = dev().allocate(4_MiB).value();
  ASSERT_TRUE(rig().write(stream, block));
  ASSERT_TRUE(dev().record_event(event, stream).ok());
  ASSERT_TRUE(dev().release(block).ok());
  EXPECT_TRUE(dev().query_event(event).ok());
  EXPECT_TRUE(dev().destroy_event(event).ok());
}

// ---- Virtual memory

TEST_P(VmmContract, ARangeIsAlignedAsAskedAndTakesNoMemory) {
  const Bytes before = free_memory();
  const Result<DeviceAddr> range = dev().reserve_range(page() * 16, page() * 8);
  ASSERT_TRUE(range.ok());
  EXPECT_EQ(range->value % (page() * 8).value, 0U);
  expect_free(before);
  EXPECT_TRUE(dev().free_range(*range, page() * 16).ok());
}

TEST_P(VmmContract, RangesMayExceedTheDeviceManyTimes) {
  const Bytes large = round_up(dev().capabilities().total_memory * 4, page());
  const Result<DeviceAddr> range = dev().reserve_range(large, Bytes{});
  ASSERT_TRUE(range.ok());
  EXPECT_TRUE(dev().free_range(*range, large).ok());
}

TEST_P(VmmContract, AHandleTakesMemoryFromItsCreationToItsRelease) {
  const Bytes before = free_memory();
  const HandleId handle = dev().create_handle(page() * 8).value();
  EXPECT_LE(free_memory() + page() * 8, before);
  EXPECT_TRUE(dev().release_handle(handle).ok());
  expect_free(before);
}

TEST_P(VmmContract, AHandleOfAnOddSizeIsRefused) {
  EXPECT_EQ(dev().create_handle(page() + 1_B).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(dev().create_handle(Bytes{}).code(), StatusCode::kInvalidArgument);
}

TEST_P(VmmContract, MoreHandlesThanTheDeviceHoldsIsOutOfMemory) {
  const Bytes large = round_up(dev().capabilities().total_memory, page()) + page();
  EXPECT_EQ(dev().create_handle(large).code(), StatusCode::kOutOfMemory);
}

TEST_P(VmmContract, MappedMemoryIsUsableOnceAccessIsSet) {
  const auto handles = new_handles(3);
  const DeviceAddr range = dev().reserve_range(page() * 4, Bytes{}).value();
  for (std::size_t i = 0; i < handles.size(); ++i) {
    ASSERT_TRUE(dev().map(range + page() * i, page(), handles[i]).ok());
  }
  // One call for several mappings side by side.
  ASSERT_TRUE(dev().set_access(range, page() * 3).ok());
  const StreamId stream = rig().new_stream();
  EXPECT_TRUE(rig().write(stream, range + page() * 2));
  ASSERT_TRUE(dev().synchronize_stream(stream).ok());
  // And one for several unmaps.
  EXPECT_TRUE(dev().unmap(range, page() * 3).ok());
  EXPECT_TRUE(dev().free_range(range, page() * 4).ok());
  release(handles);
}

TEST_P(VmmContract, AHandleCanBeMappedAtSeveralAddresses) {
  const auto handles = new_handles(2);
  const DeviceAddr range = dev().reserve_range(page() * 4, Bytes{}).value();
  const Bytes before = free_memory();
  ASSERT_TRUE(dev().map(range, page(), handles[0]).ok());
  ASSERT_TRUE(dev().map(range + page(), page(), handles[1]).ok());
  ASSERT_TRUE(dev().map(range + page() * 2, page(), handles[1]).ok());
  ASSERT_TRUE(dev().map(range + page() * 3, page(), handles[0]).ok());
  ASSERT_TRUE(dev().set_access(range, page() * 4).ok());
  expect_free(before);  // no memory of its own
  const StreamId stream = rig().new_stream();
  EXPECT_TRUE(rig().write(stream, range));
  EXPECT_TRUE(rig().write(stream, range + page() * 3));
  ASSERT_TRUE(dev().synchronize_stream(stream).ok());
  // One alias can go while the other stays.
  EXPECT_TRUE(dev().unmap(range + page() * 3, page()).ok());
  EXPECT_TRUE(rig().write(stream, range));
  ASSERT_TRUE(dev().synchronize_stream(stream).ok());
  EXPECT_TRUE(dev().unmap(range, page() * 3).ok());
  EXPECT_TRUE(dev().free_range(range, page() * 4).ok());
  release(handles);
}

TEST_P(VmmContract, AReleasedHandleKeepsItsMemoryWhileItIsMapped) {
  const Bytes before = free_memory();
  const HandleId handle = dev().create_handle(page() * 8).value();
  const DeviceAddr range = dev().reserve_range(page() * 8, Bytes{}).value();
  ASSERT_TRUE(dev().map(range, page() * 8, handle).ok());
  ASSERT_TRUE(dev().set_access(range, page() * 8).ok());
  ASSERT_TRUE(dev().release_handle(handle).ok());
  EXPECT_LE(free_memory() + page() * 8, before);
  const StreamId stream = rig().new_stream();
  EXPECT_TRUE(rig().write(stream, range));
  ASSERT_TRUE(dev().synchronize_stream(stream).ok());
  ASSERT_TRUE(dev().unmap(range, page() * 8).ok());
  expect_free(before);
  EXPECT_TRUE(dev().free_range(range, page() * 8).ok());
}

TEST_P(VmmContract, ASlotCanBeMappedAgainWithAnotherHandle) {
  const auto handles = new_handles(2);
  const DeviceAddr range = dev().reserve_range(page(), Bytes{}).value();
  for (const HandleId handle : handles) {
    ASSERT_TRUE(dev().map(range, page(), handle).ok());
    ASSERT_TRUE(dev().set_access(range, page()).ok());
    ASSERT_TRUE(dev().unmap(range, page()).ok());
  }
  EXPECT_TRUE(dev().free_range(range, page()).ok());
  release(handles);
}

TEST_P(VmmContract, MappingOverAMappingIsRefusedAndLeavesItAsItWas) {
  const auto handles = new_handles(2);
  const DeviceAddr range = dev().reserve_range(page() * 2, Bytes{}).value();
  ASSERT_TRUE(dev().map(range, page(), handles[0]).ok());
  ASSERT_TRUE(dev().set_access(range, page()).ok());
  EXPECT_FALSE(dev().map(range, page(), handles[1]).ok());
  const StreamId stream = rig().new_stream();
  EXPECT_TRUE(rig().write(stream, range));
  ASSERT_TRUE(dev().synchronize_stream(stream).ok());
  EXPECT_TRUE(dev().unmap(range, page()).ok());
  EXPECT_TRUE(dev().free_range(range, page() * 2).ok());
  release(handles);
}

TEST_P(VmmContract, MappingWhereNothingIsReservedIsRefused) {
  const auto handles = new_handles(1);
  const DeviceAddr range = dev().reserve_range(page(), Bytes{}).value();
  ASSERT_TRUE(dev().free_range(range, page()).ok());
  EXPECT_FALSE(dev().map(range, page(), handles[0]).ok());
  release(handles);
}

TEST_P(VmmContract, UnmappingNothingIsRefused) {
  const DeviceAddr range = dev().reserve_range(page() * 2, Bytes{}).value();
  EXPECT_FALSE(dev().unmap(range, page()).ok());
  EXPECT_TRUE(dev().free_range(range, page() * 2).ok());
}

TEST_P(VmmContract, AccessCannotBeSetWhereNothingIsMapped) {
  const auto handles = new_handles(1);
  const DeviceAddr range = dev().reserve_range(page() * 2, Bytes{}).value();
  ASSERT_TRUE(dev().map(range, page(), handles[0]).ok());
  EXPECT_FALSE(dev().set_access(range, page() * 2).ok());
  EXPECT_TRUE(dev().set_access(range, page()).ok());
  EXPECT_TRUE(dev().unmap(range, page()).ok());
  EXPECT_TRUE(dev().free_range(range, page() * 2).ok());
  release(handles);
}

TEST_P(VmmContract, ARangeWithAMappingIsNotFreed) {
  const auto handles = new_handles(1);
  const DeviceAddr range = dev().reserve_range(page(), Bytes{}).value();
  ASSERT_TRUE(dev().map(range, page(), handles[0]).ok());
  EXPECT_FALSE(dev().free_range(range, page()).ok());
  EXPECT_TRUE(dev().unmap(range, page()).ok());
  EXPECT_TRUE(dev().free_range(range, page()).ok());
  release(handles);
}

TEST_P(VmmContract, MemoryCanBeMappedWhileOtherWorkRuns) {
  const StreamId stream = rig().new_stream();
  const EventId event = dev().create_event().value();
  rig().hold(stream);
  ASSERT_TRUE(dev().record_event(event, stream).ok());
  const auto handles = new_handles(1);
  const DeviceAddr range = dev().reserve_range(page(), Bytes{}).value();
  ASSERT_TRUE(dev().map(range, page(), handles[0]).ok());
  ASSERT_TRUE(dev().set_access(range, page()).ok());
  EXPECT_EQ(dev().query_event(event).code, StatusCode::kNotReady)
      << "mapping waited for the stream";
  rig().let_go();
  ASSERT_TRUE(dev().synchronize_stream(stream).ok());
  EXPECT_TRUE(dev().unmap(range, page()).ok());
  EXPECT_TRUE(dev().free_range(range, page()).ok());
  EXPECT_TRUE(dev().destroy_event(event).ok());
  release(handles);
}

// ---- Order

TEST_P(OrderContract, AnEventThatWasNeverRecordedIsComplete) {
  const StreamId stream = rig().new_stream();
  const EventId event = dev().create_event().value();
  EXPECT_TRUE(dev().query_event(event).ok());
  EXPECT_TRUE(dev().synchronize_event(event).ok());
  EXPECT_TRUE(dev().wait_event(stream, event).ok());
  EXPECT_TRUE(dev().destroy_event(event).ok());
}

TEST_P(OrderContract, AnEventCompletesAfterTheWorkAheadOfIt) {
  const StreamId stream = rig().new_stream();
  const EventId event = dev().create_event().value();
  rig().hold(stream);
  ASSERT_TRUE(dev().record_event(event, stream).ok());
  EXPECT_EQ(dev().query_event(event).code, StatusCode::kNotReady);
  EXPECT_EQ(rig().last_error(), 0) << "not ready is no error";
  rig().let_go();
  ASSERT_TRUE(dev().synchronize_event(event).ok());
  EXPECT_TRUE(dev().query_event(event).ok());
  EXPECT_TRUE(dev().destroy_event(event).ok());
}

TEST_P(OrderContract, StreamsAreIndependent) {
  const StreamId held = rig().new_stream();
  const StreamId other = rig().new_stream();
  const EventId event = dev().create_event().value();
  rig().hold(held);
  ASSERT_TRUE(dev().record_event(event, other).ok());
  EXPECT_TRUE(dev().synchronize_event(event).ok());
  rig().let_go();
  EXPECT_TRUE(dev().destroy_event(event).ok());
}

TEST_P(OrderContract, AWaitingStreamWaitsForTheEventAndTheHostDoesNot) {
  const StreamId held = rig().new_stream();
  const StreamId waiting = rig().new_stream();
  const EventId first = dev().create_event().value();
  const EventId second = dev().create_event().value();
  rig().hold(held);
  ASSERT_TRUE(dev().record_event(first, held).ok());
  ASSERT_TRUE(dev().wait_event(waiting, first).ok());
  ASSERT_TRUE(dev().record_event(second, waiting).ok());
  EXPECT_EQ(dev().query_event(second).code, StatusCode::kNotReady);
  rig().let_go();
  ASSERT_TRUE(dev().synchronize_event(second).ok());
  EXPECT_TRUE(dev().query_event(first).ok()) << "the second cannot be complete before the first";
  EXPECT_TRUE(dev().destroy_event(first).ok());
  EXPECT_TRUE(dev().destroy_event(second).ok());
}

TEST_P(OrderContract, AWaitMeansTheRecordThatWasThereWhenItWasMade) {
  const StreamId held = rig().new_stream();
  const StreamId waiting = rig().new_stream();
  const EventId event = dev().create_event().value();
  const EventId after = dev().create_event().value();
  ASSERT_TRUE(dev().record_event(event, waiting).ok());  // complete at once
  ASSERT_TRUE(dev().wait_event(waiting, event).ok());
  rig().hold(held);
  ASSERT_TRUE(dev().record_event(event, held).ok());  // moves the event; not the wait
  ASSERT_TRUE(dev().record_event(after, waiting).ok());
  EXPECT_TRUE(dev().synchronize_event(after).ok());
  EXPECT_EQ(dev().query_event(event).code, StatusCode::kNotReady);
  rig().let_go();
  ASSERT_TRUE(dev().synchronize_event(event).ok());
  EXPECT_TRUE(dev().destroy_event(event).ok());
  EXPECT_TRUE(dev().destroy_event(after).ok());
}

TEST_P(OrderContract, AnEventCanBeDestroyedWhileItIsWaitedFor) {
  const StreamId held = rig().new_stream();
  const StreamId waiting = rig().new_stream();
  const EventId event = dev().create_event().value();
  const EventId after = dev().create_event().value();
  rig().hold(held);
  ASSERT_TRUE(dev().record_event(event, held).ok());
  ASSERT_TRUE(dev().wait_event(waiting, event).ok());
  EXPECT_TRUE(dev().destroy_event(event).ok());
  ASSERT_TRUE(dev().record_event(after, waiting).ok());
  EXPECT_EQ(dev().query_event(after).code, StatusCode::kNotReady);
  rig().let_go();
  EXPECT_TRUE(dev().synchronize_event(after).ok());
  EXPECT_TRUE(dev().destroy_event(after).ok());
}

TEST_P(OrderContract, TheLegacyStreamTakesEventsToo) {
  const StreamId stream = rig().new_stream();
  const EventId event = dev().create_event().value();
  ASSERT_TRUE(dev().record_event(event, StreamId{0}).ok());
  EXPECT_TRUE(dev().wait_event(stream, event).ok());
  ASSERT_TRUE(dev().record_event(event, stream).ok());
  EXPECT_TRUE(dev().wait_event(StreamId{0}, event).ok());
  EXPECT_TRUE(dev().synchronize_stream(StreamId{0}).ok());
  EXPECT_TRUE(dev().destroy_event(event).ok());
}

TEST_P(OrderContract, SynchronisingTheDeviceCompletesEveryStream) {
  const StreamId first = rig().new_stream();
  const StreamId second = rig().new_stream();
  const EventId events[] = {dev().create_event().value(), dev().create_event().value()};
  rig().hold(first);
  rig().hold(second);
  ASSERT_TRUE(dev().record_event(events[0], first).ok());
  ASSERT_TRUE(dev().record_event(events[1], second).ok());
  rig().let_go();
  ASSERT_TRUE(dev().synchronize_device().ok());
  for (const EventId event : events) {
    EXPECT_TRUE(dev().query_event(event).ok());
    EXPECT_TRUE(dev().destroy_event(event).ok());
  }
}

// ---- Capture

TEST_P(CaptureContract, AStreamSaysWhetherItCaptures) {
  const StreamId stream = rig().new_stream();
  EXPECT_EQ(dev().capture_info(stream)->status, CaptureStatus::kNone);
  EXPECT_EQ(dev().capture_info(stream)->id, 0U);
  ASSERT_TRUE(rig().begin_capture(stream));
  const Result<device::CaptureInfo> info = dev().capture_info(stream);
  EXPECT_TRUE(rig().end_capture(stream));
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->status, CaptureStatus::kActive);
  EXPECT_NE(info->id, 0U);
  EXPECT_EQ(dev().capture_info(stream)->status, CaptureStatus::kNone);
}

TEST_P(CaptureContract, AWaitForACapturedEventBringsAStreamIntoTheCapture) {
  const StreamId first = rig().new_stream();
  const StreamId second = rig().new_stream();
  const DeviceAddr block = dev().allocate(2_MiB).value();
  const EventId fork = dev().create_event().value();
  const EventId join = dev().create_event().value();
  ASSERT_TRUE(rig().begin_capture(first));
  EXPECT_TRUE(dev().record_event(fork, first).ok());
  EXPECT_TRUE(dev().wait_event(second, fork).ok());
  const auto first_id = dev().capture_info(first)->id;
  const auto second_id = dev().capture_info(second)->id;
  EXPECT_TRUE(rig().write(second, block));
  EXPECT_TRUE(dev().record_event(join, second).ok());
  EXPECT_TRUE(dev().wait_event(first, join).ok());
  EXPECT_TRUE(rig().end_capture(first));
  EXPECT_EQ(first_id, second_id);
  EXPECT_EQ(dev().capture_info(second)->status, CaptureStatus::kNone);
  EXPECT_TRUE(dev().destroy_event(fork).ok());
  EXPECT_TRUE(dev().destroy_event(join).ok());
  EXPECT_TRUE(dev().release(block).ok());
}

TEST_P(CaptureContract, MemoryCanBeHadWhileAStreamCaptures) {
  const StreamId stream = rig().new_stream();
  ASSERT_TRUE(rig().begin_capture(stream));
  const Result<DeviceAddr> block = dev().allocate(2_MiB);
  EXPECT_TRUE(block.ok());
  if (has_vmm()) {
    const Result<HandleId> handle = dev().create_handle(page());
    const Result<DeviceAddr> range = dev().reserve_range(page(), Bytes{});
    ASSERT_TRUE(handle.ok() && range.ok());
    EXPECT_TRUE(dev().map(*range, page(), *handle).ok());
    EXPECT_TRUE(dev().set_access(*range, page()).ok());
    EXPECT_TRUE(rig().write(stream, *range));
    EXPECT_TRUE(rig().end_capture(stream)) << "a memory call ended the capture";
    EXPECT_TRUE(dev().unmap(*range, page()).ok());
    EXPECT_TRUE(dev().free_range(*range, page()).ok());
    EXPECT_TRUE(dev().release_handle(*handle).ok());
  } else {
    EXPECT_TRUE(rig().end_capture(stream)) << "a memory call ended the capture";
  }
  EXPECT_TRUE(dev().release(*block).ok());
}

TEST_P(CaptureContract, AnEventOfTheOutsideCanBeQueriedWhileAStreamCaptures) {
  const StreamId capturing = rig().new_stream();
  const StreamId other = rig().new_stream();
  const EventId event = dev().create_event().value();
  ASSERT_TRUE(dev().record_event(event, other).ok());
  ASSERT_TRUE(dev().synchronize_event(event).ok());
  ASSERT_TRUE(rig().begin_capture(capturing));
  EXPECT_TRUE(dev().query_event(event).ok());
  EXPECT_TRUE(rig().end_capture(capturing)) << "the query ended the capture";
  EXPECT_TRUE(dev().destroy_event(event).ok());
}

TEST_P(CaptureContract, AWaitForAnEventOfTheOutsideEndsTheCapture) {
  const StreamId capturing = rig().new_stream();
  const StreamId other = rig().new_stream();
  const EventId event = dev().create_event().value();
  ASSERT_TRUE(dev().record_event(event, other).ok());
  ASSERT_TRUE(rig().begin_capture(capturing));
  EXPECT_FALSE(dev().wait_event(capturing, event).ok());
  EXPECT_FALSE(rig().end_capture(capturing));
  EXPECT_EQ(dev().capture_info(capturing)->status, CaptureStatus::kNone);
  EXPECT_TRUE(dev().destroy_event(event).ok());
}

TEST_P(CaptureContract, ACapturedEventHasNoStateToAskFor) {
  const StreamId stream = rig().new_stream();
  const EventId event = dev().create_event().value();
  ASSERT_TRUE(rig().begin_capture(stream));
  EXPECT_TRUE(dev().record_event(event, stream).ok());
  const Status status = dev().query_event(event);
  rig().end_capture(stream);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.code, StatusCode::kNotReady);
  EXPECT_TRUE(dev().record_event(event, stream).ok())
      << "recorded outside it is an ordinary event again";
  EXPECT_TRUE(dev().synchronize_event(event).ok());
  EXPECT_TRUE(dev().destroy_event(event).ok());
}

// ---- Forks

TEST_P(DeviceContract, AForkedChildIsRefusedWithoutTouchingTheDevice) {
  if (GetParam() == Kind::kSim)
    GTEST_SKIP() << "the model is memory of this process; a fork copies it";
  Device& device = dev();
  EXPECT_EXIT(
      {
        const bool is_refused = device.memory_info().code() == StatusCode::kUnsupported &&
                                device.allocate(2_MiB).code() == StatusCode::kUnsupported &&
                                device.synchronize_device().code == StatusCode::kUnsupported;
        _exit(is_refused ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

std::string kind_name(const ::testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::kSim ? "Sim" : "Cuda";
}

INSTANTIATE_TEST_SUITE_P(On, DeviceContract, ::testing::Values(Kind::kSim, Kind::kCuda), kind_name);
INSTANTIATE_TEST_SUITE_P(On, VmmContract, ::testing::Values(Kind::kSim, Kind::kCuda), kind_name);
INSTANTIATE_TEST_SUITE_P(On, OrderContract, ::testing::Values(Kind::kSim, Kind::kCuda), kind_name);
INSTANTIATE_TEST_SUITE_P(On, CaptureContract, ::testing::Values(Kind::kSim, Kind::kCuda),
                         kind_name);
// The model is memory of its process; a fork copies it.
INSTANTIATE_TEST_SUITE_P(On, ForkContract, ::testing::Values(Kind::kCuda), kind_name);

}  // namespace
}  // namespace levee::contract

// `--require-cuda`: the program stands for the contract on CUDA alone, and says so with exit code
// 77 where there is none.
int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) != "--require-cuda") continue;
    std::string why_not;
    if (levee::contract::make_cuda_rig(&why_not) == nullptr) {
      std::printf("The contract was NOT RUN on a CUDA device: %s\n", why_not.c_str());
      return 77;
    }
  }
  return RUN_ALL_TESTS();
}
