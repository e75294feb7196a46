// Numbers of cudaError_t and CUresult as far as levee tells them apart, and what each means to us.
//
// Owns the one translation from a driver's number to `Status`; the real device and the model both
// use it, so that a fault injected in the model reads exactly as the driver's. Since CUDA 10.1 both
// enumerations agree on these numbers. No CUDA header is needed here; cuda_device.cc asserts each
// number against the headers.
#pragma once

#include <cstdint>

#include <levee/status.h>

namespace levee::device {

enum class Native : std::int32_t {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kUnloading = 4,
  kStubDriver = 34,  ///< the library that is there is only for linking
  kOldDriver = 35,   ///< no driver, or one too old for the runtime
  kNoDevice = 100,
  kInvalidDevice = 101,
  kAlreadyMapped = 208,
  kNotMapped = 211,
  kInvalidHandle =
      400,  ///< a stream, event, graph or memory handle that is none, or of another device
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,  ///< sticky
  kLaunchTimeout = 702,   ///< sticky
  kLaunchFailure = 719,   ///< sticky
  kNotPermitted = 800,
  kNotSupported = 801,
  kCaptureUnsupported = 900,  ///< the call is not permitted while a stream captures
  kCaptureInvalidated = 901,
  kCaptureMerge = 902,      ///< would join two captures
  kCaptureUnmatched = 903,  ///< end of a capture on a stream where none began
  kCaptureUnjoined = 904,   ///< end of a capture while a forked stream was not joined
  kCaptureIsolation = 905,  ///< waits for an event recorded outside of the capture
  kCaptureImplicit = 906,   ///< the legacy stream would have to wait for a capturing one
  kCapturedEvent = 907,     ///< the event's last record was captured; it has no state to ask for
  kCaptureWrongThread = 908,
  kTimeout = 909,
  kUnknown = 999,
};

/// True for errors after which every call of the process fails.
constexpr bool is_sticky(Native native) {
  switch (native) {
    case Native::kIllegalAddress:
    case Native::kLaunchTimeout:
    case Native::kLaunchFailure:
      return true;
    default:
      // The other kernel and device faults: 214 (ECC), 710 (assert), 714 to 718 (stack,
      // instruction, address, PC).
      return static_cast<std::int32_t>(native) == 214 || static_cast<std::int32_t>(native) == 710 ||
             (static_cast<std::int32_t>(native) >= 714 && static_cast<std::int32_t>(native) <= 718);
  }
}

/// The Status that a driver's answer becomes. `native_code` keeps the number.
constexpr Status to_status(Native native) {
  const auto number = static_cast<std::int32_t>(native);
  if (is_sticky(native)) return Status{StatusCode::kDeviceLost, number};
  switch (native) {
    case Native::kSuccess:
      return Status{};
    case Native::kOutOfMemory:
      return Status{StatusCode::kOutOfMemory, number};
    case Native::kInvalidValue:
    case Native::kInvalidDevice:
    case Native::kInvalidHandle:
    case Native::kAlreadyMapped:
    case Native::kNotMapped:
    case Native::kNotFound:
      return Status{StatusCode::kInvalidArgument, number};
    case Native::kNotReady:
      return Status{StatusCode::kNotReady, number};
    case Native::kUnloading:
      return Status{StatusCode::kShuttingDown, number};
    case Native::kStubDriver:
    case Native::kOldDriver:
    case Native::kNoDevice:
    case Native::kNotPermitted:
    case Native::kNotSupported:
    case Native::kCaptureUnsupported:
    case Native::kCaptureInvalidated:
    case Native::kCaptureMerge:
    case Native::kCaptureUnmatched:
    case Native::kCaptureUnjoined:
    case Native::kCaptureIsolation:
    case Native::kCaptureImplicit:
    case Native::kCapturedEvent:
    case Native::kCaptureWrongThread:
      return Status{StatusCode::kUnsupported, number};
    default:
      return Status{StatusCode::kInternal, number};
  }
}
constexpr Status to_status(std::int32_t native) {
  return to_status(static_cast<Native>(native));
}

}  // namespace levee::device
