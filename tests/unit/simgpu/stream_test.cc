// Streams, events and host functions on modelled time.
#include <atomic>
#include <thread>

#include "tests/unit/simgpu/abi.h"
#include "tools/simgpu/simgpu_abi.h"

namespace levee::simgpu {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

class Streams : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    ASSERT_CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    ASSERT_CUDA(cudaStreamCreateWithPriority(&b, cudaStreamNonBlocking, -2));
    ASSERT_CUDA(cudaEventCreate(&first));
    ASSERT_CUDA(cudaEventCreate(&second));
  }
  void TearDown() override {
    EXPECT_CUDA(cudaDeviceSynchronize());
    EXPECT_CUDA(cudaStreamDestroy(a));
    EXPECT_CUDA(cudaStreamDestroy(b));
    EXPECT_CUDA(cudaEventDestroy(first));
    EXPECT_CUDA(cudaEventDestroy(second));
    CudaTest::TearDown();
  }
  cudaStream_t a = nullptr;
  cudaStream_t b = nullptr;
  cudaEvent_t first = nullptr;
  cudaEvent_t second = nullptr;
};

TEST_F(Streams, AnEventIsNotDoneBeforeTheWorkInFrontOfIt) {
  EXPECT_CUDA(cudaEventQuery(first)) << "never recorded";
  ASSERT_EQ(simgpu_launch_for(a, "long", 500 * kMillisecond), 0);
  ASSERT_CUDA(cudaEventRecord(first, a));
  EXPECT_EQ(cudaEventQuery(first), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(a), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  EXPECT_CUDA(cudaStreamQuery(b)) << "another stream";
  const std::int64_t before = simgpu_now_ns();
  ASSERT_CUDA(cudaEventSynchronize(first));
  EXPECT_GE(simgpu_now_ns() - before, 400 * kMillisecond) << "the wait is modelled";
  EXPECT_CUDA(cudaEventQuery(first));
}

TEST_F(Streams, ElapsedTimeIsThatOfTheWork) {
  ASSERT_CUDA(cudaEventRecord(first, a));
  ASSERT_EQ(simgpu_launch_for(a, "work", 20 * kMillisecond), 0);
  ASSERT_CUDA(cudaEventRecord(second, a));
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, first, second), cudaErrorNotReady);
  cudaGetLastError();
  ASSERT_CUDA(cudaStreamSynchronize(a));
  ASSERT_CUDA(cudaEventElapsedTime(&milliseconds, first, second));
  EXPECT_GE(milliseconds, 20.0F);
}

TEST_F(Streams, AWaitOrdersOneStreamBehindAnother) {
  ASSERT_EQ(simgpu_launch_for(a, "long", 300 * kMillisecond), 0);
  ASSERT_CUDA(cudaEventRecord(first, a));
  ASSERT_CUDA(cudaStreamWaitEvent(b, first, 0));
  EXPECT_EQ(cudaStreamQuery(b), cudaErrorNotReady);
  cudaGetLastError();
  const std::int64_t before = simgpu_now_ns();
  ASSERT_CUDA(cudaStreamSynchronize(b));
  EXPECT_GE(simgpu_now_ns() - before, 200 * kMillisecond);
}

TEST_F(Streams, TheyTellWhatTheyAre) {
  int priority = 0;
  unsigned flags = 0;
  EXPECT_CUDA(cudaStreamGetPriority(b, &priority));
  EXPECT_CUDA(cudaStreamGetFlags(b, &flags));
  EXPECT_EQ(priority, -2);
  EXPECT_EQ(flags, unsigned{cudaStreamNonBlocking});
  unsigned long long one = 0;
  unsigned long long other = 0;
  EXPECT_CUDA(cudaStreamGetId(a, &one));
  EXPECT_CUDA(cudaStreamGetId(b, &other));
  EXPECT_NE(one, other);
  int junk = 0;
  EXPECT_EQ(cudaStreamSynchronize(reinterpret_cast<cudaStream_t>(&junk)),
            cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

TEST_F(Streams, HostFunctionsRunInOrderAndBeforeASynchronisationReturns) {
  std::vector<int> order;
  struct Entry {
    std::vector<int>* order;
    int value;
  };
  std::vector<Entry> entries = {{&order, 1}, {&order, 2}, {&order, 3}};
  for (Entry& entry : entries) {
    ASSERT_EQ(simgpu_launch_for(a, "work", kMillisecond), 0);
    ASSERT_CUDA(cudaLaunchHostFunc(
        a,
        [](void* argument) {
          auto* it = static_cast<Entry*>(argument);
          it->order->push_back(it->value);
        },
        &entry));
  }
  ASSERT_CUDA(cudaStreamSynchronize(a));
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3));
}

TEST_F(Streams, HostFunctionsRunThoughNobodyCalls) {
  std::atomic<bool> has_run{false};
  ASSERT_CUDA(cudaLaunchHostFunc(
      a, [](void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }, &has_run));
  while (!has_run.load()) std::this_thread::yield();  // the test's own time limit ends it otherwise
  static std::atomic<int> status{-1};
  ASSERT_CUDA(cudaStreamAddCallback(
      a, [](cudaStream_t, cudaError_t error, void*) { status.store(error); }, nullptr, 0));
  ASSERT_CUDA(cudaStreamSynchronize(a));
  EXPECT_EQ(status.load(), 0);
}

TEST_F(Streams, WorkOnSeveralStreamsEndsTogether) {
  ASSERT_EQ(simgpu_launch_for(a, "long", 100 * kMillisecond), 0);
  const simgpu_stream both[] = {a, b};
  const int devices[] = {0, 0};
  ASSERT_EQ(simgpu_launch_together(both, devices, 2, "collective", 1e6), 0);
  EXPECT_EQ(cudaStreamQuery(b), cudaErrorNotReady);
  cudaGetLastError();
  EXPECT_EQ(simgpu_launch_together(both, devices, 0, "none", 0), int{cudaErrorInvalidValue});
}

TEST_F(Streams, TheJudgeSeesTwoStreamsOnTheSameBytes) {
  DeviceBlock block(1 << 20);
  const auto bytes = counting(1000);
  void* pinned = nullptr;
  ASSERT_CUDA(cudaHostAlloc(&pinned, 1000, 0));
  const std::uint64_t before = simgpu_violation_count();
  ASSERT_CUDA(cudaMemcpyAsync(block.get(), pinned, 1000, cudaMemcpyHostToDevice, a));
  ASSERT_CUDA(cudaEventRecord(first, a));
  ASSERT_CUDA(cudaStreamWaitEvent(b, first, 0));
  ASSERT_CUDA(cudaMemcpyAsync(block.get(), pinned, 1000, cudaMemcpyHostToDevice, b));
  EXPECT_EQ(simgpu_violation_count(), before) << "ordered by the event";
  ASSERT_CUDA(cudaMemcpyAsync(block.get(), pinned, 1000, cudaMemcpyHostToDevice, a));
  EXPECT_EQ(simgpu_violation_count(), before + 1);
  EXPECT_STRNE(simgpu_violation_text(before), "");
  ASSERT_CUDA(cudaDeviceSynchronize());
  EXPECT_CUDA(cudaFreeHost(pinned));
}

TEST_F(Streams, TheJudgeSeesBlockingCallsUnderAPoolLock) {
  const std::uint64_t before = simgpu_violation_count();
  simgpu_note_pool_lock(1);
  EXPECT_CUDA(cudaEventRecord(first, a));
  EXPECT_EQ(simgpu_violation_count(), before);
  EXPECT_CUDA(cudaStreamSynchronize(a));
  simgpu_note_pool_lock(0);
  EXPECT_EQ(simgpu_violation_count(), before + 1);
}

}  // namespace
}  // namespace levee::simgpu
