// The real device where there is none. What it does on a device is the contract's (tests/contract).
#include "allocator/device/cuda_device.h"

#include <gtest/gtest.h>

namespace levee::device {
namespace {

TEST(CudaDevice, AProblemIsNamedExactlyWhenThereIsNoDevice) {
  EXPECT_EQ(cuda_problem().empty(), cuda_device_count() > 0);
  if (!cuda_problem().empty()) {
    EXPECT_EQ(cuda_problem().back(), '.') << cuda_problem();
  }
}

TEST(CudaDevice, ADeviceThatDoesNotExistIsRefused) {
  const auto device = CudaDevice::open(DeviceId{cuda_device_count()});
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.code(),
            cuda_device_count() > 0 ? StatusCode::kInvalidArgument : StatusCode::kUnsupported);
  EXPECT_FALSE(CudaDevice::open(DeviceId{-1}).ok());
}

}  // namespace
}  // namespace levee::device
