// cuFFT: plans are small integers, so they live in a table here instead of behind a pointer.
//
// Promises: a plan remembers its stream and how many numbers it transforms; every execution is one
// kernel with the textbook cost of 5 n log2(n) operations. Plans ask for no work area (cuFFT's own
// need depends on its choice of kernels). Lock: one for the table; executions copy what they need
// out of it.
#include <cuda_runtime_api.h>
#include <cufft.h>
#include <cufftXt.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>

#include "tools/simgpu/stubs/common/call.h"
#include "tools/simgpu/stubs/common/versions.h"

using namespace levee::simgpu::stubs;

namespace {

enum class Output { kComplex, kHalfComplex, kReal };

struct Plan {
  cudaStream_t stream = nullptr;
  double points = 0;  ///< of one transform
  double last = 0;    ///< points of its innermost dimension
  double batch = 1;
  Number number = kComplexSingle;
  Output output = Output::kComplex;  ///< of plans made for cufftXtExec
  bool is_dense =
      true;  ///< the output lies without gaps; else it is not known which bytes it takes
};

class Plans {
 public:
  cufftHandle create() {
    std::lock_guard lock(mutex_);
    plans_.emplace(++last_, Plan{});
    return last_;
  }
  bool destroy(cufftHandle handle) {
    std::lock_guard lock(mutex_);
    return plans_.erase(handle) == 1;
  }
  std::optional<Plan> find(cufftHandle handle) {
    std::lock_guard lock(mutex_);
    const auto found = plans_.find(handle);
    return found == plans_.end() ? std::nullopt : std::optional(found->second);
  }
  template <typename Change>
  cufftResult change(cufftHandle handle, Change change) {
    std::lock_guard lock(mutex_);
    const auto found = plans_.find(handle);
    if (found == plans_.end()) return CUFFT_INVALID_PLAN;
    change(found->second);
    return CUFFT_SUCCESS;
  }

 private:
  std::mutex mutex_;
  std::map<cufftHandle, Plan> plans_;
  cufftHandle last_ = 0;
};

Plans& plans() {
  // Programs destroy plans from their own static destructors; the table outlives them.
  static auto* table = new Plans;
  return *table;
}

Number number_of_transform(cufftType type) {
  return type == CUFFT_Z2Z || type == CUFFT_D2Z || type == CUFFT_Z2D ? kComplexDouble
                                                                     : kComplexSingle;
}

template <typename Count>
cufftResult make(cufftHandle plan, int rank, const Count* n, double batch, Number number,
                 size_t* work_size, bool is_dense = true) {
  if (n == nullptr || rank < 1) return CUFFT_INVALID_VALUE;
  double points = 1;
  for (int i = 0; i < rank; ++i) points *= static_cast<double>(n[i]);
  if (points < 1 || batch < 1) return CUFFT_INVALID_SIZE;
  if (work_size != nullptr) *work_size = 0;
  return plans().change(plan, [&](Plan& p) {
    p.points = points;
    p.last = static_cast<double>(n[rank - 1]);
    p.batch = batch;
    p.is_dense = is_dense;
    p.number = number;
  });
}

template <typename Count>
cufftResult create_and_make(cufftHandle* plan, int rank, const Count* n, int batch,
                            cufftType type) {
  if (plan == nullptr) return CUFFT_INVALID_VALUE;
  *plan = plans().create();
  const cufftResult made = make(*plan, rank, n, batch, number_of_transform(type), nullptr);
  if (made != CUFFT_SUCCESS) plans().destroy(*plan);
  return made;
}

cufftResult execute(cufftHandle handle, const char* name, void* output, Output kind) {
  const std::optional<Plan> plan = plans().find(handle);
  if (!plan.has_value()) return CUFFT_INVALID_PLAN;
  const double operations = 5 * plan->points * std::log2(std::max(plan->points, 2.0)) * plan->batch;
  // Transforms do not run on tensor cores: weights as for real arithmetic of the same precision.
  launch(plan->stream, name,
         Cost{operations * kSingle.weight, 2 * plan->points * plan->batch * plan->number.bytes});
  if (plan->is_dense) {
    double bytes = plan->points * plan->batch * plan->number.bytes;
    if (kind == Output::kHalfComplex) bytes *= (std::floor(plan->last / 2) + 1) / plan->last;
    if (kind == Output::kReal) bytes /= 2;
    forget(output, bytes);
  }
  return CUFFT_SUCCESS;
}

}  // namespace

cufftResult cufftCreate(cufftHandle* handle) {
  SIMGPU_TRACE_CALL("cufft");
  if (handle == nullptr) return CUFFT_INVALID_VALUE;
  *handle = plans().create();
  return CUFFT_SUCCESS;
}

cufftResult cufftDestroy(cufftHandle plan) {
  SIMGPU_TRACE_CALL("cufft");
  return plans().destroy(plan) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

cufftResult cufftSetStream(cufftHandle plan, cudaStream_t stream) {
  SIMGPU_TRACE_CALL("cufft");
  return plans().change(plan, [&](Plan& p) { p.stream = stream; });
}

cufftResult cufftPlan1d(cufftHandle* plan, int nx, cufftType type, int batch) {
  SIMGPU_TRACE_CALL("cufft");
  return create_and_make(plan, 1, &nx, batch, type);
}
cufftResult cufftPlan2d(cufftHandle* plan, int nx, int ny, cufftType type) {
  SIMGPU_TRACE_CALL("cufft");
  const int n[] = {nx, ny};
  return create_and_make(plan, 2, n, 1, type);
}
cufftResult cufftPlan3d(cufftHandle* plan, int nx, int ny, int nz, cufftType type) {
  SIMGPU_TRACE_CALL("cufft");
  const int n[] = {nx, ny, nz};
  return create_and_make(plan, 3, n, 1, type);
}
cufftResult cufftPlanMany(cufftHandle* plan, int rank, int* n, int* /*inembed*/, int /*istride*/,
                          int /*idist*/, int* /*onembed*/, int /*ostride*/, int /*odist*/,
                          cufftType type, int batch) {
  SIMGPU_TRACE_CALL("cufft");
  return create_and_make(plan, rank, n, batch, type);
}

cufftResult cufftMakePlan1d(cufftHandle plan, int nx, cufftType type, int batch, size_t* workSize) {
  SIMGPU_TRACE_CALL("cufft");
  return make(plan, 1, &nx, batch, number_of_transform(type), workSize);
}
cufftResult cufftMakePlan2d(cufftHandle plan, int nx, int ny, cufftType type, size_t* workSize) {
  SIMGPU_TRACE_CALL("cufft");
  const int n[] = {nx, ny};
  return make(plan, 2, n, 1, number_of_transform(type), workSize);
}
cufftResult cufftMakePlan3d(cufftHandle plan, int nx, int ny, int nz, cufftType type,
                            size_t* workSize) {
  SIMGPU_TRACE_CALL("cufft");
  const int n[] = {nx, ny, nz};
  return make(plan, 3, n, 1, number_of_transform(type), workSize);
}
cufftResult cufftMakePlanMany(cufftHandle plan, int rank, int* n, int* /*inembed*/, int /*istride*/,
                              int /*idist*/, int* /*onembed*/, int /*ostride*/, int /*odist*/,
                              cufftType type, int batch, size_t* workSize) {
  SIMGPU_TRACE_CALL("cufft");
  return make(plan, rank, n, batch, number_of_transform(type), workSize);
}
cufftResult cufftMakePlanMany64(cufftHandle plan, int rank, long long int* n,
                                long long int* /*inembed*/, long long int /*istride*/,
                                long long int /*idist*/, long long int* /*onembed*/,
                                long long int /*ostride*/, long long int /*odist*/, cufftType type,
                                long long int batch, size_t* workSize) {
  SIMGPU_TRACE_CALL("cufft");
  return make(plan, rank, n, static_cast<double>(batch), number_of_transform(type), workSize);
}
cufftResult cufftXtMakePlanMany(cufftHandle plan, int rank, long long int* n,
                                long long int* /*inembed*/, long long int /*istride*/,
                                long long int /*idist*/, cudaDataType inputtype,
                                long long int* onembed, long long int ostride,
                                long long int /*odist*/, cudaDataType outputtype,
                                long long int batch, size_t* workSize, cudaDataType executiontype) {
  SIMGPU_TRACE_CALL("cufft");
  const auto is_real = [](cudaDataType type) {
    return type == CUDA_R_16F || type == CUDA_R_32F || type == CUDA_R_64F;
  };
  const bool is_dense = onembed == nullptr || (rank == 1 && ostride == 1);
  const cufftResult made =
      make(plan, rank, n, static_cast<double>(batch), number_of(executiontype), workSize, is_dense);
  if (made != CUFFT_SUCCESS) return made;
  return plans().change(plan, [&](Plan& p) {
    p.output = is_real(outputtype)  ? Output::kReal
               : is_real(inputtype) ? Output::kHalfComplex
                                    : Output::kComplex;
  });
}

cufftResult cufftExecC2C(cufftHandle plan, cufftComplex* /*idata*/, cufftComplex* odata,
                         int /*direction*/) {
  SIMGPU_TRACE_CALL("cufft");
  return execute(plan, "cufftExecC2C", odata, Output::kComplex);
}
cufftResult cufftExecR2C(cufftHandle plan, cufftReal* /*idata*/, cufftComplex* odata) {
  SIMGPU_TRACE_CALL("cufft");
  return execute(plan, "cufftExecR2C", odata, Output::kHalfComplex);
}
cufftResult cufftExecC2R(cufftHandle plan, cufftComplex* /*idata*/, cufftReal* odata) {
  SIMGPU_TRACE_CALL("cufft");
  return execute(plan, "cufftExecC2R", odata, Output::kReal);
}
cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex* /*idata*/, cufftDoubleComplex* odata,
                         int /*direction*/) {
  SIMGPU_TRACE_CALL("cufft");
  return execute(plan, "cufftExecZ2Z", odata, Output::kComplex);
}
cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal* /*idata*/, cufftDoubleComplex* odata) {
  SIMGPU_TRACE_CALL("cufft");
  return execute(plan, "cufftExecD2Z", odata, Output::kHalfComplex);
}
cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex* /*idata*/, cufftDoubleReal* odata) {
  SIMGPU_TRACE_CALL("cufft");
  return execute(plan, "cufftExecZ2D", odata, Output::kReal);
}
cufftResult cufftXtExec(cufftHandle plan, void* /*input*/, void* output, int /*direction*/) {
  SIMGPU_TRACE_CALL("cufft");
  const std::optional<Plan> made = plans().find(plan);
  return execute(plan, "cufftXtExec", output, made.has_value() ? made->output : Output::kComplex);
}

cufftResult cufftGetVersion(int* version) {
  SIMGPU_TRACE_CALL("cufft");
  if (version == nullptr) return CUFFT_INVALID_VALUE;
  *version = CUFFT_VERSION;
  return CUFFT_SUCCESS;
}

cufftResult cufftGetProperty(libraryPropertyType type, int* value) {
  SIMGPU_TRACE_CALL("cufft");
  return version_property(type, CUFFT_VER_MAJOR, CUFFT_VER_MINOR, CUFFT_VER_PATCH, value)
             ? CUFFT_SUCCESS
             : CUFFT_INVALID_VALUE;
}
