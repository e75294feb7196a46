// Shapes of cuDNN's plain descriptors (tensors and filters), as they are kept in the `Object`
// behind the descriptor; and what the library's plain functions cost, told from them.
#pragma once

#include <cudnn.h>

#include <array>

#include "tools/simgpu/stubs/common/cost.h"
#include "tools/simgpu/stubs/common/object.h"
#include "tools/simgpu/stubs/common/outputs.h"
#include "tools/simgpu/stubs/cudnn/graph_cost.h"

namespace levee::simgpu::stubs {

struct Shape {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  int count = 0;  ///< of dimensions; 0 until the descriptor is set
  std::array<int, CUDNN_DIM_MAX> dimensions{};
  std::array<int, CUDNN_DIM_MAX> strides{};

  double elements() const {
    double all = count == 0 ? 0 : 1;
    for (int i = 0; i < count; ++i) all *= dimensions[static_cast<std::size_t>(i)];
    return all;
  }
  double bytes() const { return elements() * number_of(type).bytes; }
};

inline constexpr const char* kShapeKey = "shape";

/// The shape behind a tensor or filter descriptor; an empty one if it was never set.
inline Shape shape_of(const void* descriptor) {
  const Object* object = Object::from(descriptor);
  return object == nullptr ? Shape{} : object->get<Shape>(kShapeKey);
}

// Costs that the generator's rules name (families.py).

/// Reads or writes a tensor `passes` times.
inline Cost pass_cost(const void* tensor, double passes) {
  return {0, shape_of(tensor).bytes() * passes};
}

/// A convolution in any direction: every element of the larger side meets every element of one
/// filter.
inline Cost convolution_cost(const void* filter, const void* outer) {
  const Shape weights = shape_of(filter);
  const Shape activations = shape_of(outer);
  const double per_output = weights.count == 0 ? 0 : weights.elements() / weights.dimensions[0];
  return {2 * activations.elements() * per_output * number_of(activations.type).weight,
          activations.bytes() * 2 + weights.bytes()};
}

/// A tensor that a kernel overwrites.
inline void forget_tensor(const void* descriptor, void* data) {
  const Shape shape = shape_of(descriptor);
  double last = 0;  // the element that lies farthest away
  for (int i = 0; i < shape.count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    last += (shape.dimensions[at] - 1.0) * shape.strides[at];
  }
  // A view with gaps may hold others' values between its own; only dense tensors are forgotten.
  if (shape.count != 0 && last + 1 == shape.elements()) forget(data, shape.bytes());
}

/// One pass of a recurrent network over a batch of sequences.
Cost recurrent_cost(const void* network, const void* sequences);

}  // namespace levee::simgpu::stubs
