// The real device: `Device` over the CUDA runtime and the driver's virtual memory calls.
//
// Owns no CUDA object that it was not asked for. Promises: symbols are resolved at run time
// (cuda_symbols.h), so that levee builds, loads and answers without a driver; "no driver" is an
// ordinary Status with a sentence beside it. Every failed call clears CUDA's "last error" in one
// place, so that it cannot surface in somebody else's check; errors after which nothing works
// become kDeviceLost; a runtime that is unloading answers kShuttingDown. The caller's current
// device is the same after each call as before. Calls that would end a stream capture of the
// program are made in relaxed capture mode, which does not disturb it. In a process forked after
// `open`, every call answers kUnsupported and none reaches CUDA. Under tools/simgpu notes of use
// and of pool locks reach its judge; elsewhere they cost nothing. This header needs no CUDA header;
// without them at build time `cuda_device_absent.cc` takes the place of the code.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "allocator/base/mutex.h"
#include "allocator/device/device.h"

namespace levee::device {

struct CudaSymbols;

/// Devices that CUDA offers this process; 0 if there is no driver, no runtime library or no device.
int cuda_device_count();
/// Why `cuda_device_count` is 0, in one sentence that says what to do; empty if it is not.
std::string cuda_problem();
// The same over a given table of functions, for tests.
int cuda_device_count(const CudaSymbols& cuda);
std::string cuda_problem(const CudaSymbols& cuda);

class CudaDevice final : public Device {
 public:
  /// Makes the device's primary context, as any first use of a device does. kInvalidArgument if
  /// there is no such device, kUnsupported if there is no CUDA (`cuda_problem` says why).
  static Result<std::unique_ptr<Device>> open(DeviceId id);
  /// Over a given table, which must outlive the device.
  static Result<std::unique_ptr<Device>> open(DeviceId id, const CudaSymbols& cuda);

  DeviceId id() const override { return id_; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<MemoryInfo> memory_info() override;
  Result<DeviceAddr> allocate(Bytes bytes) override;
  Status release(DeviceAddr addr) override;
  Result<DeviceAddr> reserve_range(Bytes bytes, Bytes alignment) override;
  Status free_range(DeviceAddr addr, Bytes bytes) override;
  Result<HandleId> create_handle(Bytes bytes) override;
  Status release_handle(HandleId handle) override;
  Status map(DeviceAddr addr, Bytes bytes, HandleId handle) override;
  Status set_access(DeviceAddr addr, Bytes bytes) override;
  Status unmap(DeviceAddr addr, Bytes bytes) override;
  Result<EventId> create_event() override;
  Result<EventId> create_event_on(DeviceId device) override;
  Status destroy_event(EventId event) override;
  Status record_event(EventId event, StreamId stream) override;
  Status query_event(EventId event) override;
  Status wait_event(StreamId stream, EventId event) override;
  Status synchronize_event(EventId event) override;
  Status synchronize_stream(StreamId stream) override;
  Status synchronize_device() override;
  Result<CaptureInfo> capture_info(StreamId stream) override;
  void note_use(DeviceAddr addr, Bytes bytes, StreamId stream, UseKind kind) override;
  void note_pool_lock(bool held) override;

  /// Work on `peer` may read and write the pages of this device, those mapped by now and those to
  /// come, as peer access does for cudaMalloc'ed memory by itself. For both kinds peer access has
  /// to be enabled as well (cudaDeviceEnablePeerAccess).
  Status allow_peer(DeviceId peer);

 private:
  DeviceId device_of(StreamId stream) const;
  Status grant(DeviceAddr addr, Bytes bytes, const std::vector<DeviceId>& devices);

  CudaDevice(DeviceId id, const CudaSymbols& cuda);

  const DeviceId id_;
  const CudaSymbols& cuda_;
  const std::uint64_t process_;  ///< which process of a line of forks opened it
  Capabilities capabilities_;
  bool is_rdma_capable_ = false;  ///< handles can be made readable by network cards

  base::Mutex access_mutex_;
  std::vector<DeviceId> peers_ LEVEE_GUARDED_BY(access_mutex_);
  /// Ranges with access, start to end; disjoint, neighbours joined.
  std::map<std::uint64_t, std::uint64_t> accessible_ LEVEE_GUARDED_BY(access_mutex_);
};

}  // namespace levee::device
