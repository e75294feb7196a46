// Memory that two processes use: CUDA IPC and handles as file descriptors. The other process is
// this program again.
#include <cuda.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/unit/simgpu/abi.h"

extern char** environ;

namespace levee::simgpu {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr const char* kVariable = "SIMGPU_SHARING_TEST";

std::string to_hex(const void* bytes, std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    char text[3];
    std::snprintf(text, sizeof text, "%02x", static_cast<const unsigned char*>(bytes)[i]);
    out += text;
  }
  return out;
}

void from_hex(const std::string& text, void* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<unsigned char*>(bytes)[i] =
        static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
}

/// Runs the named test of this program in a new process; its exit code.
int run_elsewhere(const std::string& test, const std::string& handle) {
  setenv(kVariable, handle.c_str(), 1);
  const std::string filter = "--gtest_filter=" + test;
  std::string program = "/proc/self/exe";
  std::string disabled = "--gtest_also_run_disabled_tests";
  std::string quiet = "--gtest_brief=1";
  char* arguments[] = {program.data(), const_cast<char*>(filter.c_str()), disabled.data(),
                       quiet.data(), nullptr};
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ), 0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class Sharing : public CudaTest {};
class SharingElsewhere : public CudaTest {
 protected:
  std::string given() const { return std::getenv(kVariable); }
};

CUmemAllocationProp exportable() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return properties;
}

TEST_F(Sharing, AnotherProcessReadsAndWritesAnAllocation) {
  DeviceBlock small(1000);  // shares its 2 MiB with others
  DeviceBlock large(3 * kMiB);
  for (char* block : {small.get(), large.get()}) {
    const auto bytes = counting(1000);
    ASSERT_CUDA(cudaMemcpy(block, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
    cudaIpcMemHandle_t handle;
    ASSERT_CUDA(cudaIpcGetMemHandle(&handle, block));
    EXPECT_EQ(
        run_elsewhere("SharingElsewhere.DISABLED_ReadsAndWrites", to_hex(&handle, sizeof handle)),
        0);
    std::vector<std::uint8_t> now(bytes.size());
    ASSERT_CUDA(cudaMemcpy(now.data(), block, now.size(), cudaMemcpyDeviceToHost));
    EXPECT_EQ(now[0], 99);
    EXPECT_EQ(now[1], bytes[1]);
  }
}

TEST_F(SharingElsewhere, DISABLED_ReadsAndWrites) {
  cudaIpcMemHandle_t handle;
  from_hex(given(), &handle, sizeof handle);
  std::size_t before = 0;
  std::size_t after = 0;
  std::size_t total = 0;
  ASSERT_CUDA(cudaMemGetInfo(&before, &total));
  void* opened = nullptr;
  void* again = nullptr;
  ASSERT_CUDA(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess));
  ASSERT_CUDA(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
  EXPECT_EQ(opened, again);
  ASSERT_CUDA(cudaMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);  // the owner pays
  std::vector<std::uint8_t> bytes(1000);
  ASSERT_CUDA(cudaMemcpy(bytes.data(), opened, bytes.size(), cudaMemcpyDeviceToHost));
  EXPECT_EQ(bytes, counting(1000));
  ASSERT_CUDA(cudaMemset(opened, 99, 1));
  EXPECT_EQ(cudaFree(opened), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  cudaIpcMemHandle_t passed_on;
  EXPECT_EQ(cudaIpcGetMemHandle(&passed_on, opened), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaIpcCloseMemHandle(opened));
  EXPECT_CUDA(cudaMemset(opened, 99, 1));  // opened twice
  EXPECT_CUDA(cudaIpcCloseMemHandle(opened));
  EXPECT_EQ(cudaMemset(opened, 99, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaIpcCloseMemHandle(opened), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_F(Sharing, WhatCannotBeSharedIsRefused) {
  DeviceBlock block(3 * kMiB);
  cudaIpcMemHandle_t handle;
  ASSERT_CUDA(cudaIpcGetMemHandle(&handle, block.get()));
  void* opened = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess),
            cudaErrorDeviceUninitialized);  // by the process that made it
  EXPECT_EQ(cudaIpcOpenMemHandle(&opened, handle, 0), cudaErrorInvalidValue);
  cudaIpcMemHandle_t junk{};
  EXPECT_EQ(cudaIpcOpenMemHandle(&opened, junk, cudaIpcMemLazyEnablePeerAccess),
            cudaErrorInvalidResourceHandle);
  int on_host = 0;
  EXPECT_EQ(cudaIpcGetMemHandle(&handle, &on_host), cudaErrorInvalidValue);
  EXPECT_EQ(cudaIpcCloseMemHandle(block.get()), cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_F(Sharing, AHandleOfMemoryThatIsGoneIsRefused) {
  cudaIpcMemHandle_t handle;
  {
    DeviceBlock block(3 * kMiB);
    ASSERT_CUDA(cudaIpcGetMemHandle(&handle, block.get()));
  }
  DeviceBlock other(3 * kMiB);  // may use the same descriptor again
  cudaIpcMemHandle_t new_handle;
  ASSERT_CUDA(cudaIpcGetMemHandle(&new_handle, other.get()));
  EXPECT_EQ(run_elsewhere("SharingElsewhere.DISABLED_IsRefused", to_hex(&handle, sizeof handle)),
            0);
}

TEST_F(SharingElsewhere, DISABLED_IsRefused) {
  cudaIpcMemHandle_t handle;
  from_hex(given(), &handle, sizeof handle);
  void* opened = nullptr;
  EXPECT_EQ(cudaIpcOpenMemHandle(&opened, handle, cudaIpcMemLazyEnablePeerAccess),
            cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST_F(Sharing, HandlesTravelAsFileDescriptors) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = exportable();
  ASSERT_EQ(cuMemCreate(&handle, 2 * kMiB, &properties, 0), CUDA_SUCCESS);
  CUdeviceptr at = 0;
  ASSERT_EQ(cuMemAddressReserve(&at, 2 * kMiB, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(at, 2 * kMiB, 0, handle, 0), CUDA_SUCCESS);
  CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(at, 2 * kMiB, &access, 1), CUDA_SUCCESS);
  const auto bytes = counting(1000);
  ASSERT_EQ(cuMemcpyHtoD(at, bytes.data(), bytes.size()), CUDA_SUCCESS);
  int descriptor = -1;
  EXPECT_EQ(cuMemExportToShareableHandle(&descriptor, handle, CU_MEM_HANDLE_TYPE_FABRIC, 0),
            CUDA_ERROR_NOT_SUPPORTED);
  ASSERT_EQ(cuMemExportToShareableHandle(&descriptor, handle,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(
      run_elsewhere("SharingElsewhere.DISABLED_ReadsADescriptor",
                    "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(descriptor)),
      0);
  close(descriptor);
  std::uint8_t first = 0;
  ASSERT_EQ(cuMemcpyDtoH(&first, at, 1), CUDA_SUCCESS);
  EXPECT_EQ(first, 77);
  EXPECT_EQ(cuMemUnmap(at, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(at, 2 * kMiB), CUDA_SUCCESS);
}

TEST_F(SharingElsewhere, DISABLED_ReadsADescriptor) {
  const int descriptor = open(given().c_str(), O_RDWR);
  ASSERT_GE(descriptor, 0);
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemImportFromShareableHandle(
                &handle, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  close(descriptor);
  CUdeviceptr at = 0;
  ASSERT_EQ(cuMemAddressReserve(&at, 2 * kMiB, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(at, 2 * kMiB, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  CUmemAccessDesc access{exportable().location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  ASSERT_EQ(cuMemSetAccess(at, 2 * kMiB, &access, 1), CUDA_SUCCESS);
  std::vector<std::uint8_t> bytes(1000);
  ASSERT_EQ(cuMemcpyDtoH(bytes.data(), at, bytes.size()), CUDA_SUCCESS);
  EXPECT_EQ(bytes, counting(1000));
  ASSERT_EQ(cuMemsetD8(at, 77, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemUnmap(at, 2 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAddressFree(at, 2 * kMiB), CUDA_SUCCESS);
}

TEST_F(Sharing, EventsOfAnotherProcessCountAsDone) {
  cudaEvent_t event = nullptr;
  ASSERT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming | cudaEventInterprocess));
  ASSERT_CUDA(cudaEventRecord(event, nullptr));
  cudaIpcEventHandle_t handle;
  ASSERT_CUDA(cudaIpcGetEventHandle(&handle, event));
  EXPECT_EQ(
      run_elsewhere("SharingElsewhere.DISABLED_WaitsForAnEvent", to_hex(&handle, sizeof handle)),
      0);
  EXPECT_CUDA(cudaEventDestroy(event));
}

TEST_F(SharingElsewhere, DISABLED_WaitsForAnEvent) {
  cudaIpcEventHandle_t handle;
  from_hex(given(), &handle, sizeof handle);
  cudaEvent_t event = nullptr;
  ASSERT_CUDA(cudaIpcOpenEventHandle(&event, handle));
  EXPECT_CUDA(cudaEventQuery(event));
  EXPECT_CUDA(cudaStreamWaitEvent(nullptr, event, 0));
  EXPECT_CUDA(cudaEventDestroy(event));
}

}  // namespace
}  // namespace levee::simgpu
