// cuSPARSE beyond the rules: versions, and the numbers of non-zeros that a program allocates memory
// for.
#include <cusparse.h>

#include "tools/simgpu/stubs/common/call.h"
#include "tools/simgpu/stubs/common/rules.h"
#include "tools/simgpu/stubs/common/versions.h"

using namespace levee::simgpu::stubs;

cusparseStatus_t cusparseGetVersion(cusparseHandle_t handle, int* version) {
  SIMGPU_TRACE_CALL("cusparse");
  if (Object::from(handle) == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
  if (version == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *version = CUSPARSE_VERSION;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseGetProperty(libraryPropertyType type, int* value) {
  SIMGPU_TRACE_CALL("cusparse");
  return version_property(type, CUSPARSE_VER_MAJOR, CUSPARSE_VER_MINOR, CUSPARSE_VER_PATCH, value)
             ? CUSPARSE_STATUS_SUCCESS
             : CUSPARSE_STATUS_INVALID_VALUE;
}

// The sum of two sparse matrices has at most the non-zeros of both: that is what its memory would
// be.
cusparseStatus_t cusparseXcsrgeam2Nnz(
    cusparseHandle_t handle, int /*m*/, int /*n*/, const cusparseMatDescr_t /*descrA*/, int nnzA,
    const int* /*csrSortedRowPtrA*/, const int* /*csrSortedColIndA*/,
    const cusparseMatDescr_t /*descrB*/, int nnzB, const int* /*csrSortedRowPtrB*/,
    const int* /*csrSortedColIndB*/, const cusparseMatDescr_t /*descrC*/, int* /*csrSortedRowPtrC*/,
    int* nnzTotalDevHostPtr, void* /*workspace*/) {
  SIMGPU_TRACE_CALL("cusparse");
  const Object* object = Object::from(handle);
  if (object == nullptr) return CUSPARSE_STATUS_NOT_INITIALIZED;
  if (nnzTotalDevHostPtr == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  launch(object, "cusparseXcsrgeam2Nnz");
  const int total = nnzA + nnzB;
  if (simgpu_device_of(nnzTotalDevHostPtr) < 0) {
    *nnzTotalDevHostPtr = total;
  } else {
    simgpu_write(nnzTotalDevHostPtr, &total, sizeof total);
  }
  return CUSPARSE_STATUS_SUCCESS;
}
