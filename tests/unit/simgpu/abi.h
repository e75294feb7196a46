// What the tests of the CUDA ABI share.
#pragma once

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace levee::simgpu {

#define ASSERT_CUDA(call) ASSERT_EQ(call, cudaSuccess)
#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

/// Device memory for the length of a test.
class DeviceBlock {
 public:
  explicit DeviceBlock(std::size_t bytes) { EXPECT_CUDA(cudaMalloc(&at_, bytes)); }
  ~DeviceBlock() { cudaFree(at_); }
  DeviceBlock(const DeviceBlock&) = delete;
  DeviceBlock& operator=(const DeviceBlock&) = delete;
  char* get() const { return static_cast<char*>(at_); }

 private:
  void* at_ = nullptr;
};

/// Leaves the thread as it was found: on device 0, without an error.
class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_CUDA(cudaSetDevice(0));
    cudaGetLastError();
  }
  void TearDown() override {
    EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "an error that the test did not read";
  }
};

inline std::vector<std::uint8_t> counting(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + 1);
  return bytes;
}

}  // namespace levee::simgpu
