// Capture and graphs.
#include "tests/unit/simgpu/abi.h"
#include "tools/simgpu/simgpu_abi.h"

namespace levee::simgpu {
namespace {

using ::testing::Each;

class Graphs : public CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    ASSERT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  void TearDown() override {
    EXPECT_CUDA(cudaStreamDestroy(stream));
    CudaTest::TearDown();
  }
  cudaStream_t stream = nullptr;
};

TEST_F(Graphs, CapturedWorkHappensAtEachLaunch) {
  DeviceBlock block(1000);
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  EXPECT_CUDA(cudaStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr, nullptr));
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  EXPECT_NE(id, 0U);
  EXPECT_EQ(simgpu_is_capturing(stream), 1);
  EXPECT_EQ(simgpu_launch(stream, "kernel", 0, 0), 0);
  EXPECT_CUDA(cudaMemsetAsync(block.get(), 5, 100, stream));
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT_CUDA(cudaStreamIsCapturing(stream, &status));
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);

  std::size_t count = 0;
  EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
  EXPECT_EQ(count, 2U);
  std::vector<cudaGraphNode_t> nodes(count);
  EXPECT_CUDA(cudaGraphGetNodes(graph, nodes.data(), &count));
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  EXPECT_CUDA(cudaGraphNodeGetType(nodes[1], &type));
  EXPECT_EQ(type, cudaGraphNodeTypeMemset);
  std::size_t before_it = 0;
  EXPECT_CUDA(cudaGraphNodeGetDependencies(nodes[1], nullptr, nullptr, &before_it));
  EXPECT_EQ(before_it, 1U);

  std::vector<std::uint8_t> bytes(100, 0xEE);
  EXPECT_CUDA(cudaMemcpy(bytes.data(), block.get(), 100, cudaMemcpyDeviceToHost));
  EXPECT_THAT(bytes, Each(0)) << "nothing happened while capturing";
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_CUDA(cudaGraphDestroy(graph));
  EXPECT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaMemcpy(bytes.data(), block.get(), 100, cudaMemcpyDeviceToHost));
  EXPECT_THAT(bytes, Each(5));
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
}

TEST_F(Graphs, ForbiddenCallsEndTheCapture) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  void* block = nullptr;
  EXPECT_EQ(cudaMalloc(&block, 1000), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(Graphs, ARelaxedThreadMayAllocateMeanwhile) {
  ASSERT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  { DeviceBlock block(1000); }
  ASSERT_CUDA(cudaThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, cudaStreamCaptureModeRelaxed);
  cudaGraph_t graph = nullptr;
  EXPECT_CUDA(cudaStreamEndCapture(stream, &graph));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

TEST_F(Graphs, UserObjectsLiveAsLongAsWhoHoldsThem) {
  int destroyed = 0;
  cudaUserObject_t object = nullptr;
  ASSERT_CUDA(cudaUserObjectCreate(
      &object, &destroyed, [](void* count) { ++*static_cast<int*>(count); }, 1,
      cudaUserObjectNoDestructorSync));
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  ASSERT_CUDA(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiateWithFlags(&exec, graph, 0));
  ASSERT_CUDA(cudaGraphDestroy(graph));
  EXPECT_EQ(destroyed, 0) << "the executable graph still holds it";
  ASSERT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(cudaUserObjectRelease(object, 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
}

TEST_F(Graphs, ConditionsAreAcceptedAndTheirBodiesAreGraphs) {
  cudaGraph_t graph = nullptr;
  ASSERT_CUDA(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle handle = 0;
  ASSERT_CUDA(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle;
  parameters.conditional.type = cudaGraphCondTypeIf;
  parameters.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
  ASSERT_CUDA(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters));
  ASSERT_NE(parameters.conditional.phGraph_out, nullptr);
  ASSERT_CUDA(cudaStreamBeginCaptureToGraph(stream, parameters.conditional.phGraph_out[0], nullptr,
                                            nullptr, 0, cudaStreamCaptureModeRelaxed));
  EXPECT_EQ(simgpu_launch(stream, "body", 0, 0), 0);
  cudaGraph_t body = nullptr;
  ASSERT_CUDA(cudaStreamEndCapture(stream, &body));
  EXPECT_EQ(body, parameters.conditional.phGraph_out[0]);
  cudaGraphExec_t exec = nullptr;
  ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  EXPECT_CUDA(cudaGraphLaunch(exec, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  EXPECT_CUDA(cudaGraphExecDestroy(exec));
  EXPECT_CUDA(cudaGraphDestroy(graph));
}

}  // namespace
}  // namespace levee::simgpu
