// Copies and fills: the bytes that a program gets back.
#include "tests/unit/simgpu/abi.h"
#include "tools/simgpu/simgpu_abi.h"

namespace levee::simgpu {
namespace {

using ::testing::Each;

class Copies : public CudaTest {};

std::vector<std::uint8_t> read(const void* from, std::size_t count) {
  std::vector<std::uint8_t> bytes(count, 0xEE);
  EXPECT_CUDA(cudaMemcpy(bytes.data(), from, count, cudaMemcpyDeviceToHost));
  return bytes;
}

TEST_F(Copies, ThereAndBackAndAcross) {
  const auto bytes = counting(300'000);
  DeviceBlock a(bytes.size());
  DeviceBlock b(bytes.size());
  EXPECT_THAT(read(a.get(), 1000), Each(0)) << "what nobody wrote";
  ASSERT_CUDA(
      cudaMemcpyAsync(a.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice, nullptr));
  ASSERT_CUDA(cudaMemcpyAsync(b.get(), a.get(), bytes.size(), cudaMemcpyDefault, nullptr));
  EXPECT_EQ(read(b.get(), bytes.size()), bytes);
  EXPECT_EQ(read(b.get() + 77, 100),
            std::vector<std::uint8_t>(bytes.begin() + 77, bytes.begin() + 177));
}

TEST_F(Copies, BetweenCards) {
  const auto bytes = counting(1000);
  DeviceBlock here(bytes.size());
  ASSERT_CUDA(cudaSetDevice(1));
  DeviceBlock there(bytes.size());
  ASSERT_CUDA(cudaMemcpy(here.get(), bytes.data(), bytes.size(), cudaMemcpyDefault));
  ASSERT_CUDA(cudaMemcpyPeerAsync(there.get(), 1, here.get(), 0, bytes.size(), nullptr));
  EXPECT_EQ(read(there.get(), bytes.size()), bytes);
}

TEST_F(Copies, RowsWithPitch) {
  const auto bytes = counting(64);
  DeviceBlock block(1024);
  ASSERT_CUDA(
      cudaMemcpy2DAsync(block.get(), 100, bytes.data(), 16, 8, 4, cudaMemcpyHostToDevice, nullptr));
  for (std::size_t row = 0; row < 4; ++row) {
    EXPECT_EQ(read(block.get() + row * 100, 8),
              std::vector<std::uint8_t>(bytes.begin() + static_cast<std::ptrdiff_t>(row * 16),
                                        bytes.begin() + static_cast<std::ptrdiff_t>(row * 16 + 8)));
    EXPECT_THAT(read(block.get() + row * 100 + 8, 8), Each(0));
  }
  EXPECT_EQ(cudaMemcpy2D(block.get(), 4, bytes.data(), 16, 8, 4, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidPitchValue);
}

TEST_F(Copies, FillsAreSeen) {
  DeviceBlock block(10'000);
  ASSERT_CUDA(cudaMemsetAsync(block.get(), 9, 5000, nullptr));
  EXPECT_THAT(read(block.get(), 5000), Each(9));
  EXPECT_THAT(read(block.get() + 5000, 5000), Each(0));
  ASSERT_CUDA(cudaMemset2D(block.get(), 1000, 3, 10, 5));
  EXPECT_THAT(read(block.get() + 4000, 10), Each(3));
  EXPECT_THAT(read(block.get() + 4010, 10), Each(9));
}

TEST_F(Copies, ADirectionThatTheAddressesContradictIsRefused) {
  DeviceBlock block(1000);
  char local[100] = {};
  EXPECT_EQ(cudaMemcpy(local, local, 10, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(block.get(), block.get(), 10, cudaMemcpyDeviceToHost),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(nullptr, local, 10, cudaMemcpyDefault), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaMemcpy(nullptr, nullptr, 0, cudaMemcpyDefault));
}

TEST_F(Copies, BeyondTheEndOfMemoryIsRefused) {
  DeviceBlock block(2 << 20);
  std::vector<char> local(3 << 20);
  EXPECT_EQ(cudaMemcpy(block.get(), local.data(), local.size(), cudaMemcpyHostToDevice),
            cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(Copies, FreedBytesAreForgotten) {
  const auto bytes = counting(5000);
  void* old = nullptr;
  ASSERT_CUDA(cudaMalloc(&old, 4 << 20));
  ASSERT_CUDA(cudaMemcpy(old, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  ASSERT_CUDA(cudaFree(old));
  DeviceBlock block(4 << 20);
  EXPECT_THAT(read(block.get(), bytes.size()), Each(0));
}

TEST_F(Copies, LibrariesReadWriteAndForgetWithoutWork) {
  const auto bytes = counting(100);
  DeviceBlock block(1000);
  EXPECT_EQ(simgpu_write(block.get(), bytes.data(), bytes.size()), 0);
  std::vector<std::uint8_t> seen(bytes.size());
  EXPECT_EQ(simgpu_read(seen.data(), block.get(), seen.size()), 0);
  EXPECT_EQ(seen, bytes);
  simgpu_forget(block.get(), 50);
  EXPECT_THAT(read(block.get(), 50), Each(0));
  EXPECT_EQ(read(block.get() + 50, 50), std::vector<std::uint8_t>(bytes.begin() + 50, bytes.end()));
}

}  // namespace
}  // namespace levee::simgpu
