// Kernels of PyTorch that do nothing but move bytes: concatenation, and copies from one layout to
// another.
//
// Promises: where a kernel's arguments are understood, its effect is the true one, since a program
// that gathers labels, collates batches or slices a tensor sees them as copies; where they are not
// (another layout of the structures in a later PyTorch, more than 64 MiB), nothing is moved and the
// caller treats the launch as any other. Everything is checked before it is used: the product of
// the sizes against the number of elements, every range against the memory that is mapped. Does
// not: convert types, compute. Cost: two lookups where the inputs hold nothing but zeros (nearly
// always: activations), else the bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tools/simgpu/core/export.h"
#include "tools/simgpu/core/process.h"

namespace levee::simgpu {

/// What a kernel's name tells about how it moves bytes.
struct Movement {
  enum class Kind : std::uint8_t { kNone, kConcatenate, kLayout };
  Kind kind = Kind::kNone;
  std::uint32_t element_bytes = 0;
  // Concatenation alone:
  std::uint32_t dimensions = 0;
  std::uint32_t batch = 0;         ///< inputs that the argument structure has room for
  std::uint32_t vector_bytes = 0;  ///< 0: element by element
  std::uint32_t vector_elements = 1;
};
/// `demangled`: the whole signature.
SIMGPU_CORE Movement movement_of_signature(const std::string& demangled);

/// The effect of a launch with these arguments, ready to run later (it needs them no more); empty
/// if it is not understood. `inputs`: the grid's second dimension.
SIMGPU_CORE std::function<void()> effect_of_movement(Process& process, const Movement& movement,
                                                     void* const* arguments, std::uint32_t inputs);

/// What a kernel of PyTorch's gpu_kernel writes, from its number of elements and its lambda;
/// nothing where the lambda is not understood, or where it leaves gaps between what it writes.
struct StridedOutput {
  DeviceAddr at;
  Bytes bytes;
};
SIMGPU_CORE StridedOutput strided_output(Process& process, const void* count, const void* lambda);

}  // namespace levee::simgpu
