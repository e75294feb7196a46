// THE SEAM. What levee needs from a GPU, call by call: a flat 1:1 image of the CUDA runtime and VMM
// driver calls.
//
// Owns nothing but the interface. Promises: an implementation holds no policy. It does not round,
// retry, roll back, log or choose; it translates arguments and errors. All of that lives in core/,
// so that the model of a GPU exercises it. Every call may fail and says so by `Status`; a failed
// call has changed nothing. Implementations: `CudaDevice` (cuda_device.h, the real one) and
// `SimDevice` (sim/sim_device.h, over GpuModel). Thread safety: every method may be called from any
// thread at any time. Costs: from about 1 us (an event record) to milliseconds (release,
// synchronise); see sim/latency_table.h. Calls marked *blocks* wait for the device or may do so;
// core makes none of them while it holds a pool lock.
#pragma once

#include <cstdint>
#include <string>

#include <levee/ids.h>
#include <levee/status.h>
#include <levee/units.h>

#include "allocator/base/clock.h"

namespace levee::device {

struct Capabilities {
  std::string name;  ///< as the driver gives it; simulated devices say so in it
  Bytes total_memory;
  bool has_vmm = false;   ///< address reservation and mapping calls work
  Bytes vmm_granularity;  ///< unit of handle sizes and of mapping addresses (2 MiB on every GPU
                          ///< known so far)
  int compute_major = 0;
  int compute_minor = 0;
  bool judges_use =
      false;  ///< note_use and note_pool_lock mean something to it; else they need not be called
};

struct MemoryInfo {
  Bytes free;
  Bytes total;
};

/// What a note about bytes in use means to a judging device; see `Device::note_use`.
enum class UseKind : std::uint8_t {
  kHandOut,  ///< a new owner: any work enqueued on the stream from now on may write the bytes,
             ///< until kGiveBack
  kShare,  ///< the same owner uses them on this further stream too (record_stream), until kGiveBack
  kGiveBack,  ///< the owner is done: only work enqueued so far, on the streams noted, still touches
              ///< the bytes
  kRead,      ///< one piece of work, enqueued on the stream now, reads them
  kWrite,     ///< one piece of work, enqueued on the stream now, writes them
  kRestore,   ///< bytes that captured graphs handed out are live again as a graph leaves them
              ///< (a pool's checkpoint is restored), until kGiveBack; the graph may write them
};

enum class CaptureStatus : std::uint8_t { kNone, kActive, kInvalidated };

struct CaptureInfo {
  CaptureStatus status = CaptureStatus::kNone;
  std::uint64_t id = 0;  ///< of the capture sequence, unique in the process; 0 when none is active
};

class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  virtual DeviceId id() const = 0;
  virtual const Capabilities& capabilities() const = 0;
  virtual Result<MemoryInfo> memory_info() = 0;  // cudaMemGetInfo

  // Whole allocations.
  virtual Result<DeviceAddr> allocate(Bytes bytes) = 0;  // cudaMalloc; blocks
  virtual Status release(DeviceAddr addr) = 0;  // cudaFree; blocks until the device is idle

  // Virtual memory. Sizes and addresses are multiples of vmm_granularity.
  virtual Result<DeviceAddr> reserve_range(Bytes bytes,
                                           Bytes alignment) = 0;  // cuMemAddressReserve
  virtual Status free_range(DeviceAddr addr, Bytes bytes) = 0;    // cuMemAddressFree
  virtual Result<HandleId> create_handle(Bytes bytes) = 0;        // cuMemCreate
  virtual Status release_handle(
      HandleId handle) = 0;  // cuMemRelease; memory returns when its last mapping is gone
  virtual Status map(DeviceAddr addr, Bytes bytes,
                     HandleId handle) = 0;  // cuMemMap of a whole handle
  virtual Status set_access(
      DeviceAddr addr, Bytes bytes) = 0;  // cuMemSetAccess read+write, this device; many mappings
  virtual Status unmap(DeviceAddr addr,
                       Bytes bytes) = 0;  // cuMemUnmap; many whole mappings; blocks

  // Order. Events carry no timing. Streams may be those of another device (`StreamId::on_device`):
  // waiting for any event is legal there, recording only events that were made on that device.
  virtual Result<EventId> create_event() = 0;  // cudaEventCreateWithFlags(DisableTiming)
  /// An event of another device. A device that knows no others says kUnsupported.
  virtual Result<EventId> create_event_on(DeviceId /*device*/) {
    return Status{StatusCode::kUnsupported, 0};
  }
  virtual Status destroy_event(EventId event) = 0;                  // cudaEventDestroy
  virtual Status record_event(EventId event, StreamId stream) = 0;  // cudaEventRecord
  virtual Status query_event(EventId event) = 0;  // cudaEventQuery; kOk or kNotReady
  virtual Status wait_event(StreamId stream, EventId event) = 0;  // cudaStreamWaitEvent
  virtual Status synchronize_event(EventId event) = 0;            // cudaEventSynchronize; blocks
  virtual Status synchronize_stream(StreamId stream) = 0;         // cudaStreamSynchronize; blocks
  virtual Status synchronize_device() = 0;                        // cudaDeviceSynchronize; blocks

  /// Time as the program on this device feels it: levee's clock, or that of a model.
  virtual Nanos now() const { return base::Clock::now(); }

  // State.
  virtual Result<CaptureInfo> capture_info(StreamId stream) = 0;  // cudaStreamGetCaptureInfo

  /// Tells a judging device who touches which bytes when. Core notes a block as it is handed out
  /// (kHandOut on the block's stream), at each record_stream (kShare) and as it is freed
  /// (kGiveBack), with the same address and bytes each time. Real devices ignore it (they see the
  /// kernels). Costs nothing there.
  virtual void note_use(DeviceAddr /*addr*/, Bytes /*bytes*/, StreamId /*stream*/,
                        UseKind /*kind*/) {}
  /// Tells a judging device that the caller now holds (`true`) or no longer holds a pool lock on
  /// this thread.
  virtual void note_pool_lock(bool /*held*/) {}
};

}  // namespace levee::device
