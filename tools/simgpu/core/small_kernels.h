// Kernels of PyTorch that decide what a program does next: fills, and logic on a few whole numbers.
//
// Loops end when such a result says so (`generate()` runs until no sequence is unfinished), so
// zeros would make them endless. These are computed for true: fills of up to 1 MiB; and, or, xor,
// not, equal, product on up to 4096 booleans or integers that lie side by side; max, min, sum, any
// and all over all elements of such a tensor. Anything else, and every floating point value but a
// fill, stays without effect. Promises: everything that is read from a launch is checked (counts,
// types, mapped memory) before it is used; what is not understood is left alone. Cost: a few
// microseconds for these kernels, nothing for others once the name was seen.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tools/simgpu/core/export.h"
#include "tools/simgpu/core/process.h"

namespace levee::simgpu {

/// Width and signedness of a whole number in memory.
struct WholeType {
  std::uint8_t bytes = 0;  ///< 0: none
  bool is_signed = true;
  bool is_bool = false;
};

/// What a kernel's name tells about what it computes.
struct SmallKernel {
  enum class Kind : std::uint8_t { kNone, kFill, kElementwise, kReduce };
  enum class Op : std::uint8_t { kAnd, kOr, kXor, kNot, kEqual, kProduct, kMax, kMin, kSum };
  Kind kind = Kind::kNone;
  Op op = Op::kAnd;
  WholeType in[2];
  WholeType out;
  std::uint8_t inputs = 0;      ///< tensors among the operands
  std::int8_t scalar = -1;      ///< which operand is a number in the functor
  bool converts = false;        ///< the tensors' own types are arguments
  std::uint8_t fill_bytes = 0;  ///< of the value of a fill
};
SIMGPU_CORE SmallKernel small_kernel_of_signature(const std::string& demangled);

/// The effect of a launch with these arguments, ready to run later; empty if it is not understood.
SIMGPU_CORE std::function<void()> effect_of_small_kernel(Process& process,
                                                         const SmallKernel& kernel,
                                                         void* const* arguments);

}  // namespace levee::simgpu
