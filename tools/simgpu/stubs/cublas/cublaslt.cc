// cuBLASLt beyond the rules: matrix products with their cost, and heuristics that always offer one
// algorithm, since a program that is offered none falls back or fails.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>

#include "tools/simgpu/stubs/common/call.h"
#include "tools/simgpu/stubs/common/rules.h"
#include "tools/simgpu/stubs/common/versions.h"
#include "tools/simgpu/stubs/cublas/compute_number.h"

using namespace levee::simgpu::stubs;

namespace {

/// A setting of a layout: set as an attribute, or given at creation under `name`.
template <typename T>
T layout_value(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
               const char* name, T otherwise) {
  const Object* object = Object::from(layout);
  if (object == nullptr) return otherwise;
  return object->get<T>(attribute_key(attribute), object->get<T>(name, otherwise));
}

Cost product_cost(cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
                  cublasLtMatrixLayout_t d) {
  const Object* description = Object::from(product);
  if (description == nullptr) return {};
  const auto transpose = description->get<int32_t>(attribute_key(CUBLASLT_MATMUL_DESC_TRANSA));
  const auto compute = description->get<cublasComputeType_t>("computeType", CUBLAS_COMPUTE_32F);
  const auto m = layout_value<uint64_t>(d, CUBLASLT_MATRIX_LAYOUT_ROWS, "rows", 0);
  const auto n = layout_value<uint64_t>(d, CUBLASLT_MATRIX_LAYOUT_COLS, "cols", 0);
  const auto k = transpose == CUBLAS_OP_N
                     ? layout_value<uint64_t>(a, CUBLASLT_MATRIX_LAYOUT_COLS, "cols", 0)
                     : layout_value<uint64_t>(a, CUBLASLT_MATRIX_LAYOUT_ROWS, "rows", 0);
  const auto batch = layout_value<int32_t>(d, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, "batchCount", 1);
  const auto type =
      layout_value<cudaDataType_t>(a, CUBLASLT_MATRIX_LAYOUT_TYPE, "type", CUDA_R_32F);
  return gemm(number(m), number(n), number(k), number(batch), compute_number(compute, type));
}

void forget_result(void* d, cublasLtMatrixLayout_t layout) {
  const auto rows = layout_value<uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, "rows", 0);
  const auto columns = layout_value<uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS, "cols", 0);
  const auto ld = layout_value<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD, "ld", 0);
  const auto batch =
      layout_value<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, "batchCount", 1);
  const auto stride =
      layout_value<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, "batchStride", 0);
  const auto type =
      layout_value<cudaDataType_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE, "type", CUDA_R_32F);
  const auto order =
      layout_value<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, "order", CUBLASLT_ORDER_COL);
  const bool is_row_major = order == CUBLASLT_ORDER_ROW;
  if (!is_row_major && order != CUBLASLT_ORDER_COL)
    return;  // tiled for tensor cores: nobody reads it as numbers
  forget_matrices(d, static_cast<int64_t>(is_row_major ? columns : rows),
                  static_cast<int64_t>(is_row_major ? rows : columns), ld, stride, int64_t{batch},
                  number_of(type));
}

cublasLtMatmulHeuristicResult_t the_algorithm() {
  cublasLtMatmulHeuristicResult_t result{};
  result.state = CUBLAS_STATUS_SUCCESS;
  result.wavesCount = 1.0F;
  return result;
}

}  // namespace

cublasStatus_t cublasLtMatmul(cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t computeDesc,
                              const void* /*alpha*/, const void* /*A*/,
                              cublasLtMatrixLayout_t Adesc, const void* /*B*/,
                              cublasLtMatrixLayout_t /*Bdesc*/, const void* /*beta*/,
                              const void* /*C*/, cublasLtMatrixLayout_t /*Cdesc*/, void* D,
                              cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t* /*algo*/,
                              void* /*workspace*/, size_t /*workspaceSizeInBytes*/,
                              cudaStream_t stream) {
  SIMGPU_TRACE_CALL("cublasLt");
  if (Object::from(lightHandle) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (Object::from(computeDesc) == nullptr || Object::from(Ddesc) == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  launch(stream, "cublasLtMatmul", product_cost(computeDesc, Adesc, Ddesc));
  forget_result(D, Ddesc);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixTransform(cublasLtHandle_t lightHandle,
                                       cublasLtMatrixTransformDesc_t /*transformDesc*/,
                                       const void* /*alpha*/, const void* /*A*/,
                                       cublasLtMatrixLayout_t /*Adesc*/, const void* /*beta*/,
                                       const void* /*B*/, cublasLtMatrixLayout_t /*Bdesc*/,
                                       void* /*C*/, cublasLtMatrixLayout_t Cdesc,
                                       cudaStream_t stream) {
  SIMGPU_TRACE_CALL("cublasLt");
  if (Object::from(lightHandle) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const auto rows = layout_value<uint64_t>(Cdesc, CUBLASLT_MATRIX_LAYOUT_ROWS, "rows", 0);
  const auto columns = layout_value<uint64_t>(Cdesc, CUBLASLT_MATRIX_LAYOUT_COLS, "cols", 0);
  const auto type =
      layout_value<cudaDataType_t>(Cdesc, CUBLASLT_MATRIX_LAYOUT_TYPE, "type", CUDA_R_32F);
  launch(stream, "cublasLtMatrixTransform",
         Cost{0, 2 * number(rows) * number(columns) * number_of(type).bytes});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t /*operationDesc*/,
    cublasLtMatrixLayout_t /*Adesc*/, cublasLtMatrixLayout_t /*Bdesc*/,
    cublasLtMatrixLayout_t /*Cdesc*/, cublasLtMatrixLayout_t /*Ddesc*/,
    cublasLtMatmulPreference_t /*preference*/, int requestedAlgoCount,
    cublasLtMatmulHeuristicResult_t heuristicResultsArray[], int* returnAlgoCount) {
  SIMGPU_TRACE_CALL("cublasLt");
  if (Object::from(lightHandle) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (returnAlgoCount == nullptr || requestedAlgoCount < 1) return CUBLAS_STATUS_INVALID_VALUE;
  heuristicResultsArray[0] = the_algorithm();
  *returnAlgoCount = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t lightHandle,
                                        cublasComputeType_t /*computeType*/,
                                        cudaDataType_t /*scaleType*/, cudaDataType_t /*Atype*/,
                                        cudaDataType_t /*Btype*/, cudaDataType_t /*Ctype*/,
                                        cudaDataType_t /*Dtype*/, int requestedAlgoCount,
                                        int algoIdsArray[], int* returnAlgoCount) {
  SIMGPU_TRACE_CALL("cublasLt");
  if (Object::from(lightHandle) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const int count = std::min(requestedAlgoCount, 1);
  if (count == 1) algoIdsArray[0] = 0;
  if (returnAlgoCount != nullptr) *returnAlgoCount = count;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t lightHandle, cublasLtMatmulDesc_t /*operationDesc*/,
    cublasLtMatrixLayout_t /*Adesc*/, cublasLtMatrixLayout_t /*Bdesc*/,
    cublasLtMatrixLayout_t /*Cdesc*/, cublasLtMatrixLayout_t /*Ddesc*/,
    const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  SIMGPU_TRACE_CALL("cublasLt");
  if (Object::from(lightHandle) == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (algo == nullptr || result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *result = the_algorithm();
  result->algo = *algo;
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) {
  SIMGPU_TRACE_CALL("cublasLt");
  return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void) {
  SIMGPU_TRACE_CALL("cublasLt");
  return CUDART_VERSION;
}

cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int* value) {
  SIMGPU_TRACE_CALL("cublasLt");
  return version_property(type, CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH, value)
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_INVALID_VALUE;
}
