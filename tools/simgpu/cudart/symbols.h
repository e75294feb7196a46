// Variables of device code (`__device__ int x;`), by the address of their host shadow.
#pragma once

#include "tools/simgpu/core/process.h"

namespace levee::simgpu::cudart {

/// Where the variable lives on the current device; allocated at first use. An error number of CUDA.
int symbol_address(Process& process, const void* symbol, void** address);
/// Its size, or 0 if no variable has this shadow.
std::size_t symbol_bytes(const void* symbol);

}  // namespace levee::simgpu::cudart
