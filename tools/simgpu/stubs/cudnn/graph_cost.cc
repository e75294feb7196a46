#include "tools/simgpu/stubs/cudnn/graph_cost.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "tools/simgpu/stubs/common/outputs.h"

namespace levee::simgpu::stubs {
namespace {

using Descriptor = std::shared_ptr<const BackendDescriptor>;

double product(const std::vector<std::int64_t>& dimensions, std::size_t from = 0) {
  double all = dimensions.empty() ? 0 : 1;
  for (std::size_t i = from; i < dimensions.size(); ++i) all *= static_cast<double>(dimensions[i]);
  return all;
}

std::vector<std::int64_t> shape_of(const Descriptor& tensor) {
  return tensor == nullptr ? std::vector<std::int64_t>{}
                           : tensor->integers(CUDNN_ATTR_TENSOR_DIMENSIONS);
}

Number number_of_tensor(const Descriptor& tensor) {
  if (tensor == nullptr) return kSingle;
  return number_of(
      static_cast<cudnnDataType_t>(tensor->value(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT)));
}

/// Every output element takes one multiplication and addition per element of a filter.
double convolution_flops(const Descriptor& filter, const Descriptor& output) {
  return 2 * product(shape_of(output)) * product(shape_of(filter), 1) *
         number_of_tensor(filter).weight;
}

double matmul_flops(const Descriptor& a, const Descriptor& c) {
  const std::vector<std::int64_t> shape = shape_of(a);
  const double k = shape.empty() ? 0 : static_cast<double>(shape.back());
  return 2 * product(shape_of(c)) * k * number_of_tensor(a).weight;
}

/// Bytes of the real tensors among the children; each counts once per graph, by its identity.
double tensor_bytes(const Descriptor& operation, std::set<std::int64_t>* seen) {
  double bytes = 0;
  for (const Descriptor& child : operation->children()) {
    if (child->type() != CUDNN_BACKEND_TENSOR_DESCRIPTOR) continue;
    if (child->value(CUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0) continue;
    const std::vector<std::int64_t> id = child->integers(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (!id.empty() && !seen->insert(id.front()).second) continue;
    bytes += product(shape_of(child)) * number_of_tensor(child).bytes;
  }
  return bytes;
}

std::vector<Descriptor> operations_of(const BackendDescriptor& plan) {
  const Descriptor config = plan.child(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const Descriptor engine =
      config == nullptr ? nullptr : config->child(CUDNN_ATTR_ENGINECFG_ENGINE);
  const Descriptor graph =
      engine == nullptr ? nullptr : engine->child(CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  const auto* operations = graph == nullptr ? nullptr : graph->find(CUDNN_ATTR_OPERATIONGRAPH_OPS);
  return operations == nullptr ? std::vector<Descriptor>{} : operations->children;
}

/// Attributes of operations that name a tensor which the operation writes.
constexpr std::array kOutputs = {
    CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
    CUDNN_ATTR_OPERATION_POINTWISE_DXDESC,          CUDNN_ATTR_OPERATION_MATMUL_CDESC,
    CUDNN_ATTR_OPERATION_REDUCTION_YDESC,           CUDNN_ATTR_OPERATION_NORM_FWD_YDESC,
    CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC,
};

/// Bytes of a tensor without gaps; 0 for a view with gaps, which may hold others' values between
/// its own.
double dense_bytes(const Descriptor& tensor) {
  const std::vector<std::int64_t> shape = shape_of(tensor);
  const std::vector<std::int64_t> strides = tensor->integers(CUDNN_ATTR_TENSOR_STRIDES);
  if (strides.size() != shape.size()) return 0;
  double last = 0;
  for (std::size_t i = 0; i < shape.size(); ++i)
    last += static_cast<double>((shape[i] - 1) * strides[i]);
  return last + 1 == product(shape) ? product(shape) * number_of_tensor(tensor).bytes : 0;
}

PlannedWork work_of(const Descriptor& operation) {
  const BackendDescriptor& op = *operation;
  switch (op.type()) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {"cudnn_convolution_forward",
              {convolution_flops(op.child(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W),
                                 op.child(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y)),
               0}};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {"cudnn_convolution_backward_data",
              {convolution_flops(op.child(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W),
                                 op.child(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY)),
               0}};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
      return {"cudnn_convolution_backward_filter",
              {convolution_flops(op.child(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW),
                                 op.child(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY)),
               0}};
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return {"cudnn_matmul_fusion",
              {matmul_flops(op.child(CUDNN_ATTR_OPERATION_MATMUL_ADESC),
                            op.child(CUDNN_ATTR_OPERATION_MATMUL_CDESC)),
               0}};
    case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR:
      return {"cudnn_norm_forward", {}};
    case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR:
      return {"cudnn_norm_backward", {}};
    default:
      return {"cudnn_fused_graph", {}};
  }
}

}  // namespace

Number number_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return kDouble;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return kHalf;
    case CUDNN_DATA_INT64:
      return {8, 16};
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN:
    case CUDNN_DATA_FP8_E4M3:
    case CUDNN_DATA_FP8_E5M2:
      return kByte;
    // PyTorch lets cuDNN use TF32 for single precision by default
    // (torch.backends.cudnn.allow_tf32).
    default:
      return kTf32;
  }
}

PlannedWork work_of_plan(const BackendDescriptor& plan) {
  PlannedWork work{"cudnn_graph", {}};
  std::set<std::int64_t> seen;
  double most_flops = -1;
  for (const Descriptor& operation : operations_of(plan)) {
    const PlannedWork part = work_of(operation);
    // A fused graph is named after its heaviest operation.
    if (part.cost.flops > most_flops) {
      most_flops = part.cost.flops;
      work.name = part.name;
    }
    work.cost = work.cost + part.cost + Cost{0, tensor_bytes(operation, &seen)};
  }
  return work;
}

void forget_outputs(const BackendDescriptor& plan, const BackendDescriptor& addresses) {
  const std::vector<std::int64_t> ids = addresses.integers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto* pointers = addresses.find(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (pointers == nullptr || pointers->bytes.size() < ids.size() * sizeof(void*)) return;
  for (const Descriptor& operation : operations_of(plan)) {
    for (const cudnnBackendAttributeName_t name : kOutputs) {
      const Descriptor tensor = operation->child(name);
      if (tensor == nullptr) continue;
      const std::vector<std::int64_t> id = tensor->integers(CUDNN_ATTR_TENSOR_UNIQUE_ID);
      const auto found = id.empty() ? ids.end() : std::find(ids.begin(), ids.end(), id.front());
      if (found == ids.end()) continue;  // virtual
      void* address = nullptr;
      const auto index = static_cast<std::size_t>(found - ids.begin());
      std::memcpy(&address, pointers->bytes.data() + index * sizeof address, sizeof address);
      forget(address, dense_bytes(tensor));
    }
  }
}

}  // namespace levee::simgpu::stubs
