// cuSPARSELt: its descriptors are structures that the program owns, so what has to be remembered is
// written into them.
//
// Promises: products are kernels on the streams that the program names; a compressed matrix takes
// the space of a 2:4 sparse one (half the values and two bits of position for each).
#include <cusparseLt.h>

#include <cstring>

#include "tools/simgpu/stubs/common/call.h"
#include "tools/simgpu/stubs/common/versions.h"

using namespace levee::simgpu::stubs;

namespace {

/// What this library keeps at the start of a cusparseLtMatDescriptor_t.
struct Matrix {
  int64_t rows;
  int64_t columns;
  cudaDataType type;
};

/// What it keeps at the start of a cusparseLtMatmulDescriptor_t and, behind it, of a plan.
struct Product {
  Matrix a;
  Matrix d;
  cusparseOperation_t transpose_a;
};

template <typename Kept, typename Opaque>
void keep(Opaque* descriptor, const Kept& kept) {
  static_assert(sizeof(Kept) <= sizeof(Opaque));
  std::memset(static_cast<void*>(descriptor), 0, sizeof *descriptor);
  std::memcpy(static_cast<void*>(descriptor), &kept, sizeof kept);
}

template <typename Kept, typename Opaque>
Kept kept(const Opaque* descriptor) {
  Kept value{};
  if (descriptor != nullptr)
    std::memcpy(&value, static_cast<const void*>(descriptor), sizeof value);
  return value;
}

cusparseStatus_t set_matrix(cusparseLtMatDescriptor_t* descriptor, int64_t rows, int64_t columns,
                            cudaDataType type) {
  if (descriptor == nullptr || rows < 1 || columns < 1) return CUSPARSE_STATUS_INVALID_VALUE;
  keep(descriptor, Matrix{rows, columns, type});
  return CUSPARSE_STATUS_SUCCESS;
}

/// A structured-sparse product skips half of the multiplications.
Cost cost_of(const Product& product) {
  const int64_t k =
      product.transpose_a == CUSPARSE_OPERATION_NON_TRANSPOSE ? product.a.columns : product.a.rows;
  return gemm(static_cast<double>(product.d.rows), static_cast<double>(product.d.columns),
              static_cast<double>(k) / 2, 1, number_of(product.a.type));
}

}  // namespace

cusparseStatus_t cusparseLtGetVersion(const cusparseLtHandle_t* /*handle*/, int* version) {
  SIMGPU_TRACE_CALL("cusparseLt");
  if (version == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *version = CUSPARSELT_VERSION;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseLtGetProperty(libraryPropertyType propertyType, int* value) {
  SIMGPU_TRACE_CALL("cusparseLt");
  return version_property(propertyType, CUSPARSELT_VER_MAJOR, CUSPARSELT_VER_MINOR,
                          CUSPARSELT_VER_PATCH, value)
             ? CUSPARSE_STATUS_SUCCESS
             : CUSPARSE_STATUS_INVALID_VALUE;
}

cusparseStatus_t cusparseLtDenseDescriptorInit(const cusparseLtHandle_t* /*handle*/,
                                               cusparseLtMatDescriptor_t* matDescr, int64_t rows,
                                               int64_t cols, int64_t /*ld*/, uint32_t /*alignment*/,
                                               cudaDataType valueType, cusparseOrder_t /*order*/) {
  SIMGPU_TRACE_CALL("cusparseLt");
  return set_matrix(matDescr, rows, cols, valueType);
}

cusparseStatus_t cusparseLtStructuredDescriptorInit(const cusparseLtHandle_t* /*handle*/,
                                                    cusparseLtMatDescriptor_t* matDescr,
                                                    int64_t rows, int64_t cols, int64_t /*ld*/,
                                                    uint32_t /*alignment*/, cudaDataType valueType,
                                                    cusparseOrder_t /*order*/,
                                                    cusparseLtSparsity_t /*sparsity*/) {
  SIMGPU_TRACE_CALL("cusparseLt");
  return set_matrix(matDescr, rows, cols, valueType);
}

cusparseStatus_t cusparseLtMatmulDescriptorInit(
    const cusparseLtHandle_t* /*handle*/, cusparseLtMatmulDescriptor_t* matmulDescr,
    cusparseOperation_t opA, cusparseOperation_t /*opB*/, const cusparseLtMatDescriptor_t* matA,
    const cusparseLtMatDescriptor_t* /*matB*/, const cusparseLtMatDescriptor_t* /*matC*/,
    const cusparseLtMatDescriptor_t* matD, cusparseComputeType /*computeType*/) {
  SIMGPU_TRACE_CALL("cusparseLt");
  if (matmulDescr == nullptr || matA == nullptr || matD == nullptr)
    return CUSPARSE_STATUS_INVALID_VALUE;
  keep(matmulDescr, Product{kept<Matrix>(matA), kept<Matrix>(matD), opA});
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseLtMatmulPlanInit(const cusparseLtHandle_t* /*handle*/,
                                          cusparseLtMatmulPlan_t* plan,
                                          const cusparseLtMatmulDescriptor_t* matmulDescr,
                                          const cusparseLtMatmulAlgSelection_t* /*algSelection*/) {
  SIMGPU_TRACE_CALL("cusparseLt");
  if (plan == nullptr || matmulDescr == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  keep(plan, kept<Product>(matmulDescr));
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseLtMatmul(const cusparseLtHandle_t* /*handle*/,
                                  const cusparseLtMatmulPlan_t* plan, const void* /*alpha*/,
                                  const void* /*d_A*/, const void* /*d_B*/, const void* /*beta*/,
                                  const void* /*d_C*/, void* /*d_D*/, void* /*workspace*/,
                                  cudaStream_t* streams, int32_t numStreams) {
  SIMGPU_TRACE_CALL("cusparseLt");
  launch(numStreams > 0 && streams != nullptr ? streams[0] : nullptr, "cusparseLtMatmul",
         cost_of(kept<Product>(plan)));
  return CUSPARSE_STATUS_SUCCESS;
}

// A search runs the product to time it; once is enough where every algorithm is the same.
cusparseStatus_t cusparseLtMatmulSearch(const cusparseLtHandle_t* /*handle*/,
                                        cusparseLtMatmulPlan_t* plan, const void* /*alpha*/,
                                        const void* /*d_A*/, const void* /*d_B*/,
                                        const void* /*beta*/, const void* /*d_C*/, void* /*d_D*/,
                                        void* /*workspace*/, cudaStream_t* streams,
                                        int32_t numStreams) {
  SIMGPU_TRACE_CALL("cusparseLt");
  launch(numStreams > 0 && streams != nullptr ? streams[0] : nullptr, "cusparseLtMatmul",
         cost_of(kept<Product>(plan)));
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseLtSpMMACompressedSize2(const cusparseLtHandle_t* /*handle*/,
                                                const cusparseLtMatDescriptor_t* sparseMatDescr,
                                                size_t* compressedSize,
                                                size_t* compressedBufferSize) {
  SIMGPU_TRACE_CALL("cusparseLt");
  if (compressedSize == nullptr || compressedBufferSize == nullptr)
    return CUSPARSE_STATUS_INVALID_VALUE;
  const auto matrix = kept<Matrix>(sparseMatDescr);
  const double values = static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns) / 2;
  *compressedSize = static_cast<size_t>(values * (number_of(matrix.type).bytes + 0.25));
  *compressedBufferSize = 0;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseLtSpMMACompressedSize(const cusparseLtHandle_t* handle,
                                               const cusparseLtMatmulPlan_t* plan,
                                               size_t* compressedSize,
                                               size_t* compressedBufferSize) {
  SIMGPU_TRACE_CALL("cusparseLt");
  cusparseLtMatDescriptor_t matrix;
  keep(&matrix, kept<Product>(plan).a);
  return cusparseLtSpMMACompressedSize2(handle, &matrix, compressedSize, compressedBufferSize);
}

cusparseStatus_t cusparseLtSpMMACompress2(const cusparseLtHandle_t* /*handle*/,
                                          const cusparseLtMatDescriptor_t* sparseMatDescr,
                                          int /*isSparseA*/, cusparseOperation_t /*op*/,
                                          const void* /*d_dense*/, void* /*d_compressed*/,
                                          void* /*d_compressed_buffer*/, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("cusparseLt");
  const auto matrix = kept<Matrix>(sparseMatDescr);
  const double elements = static_cast<double>(matrix.rows) * static_cast<double>(matrix.columns);
  launch(stream, "cusparseLtSpMMACompress", Cost{0, 1.5 * elements * number_of(matrix.type).bytes});
  return CUSPARSE_STATUS_SUCCESS;
}
