// Every kind of call that the model counts, times and can make fail: what an allocator, PyTorch and
// a profiler ask of a GPU.
//
// The order is free to change; nothing is stored by number. `name_of` gives the runtime's or
// driver's name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace levee::device::sim {

enum class CallKind : std::uint8_t {
  // Whole allocations.
  kMalloc,
  kFree,
  kMallocAsync,
  kFreeAsync,
  kPoolTrim,
  kMemoryInfo,
  kPointerInfo,
  // Virtual memory.
  kReserveRange,
  kFreeRange,
  kCreateHandle,
  kReleaseHandle,
  kRetainHandle,
  kMap,
  kUnmap,
  kSetAccess,
  // Streams.
  kCreateStream,
  kDestroyStream,
  kQueryStream,
  kSynchronizeStream,
  kWaitEvent,
  kStreamInfo,
  // Events.
  kCreateEvent,
  kDestroyEvent,
  kRecordEvent,
  kQueryEvent,
  kSynchronizeEvent,
  kElapsedTime,
  // Device.
  kSynchronizeDevice,
  kDeviceInfo,
  // Work.
  kLaunchKernel,
  kMemcpyAsync,
  kMemcpy,
  kMemsetAsync,
  kMemset,
  kLaunchHostFunction,
  // Capture and graphs.
  kBeginCapture,
  kEndCapture,
  kCaptureInfo,
  kExchangeCaptureMode,
  kGraphBuild,
  kInstantiateGraph,
  kLaunchGraph,
  kDestroyGraph,
  // Host memory that the device knows.
  kHostAlloc,
  kHostFree,
  kHostRegister,
  kHostUnregister,
  // Anything else: counted by simgpu under its own names as well.
  kModuleLoad,
  kOther,
  kCount,  // number of kinds; not a kind
};
inline constexpr std::size_t kCallKinds = static_cast<std::size_t>(CallKind::kCount);

constexpr const char* name_of(CallKind kind) {
  constexpr std::array<const char*, kCallKinds> kNames = {
      "cudaMalloc",
      "cudaFree",
      "cudaMallocAsync",
      "cudaFreeAsync",
      "cudaMemPoolTrimTo",
      "cudaMemGetInfo",
      "cudaPointerGetAttributes",
      "cuMemAddressReserve",
      "cuMemAddressFree",
      "cuMemCreate",
      "cuMemRelease",
      "cuMemRetainAllocationHandle",
      "cuMemMap",
      "cuMemUnmap",
      "cuMemSetAccess",
      "cudaStreamCreate",
      "cudaStreamDestroy",
      "cudaStreamQuery",
      "cudaStreamSynchronize",
      "cudaStreamWaitEvent",
      "cudaStreamGetFlags",
      "cudaEventCreate",
      "cudaEventDestroy",
      "cudaEventRecord",
      "cudaEventQuery",
      "cudaEventSynchronize",
      "cudaEventElapsedTime",
      "cudaDeviceSynchronize",
      "cudaDeviceGetAttribute",
      "cudaLaunchKernel",
      "cudaMemcpyAsync",
      "cudaMemcpy",
      "cudaMemsetAsync",
      "cudaMemset",
      "cudaLaunchHostFunc",
      "cudaStreamBeginCapture",
      "cudaStreamEndCapture",
      "cudaStreamGetCaptureInfo",
      "cudaThreadExchangeStreamCaptureMode",
      "cudaGraphAddNode",
      "cudaGraphInstantiate",
      "cudaGraphLaunch",
      "cudaGraphDestroy",
      "cudaHostAlloc",
      "cudaFreeHost",
      "cudaHostRegister",
      "cudaHostUnregister",
      "cuModuleLoad",
      "other",
  };
  return kind < CallKind::kCount ? kNames[static_cast<std::size_t>(kind)] : "?";
}

/// Calls that wait for the device, or may: those that device.h marks *blocks*, and their kin. None
/// of them may be made while a pool lock is held.
constexpr bool is_blocking(CallKind kind) {
  switch (kind) {
    case CallKind::kMalloc:
    case CallKind::kFree:
    case CallKind::kPoolTrim:
    case CallKind::kUnmap:
    case CallKind::kSynchronizeStream:
    case CallKind::kSynchronizeEvent:
    case CallKind::kSynchronizeDevice:
    case CallKind::kMemcpy:
    case CallKind::kMemset:
    case CallKind::kHostAlloc:
    case CallKind::kHostFree:
      return true;
    default:
      return false;
  }
}

/// Calls that CUDA refuses (error 900, and the capture is lost) while the calling thread's capture
/// mode forbids them.
constexpr bool is_unsafe_in_capture(CallKind kind) {
  switch (kind) {
    case CallKind::kMalloc:
    case CallKind::kFree:
    case CallKind::kHostAlloc:
    case CallKind::kHostFree:
    case CallKind::kHostRegister:
    case CallKind::kHostUnregister:
    case CallKind::kQueryEvent:
    case CallKind::kQueryStream:
    case CallKind::kSynchronizeEvent:
    case CallKind::kSynchronizeStream:
    case CallKind::kSynchronizeDevice:
    case CallKind::kMemcpy:
    case CallKind::kMemset:
      return true;
    default:
      return false;
  }
}

}  // namespace levee::device::sim
