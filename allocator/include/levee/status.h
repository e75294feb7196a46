// How a call says that it failed. No exception crosses levee's core: a function that can fail
// returns `Status`, or `Result<T>` when it also has a value. Both are [[nodiscard]]. Text for
// people is made later, outside every lock.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

namespace levee {

enum class StatusCode : std::uint8_t {
  kOk = 0,
  kOutOfMemory,      ///< the device, or a limit, has no room; retrying after freeing can succeed
  kInvalidArgument,  ///< the caller passed something that no state makes valid
  kNotOwned,         ///< the address is not a live block of this allocator
  kNotReady,         ///< an event has not completed
  kUnsupported,      ///< the device, driver or mode does not offer the call
  kShuttingDown,     ///< the driver is unloading; destructors treat it as success
  kDeviceLost,       ///< a sticky error: every later call fails as well
  kInternal,         ///< anything else the driver answered; see native_code
};

/// Short fixed name of a code ("out of memory"), for messages. Never null.
constexpr const char* name_of(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kOutOfMemory:
      return "out of memory";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotOwned:
      return "not owned";
    case StatusCode::kNotReady:
      return "not ready";
    case StatusCode::kUnsupported:
      return "unsupported";
    case StatusCode::kShuttingDown:
      return "shutting down";
    case StatusCode::kDeviceLost:
      return "device lost";
    case StatusCode::kInternal:
      return "internal error";
  }
  return "unknown";
}

struct [[nodiscard]] Status {
  StatusCode code = StatusCode::kOk;
  std::int32_t native_code = 0;  ///< cudaError_t or CUresult where a driver call failed, else 0

  constexpr bool ok() const { return code == StatusCode::kOk; }
  friend constexpr bool operator==(const Status&, const Status&) = default;
};

/// A value or the reason why there is none. `value()` on a failed result ends the process.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(status) {      // NOLINT(google-explicit-constructor)
    if (status.ok())
      status_.code = StatusCode::kInternal;  // a success without a value is a bug of the callee
  }
  Result(StatusCode code) : Result(Status{code, 0}) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  Status status() const { return ok() ? Status{} : status_; }
  StatusCode code() const { return status().code; }
  T& value() & { return check(), *value_; }
  const T& value() const& { return check(), *value_; }
  T&& value() && { return check(), std::move(*value_); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void check() const {
    if (!value_.has_value()) std::abort();
  }
  std::optional<T> value_;
  Status status_{};
};

}  // namespace levee
