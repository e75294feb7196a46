#include "allocator/device/cuda_symbols.h"

#include <gtest/gtest.h>

namespace levee::device {
namespace {

TEST(CudaSymbols, TheTableIsCompleteOrSaysWhatIsMissing) {
  const CudaSymbols& cuda = cuda_symbols();
  if (!cuda.is_usable()) {
    EXPECT_EQ(cuda.problem.back(), '.') << cuda.problem;
    EXPECT_NE(cuda.problem.find("CUDA"), std::string::npos) << cuda.problem;
    return;
  }
  EXPECT_NE(cuda.get_device_count, nullptr);
  EXPECT_NE(cuda.malloc, nullptr);
  EXPECT_NE(cuda.event_query, nullptr);
  // One form of the capture question, never both: they take different parameters.
  EXPECT_NE(cuda.stream_get_capture_info == nullptr, cuda.stream_get_capture_info_v2 == nullptr);
}

TEST(CudaSymbols, OnTheStandInGpuTheDriverIsFoundThroughTheRuntime) {
  const CudaSymbols& cuda = cuda_symbols();
  if (cuda.simgpu_note_use == nullptr) GTEST_SKIP() << "not on the stand-in GPU";
  EXPECT_TRUE(cuda.is_usable()) << cuda.problem;
  EXPECT_TRUE(cuda.has_vmm_calls());
  EXPECT_NE(cuda.device_get_name, nullptr);
}

TEST(CudaSymbols, ThereIsOneTable) {
  EXPECT_EQ(&cuda_symbols(), &cuda_symbols());
}

TEST(CudaSymbols, TheJudgeIsThereOnTheStandInGpuAlone) {
  EXPECT_EQ(cuda_symbols().simgpu_note_use == nullptr,
            cuda_symbols().simgpu_note_pool_lock == nullptr);
}

}  // namespace
}  // namespace levee::device
