// What the libraries' kernels overwrite. Nothing is computed, but what lay there before must not be
// taken for a result: the bytes are forgotten and read as 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tools/simgpu/simgpu_abi.h"
#include "tools/simgpu/stubs/common/cost.h"

namespace levee::simgpu::stubs {

inline void forget(void* address, double bytes) {
  if (address != nullptr && bytes >= 1) simgpu_forget(address, static_cast<std::size_t>(bytes));
}

/// A column-major matrix whose columns lie `ld` elements apart. What lies between its columns is
/// another's and stays.
inline void forget_matrix(void* matrix, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                          Number number) {
  if (rows <= 0 || columns <= 0) return;
  const double column_bytes = static_cast<double>(rows) * number.bytes;
  if (ld == rows || columns == 1) {
    forget(matrix, column_bytes * static_cast<double>(columns));
    return;
  }
  const std::int64_t step = ld * static_cast<std::int64_t>(number.bytes);
  for (std::int64_t i = 0; i < columns; ++i)
    forget(static_cast<std::byte*>(matrix) + i * step, column_bytes);
}

inline void forget_matrices(void* matrices, std::int64_t rows, std::int64_t columns,
                            std::int64_t ld, std::int64_t stride, std::int64_t batch,
                            Number number) {
  if (rows == ld && rows * columns == stride) {
    forget_matrix(matrices, rows, columns * batch, ld, number);
    return;
  }
  const std::int64_t step = stride * static_cast<std::int64_t>(number.bytes);
  for (std::int64_t i = 0; i < batch; ++i) {
    forget_matrix(static_cast<std::byte*>(matrices) + i * step, rows, columns, ld, number);
  }
}

}  // namespace levee::simgpu::stubs
