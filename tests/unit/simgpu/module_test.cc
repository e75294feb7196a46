// Kernels as nvcc's host code registers and launches them, and modules as Triton and NVRTC use
// them.
#include <cuda.h>

#include <cstring>

#include "tests/unit/simgpu/abi.h"
#include "tools/simgpu/simgpu_abi.h"

extern "C" {
void** __cudaRegisterFatBinary(void* image);
void __cudaRegisterFunction(void** handle, const char* stub, char* device_function,
                            const char* name, int thread_limit, uint3* thread, uint3* block,
                            dim3* block_dimensions, dim3* grid_dimensions, int* warp);
void __cudaRegisterVar(void** handle, char* shadow, char* address, const char* name, int ext,
                       size_t bytes, int constant, int global);
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub);
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);
}

namespace levee::simgpu {
namespace {

using ::testing::Each;

char stub_of_fill;
char stub_of_scale;
char shadow_of_variable;

class Kernels : public CudaTest {
 protected:
  static void SetUpTestSuite() {
    static int image = 0;
    void** handle = __cudaRegisterFatBinary(&image);
    ASSERT_NE(handle, nullptr);
    // void fill(float*, int) and void scale(float const*, float)
    __cudaRegisterFunction(handle, &stub_of_fill, nullptr, "_Z4fillPfi", -1, nullptr, nullptr,
                           nullptr, nullptr, nullptr);
    __cudaRegisterFunction(handle, &stub_of_scale, nullptr, "_Z5scalePKff", -1, nullptr, nullptr,
                           nullptr, nullptr, nullptr);
    __cudaRegisterVar(handle, &shadow_of_variable, nullptr, "variable", 0, 64, 0, 0);
  }
};

TEST_F(Kernels, TheCallConfigurationComesBack) {
  ASSERT_EQ(__cudaPushCallConfiguration(dim3(1, 2, 3), dim3(4, 5, 6), 7,
                                        reinterpret_cast<CUstream_st*>(2)),
            0U);
  dim3 grid;
  dim3 block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(__cudaPopCallConfiguration(&grid, &block, &shared, &stream));
  EXPECT_EQ(grid.z, 3U);
  EXPECT_EQ(block.x, 4U);
  EXPECT_EQ(shared, 7U);
  EXPECT_EQ(stream, reinterpret_cast<cudaStream_t>(2));
}

TEST_F(Kernels, WhatAKernelWritesIsNoLongerWhatACopyPutThere) {
  const auto bytes = counting(64);
  DeviceBlock block(64);
  std::vector<std::uint8_t> seen(4);
  float* pointer = reinterpret_cast<float*>(block.get());
  float factor = 2;
  void* reads[] = {&pointer, &factor};
  int count = 16;
  void* writes[] = {&pointer, &count};
  ASSERT_CUDA(cudaMemcpy(block.get(), bytes.data(), 64, cudaMemcpyHostToDevice));
  ASSERT_CUDA(cudaLaunchKernel(&stub_of_scale, dim3(1), dim3(32), reads, 0, nullptr));
  ASSERT_CUDA(cudaMemcpy(seen.data(), block.get(), 4, cudaMemcpyDeviceToHost));
  EXPECT_THAT(seen, testing::ElementsAre(bytes[0], bytes[1], bytes[2], bytes[3])) << "it only read";
  ASSERT_CUDA(cudaLaunchKernel(&stub_of_fill, dim3(1), dim3(32), writes, 0, nullptr));
  ASSERT_CUDA(cudaMemcpy(seen.data(), block.get(), 4, cudaMemcpyDeviceToHost));
  EXPECT_THAT(seen, Each(0));
}

TEST_F(Kernels, ImpossibleLaunchesAreRefused) {
  float* pointer = nullptr;
  int count = 0;
  void* arguments[] = {&pointer, &count};
  EXPECT_EQ(cudaLaunchKernel(&stub_of_fill, dim3(0), dim3(32), arguments, 0, nullptr),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaLaunchKernel(&stub_of_fill, dim3(1), dim3(1025), arguments, 0, nullptr),
            cudaErrorInvalidConfiguration);
  EXPECT_EQ(cudaLaunchKernel(&pointer, dim3(1), dim3(32), arguments, 0, nullptr),
            cudaErrorInvalidDeviceFunction);
  EXPECT_EQ(
      cudaLaunchCooperativeKernel(&stub_of_fill, dim3(1 << 20), dim3(1024), arguments, 0, nullptr),
      cudaErrorCooperativeLaunchTooLarge);
  EXPECT_EQ(cudaGetLastError(), cudaErrorCooperativeLaunchTooLarge);
}

TEST_F(Kernels, AttributesAreKept) {
  cudaFuncAttributes attributes;
  ASSERT_CUDA(cudaFuncGetAttributes(&attributes, &stub_of_fill));
  EXPECT_GT(attributes.maxThreadsPerBlock, 0);
  EXPECT_GT(attributes.numRegs, 0);
  EXPECT_GT(attributes.binaryVersion, 0);
  ASSERT_CUDA(
      cudaFuncSetAttribute(&stub_of_fill, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
  ASSERT_CUDA(cudaFuncGetAttributes(&attributes, &stub_of_fill));
  EXPECT_EQ(attributes.maxDynamicSharedSizeBytes, 100 << 10);
  EXPECT_EQ(
      cudaFuncSetAttribute(&stub_of_fill, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30),
      cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  int blocks = 0;
  EXPECT_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, &stub_of_fill, 256, 0));
  EXPECT_EQ(blocks, 8);
  cudaKernel_t kernel = nullptr;
  EXPECT_CUDA(__cudaGetKernel(&kernel, &stub_of_fill));
  const char* name = nullptr;
  EXPECT_CUDA(cudaFuncGetName(&name, kernel));
  EXPECT_STREQ(name, "_Z4fillPfi");
}

TEST_F(Kernels, VariablesAreMemoryOfTheDevice) {
  const auto bytes = counting(64);
  ASSERT_CUDA(
      cudaMemcpyToSymbol(&shadow_of_variable, bytes.data(), 32, 16, cudaMemcpyHostToDevice));
  std::vector<std::uint8_t> seen(32);
  ASSERT_CUDA(
      cudaMemcpyFromSymbol(seen.data(), &shadow_of_variable, 32, 16, cudaMemcpyDeviceToHost));
  EXPECT_EQ(seen, std::vector<std::uint8_t>(bytes.begin(), bytes.begin() + 32));
  void* address = nullptr;
  ASSERT_CUDA(cudaGetSymbolAddress(&address, &shadow_of_variable));
  EXPECT_EQ(simgpu_device_of(address), 0);
  int junk = 0;
  EXPECT_EQ(cudaGetSymbolAddress(&address, &junk), cudaErrorInvalidSymbol);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidSymbol);
}

TEST_F(Kernels, AModuleHasEveryFunctionThatIsAskedFor) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, "an image"), CUDA_SUCCESS);
  ASSERT_EQ(cuModuleGetFunction(&function, module, "triton_poi_fused_add_0"), CUDA_SUCCESS);
  CUfunction again = nullptr;
  ASSERT_EQ(cuModuleGetFunction(&again, module, "triton_poi_fused_add_0"), CUDA_SUCCESS);
  EXPECT_EQ(again, function);
  int registers = 0;
  EXPECT_EQ(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function), CUDA_SUCCESS);
  EXPECT_GT(registers, 0);
  const std::uint64_t before = simgpu_counter("cuLaunchKernelEx");
  CUlaunchConfig config{};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 128;
  config.blockDimY = config.blockDimZ = 1;
  EXPECT_EQ(cuLaunchKernelEx(&config, function, nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(simgpu_counter("cuLaunchKernelEx"), before + 1);
  EXPECT_EQ(cuModuleUnload(module), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
}

}  // namespace
}  // namespace levee::simgpu
