// Calls about private pools, through the allocator's door: use counts, settings, what is refused.
// What regions route is in pools_test.cc.
#include <memory>
#include <stdexcept>
#include <utility>

#include "tests/unit/core/rig.h"
#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

const PoolId kGraphs{0, 31};

TEST(PoolCalls, EachBeginIsAUseThatAReleaseGivesBack) {
  Rig rig;
  EXPECT_EQ(rig->pool_use_count(kGraphs), 0);
  ASSERT_TRUE(rig->create_or_retain_pool(kGraphs).ok());
  ASSERT_TRUE(rig->begin_allocate_to_pool(kGraphs, {}).ok());
  EXPECT_EQ(rig->pool_use_count(kGraphs), 2);
  ASSERT_TRUE(rig->end_allocate_to_pool(kGraphs).ok());
  ASSERT_TRUE(rig->release_pool(kGraphs).ok());
  EXPECT_EQ(rig->pool_use_count(kGraphs), 1);
  ASSERT_TRUE(rig->release_pool(kGraphs).ok());
  EXPECT_EQ(rig->pool_use_count(kGraphs), 0);
  EXPECT_EQ(rig->release_pool(kGraphs).code, StatusCode::kInvalidArgument);
}

TEST(PoolCalls, TheDefaultPoolIsNobodysToTake) {
  Rig rig;
  EXPECT_EQ(rig->create_or_retain_pool(PoolId{}).code, StatusCode::kInvalidArgument);
  EXPECT_EQ(rig->begin_allocate_to_pool(PoolId{}, {}).code, StatusCode::kInvalidArgument);
  EXPECT_EQ(rig->release_pool(PoolId{}).code, StatusCode::kInvalidArgument);
}

TEST(PoolCalls, SettingsOfAPoolThatIsNoneAreRefused) {
  Rig rig;
  EXPECT_FALSE(rig->set_pool_limit(kGraphs, 1_MiB).ok());
  EXPECT_FALSE(rig->set_pool_no_split(kGraphs).ok());
  EXPECT_FALSE(rig->set_pool_use_on_oom(kGraphs, true).ok());
  EXPECT_FALSE(rig->set_pool_backing(kGraphs, Backing::kSegments).ok());
  EXPECT_FALSE(rig->end_allocate_to_pool(kGraphs).ok());
  EXPECT_FALSE(rig->checkpoint_pool(kGraphs).ok());
}

TEST(PoolCalls, PagesForAPoolNeedADeviceThatHasThem) {
  device::sim::ModelConfig config;
  config.devices[0].has_vmm = false;
  device::sim::GpuModel model(config);
  device::sim::SimDevice device(model, DeviceId{0});
  const std::unique_ptr<Allocator> allocator =
      std::move(make_allocator(device, Config{}, nullptr).value());
  ASSERT_TRUE(allocator->create_or_retain_pool(kGraphs).ok());
  EXPECT_EQ(allocator->set_pool_backing(kGraphs, Backing::kPages).code, StatusCode::kUnsupported);
  EXPECT_TRUE(allocator->set_pool_backing(kGraphs, Backing::kSegments).ok());
  EXPECT_TRUE(allocator->set_pool_backing(kGraphs, Backing::kAuto).ok());
}

TEST(PoolCalls, AReleasedPoolIsNotRestored) {
  Rig rig;
  ASSERT_TRUE(rig->begin_allocate_to_pool(kGraphs, {}).ok());
  const DeviceAddr block = rig.alloc(4_MiB);
  ASSERT_TRUE(rig->end_allocate_to_pool(kGraphs).ok());
  const auto picture = rig->checkpoint_pool(kGraphs);
  ASSERT_TRUE(picture.ok());
  ASSERT_TRUE(rig->release_pool(kGraphs).ok());
  EXPECT_EQ(rig->restore_pool(kGraphs, **picture).code(), StatusCode::kInvalidArgument);
  rig.free(block);
  EXPECT_EQ(rig->restore_pool(kGraphs, **picture).code(), StatusCode::kInvalidArgument);
}

TEST(PoolCalls, AStreamThatIsExpectedIsAskedBeforeAnybodyWaits) {
  Rig rig;
  rig.free(rig.alloc(8_MiB));
  const StreamId side = rig.stream();
  rig->expect_stream(side);
  ASSERT_TRUE(rig.model().begin_capture(DeviceId{0}, side, device::sim::CaptureMode::kGlobal).ok());
  EXPECT_EQ(rig->trim(0_B).code(), StatusCode::kNotReady);
  const auto graph = rig.model().end_capture(DeviceId{0}, side);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(rig.model().destroy_graph(*graph).ok());
}

TEST(PoolCalls, ACaptureQueryThatFailsIsNoOutOfMemory) {
  Rig rig;
  const StreamId side = rig.stream();
  ASSERT_TRUE(rig->begin_allocate_to_pool(kGraphs, {}).ok());
  rig.model().set_faults({device::sim::Fault::fail_nth(device::sim::CallKind::kCaptureInfo, 1)});
  EXPECT_EQ(rig->allocate(1_MiB, side, nullptr).code(), StatusCode::kInternal);
  EXPECT_TRUE(rig->allocate(1_MiB, side, nullptr).ok());
  ASSERT_TRUE(rig->end_allocate_to_pool(kGraphs).ok());
}

TEST(PoolCalls, AnUnknownPoolHasNoRegionNoBlocksAndNoPicture) {
  Rig rig;
  const PoolId other{0, 32};
  ASSERT_TRUE(rig->begin_allocate_to_pool(kGraphs, {}).ok());
  const DeviceAddr block = rig.alloc(4_MiB);
  EXPECT_EQ(rig->end_allocate_to_pool(other).code, StatusCode::kInvalidArgument);
  EXPECT_TRUE(rig->pool_has_exactly(other, {}));
  EXPECT_FALSE(rig->pool_has_exactly(other, std::vector<DeviceAddr>{block}));
  EXPECT_TRUE(rig->snapshot(other).segments.empty());
  EXPECT_FALSE(rig->snapshot(kGraphs).segments.empty());
  EXPECT_EQ(*rig->trim_pool(other), 0_B);
  const auto picture = rig->checkpoint_pool(kGraphs);
  ASSERT_TRUE(picture.ok());
  ASSERT_TRUE(rig->end_allocate_to_pool(kGraphs).ok());
  ASSERT_TRUE(rig->create_or_retain_pool(other).ok());
  EXPECT_EQ(rig->restore_pool(other, **picture).code(), StatusCode::kInvalidArgument);
  rig.free(block);
  EXPECT_EQ(*rig->trim_pool(kGraphs), 4_MiB);
}

// An allocator on a device that tells when memory is made: the pool lock is open then.
class WhileMemoryIsMade : public testing::Test {
 protected:
  WhileMemoryIsMade()
      : model_(StateRig::model_config(256_MiB)), real_(model_, DeviceId{0}), device_(real_) {
    allocator_ = std::move(make_allocator(device_, Config{}, nullptr).value());
    EXPECT_TRUE(allocator_->begin_allocate_to_pool(kPool, [](StreamId) { return true; }).ok());
  }
  void end_pool() {
    EXPECT_TRUE(allocator_->end_allocate_to_pool(kPool).ok());
    EXPECT_TRUE(allocator_->release_pool(kPool).ok());
  }
  void alloc_and_free(Bytes bytes) {
    const Result<Block> block = allocator_->allocate(bytes, StreamId{0});
    ASSERT_TRUE(block.ok());
    EXPECT_TRUE(allocator_->free(block->addr).ok());
    allocator_->validate();
  }

  const PoolId kPool{0, 4};
  device::sim::GpuModel model_;
  device::sim::SimDevice real_;
  ScriptedDevice device_;
  std::unique_ptr<Allocator> allocator_;
};

TEST_F(WhileMemoryIsMade, ThePoolItIsForMayGoAndDoesAfterwards) {
  int calls = 0;
  device_.hear_create_handle = [&] {
    if (calls++ == 0) end_pool();
  };
  alloc_and_free(8_MiB);
  EXPECT_GT(calls, 0);
  for (const SnapshotSegment& segment : allocator_->snapshot().segments) {
    EXPECT_TRUE(segment.pool.is_default()) << "the pool is gone, its memory everybody's";
  }
}

TEST_F(WhileMemoryIsMade, AnotherPoolMayGoAndDoesAfterwards) {
  alloc_and_free(8_MiB);
  EXPECT_TRUE(allocator_->end_allocate_to_pool(kPool).ok());
  int calls = 0;
  device_.hear_create_handle = [&] {
    if (calls++ > 0) return;
    EXPECT_TRUE(allocator_->release_pool(kPool).ok());
    EXPECT_FALSE(allocator_->snapshot(kPool).segments.empty()) << "its zones stay where they are";
  };
  alloc_and_free(64_MiB);
  EXPECT_GT(calls, 0);
  EXPECT_TRUE(allocator_->snapshot(kPool).segments.empty());
}

TEST_F(WhileMemoryIsMade, ACallbackThatThrowsKeepsNoPool) {
  AllocatorHooks hooks;
  hooks.free_memory = []() -> bool { throw std::runtime_error("told so"); };
  allocator_->set_hooks(std::move(hooks));
  EXPECT_THROW(static_cast<void>(allocator_->allocate(1_GiB, StreamId{0})), std::runtime_error);
  alloc_and_free(8_MiB);
  end_pool();
  EXPECT_TRUE(allocator_->snapshot(kPool).segments.empty());
  allocator_->validate();
}

}  // namespace
}  // namespace levee::core
