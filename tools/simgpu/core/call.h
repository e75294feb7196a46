// One driver call from entry to exit: counted always, timed and recorded while somebody asked for
// it.
//
// Owns the list of functions that were ever called. Each function of libcudart and libcuda has one
// static `ApiFunction` and begins with a `Call` on its stack; what it returns passes through `done`
// (or `Call::driver_done`). Cost while nobody traces: one relaxed increment and one load.
//
//   cudaError_t cudaFree(void* pointer) {
//     static ApiFunction api{"cudaFree", ApiDomain::kRuntime, its_number_in_cupti};
//     Call call(api);
//     ...
//     return call.done<cudaError_t>(code);
//   }
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include <levee/units.h>

#include "tools/simgpu/core/activity.h"
#include "tools/simgpu/core/export.h"
#include "tools/simgpu/core/process.h"

namespace levee::simgpu {

enum class ApiDomain : std::uint8_t { kRuntime, kDriver };

struct ApiFunction {
  const char* name;
  ApiDomain domain;
  std::uint32_t cbid;  ///< CUPTI's number of the function
  std::atomic<std::uint64_t> calls{0};
  ApiFunction* next = nullptr;  // list of all that were called
};

class SIMGPU_CORE Call {
 public:
  explicit Call(ApiFunction& api) : api_(api) {
    if (api.calls.fetch_add(1, std::memory_order_relaxed) == 0) [[unlikely]]
      enlist(api);
    if (activity::flags.load(std::memory_order_relaxed) != 0) [[unlikely]]
      begin_slow();
  }
  ~Call() {
    if (is_traced_) [[unlikely]]
      end_slow();
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// The result of a runtime call: kept as the thread's last error unless it is a success.
  template <typename E>
  E done(int code) {
    result_ = code;
    if (code != 0) [[unlikely]]
      this_thread().last_error = code;
    return static_cast<E>(code);
  }
  template <typename E>
  E done(const Status& status) {
    return done<E>(native_code(status));
  }
  /// The result of a driver call, which has no last error.
  template <typename R>
  R driver_done(int code) {
    result_ = code;
    return static_cast<R>(code);
  }
  template <typename R>
  R driver_done(const Status& status) {
    return driver_done<R>(native_code(status));
  }
  /// Shown in SIMGPU_TRACE.
  void argument(std::uint64_t value) { argument_ = value; }

 private:
  static void enlist(ApiFunction& api);
  void begin_slow();
  void end_slow();

  ApiFunction& api_;
  Nanos start_{};
  std::uint64_t outer_correlation_ = 0;
  std::uint64_t argument_ = 0;
  int result_ = 0;
  bool is_traced_ = false;
};

/// Every function that was called, with its count, by name.
SIMGPU_CORE std::vector<std::pair<const char*, std::uint64_t>> call_counts();
SIMGPU_CORE std::uint64_t call_count(const char* name);
/// Name of a function that was called, by CUPTI's number; null if none was.
SIMGPU_CORE const char* call_name(ApiDomain domain, std::uint32_t cbid);

}  // namespace levee::simgpu
