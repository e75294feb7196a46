// Device memory, virtual memory, pools, and what an address is.
#include <cuda.h>

#include "tests/unit/simgpu/abi.h"
#include "tools/simgpu/simgpu_abi.h"

namespace levee::simgpu {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kGranule = 2 * kMiB;

CUmemAllocationProp on_device(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

std::size_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_CUDA(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(total, 1024 * kMiB);
  return free;
}

class Memory : public CudaTest {};

TEST_F(Memory, WhatOthersUseIsMissing) {
  EXPECT_LE(free_bytes(), (1024 - 128) * kMiB);
}

TEST_F(Memory, AllocationsAndHandlesShareTheCard) {
  const std::size_t before = free_bytes();
  DeviceBlock block(100 * kMiB);
  EXPECT_EQ(free_bytes(), before - 100 * kMiB);
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = on_device(0);
  ASSERT_EQ(cuMemCreate(&handle, 50 * kMiB, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before - 150 * kMiB);
  void* too_much = &handle;
  EXPECT_EQ(cudaMalloc(&too_much, before - 149 * kMiB), cudaErrorMemoryAllocation);
  EXPECT_EQ(too_much, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  CUmemGenericAllocationHandle more = 0;
  EXPECT_EQ(cuMemCreate(&more, before - 148 * kMiB, &properties, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before - 100 * kMiB);
}

TEST_F(Memory, CardsHaveTheirOwnMemory) {
  const std::size_t first = free_bytes();
  ASSERT_CUDA(cudaSetDevice(1));
  DeviceBlock block(64 * kMiB);
  cudaPointerAttributes attributes;
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, block.get()));
  EXPECT_EQ(attributes.device, 1);
  ASSERT_CUDA(cudaSetDevice(0));
  EXPECT_EQ(free_bytes(), first);
}

TEST_F(Memory, NothingIsFreedTwice) {
  void* block = nullptr;
  ASSERT_CUDA(cudaMalloc(&block, 1000));
  EXPECT_CUDA(cudaFree(block));
  EXPECT_EQ(cudaFree(block), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(nullptr));
}

TEST_F(Memory, AHandleLivesAsLongAsItsMappings) {
  const std::size_t before = free_bytes();
  const CUmemAllocationProp properties = on_device(0);
  CUdeviceptr range = 0;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemAddressReserve(&range, 4 * kGranule, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemCreate(&handle, kGranule, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(range, kGranule, 0, handle, 0), CUDA_SUCCESS);
  // A second address of the same bytes.
  ASSERT_EQ(cuMemMap(range + 2 * kGranule, kGranule, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before - kGranule);
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ASSERT_EQ(cuMemSetAccess(range, kGranule, &access, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemSetAccess(range + 2 * kGranule, kGranule, &access, 1), CUDA_SUCCESS);
  const auto bytes = counting(5000);
  ASSERT_CUDA(cudaMemcpy(reinterpret_cast<void*>(range), bytes.data(), bytes.size(),
                         cudaMemcpyHostToDevice));
  std::vector<std::uint8_t> seen(bytes.size());
  ASSERT_CUDA(cudaMemcpy(seen.data(), reinterpret_cast<void*>(range + 2 * kGranule), seen.size(),
                         cudaMemcpyDeviceToHost));
  EXPECT_EQ(seen, bytes);
  EXPECT_EQ(cuMemUnmap(range, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(range + 2 * kGranule, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(free_bytes(), before);
  EXPECT_EQ(cuMemAddressFree(range, 4 * kGranule), CUDA_SUCCESS);
}

TEST_F(Memory, WhatTheDriverCannotShareIsNotSupported) {
  CUmemAllocationProp properties = on_device(0);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, kGranule, &properties, 0), CUDA_ERROR_NOT_SUPPORTED);
  properties = on_device(5);
  EXPECT_EQ(cuMemCreate(&handle, kGranule, &properties, 0), CUDA_ERROR_INVALID_DEVICE);
  std::size_t granularity = 0;
  properties = on_device(0);
  EXPECT_EQ(
      cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      CUDA_SUCCESS);
  EXPECT_EQ(granularity, kGranule);
}

TEST_F(Memory, AnAddressIsToldByWhatItBelongsTo) {
  DeviceBlock device(1000);
  void* pinned = nullptr;
  void* managed = nullptr;
  int local = 0;
  ASSERT_CUDA(cudaHostAlloc(&pinned, 1000, cudaHostAllocDefault));
  ASSERT_CUDA(cudaMallocManaged(&managed, 1000, cudaMemAttachGlobal));
  cudaPointerAttributes attributes;
  ASSERT_CUDA(cudaPointerGetAttributes(&attributes, device.get() + 10));
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  EXPECT_EQ(attributes.devicePointer, device.get() + 10);
  ASSERT_CUDA(cudaPointerGetAttributes(&attributes, pinned));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(attributes.hostPointer, pinned);
  ASSERT_CUDA(cudaPointerGetAttributes(&attributes, managed));
  EXPECT_EQ(attributes.type, cudaMemoryTypeManaged);
  ASSERT_CUDA(cudaPointerGetAttributes(&attributes, &local));
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  ASSERT_CUDA(cudaHostRegister(&local, sizeof local, cudaHostRegisterDefault));
  ASSERT_CUDA(cudaPointerGetAttributes(&attributes, &local));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_EQ(cudaHostRegister(&local, sizeof local, 0), cudaErrorHostMemoryAlreadyRegistered);
  EXPECT_CUDA(cudaHostUnregister(&local));
  EXPECT_EQ(cudaHostUnregister(&local), cudaErrorHostMemoryNotRegistered);
  EXPECT_EQ(cudaGetLastError(), cudaErrorHostMemoryNotRegistered);
  unsigned type = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  reinterpret_cast<CUdeviceptr>(device.get())),
            CUDA_SUCCESS);
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  reinterpret_cast<CUdeviceptr>(&local)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_CUDA(cudaFree(managed));
  EXPECT_CUDA(cudaFreeHost(pinned));
}

TEST_F(Memory, ThePoolKeepsWhatItsThresholdAllows) {
  cudaMemPool_t pool = nullptr;
  ASSERT_CUDA(cudaDeviceGetDefaultMemPool(&pool, 0));
  std::uint64_t threshold = ~std::uint64_t{0};
  ASSERT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  const std::size_t before = free_bytes();
  void* block = nullptr;
  ASSERT_CUDA(cudaMallocAsync(&block, 10 * kMiB, nullptr));
  std::uint64_t used = 0;
  ASSERT_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  EXPECT_GE(used, 10 * kMiB);
  ASSERT_CUDA(cudaFreeAsync(block, nullptr));
  ASSERT_CUDA(cudaStreamSynchronize(nullptr));
  std::uint64_t reserved = 0;
  ASSERT_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
  EXPECT_GE(reserved, 10 * kMiB);
  ASSERT_CUDA(cudaMemPoolTrimTo(pool, 0));
  EXPECT_EQ(free_bytes(), before);
  int junk = 0;
  EXPECT_EQ(cudaMemPoolTrimTo(reinterpret_cast<cudaMemPool_t>(&junk), 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(Memory, TheCountersOfThisProcessAreReadable) {
  const std::uint64_t before = simgpu_counter("cudaMalloc");
  DeviceBlock block(1000);
  EXPECT_EQ(simgpu_counter("cudaMalloc"), before + 1);
  EXPECT_EQ(simgpu_counter("cudaNoSuchThing"), 0U);
  EXPECT_EQ(simgpu_device_of(block.get()), 0);
  EXPECT_EQ(simgpu_device_of(&block), -1);
  EXPECT_GE(simgpu_memory_peak(0), simgpu_memory_used(0));
  EXPECT_EQ(simgpu_memory_capacity(0), 1024 * kMiB);
  char text[16384];
  EXPECT_LT(simgpu_counters_json(text, sizeof text), sizeof text);
  EXPECT_THAT(std::string(text), testing::HasSubstr("\"cudaMalloc\": "));
}

TEST_F(Memory, CallsFailAsAProgramWishesFromThenOn) {
  void* pointer = nullptr;
  ASSERT_EQ(simgpu_set_faults("cudaMalloc:first=2"), 0);
  EXPECT_NE(simgpu_set_faults("cudaMallok:first=1"), 0) << "and the plan before is kept";
  EXPECT_NE(simgpu_set_faults(nullptr), 0);
  ASSERT_CUDA(cudaMalloc(&pointer, kMiB));
  ASSERT_CUDA(cudaFree(pointer));
  EXPECT_EQ(cudaMalloc(&pointer, kMiB), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  ASSERT_EQ(simgpu_set_faults("cudaMalloc:times=forever"), 0);
  EXPECT_EQ(cudaMalloc(&pointer, kMiB), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  ASSERT_EQ(simgpu_set_faults(""), 0);
  ASSERT_CUDA(cudaMalloc(&pointer, kMiB));
  EXPECT_CUDA(cudaFree(pointer));
}

}  // namespace
}  // namespace levee::simgpu
