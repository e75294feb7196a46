#include "allocator/core/device_allocator.h"

#include "tests/unit/core/rig.h"

namespace levee::core {
namespace {

TEST(DeviceAllocator, DescribesABlockFromAnyAddressInIt) {
  Rig rig;
  const DeviceAddr block = rig.alloc(5_MiB);
  EXPECT_EQ(rig->find(block + 4_MiB)->addr, block);
  EXPECT_EQ(rig->find(block)->requested_bytes, 5_MiB);
  EXPECT_EQ(rig->find(block + 5_MiB).code(), StatusCode::kNotOwned);
  EXPECT_TRUE(rig->owns(block + 4_MiB));
  EXPECT_FALSE(rig->owns(DeviceAddr{1}));
}

TEST(DeviceAllocator, ALimitTakesNothingAwayAndHoldsFromThenOn) {
  Rig rig;
  rig.alloc(20_MiB);
  rig->set_limit(10_MiB);
  EXPECT_EQ(rig->limit(), 10_MiB);
  EXPECT_EQ(rig.reserved(), 20_MiB);
  EXPECT_EQ(rig->allocate(4_MiB, StreamId{0}, nullptr).code(), StatusCode::kOutOfMemory);
  rig->set_limit(0_B);
  EXPECT_TRUE(rig->allocate(4_MiB, StreamId{0}, nullptr).ok());
}

TEST(DeviceAllocator, AShareOfTheDeviceIsALimit) {
  Config config;
  config.memory_fraction = 0.25;
  Rig rig(64_MiB, config);
  EXPECT_EQ(rig->limit(), 16_MiB);
  EXPECT_FALSE(rig->allocate(20_MiB, StreamId{0}, nullptr).ok());
  EXPECT_TRUE(rig->allocate(16_MiB, StreamId{0}, nullptr).ok());
}

TEST(DeviceAllocator, ContextIsAskedForOnSlowPathsAndWithNoLockHeld) {
  Rig rig;
  int asked = 0;
  AllocatorHooks hooks;
  Allocator* allocator = &*rig;
  hooks.capture_context = [&] {
    ++asked;
    // Would not come back if a lock were held.
    static_cast<void>(allocator->stats());
    return ContextId{5};
  };
  rig->set_hooks(std::move(hooks));
  const DeviceAddr block = rig.alloc(4_MiB);
  EXPECT_EQ(asked, 1);
  rig.free(block);
  rig.alloc(4_MiB);
  EXPECT_EQ(asked, 1) << "a hit asks nobody";
}

TEST(DeviceAllocator, StepsAreCounted) {
  Rig rig;
  for (int i = 0; i < 3; ++i) rig->mark_step();
  EXPECT_EQ(rig->stats().num_steps, 3);
}

TEST(DeviceAllocator, EndsWithLiveBlocksAndGivesEverythingBack) {
  device::sim::ModelConfig config;
  config.judge = device::sim::JudgeMode::kCount;
  device::sim::GpuModel model(config);
  device::sim::SimDevice device(model, DeviceId{0});
  {
    DeviceAllocator allocator(device, Config{}, nullptr);
    for (Bytes bytes : {5_MiB, 100_KiB, 700_B}) {
      ASSERT_TRUE(allocator.allocate(bytes, StreamId{0}, nullptr).ok());
    }
  }
  EXPECT_EQ(model.memory_use(DeviceId{0}).handles, 0U);
  EXPECT_EQ(model.memory_use(DeviceId{0}).ranges, 0U);
}

}  // namespace
}  // namespace levee::core
