// cuDNN beyond the rules: versions, errors, sizes of dropout and batch normalisation, and the older
// convolution API's searches, which always find one algorithm.
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdio>

#include "tools/simgpu/stubs/common/call.h"
#include "tools/simgpu/stubs/common/versions.h"
#include "tools/simgpu/stubs/cudnn/shape.h"

using namespace levee::simgpu::stubs;

namespace {

/// The answer of a search for algorithms: one, without workspace, that works.
template <typename Performance, typename Algorithm>
cudnnStatus_t one_algorithm(cudnnHandle_t handle, Algorithm algorithm, int wanted, int* returned,
                            Performance* results) {
  if (Object::from(handle) == nullptr) return CUDNN_STATUS_BAD_PARAM;
  if (wanted < 1 || returned == nullptr || results == nullptr) return CUDNN_STATUS_BAD_PARAM;
  Performance& result = results[0];
  result = Performance{};
  result.algo = algorithm;
  result.status = CUDNN_STATUS_SUCCESS;
  result.time = 0.01F;  // milliseconds; there is nothing to compare it with
  result.determinism = CUDNN_DETERMINISTIC;
  result.mathType = CUDNN_TENSOR_OP_MATH;
  *returned = 1;
  return CUDNN_STATUS_SUCCESS;
}

constexpr auto kForward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr auto kBackwardData = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
constexpr auto kBackwardFilter = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

}  // namespace

size_t cudnnGetVersion(void) {
  SIMGPU_TRACE_CALL("cudnn");
  return CUDNN_VERSION;
}

size_t cudnnGetMaxDeviceVersion(void) {
  SIMGPU_TRACE_CALL("cudnn");
  return 1000;
}

size_t cudnnGetCudartVersion(void) {
  SIMGPU_TRACE_CALL("cudnn");
  return CUDART_VERSION;
}

cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  SIMGPU_TRACE_CALL("cudnn");
  return version_property(type, CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL, value)
             ? CUDNN_STATUS_SUCCESS
             : CUDNN_STATUS_BAD_PARAM;
}

void cudnnGetLastErrorString(char* message, size_t max_size) {
  SIMGPU_TRACE_CALL("cudnn");
  if (message != nullptr && max_size != 0) std::snprintf(message, max_size, "%s", "");
}

// What Philox states of every multiprocessor take on an A100-sized card; PyTorch keeps a tensor of
// this size.
cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t* sizeInBytes) {
  SIMGPU_TRACE_CALL("cudnn");
  if (Object::from(handle) == nullptr || sizeInBytes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *sizeInBytes = size_t{1} << 20;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDropoutGetReserveSpaceSize(cudnnTensorDescriptor_t xdesc, size_t* sizeInBytes) {
  SIMGPU_TRACE_CALL("cudnn");
  if (sizeInBytes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *sizeInBytes = static_cast<size_t>(shape_of(xdesc).elements() / 8) + 1;  // one bit an element
  return CUDNN_STATUS_SUCCESS;
}

// The statistics of a channel are kept for the backward pass; the activation's mask only if one is
// fused.
cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t /*mode*/, cudnnBatchNormOps_t bnOps,
    const cudnnActivationDescriptor_t /*activationDesc*/, const cudnnTensorDescriptor_t xDesc,
    size_t* sizeInBytes) {
  SIMGPU_TRACE_CALL("cudnn");
  if (Object::from(handle) == nullptr || sizeInBytes == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const bool has_mask = bnOps != CUDNN_BATCHNORM_OPS_BN;
  *sizeInBytes = has_mask ? static_cast<size_t>(shape_of(xDesc).elements() / 8) + 1 : 0;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t derivedBnDesc,
                                            const cudnnTensorDescriptor_t xDesc,
                                            cudnnBatchNormMode_t mode) {
  SIMGPU_TRACE_CALL("cudnn");
  const Shape x = shape_of(xDesc);
  if (x.count == 0) return CUDNN_STATUS_BAD_PARAM;
  std::array<int, CUDNN_DIM_MAX> dimensions{};
  dimensions.fill(1);
  const std::size_t last =
      mode == CUDNN_BATCHNORM_PER_ACTIVATION ? static_cast<std::size_t>(x.count) : 2;
  for (std::size_t i = 1; i < last; ++i) dimensions[i] = x.dimensions[i];
  return cudnnSetTensorNdDescriptorEx(derivedBnDesc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, x.count,
                                      dimensions.data());
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t /*srcDesc*/,
    const cudnnFilterDescriptor_t /*filterDesc*/, const cudnnConvolutionDescriptor_t /*convDesc*/,
    const cudnnTensorDescriptor_t /*destDesc*/, const int requestedAlgoCount,
    int* returnedAlgoCount, cudnnConvolutionFwdAlgoPerf_t* perfResults) {
  SIMGPU_TRACE_CALL("cudnn");
  return one_algorithm(handle, kForward, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t /*xDesc*/,
    const cudnnFilterDescriptor_t /*wDesc*/, const cudnnConvolutionDescriptor_t /*convDesc*/,
    const cudnnTensorDescriptor_t /*yDesc*/, const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionFwdAlgoPerf_t* perfResults) {
  SIMGPU_TRACE_CALL("cudnn");
  return one_algorithm(handle, kForward, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t /*xDesc*/, const void* /*x*/,
    const cudnnFilterDescriptor_t /*wDesc*/, const void* /*w*/,
    const cudnnConvolutionDescriptor_t /*convDesc*/, const cudnnTensorDescriptor_t /*yDesc*/,
    void* /*y*/, const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionFwdAlgoPerf_t* perfResults, void* /*workSpace*/,
    size_t /*workSpaceSizeInBytes*/) {
  SIMGPU_TRACE_CALL("cudnn");
  return one_algorithm(handle, kForward, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t /*filterDesc*/,
    const cudnnTensorDescriptor_t /*diffDesc*/, const cudnnConvolutionDescriptor_t /*convDesc*/,
    const cudnnTensorDescriptor_t /*gradDesc*/, const int requestedAlgoCount,
    int* returnedAlgoCount, cudnnConvolutionBwdDataAlgoPerf_t* perfResults) {
  SIMGPU_TRACE_CALL("cudnn");
  return one_algorithm(handle, kBackwardData, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t /*wDesc*/,
    const cudnnTensorDescriptor_t /*dyDesc*/, const cudnnConvolutionDescriptor_t /*convDesc*/,
    const cudnnTensorDescriptor_t /*dxDesc*/, const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionBwdDataAlgoPerf_t* perfResults) {
  SIMGPU_TRACE_CALL("cudnn");
  return one_algorithm(handle, kBackwardData, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t /*wDesc*/, const void* /*w*/,
    const cudnnTensorDescriptor_t /*dyDesc*/, const void* /*dy*/,
    const cudnnConvolutionDescriptor_t /*convDesc*/, const cudnnTensorDescriptor_t /*dxDesc*/,
    void* /*dx*/, const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionBwdDataAlgoPerf_t* perfResults, void* /*workSpace*/,
    size_t /*workSpaceSizeInBytes*/) {
  SIMGPU_TRACE_CALL("cudnn");
  return one_algorithm(handle, kBackwardData, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t /*srcDesc*/,
    const cudnnTensorDescriptor_t /*diffDesc*/, const cudnnConvolutionDescriptor_t /*convDesc*/,
    const cudnnFilterDescriptor_t /*gradDesc*/, const int requestedAlgoCount,
    int* returnedAlgoCount, cudnnConvolutionBwdFilterAlgoPerf_t* perfResults) {
  SIMGPU_TRACE_CALL("cudnn");
  return one_algorithm(handle, kBackwardFilter, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t /*xDesc*/,
    const cudnnTensorDescriptor_t /*dyDesc*/, const cudnnConvolutionDescriptor_t /*convDesc*/,
    const cudnnFilterDescriptor_t /*dwDesc*/, const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionBwdFilterAlgoPerf_t* perfResults) {
  SIMGPU_TRACE_CALL("cudnn");
  return one_algorithm(handle, kBackwardFilter, requestedAlgoCount, returnedAlgoCount, perfResults);
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t /*xDesc*/, const void* /*x*/,
    const cudnnTensorDescriptor_t /*dyDesc*/, const void* /*y*/,
    const cudnnConvolutionDescriptor_t /*convDesc*/, const cudnnFilterDescriptor_t /*dwDesc*/,
    void* /*dw*/, const int requestedAlgoCount, int* returnedAlgoCount,
    cudnnConvolutionBwdFilterAlgoPerf_t* perfResults, void* /*workSpace*/,
    size_t /*workSpaceSizeInBytes*/) {
  SIMGPU_TRACE_CALL("cudnn");
  return one_algorithm(handle, kBackwardFilter, requestedAlgoCount, returnedAlgoCount, perfResults);
}
