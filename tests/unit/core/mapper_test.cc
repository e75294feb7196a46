#include "allocator/core/mapper.h"

#include <gtest/gtest.h>

#include <vector>

#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"

namespace levee::core {
namespace {

using device::sim::CallKind;
using device::sim::Fault;

class MapperTest : public testing::Test {
 protected:
  MapperTest()
      : model_(device::sim::ModelConfig{}), device_(model_, DeviceId{0}), mapper_(device_) {
    base_ = *device_.reserve_range(64_MiB, 2_MiB);
  }
  std::vector<Mapper::Piece> pieces(const std::vector<HandleId>& handles) {
    std::vector<Mapper::Piece> all;
    for (HandleId handle : handles) all.push_back({handle, 2_MiB});
    return all;
  }
  void clean_up(const std::vector<HandleId>& handles) {
    for (HandleId handle : handles) ASSERT_TRUE(device_.release_handle(handle).ok());
    ASSERT_TRUE(device_.free_range(base_, 64_MiB).ok());
  }

  device::sim::GpuModel model_;
  device::sim::SimDevice device_;
  Mapper mapper_;
  DeviceAddr base_;
};

TEST_F(MapperTest, CreationIsAllOrNothing) {
  model_.set_faults({Fault::fail_nth(CallKind::kCreateHandle, 3)});
  const Mapper::Created created = mapper_.create(std::vector<Bytes>(5, 2_MiB));
  EXPECT_EQ(created.status.code, StatusCode::kOutOfMemory);
  EXPECT_TRUE(created.handles.empty());
  EXPECT_TRUE(created.leftover.empty());
  EXPECT_EQ(created.made, 2U) << "what the device had room for";
  EXPECT_EQ(model_.memory_use(DeviceId{0}).used, 0_B);
  clean_up({});
}

TEST_F(MapperTest, WhatCannotBeReleasedIsReported) {
  model_.set_faults(
      {Fault::fail_nth(CallKind::kCreateHandle, 3), Fault::fail_nth(CallKind::kReleaseHandle, 1)});
  const Mapper::Created created = mapper_.create(std::vector<Bytes>(5, 2_MiB));
  ASSERT_EQ(created.leftover.size(), 1U);
  EXPECT_EQ(created.leftover[0].bytes, 2_MiB);
  model_.set_faults({});
  clean_up({created.leftover[0].handle});
}

TEST_F(MapperTest, AFailedMappingLeavesNothingMapped) {
  const Mapper::Created created = mapper_.create(std::vector<Bytes>(4, 2_MiB));
  for (CallKind kind : {CallKind::kMap, CallKind::kSetAccess}) {
    model_.set_faults({Fault::fail_nth(kind, kind == CallKind::kMap ? 3 : 1)});
    const Mapper::Mapped mapped = mapper_.map(base_, pieces(created.handles));
    EXPECT_FALSE(mapped.status.ok());
    EXPECT_TRUE(mapped.leftover.empty());
    EXPECT_EQ(model_.memory_use(DeviceId{0}).mappings, 0U);
  }
  model_.set_faults({});
  clean_up(created.handles);
}

TEST_F(MapperTest, MappingsThatStayAreNamed) {
  const Mapper::Created created = mapper_.create(std::vector<Bytes>(3, 2_MiB));
  // The rollback's unmap fails as a whole and for the second page.
  model_.set_faults({Fault::fail_nth(CallKind::kSetAccess, 1), Fault::fail_nth(CallKind::kUnmap, 1),
                     Fault::fail_nth(CallKind::kUnmap, 3)});
  const Mapper::Mapped mapped = mapper_.map(base_, pieces(created.handles));
  EXPECT_FALSE(mapped.status.ok());
  EXPECT_EQ(mapped.leftover, std::vector<std::uint32_t>{1});
  EXPECT_EQ(model_.memory_use(DeviceId{0}).mappings, 1U);
  model_.set_faults({});
  ASSERT_TRUE(mapper_.unmap(base_ + 2_MiB, 2_MiB).ok());
  clean_up(created.handles);
}

}  // namespace
}  // namespace levee::core
