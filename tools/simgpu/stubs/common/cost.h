// How much work the calls of the math libraries are, for the roofline model behind `simgpu_launch`.
//
// Promises: pure functions of the shapes, the textbook operation counts. `flops` are counted in
// units of the card's dense half-precision rate, which is the rate that the model knows: a type
// that the card works on more slowly counts more. The weights are the ratios of an A100's data
// sheet (dense: fp16/bf16 312, tf32 156, int8 624, fp32 19.5, fp64 with tensor cores 19.5 TFLOP/s).
// `bytes` are those of the operands, each read or written once.
#pragma once

#include <cstdint>

#include <library_types.h>

namespace levee::simgpu::stubs {

struct Cost {
  double flops = 0;
  double bytes = 0;

  friend constexpr Cost operator+(Cost a, Cost b) { return {a.flops + b.flops, a.bytes + b.bytes}; }
  friend constexpr Cost operator*(Cost a, double n) { return {a.flops * n, a.bytes * n}; }
};

/// Size of an element and what one of its operations costs in half-precision operations.
struct Number {
  double bytes;
  double weight;
};

inline constexpr Number kHalf{2, 1};
inline constexpr Number kTf32{4, 2};
inline constexpr Number kSingle{4, 16};
inline constexpr Number kDouble{8, 16};
inline constexpr Number kComplexSingle{8, 64};  // a complex product is four real ones
inline constexpr Number kComplexDouble{16, 64};
inline constexpr Number kByte{1, 0.5};

constexpr Number number_of(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
      return kSingle;
    case CUDA_R_64F:
      return kDouble;
    case CUDA_C_32F:
      return kComplexSingle;
    case CUDA_C_64F:
      return kComplexDouble;
    case CUDA_R_16F:
    case CUDA_R_16BF:
      return kHalf;
    case CUDA_R_8I:
    case CUDA_R_8U:
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return kByte;
    default:
      return kSingle;
  }
}

/// m x k times k x n, `batch` times. Counts are doubles: the libraries pass int, int64_t and
/// uint64_t.
constexpr Cost gemm(double m, double n, double k, double batch, Number number) {
  return Cost{2 * m * n * k * number.weight, (m * k + k * n + m * n) * number.bytes} * batch;
}
/// m x n matrix times a vector: every element of the matrix is used once.
constexpr Cost gemv(double m, double n, double batch, Number number) {
  return Cost{2 * m * n * number.weight, (m * n + m + n) * number.bytes} * batch;
}
/// A vector operation over n elements with `operands` vectors.
constexpr Cost vector(double n, double operands, Number number) {
  return Cost{2 * n * number.weight, operands * n * number.bytes};
}
/// Triangular solve with an m x m factor and n right-hand sides.
constexpr Cost triangular_solve(double m, double n, double batch, Number number) {
  return Cost{m * m * n * number.weight, (m * m / 2 + 2 * m * n) * number.bytes} * batch;
}
/// A factorisation of an m x n matrix that takes `factor` * m * n * min(m, n) operations.
constexpr Cost factorisation(double factor, double m, double n, double batch, Number number) {
  return Cost{factor * m * n * (m < n ? m : n) * number.weight, 2 * m * n * number.bytes} * batch;
}

}  // namespace levee::simgpu::stubs
