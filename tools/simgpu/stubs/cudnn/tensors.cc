// Tensor and filter descriptors of cuDNN: set and read back in the 4-d and the n-d form, with or
// without strides.
#include <cudnn.h>

#include <algorithm>

#include "tools/simgpu/stubs/common/call.h"
#include "tools/simgpu/stubs/cudnn/shape.h"

using namespace levee::simgpu::stubs;

namespace {

/// Strides of a packed tensor.
void pack(Shape* shape) {
  const auto count = static_cast<std::size_t>(shape->count);
  int stride = 1;
  if (shape->format == CUDNN_TENSOR_NHWC && count > 2) {
    shape->strides[1] = 1;  // channels are innermost
    stride = shape->dimensions[1];
    for (std::size_t i = count - 1; i >= 2; --i) {
      shape->strides[i] = stride;
      stride *= shape->dimensions[i];
    }
    shape->strides[0] = stride;
    return;
  }
  for (std::size_t i = count; i-- > 0;) {
    shape->strides[i] = stride;
    stride *= shape->dimensions[i];
  }
}

/// `strides` may be null: packed.
cudnnStatus_t set_shape(const void* descriptor, cudnnTensorFormat_t format, cudnnDataType_t type,
                        int count, const int* dimensions, const int* strides) {
  Object* object = Object::from(descriptor);
  if (object == nullptr || dimensions == nullptr || count < 1 || count > CUDNN_DIM_MAX)
    return CUDNN_STATUS_BAD_PARAM;
  Shape shape;
  shape.type = type;
  shape.format = format;
  shape.count = count;
  std::copy_n(dimensions, count, shape.dimensions.begin());
  if (strides == nullptr) {
    pack(&shape);
  } else {
    std::copy_n(strides, count, shape.strides.begin());
  }
  object->set(kShapeKey, shape);
  return CUDNN_STATUS_SUCCESS;
}

void get_dimensions(const Shape& shape, int wanted, int* dimensions, int* strides) {
  const int count = std::clamp(wanted, 0, shape.count);
  if (dimensions != nullptr) std::copy_n(shape.dimensions.begin(), count, dimensions);
  if (strides != nullptr) std::copy_n(shape.strides.begin(), count, strides);
}

template <typename T>
void give(T* out, T value) {
  if (out != nullptr) *out = value;
}

}  // namespace

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensorDesc,
                                         cudnnTensorFormat_t format, cudnnDataType_t dataType,
                                         int n, int c, int h, int w) {
  SIMGPU_TRACE_CALL("cudnn");
  const int dimensions[] = {n, c, h, w};
  return set_shape(tensorDesc, format, dataType, 4, dimensions, nullptr);
}

cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensorDesc,
                                           cudnnDataType_t dataType, int n, int c, int h, int w,
                                           int nStride, int cStride, int hStride, int wStride) {
  SIMGPU_TRACE_CALL("cudnn");
  const int dimensions[] = {n, c, h, w};
  const int strides[] = {nStride, cStride, hStride, wStride};
  return set_shape(tensorDesc, CUDNN_TENSOR_NCHW, dataType, 4, dimensions, strides);
}

cudnnStatus_t cudnnGetTensor4dDescriptor(const cudnnTensorDescriptor_t tensorDesc,
                                         cudnnDataType_t* dataType, int* n, int* c, int* h, int* w,
                                         int* nStride, int* cStride, int* hStride, int* wStride) {
  SIMGPU_TRACE_CALL("cudnn");
  if (Object::from(tensorDesc) == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const Shape shape = shape_of(tensorDesc);
  give(dataType, shape.type);
  int* dimensions[] = {n, c, h, w};
  int* strides[] = {nStride, cStride, hStride, wStride};
  for (std::size_t i = 0; i < 4; ++i) {
    give(dimensions[i], shape.dimensions[i]);
    give(strides[i], shape.strides[i]);
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensorDesc,
                                         cudnnDataType_t dataType, int nbDims, const int dimA[],
                                         const int strideA[]) {
  SIMGPU_TRACE_CALL("cudnn");
  return set_shape(tensorDesc, CUDNN_TENSOR_NCHW, dataType, nbDims, dimA, strideA);
}

cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t tensorDesc,
                                           cudnnTensorFormat_t format, cudnnDataType_t dataType,
                                           int nbDims, const int dimA[]) {
  SIMGPU_TRACE_CALL("cudnn");
  return set_shape(tensorDesc, format, dataType, nbDims, dimA, nullptr);
}

cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t tensorDesc,
                                         int nbDimsRequested, cudnnDataType_t* dataType,
                                         int* nbDims, int dimA[], int strideA[]) {
  SIMGPU_TRACE_CALL("cudnn");
  if (Object::from(tensorDesc) == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const Shape shape = shape_of(tensorDesc);
  give(dataType, shape.type);
  give(nbDims, shape.count);
  get_dimensions(shape, nbDimsRequested, dimA, strideA);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t tensorDesc, size_t* size) {
  SIMGPU_TRACE_CALL("cudnn");
  if (Object::from(tensorDesc) == nullptr || size == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *size = static_cast<size_t>(shape_of(tensorDesc).bytes());
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filterDesc,
                                         cudnnDataType_t dataType, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w) {
  SIMGPU_TRACE_CALL("cudnn");
  const int dimensions[] = {k, c, h, w};
  return set_shape(filterDesc, format, dataType, 4, dimensions, nullptr);
}

cudnnStatus_t cudnnGetFilter4dDescriptor(const cudnnFilterDescriptor_t filterDesc,
                                         cudnnDataType_t* dataType, cudnnTensorFormat_t* format,
                                         int* k, int* c, int* h, int* w) {
  SIMGPU_TRACE_CALL("cudnn");
  if (Object::from(filterDesc) == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const Shape shape = shape_of(filterDesc);
  give(dataType, shape.type);
  give(format, shape.format);
  int* dimensions[] = {k, c, h, w};
  for (std::size_t i = 0; i < 4; ++i) give(dimensions[i], shape.dimensions[i]);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filterDesc,
                                         cudnnDataType_t dataType, cudnnTensorFormat_t format,
                                         int nbDims, const int filterDimA[]) {
  SIMGPU_TRACE_CALL("cudnn");
  return set_shape(filterDesc, format, dataType, nbDims, filterDimA, nullptr);
}

cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t filterDesc,
                                         int nbDimsRequested, cudnnDataType_t* dataType,
                                         cudnnTensorFormat_t* format, int* nbDims,
                                         int filterDimA[]) {
  SIMGPU_TRACE_CALL("cudnn");
  if (Object::from(filterDesc) == nullptr) return CUDNN_STATUS_BAD_PARAM;
  const Shape shape = shape_of(filterDesc);
  give(dataType, shape.type);
  give(format, shape.format);
  give(nbDims, shape.count);
  get_dimensions(shape, nbDimsRequested, filterDimA, nullptr);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetFilterSizeInBytes(const cudnnFilterDescriptor_t filterDesc, size_t* size) {
  SIMGPU_TRACE_CALL("cudnn");
  if (Object::from(filterDesc) == nullptr || size == nullptr) return CUDNN_STATUS_BAD_PARAM;
  *size = static_cast<size_t>(shape_of(filterDesc).bytes());
  return CUDNN_STATUS_SUCCESS;
}
