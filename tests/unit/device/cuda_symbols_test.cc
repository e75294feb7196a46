#include "allocator/device/cuda_symbols.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>

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

// ---- Runtimes and drivers that are not here

// Libraries that hold what a test says. Addresses are those of their names ("library:function").
struct FakeLibraries {
  std::set<std::string> loaded;
  std::set<std::string> present;
  std::set<std::string> missing;              // functions that no library has
  std::map<std::string, void*> entry_points;  // functions of the runtime that can be called
  cudaError_t answer = cudaSuccess;           // of the entry points
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSuccess;
  unsigned int version = 0;  // that was asked for
  int driver_opened = 0;
  std::set<std::string> names;  // what addresses point to

  void* address(const std::string& name) {
    return const_cast<std::string*>(&*names.insert(name).first);
  }
};
FakeLibraries* g_fake = nullptr;

constexpr Libraries kFake{
    [](const char* name, bool loaded_only) -> void* {
      if (std::string_view(name) == "libcuda.so.1") ++g_fake->driver_opened;
      const bool is_there =
          g_fake->loaded.count(name) + (loaded_only ? 0 : g_fake->present.count(name)) > 0;
      return is_there ? g_fake->address(name) : nullptr;
    },
    [](void* library, const char* name) -> void* {
      if (g_fake->missing.count(name) > 0) return nullptr;
      if (std::string_view(name).starts_with("cudaGetDriverEntryPoint")) {
        const auto at = g_fake->entry_points.find(name);
        return at == g_fake->entry_points.end() ? nullptr : at->second;
      }
      const std::string from =
          library == RTLD_DEFAULT ? "process" : *static_cast<std::string*>(library);
      return g_fake->address(from + ":" + name);
    }};

cudaError_t entry_point(const char* name, void** address, unsigned long long,
                        cudaDriverEntryPointQueryResult* result) {
  *address = g_fake->address(std::string("plain:") + name);
  *result = g_fake->result;
  return g_fake->answer;
}
cudaError_t entry_point_by_version(const char* name, void** address, unsigned int version,
                                   unsigned long long, cudaDriverEntryPointQueryResult* result) {
  g_fake->version = version;
  *address = g_fake->address(std::string("by version:") + name);
  *result = g_fake->result;
  return g_fake->answer;
}

class CudaSymbolsOfOthers : public testing::Test {
 protected:
  CudaSymbolsOfOthers() {
    fake.present = {"libcudart.so.13", "libcudart.so.12", "libcuda.so.1"};
    fake.missing = {"cudaStreamGetCaptureInfo_v2"};
    g_fake = &fake;
  }
  ~CudaSymbolsOfOthers() override { g_fake = nullptr; }
  void have_plain() {
    fake.entry_points["cudaGetDriverEntryPoint"] = reinterpret_cast<void*>(&entry_point);
  }
  void have_by_version() {
    fake.entry_points["cudaGetDriverEntryPointByVersion"] =
        reinterpret_cast<void*>(&entry_point_by_version);
  }
  template <typename Function>
  static std::string where(Function* function) {
    return function == nullptr ? "nowhere" : *reinterpret_cast<const std::string*>(function);
  }
  FakeLibraries fake;
};

TEST_F(CudaSymbolsOfOthers, TheRuntimeThatTheProcessHasIsTakenBeforeANewerOne) {
  fake.loaded = {"libcudart.so.12"};
  const CudaSymbols cuda = load_cuda_symbols(kFake);
  EXPECT_TRUE(cuda.is_usable()) << cuda.problem;
  EXPECT_EQ(where(cuda.malloc), "libcudart.so.12:cudaMalloc");
}

TEST_F(CudaSymbolsOfOthers, WhereNoRuntimeIsLoadedTheNewestIs) {
  EXPECT_EQ(where(load_cuda_symbols(kFake).malloc), "libcudart.so.13:cudaMalloc");
  fake.present.erase("libcudart.so.13");
  EXPECT_EQ(where(load_cuda_symbols(kFake).malloc), "libcudart.so.12:cudaMalloc");
}

TEST_F(CudaSymbolsOfOthers, WithoutARuntimeItSaysWhatToDo) {
  fake.present.clear();
  const CudaSymbols cuda = load_cuda_symbols(kFake);
  EXPECT_FALSE(cuda.is_usable());
  EXPECT_EQ(cuda.problem.find("The CUDA runtime (libcudart.so.13 or libcudart.so.12)"), 0U);
  EXPECT_EQ(cuda.malloc, nullptr);
}

TEST_F(CudaSymbolsOfOthers, TheFirstFunctionThatARuntimeLacksIsNamed) {
  fake.missing.insert({"cudaFree", "cudaEventQuery"});
  const CudaSymbols cuda = load_cuda_symbols(kFake);
  EXPECT_FALSE(cuda.is_usable());
  EXPECT_NE(cuda.problem.find("no function cudaFree;"), std::string::npos) << cuda.problem;
}

TEST_F(CudaSymbolsOfOthers, TheCaptureIsAskedInTheFormThatTheRuntimeHas) {
  CudaSymbols cuda = load_cuda_symbols(kFake);
  EXPECT_EQ(cuda.stream_get_capture_info_v2, nullptr);
  EXPECT_NE(cuda.stream_get_capture_info, nullptr);
  fake.missing.clear();
  cuda = load_cuda_symbols(kFake);
  EXPECT_NE(cuda.stream_get_capture_info_v2, nullptr);
  EXPECT_EQ(cuda.stream_get_capture_info, nullptr);
  fake.missing = {"cudaStreamGetCaptureInfo_v2", "cudaStreamGetCaptureInfo"};
  EXPECT_FALSE(load_cuda_symbols(kFake).is_usable());
}

TEST_F(CudaSymbolsOfOthers, ADriverFunctionIsAskedForInTheVersionOfOurHeaders) {
  have_plain();
  have_by_version();
  const CudaSymbols cuda = load_cuda_symbols(kFake);
  EXPECT_EQ(where(cuda.mem_map), "by version:cuMemMap");
  EXPECT_EQ(fake.version, 12'000U);
  EXPECT_TRUE(cuda.has_vmm_calls());
  EXPECT_EQ(fake.driver_opened, 0);
}

TEST_F(CudaSymbolsOfOthers, ARuntimeThatKnowsNoVersionsIsAskedWithoutOne) {
  have_plain();
  EXPECT_EQ(where(load_cuda_symbols(kFake).mem_map), "plain:cuMemMap");
  EXPECT_EQ(fake.driver_opened, 0);
}

TEST_F(CudaSymbolsOfOthers, WhatTheRuntimeDoesNotFindIsLookedForInTheDriver) {
  const auto from_driver = [this](const char* what) {
    SCOPED_TRACE(what);
    fake.driver_opened = 0;
    EXPECT_EQ(where(load_cuda_symbols(kFake).mem_map), "libcuda.so.1:cuMemMap");
    EXPECT_EQ(fake.driver_opened, 1) << "once for all functions";
  };
  from_driver("no entry points");
  for (const bool by_version : {false, true}) {
    have_plain();
    if (by_version) have_by_version();
    fake.answer = cudaErrorInvalidValue;
    from_driver("an error");
    fake.answer = cudaSuccess;
    fake.result = cudaDriverEntryPointVersionNotSufficent;
    from_driver("an older driver");
    fake.result = cudaDriverEntryPointSuccess;
  }
}

TEST_F(CudaSymbolsOfOthers, WithoutADriverTheRuntimeIsUsableWithoutVirtualMemory) {
  fake.present.erase("libcuda.so.1");
  const CudaSymbols cuda = load_cuda_symbols(kFake);
  EXPECT_TRUE(cuda.is_usable()) << cuda.problem;
  EXPECT_EQ(cuda.mem_map, nullptr);
  EXPECT_FALSE(cuda.has_vmm_calls());
}

TEST_F(CudaSymbolsOfOthers, AJudgeIsLookedForInTheProcess) {
  EXPECT_EQ(where(load_cuda_symbols(kFake).simgpu_note_use), "process:simgpu_note_use");
}

}  // namespace
}  // namespace levee::device
