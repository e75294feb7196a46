// Arithmetic of collectives: sizes of NCCL's types, and reductions over the contributions of all
// ranks.
//
// Promises: contributions are reduced in rank order, 16-bit and 8-bit floating point in single
// precision with one rounding at the end, so that every rank gets the same bits. Integers wrap
// around. Pure functions.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <span>

namespace levee::simgpu::nccl {

/// Bytes of one element; 0 for a type that does not exist.
std::size_t size_of(ncclDataType_t type);

/// What is done with the contributions. `ncclAvg` divides the sum by the number of contributions.
/// `out[i] = op(inputs[0][i], inputs[1][i], ...)` for `count` elements; `out` may be none of the
/// inputs.
void reduce(ncclDataType_t type, ncclRedOp_t op, std::span<const std::byte* const> inputs,
            std::byte* out, std::size_t count);

/// Multiplies `count` elements by `factor`, in place: what ncclRedOpCreatePreMulSum asks for before
/// the sum.
void scale(ncclDataType_t type, double factor, std::byte* data, std::size_t count);

/// The first element as a number.
double to_double(ncclDataType_t type, const std::byte* data);

}  // namespace levee::simgpu::nccl
