// The text form of a fault plan: which driver calls fail, as a person writes it in SIMGPU_FAULTS.
//
//   "cudaMalloc:first=5"                       the fifth cudaMalloc fails with out of memory
//   "cuMemMap:first=3:every=2:times=4:error=1; cudaEventRecord:first=10:delay=5ms"
//
// Call names are those that `device::sim::name_of` gives. Keys: first, every, times (a number or
// "forever"), error (a cudaError_t), device, delay (of an event: a number with ns, us, ms or s, or
// "never").
#pragma once

#include <string>
#include <string_view>

#include "allocator/device/sim/fault_plan.h"
#include "tools/simgpu/core/export.h"

namespace levee::simgpu {

/// `problem` gets a sentence if the text is not a plan.
SIMGPU_CORE device::sim::FaultPlan parse_faults(std::string_view text, std::string* problem);
/// The plan, or the sentence on stderr and exit code 2.
device::sim::FaultPlan parse_faults_or_exit(std::string_view text);

}  // namespace levee::simgpu
