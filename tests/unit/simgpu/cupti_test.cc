// CUPTI as a profiler uses it.
#include <cupti.h>

#include <cstdlib>
#include <map>
#include <string>

#include "allocator/base/clock.h"
#include "tests/unit/simgpu/abi.h"
#include "tools/simgpu/simgpu_abi.h"

namespace levee::simgpu {
namespace {

struct Seen {
  std::map<int, int> kinds;
  std::vector<CUpti_ActivityKernel10> kernels;
  std::vector<CUpti_ActivityMemcpy6> copies;
  std::vector<CUpti_ActivityAPI> calls;
  std::vector<CUpti_ActivityExternalCorrelation> external;
};
Seen seen;

void request(std::uint8_t** buffer, std::size_t* bytes, std::size_t* records) {
  *bytes = 4096;  // small, so that several are needed
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, *bytes));
  *records = 0;
}

void complete(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    ++seen.kinds[record->kind];
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      seen.kernels.push_back(*reinterpret_cast<CUpti_ActivityKernel10*>(record));
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      seen.copies.push_back(*reinterpret_cast<CUpti_ActivityMemcpy6*>(record));
    } else if (record->kind == CUPTI_ACTIVITY_KIND_RUNTIME) {
      seen.calls.push_back(*reinterpret_cast<CUpti_ActivityAPI*>(record));
    } else if (record->kind == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) {
      seen.external.push_back(*reinterpret_cast<CUpti_ActivityExternalCorrelation*>(record));
    }
  }
  std::free(buffer);
}

constexpr CUpti_ActivityKind kKinds[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};

class Cupti : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    seen = {};
    ASSERT_EQ(cuptiActivityRegisterCallbacks(&request, &complete), CUPTI_SUCCESS);
    for (const CUpti_ActivityKind kind : kKinds)
      ASSERT_EQ(cuptiActivityEnable(kind), CUPTI_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(cuptiFinalize(), CUPTI_SUCCESS);
    CudaTest::TearDown();
  }
  /// As profilers do: off first, then what is left.
  static void stop_and_flush() {
    for (const CUpti_ActivityKind kind : kKinds)
      EXPECT_EQ(cuptiActivityDisable(kind), CUPTI_SUCCESS);
    EXPECT_EQ(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), CUPTI_SUCCESS);
  }
};

TEST_F(Cupti, AKernelHasItsModelledDurationAndTheCallThatLaunchedIt) {
  ASSERT_EQ(simgpu_launch_for(nullptr, "a kernel", 3'000'000), 0);
  ASSERT_CUDA(cudaDeviceSynchronize());
  stop_and_flush();
  ASSERT_EQ(seen.kernels.size(), 1U);
  const CUpti_ActivityKernel10& kernel = seen.kernels[0];
  EXPECT_STREQ(kernel.name, "a kernel");
  EXPECT_EQ(kernel.end - kernel.start, 3'000'000U);
  EXPECT_EQ(kernel.streamId, 7U);
  EXPECT_EQ(kernel.contextId, 1U);
  bool is_launched = false;
  for (const CUpti_ActivityAPI& call : seen.calls) {
    if (call.correlationId != kernel.correlationId) continue;
    is_launched = true;
    EXPECT_EQ(call.cbid, CUpti_CallbackId{CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000});
    EXPECT_LE(call.start, kernel.start);
    EXPECT_LE(call.start, call.end);
  }
  EXPECT_TRUE(is_launched);
}

TEST_F(Cupti, CopiesTellTheirDirectionAndMemory) {
  DeviceBlock block(1 << 20);
  void* pinned = nullptr;
  ASSERT_CUDA(cudaHostAlloc(&pinned, 1000, 0));
  char pageable[100] = {};
  ASSERT_CUDA(cudaMemcpyAsync(block.get(), pinned, 1000, cudaMemcpyHostToDevice, nullptr));
  ASSERT_CUDA(cudaMemcpy(pageable, block.get(), 100, cudaMemcpyDeviceToHost));
  ASSERT_CUDA(cudaMemset(block.get(), 1, 10));
  stop_and_flush();
  ASSERT_EQ(seen.copies.size(), 2U);
  EXPECT_EQ(seen.copies[0].copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD);
  EXPECT_EQ(seen.copies[0].srcKind, CUPTI_ACTIVITY_MEMORY_KIND_PINNED);
  EXPECT_EQ(seen.copies[0].bytes, 1000U);
  EXPECT_EQ(seen.copies[1].copyKind, CUPTI_ACTIVITY_MEMCPY_KIND_DTOH);
  EXPECT_EQ(seen.copies[1].dstKind, CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE);
  EXPECT_EQ(seen.kinds[CUPTI_ACTIVITY_KIND_MEMSET], 1);
  EXPECT_CUDA(cudaFreeHost(pinned));
}

TEST_F(Cupti, ExternalIdsAreTiedToTheCallsMadeUnderThem) {
  ASSERT_EQ(cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 42),
            CUPTI_SUCCESS);
  ASSERT_EQ(simgpu_launch(nullptr, "tied", 0, 0), 0);
  std::uint64_t id = 0;
  ASSERT_EQ(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &id),
            CUPTI_SUCCESS);
  EXPECT_EQ(id, 42U);
  EXPECT_EQ(cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, &id),
            CUPTI_ERROR_QUEUE_EMPTY);
  ASSERT_CUDA(cudaDeviceSynchronize());
  stop_and_flush();
  ASSERT_EQ(seen.external.size(), 1U);
  EXPECT_EQ(seen.external[0].externalId, 42U);
  ASSERT_EQ(seen.kernels.size(), 1U);
  EXPECT_EQ(seen.external[0].correlationId, seen.kernels[0].correlationId);
}

TEST_F(Cupti, ManyRecordsFillManyBuffersAndNoneIsLost) {
  for (int i = 0; i < 500; ++i) ASSERT_EQ(simgpu_launch(nullptr, "one of many", 0, 0), 0);
  ASSERT_CUDA(cudaDeviceSynchronize());
  stop_and_flush();
  EXPECT_EQ(seen.kernels.size(), 500U);
  for (std::size_t i = 1; i < seen.kernels.size(); ++i)
    ASSERT_GE(seen.kernels[i].start, seen.kernels[i - 1].end);
}

TEST_F(Cupti, NothingIsRecordedWhileNothingIsWanted) {
  stop_and_flush();
  seen = {};
  ASSERT_EQ(simgpu_launch(nullptr, "unseen", 0, 0), 0);
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(cuptiActivityFlushAll(0), CUPTI_SUCCESS);
  EXPECT_TRUE(seen.kinds.empty());
}

TEST_F(Cupti, FunctionsCanBeLeftOut) {
  ASSERT_EQ(cuptiActivityEnableRuntimeApi(CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020, 0),
            CUPTI_SUCCESS);
  int device = 0;
  ASSERT_CUDA(cudaGetDevice(&device));
  ASSERT_CUDA(cudaDeviceSynchronize());
  stop_and_flush();
  for (const CUpti_ActivityAPI& call : seen.calls) {
    EXPECT_NE(call.cbid, CUpti_CallbackId{CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020});
  }
  EXPECT_FALSE(seen.calls.empty());
  ASSERT_EQ(cuptiActivityEnableRuntimeApi(CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020, 1),
            CUPTI_SUCCESS);
}

std::vector<std::string> entered;
void on_call(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void* data) {
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  if (call->callbackSite == CUPTI_API_ENTER) entered.push_back(call->functionName);
}

TEST_F(Cupti, ThereIsOneSubscriberAtATime) {
  entered.clear();
  CUpti_SubscriberHandle first = nullptr;
  CUpti_SubscriberHandle second = nullptr;
  ASSERT_EQ(cuptiSubscribe(&first, &on_call, nullptr), CUPTI_SUCCESS);
  EXPECT_EQ(cuptiSubscribe(&second, &on_call, nullptr),
            CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
  ASSERT_EQ(cuptiEnableCallback(1, first, CUPTI_CB_DOMAIN_RUNTIME_API,
                                CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020),
            CUPTI_SUCCESS);
  EXPECT_CUDA(cudaFree(nullptr));
  int device = 0;
  EXPECT_CUDA(cudaGetDevice(&device));
  EXPECT_THAT(entered, testing::ElementsAre("cudaFree"));
  ASSERT_EQ(cuptiUnsubscribe(first), CUPTI_SUCCESS);
  ASSERT_EQ(cuptiSubscribe(&second, &on_call, nullptr), CUPTI_SUCCESS);
  EXPECT_EQ(cuptiUnsubscribe(second), CUPTI_SUCCESS);
}

std::uint64_t host_clock() {
  return static_cast<std::uint64_t>(base::Clock::monotonic().value);
}
std::uint64_t simulation_clock() {
  return static_cast<std::uint64_t>(simgpu_now_ns());
}

TEST_F(Cupti, AProfilerWithAClockOfTheHostSeesNothingEndAfterItLooked) {
  // The simulation is ahead of the host when the profiler comes.
  ASSERT_EQ(simgpu_launch_for(nullptr, "before", 500'000'000), 0);
  ASSERT_CUDA(cudaDeviceSynchronize());
  stop_and_flush();
  seen = {};
  ASSERT_EQ(cuptiActivityRegisterTimestampCallback(&host_clock), CUPTI_SUCCESS);
  const std::uint64_t opened = host_clock();
  for (const CUpti_ActivityKind kind : kKinds) ASSERT_EQ(cuptiActivityEnable(kind), CUPTI_SUCCESS);
  ASSERT_EQ(simgpu_launch_for(nullptr, "watched", 30'000'000), 0);
  ASSERT_CUDA(cudaDeviceSynchronize());
  const std::uint64_t closed = host_clock();
  stop_and_flush();
  EXPECT_EQ(cuptiActivityRegisterTimestampCallback(&simulation_clock), CUPTI_SUCCESS);
  ASSERT_EQ(seen.kernels.size(), 1U);
  EXPECT_GE(closed - opened, 30'000'000U) << "the wait took its time";
  EXPECT_GE(seen.kernels[0].start, opened);
  EXPECT_LE(seen.kernels[0].end, closed);
  EXPECT_NEAR(static_cast<double>(seen.kernels[0].end - seen.kernels[0].start), 30e6, 30e3);
  // And the simulation runs ahead again.
  const std::uint64_t before = host_clock();
  ASSERT_EQ(simgpu_launch_for(nullptr, "after", 60'000'000'000), 0);
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_LT(host_clock() - before, 30'000'000'000U);
}

TEST_F(Cupti, TheUnmodelledFailsWithItsName) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(cuptiActivityConfigurePCSampling(nullptr, nullptr), CUPTI_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("cuptiActivityConfigurePCSampling"));
}

}  // namespace
}  // namespace levee::simgpu
