// Which rate a matrix product runs at: cuBLAS's compute type, math mode and operand type as a
// `Number` of common/cost.h.
#pragma once

#include <cublas_v2.h>

#include "tools/simgpu/stubs/common/cost.h"
#include "tools/simgpu/stubs/common/object.h"

namespace levee::simgpu::stubs {

constexpr Number compute_number(cublasComputeType_t compute, cudaDataType_t operand) {
  const Number of_operand = number_of(operand);
  switch (compute) {
    case CUBLAS_COMPUTE_32F_FAST_TF32:
      return {of_operand.bytes, kTf32.weight};
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return {of_operand.bytes, kHalf.weight};
    default:
      return of_operand;
  }
}

/// The rate of a routine named by its type: single precision uses TF32 where the handle's math mode
/// says so.
inline Number math_number(cublasHandle_t handle, Number number) {
  const Object* object = Object::from(handle);
  const bool tf32 = object != nullptr &&
                    object->get<cublasMath_t>("cublasMathMode") == CUBLAS_TF32_TENSOR_OP_MATH;
  return tf32 && number.weight == kSingle.weight ? Number{number.bytes, kTf32.weight} : number;
}

/// The rate of a routine that is told its compute type: plain single precision is the handle's to
/// speed up, the pedantic one is nobody's.
inline Number compute_number(cublasHandle_t handle, cublasComputeType_t compute,
                             cudaDataType_t operand) {
  const Number number = compute_number(compute, operand);
  return compute == CUBLAS_COMPUTE_32F ? math_number(handle, number) : number;
}

}  // namespace levee::simgpu::stubs
