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

TEST(DeviceAllocator, AnAddressBetweenBlocksIsNobodys) {
  Rig rig;
  // A range of a chunk and the room behind it; one that waits for another stream is nobody's
  // either.
  const DeviceAddr range = rig.alloc(100_KiB);
  EXPECT_TRUE(rig->find(range + 100_KiB - 1_B).ok());
  const Bytes span = 112_KiB;
  EXPECT_EQ(rig->find(range + span + 512_B).code(), StatusCode::kNotOwned);
  const StreamId side = rig.stream();
  rig.work(side, 5_ms);
  ASSERT_TRUE(rig->record_use(range, side).ok());
  rig.free(range);
  EXPECT_EQ(rig->find(range + 512_B).code(), StatusCode::kNotOwned);
  EXPECT_EQ(rig->base_allocation(DeviceAddr{4096}).code(), StatusCode::kNotOwned);
  EXPECT_EQ(rig->find(DeviceAddr{4096}).code(), StatusCode::kNotOwned);
}

// A view of a tensor begins where it begins.
TEST(DeviceAllocator, AUseMayBeToldByAnyAddressOfTheBlock) {
  Rig rig;
  for (const Bytes bytes : {700_B, 100_KiB, 5_MiB}) {
    const StreamId side = rig.stream();
    rig.work(side, 5_ms);
    const DeviceAddr block = rig.alloc(bytes);
    ASSERT_TRUE(rig->record_use(block + bytes - 1_B, side).ok()) << bytes.value;
    rig.free(block);
    EXPECT_GE(rig->stats().active_bytes[0].current, static_cast<std::int64_t>(bytes.value))
        << "it waits for the other stream";
    EXPECT_EQ(rig->record_use(block, side).code, StatusCode::kNotOwned) << "it was given back";
    EXPECT_EQ(rig->record_use(block + bytes - 1_B, side).code, StatusCode::kNotOwned);
  }
  EXPECT_EQ(rig->record_use(DeviceAddr{4096}, StreamId{0}).code, StatusCode::kNotOwned);
  const DeviceAddr block = rig.alloc(5_MiB);
  EXPECT_EQ(rig->record_use(block + 5_MiB, StreamId{0}).code, StatusCode::kNotOwned);
  rig->validate();
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
