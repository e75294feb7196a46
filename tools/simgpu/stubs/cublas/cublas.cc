// cuBLAS beyond the rules: versions, and the copies between host and device, whose bytes a program
// can see and which are therefore real.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "tools/simgpu/stubs/common/call.h"
#include "tools/simgpu/stubs/common/versions.h"

using namespace levee::simgpu::stubs;

namespace {

/// Copies `columns` pieces of `piece` bytes whose starts are apart by the two strides; one piece if
/// there is no gap.
cublasStatus_t copy_pieces(int64_t columns, int64_t piece, const void* from, int64_t from_stride,
                           void* to, int64_t to_stride, cudaStream_t stream) {
  if (columns < 0 || piece < 0) return CUBLAS_STATUS_INVALID_VALUE;
  if (columns == 0 || piece == 0) return CUBLAS_STATUS_SUCCESS;
  if (from_stride == piece && to_stride == piece) {
    piece *= columns;
    columns = 1;
  }
  for (int64_t column = 0; column < columns; ++column) {
    const auto* source = static_cast<const char*>(from) + column * from_stride;
    auto* target = static_cast<char*>(to) + column * to_stride;
    if (simgpu_copy(target, source, static_cast<std::size_t>(piece), stream) != cudaSuccess) {
      return CUBLAS_STATUS_MAPPING_ERROR;
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t copy_vector(int64_t n, int64_t element, const void* from, int64_t from_step,
                           void* to, int64_t to_step, cudaStream_t stream) {
  return copy_pieces(n, element, from, from_step * element, to, to_step * element, stream);
}

cublasStatus_t copy_matrix(int64_t rows, int64_t columns, int64_t element, const void* from,
                           int64_t from_ld, void* to, int64_t to_ld, cudaStream_t stream) {
  return copy_pieces(columns, rows * element, from, from_ld * element, to, to_ld * element, stream);
}

/// The blocking forms wait for the copy, as theirs do.
cublasStatus_t and_wait(cublasStatus_t status) {
  if (status == CUBLAS_STATUS_SUCCESS) simgpu_synchronize(nullptr);
  return status;
}

}  // namespace

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int* version) {
  SIMGPU_TRACE_CALL("cublas");
  if (Object::from(handle) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (version == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  SIMGPU_TRACE_CALL("cublas");
  return version_property(type, CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH, value)
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}

size_t cublasGetCudartVersion(void) {
  SIMGPU_TRACE_CALL("cublas");
  return CUDART_VERSION;
}

cublasStatus_t cublasSetVector(int n, int elemSize, const void* x, int incx, void* devicePtr,
                               int incy) {
  SIMGPU_TRACE_CALL("cublas");
  return and_wait(copy_vector(n, elemSize, x, incx, devicePtr, incy, nullptr));
}
cublasStatus_t cublasSetVector_64(int64_t n, int64_t elemSize, const void* x, int64_t incx,
                                  void* devicePtr, int64_t incy) {
  SIMGPU_TRACE_CALL("cublas");
  return and_wait(copy_vector(n, elemSize, x, incx, devicePtr, incy, nullptr));
}
cublasStatus_t cublasGetVector(int n, int elemSize, const void* x, int incx, void* y, int incy) {
  SIMGPU_TRACE_CALL("cublas");
  return and_wait(copy_vector(n, elemSize, x, incx, y, incy, nullptr));
}
cublasStatus_t cublasGetVector_64(int64_t n, int64_t elemSize, const void* x, int64_t incx, void* y,
                                  int64_t incy) {
  SIMGPU_TRACE_CALL("cublas");
  return and_wait(copy_vector(n, elemSize, x, incx, y, incy, nullptr));
}
cublasStatus_t cublasSetVectorAsync(int n, int elemSize, const void* hostPtr, int incx,
                                    void* devicePtr, int incy, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("cublas");
  return copy_vector(n, elemSize, hostPtr, incx, devicePtr, incy, stream);
}
cublasStatus_t cublasSetVectorAsync_64(int64_t n, int64_t elemSize, const void* hostPtr,
                                       int64_t incx, void* devicePtr, int64_t incy,
                                       cudaStream_t stream) {
  SIMGPU_TRACE_CALL("cublas");
  return copy_vector(n, elemSize, hostPtr, incx, devicePtr, incy, stream);
}
cublasStatus_t cublasGetVectorAsync(int n, int elemSize, const void* devicePtr, int incx,
                                    void* hostPtr, int incy, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("cublas");
  return copy_vector(n, elemSize, devicePtr, incx, hostPtr, incy, stream);
}
cublasStatus_t cublasGetVectorAsync_64(int64_t n, int64_t elemSize, const void* devicePtr,
                                       int64_t incx, void* hostPtr, int64_t incy,
                                       cudaStream_t stream) {
  SIMGPU_TRACE_CALL("cublas");
  return copy_vector(n, elemSize, devicePtr, incx, hostPtr, incy, stream);
}
cublasStatus_t cublasSetMatrix(int rows, int cols, int elemSize, const void* A, int lda, void* B,
                               int ldb) {
  SIMGPU_TRACE_CALL("cublas");
  return and_wait(copy_matrix(rows, cols, elemSize, A, lda, B, ldb, nullptr));
}
cublasStatus_t cublasSetMatrix_64(int64_t rows, int64_t cols, int64_t elemSize, const void* A,
                                  int64_t lda, void* B, int64_t ldb) {
  SIMGPU_TRACE_CALL("cublas");
  return and_wait(copy_matrix(rows, cols, elemSize, A, lda, B, ldb, nullptr));
}
cublasStatus_t cublasGetMatrix(int rows, int cols, int elemSize, const void* A, int lda, void* B,
                               int ldb) {
  SIMGPU_TRACE_CALL("cublas");
  return and_wait(copy_matrix(rows, cols, elemSize, A, lda, B, ldb, nullptr));
}
cublasStatus_t cublasGetMatrix_64(int64_t rows, int64_t cols, int64_t elemSize, const void* A,
                                  int64_t lda, void* B, int64_t ldb) {
  SIMGPU_TRACE_CALL("cublas");
  return and_wait(copy_matrix(rows, cols, elemSize, A, lda, B, ldb, nullptr));
}
cublasStatus_t cublasSetMatrixAsync(int rows, int cols, int elemSize, const void* A, int lda,
                                    void* B, int ldb, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("cublas");
  return copy_matrix(rows, cols, elemSize, A, lda, B, ldb, stream);
}
cublasStatus_t cublasSetMatrixAsync_64(int64_t rows, int64_t cols, int64_t elemSize, const void* A,
                                       int64_t lda, void* B, int64_t ldb, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("cublas");
  return copy_matrix(rows, cols, elemSize, A, lda, B, ldb, stream);
}
cublasStatus_t cublasGetMatrixAsync(int rows, int cols, int elemSize, const void* A, int lda,
                                    void* B, int ldb, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("cublas");
  return copy_matrix(rows, cols, elemSize, A, lda, B, ldb, stream);
}
cublasStatus_t cublasGetMatrixAsync_64(int64_t rows, int64_t cols, int64_t elemSize, const void* A,
                                       int64_t lda, void* B, int64_t ldb, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("cublas");
  return copy_matrix(rows, cols, elemSize, A, lda, B, ldb, stream);
}
