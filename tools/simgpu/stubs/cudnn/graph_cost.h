// What an execution plan of cuDNN's graph API is called in a trace, how much work it is, and what
// it overwrites.
#pragma once

#include "tools/simgpu/stubs/common/cost.h"
#include "tools/simgpu/stubs/cudnn/backend_descriptor.h"

namespace levee::simgpu::stubs {

struct PlannedWork {
  const char* name;  ///< literal
  Cost cost;
};

/// The work of a CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: convolutions and products by their
/// shapes, anything else by the bytes of the tensors that it reads and writes. Tensors that are
/// virtual (they stay inside the fused kernel) cost nothing.
PlannedWork work_of_plan(const BackendDescriptor& plan);

/// Forgets what a plan overwrites, at the addresses that a CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR
/// gives.
void forget_outputs(const BackendDescriptor& plan, const BackendDescriptor& addresses);

/// Number type of a cuDNN data type.
Number number_of(cudnnDataType_t type);

}  // namespace levee::simgpu::stubs
