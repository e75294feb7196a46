// Devices as a program sees them. The tests run on two cards of 1 GiB, see CMakeLists.txt.
#include <cuda.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstring>
#include <string>
#include <thread>

#include "tests/unit/simgpu/abi.h"
#include "tools/simgpu/simgpu_abi.h"

namespace levee::simgpu {
namespace {

using ::testing::HasSubstr;

class Devices : public CudaTest {};

TEST_F(Devices, ThereAreAsManyAsAskedFor) {
  int count = 0;
  EXPECT_CUDA(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, 2);
  EXPECT_EQ(simgpu_device_count(), 2);
  EXPECT_EQ(simgpu_is_simulated(), 1);
}

TEST_F(Devices, NoPropertyThatProgramsDivideByIsZero) {
  cudaDeviceProp card;
  ASSERT_CUDA(cudaGetDeviceProperties(&card, 1));
  EXPECT_THAT(std::string(card.name), HasSubstr("simgpu"));
  EXPECT_EQ(card.totalGlobalMem, std::size_t{1} << 30);
  for (const auto value :
       {card.warpSize, card.maxThreadsPerBlock, card.multiProcessorCount,
        card.maxBlocksPerMultiProcessor, card.maxThreadsPerMultiProcessor, card.regsPerBlock,
        card.regsPerMultiprocessor, card.l2CacheSize, card.major, card.memoryBusWidth,
        card.maxThreadsDim[2], card.maxGridSize[2], card.asyncEngineCount}) {
    EXPECT_GT(value, 0);
  }
  for (const auto value :
       {card.sharedMemPerBlock, card.sharedMemPerBlockOptin, card.sharedMemPerMultiprocessor,
        card.totalConstMem, card.textureAlignment, card.memPitch}) {
    EXPECT_GT(value, 0U);
  }
}

TEST_F(Devices, PropertiesAttributesAndDriverAgree) {
  cudaDeviceProp card;
  ASSERT_CUDA(cudaGetDeviceProperties(&card, 0));
  int runtime = 0;
  int driver = 0;
  ASSERT_CUDA(cudaDeviceGetAttribute(&runtime, cudaDevAttrMultiProcessorCount, 0));
  ASSERT_EQ(cuDeviceGetAttribute(&driver, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(runtime, card.multiProcessorCount);
  EXPECT_EQ(driver, card.multiProcessorCount);
  EXPECT_EQ(cudaDeviceGetAttribute(&runtime, cudaDevAttrMax, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(Devices, CardsHaveIdentitiesOfTheirOwn) {
  cudaDeviceProp first;
  cudaDeviceProp second;
  ASSERT_CUDA(cudaGetDeviceProperties(&first, 0));
  ASSERT_CUDA(cudaGetDeviceProperties(&second, 1));
  EXPECT_NE(std::memcmp(&first.uuid, &second.uuid, sizeof first.uuid), 0);
  char bus[32];
  int found = -1;
  ASSERT_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, 1));
  ASSERT_CUDA(cudaDeviceGetByPCIBusId(&found, bus));
  EXPECT_EQ(found, 1);
}

TEST_F(Devices, TheCurrentOneBelongsToTheThreadAndIsSharedWithTheDriver) {
  ASSERT_CUDA(cudaSetDevice(1));
  int other = -1;
  std::thread([&] { cudaGetDevice(&other); }).join();
  EXPECT_EQ(other, 0);
  CUdevice device = -1;
  ASSERT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  CUcontext first = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&first, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(first), CUDA_SUCCESS);
  int current = -1;
  EXPECT_CUDA(cudaGetDevice(&current));
  EXPECT_EQ(current, 0);
  CUcontext popped = nullptr;
  ASSERT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, first);
  EXPECT_CUDA(cudaGetDevice(&current));
  EXPECT_EQ(current, 1);
}

TEST_F(Devices, AnErrorStaysUntilItIsRead) {
  EXPECT_EQ(cudaSetDevice(7), cudaErrorInvalidDevice);
  int device = -1;
  EXPECT_CUDA(cudaGetDevice(&device));
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(Devices, ErrorsHaveNamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
  const char* name = nullptr;
  EXPECT_EQ(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name), CUDA_SUCCESS);
  EXPECT_STREQ(name, "CUDA_ERROR_OUT_OF_MEMORY");
}

TEST_F(Devices, PeerAccessIsEnabledOnce) {
  int can = 0;
  EXPECT_CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  EXPECT_CUDA(cudaDeviceEnablePeerAccess(1, 0));
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_EQ(cudaGetLastError(), cudaErrorPeerAccessAlreadyEnabled);
  EXPECT_CUDA(cudaDeviceDisablePeerAccess(1));
}

TEST_F(Devices, TheDriverIsFoundThroughTheRuntime) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status;
  EXPECT_CUDA(cudaGetDriverEntryPointByVersion("cuMemCreate", &function, 12000, cudaEnableDefault,
                                               &status));
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  EXPECT_EQ(function, reinterpret_cast<void*>(&cuMemCreate));
  EXPECT_CUDA(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &function, 12000, cudaEnableDefault,
                                               &status));
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(function, nullptr);
}

TEST_F(Devices, WhatIsNotModelledFailsWithItsName) {
  testing::internal::CaptureStderr();
  cudaArray_t array = nullptr;
  cudaChannelFormatDesc format{};
  EXPECT_EQ(cudaMallocArray(&array, &format, 4, 4, 0), cudaErrorNotSupported);
  EXPECT_EQ(cudaMallocArray(&array, &format, 4, 4, 0), cudaErrorNotSupported);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("cudaMallocArray"));
  EXPECT_EQ(said.find("cudaMallocArray"), said.rfind("cudaMallocArray")) << "said once";
}

TEST_F(Devices, AForkedChildIsToldThatItHasNoGpu) {
  int count = 0;
  ASSERT_CUDA(cudaGetDeviceCount(&count));
  const pid_t child = fork();
  if (child == 0) {
    void* pointer = nullptr;
    const bool refused = cudaMalloc(&pointer, 1024) == cudaErrorInitializationError &&
                         cudaGetDeviceCount(&count) == cudaErrorInitializationError &&
                         cuInit(0) == CUDA_ERROR_NOT_INITIALIZED;
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace levee::simgpu
