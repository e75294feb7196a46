#include "allocator/device/sim/latency_table.h"

#include <algorithm>

namespace levee::device::sim {

namespace {

Nanos at_rate(Bytes bytes, double gigabytes_per_second, std::int64_t floor_ns) {
  // 1 GB/s is 1 byte per nanosecond.
  const double ns = static_cast<double>(bytes.value) / gigabytes_per_second;
  return Nanos{std::max(floor_ns, static_cast<std::int64_t>(ns))};
}

}  // namespace

Nanos LatencyTable::kernel_duration(double flop_count, double byte_count) const {
  const double seconds = std::max(flop_count / work.flops, byte_count / work.bytes_per_second);
  return Nanos{std::max(work.kernel_floor_ns, static_cast<std::int64_t>(seconds * 1e9))};
}

Nanos LatencyTable::copy_duration(Bytes bytes, CopyDirection direction, bool pageable) const {
  double rate = work.device_to_device_gbs;
  switch (direction) {
    case CopyDirection::kHostToDevice:
      rate = pageable ? work.pageable_gbs : work.host_to_device_gbs;
      break;
    case CopyDirection::kDeviceToHost:
      rate = pageable ? work.pageable_gbs : work.device_to_host_gbs;
      break;
    case CopyDirection::kDeviceToDevice:
      rate = work.device_to_device_gbs;
      break;
    case CopyDirection::kPeer:
      rate = work.peer_gbs;
      break;
    case CopyDirection::kHostToHost:
      rate = work.pageable_gbs;
      break;
  }
  return at_rate(bytes, rate, work.copy_floor_ns);
}

Nanos LatencyTable::memset_duration(Bytes bytes) const {
  return at_rate(bytes, work.memset_gbs, work.copy_floor_ns);
}

LatencyTable LatencyTable::zero() {
  return LatencyTable{};
}

LatencyTable LatencyTable::published() {
  LatencyTable table;
  const auto set = [&table](CallKind kind, std::int64_t fixed_ns, std::int64_t per_page_ns = 0,
                            std::int64_t per_mib_ns = 0) {
    table[kind] = CallCost{fixed_ns, per_page_ns, per_mib_ns};
  };
  // Whole allocations. About 1 us below 256 B and about 50 us from 4 KiB on was measured on an
  // older GPU, rising above; that a large one costs what its pages cost to create is an assumption
  // taken from the rise.
  set(CallKind::kMalloc, 50'000, 0, 1'000);
  set(CallKind::kFree, 50'000, 0, 500);  // chosen, in addition to the wait for the device
  set(CallKind::kMallocAsync, 2'000);    // chosen: a pool hit
  set(CallKind::kFreeAsync, 1'500);      // chosen
  set(CallKind::kPoolTrim, 50'000);      // chosen
  set(CallKind::kMemoryInfo, 6'000);     // GB10, published
  set(CallKind::kPointerInfo, 200);      // chosen
  // Virtual memory, A100: averages over 4,096 pages of 2 MiB. Reserving 8 GB took 19 us; a release
  // 23 us.
  set(CallKind::kReserveRange, 19'000);
  set(CallKind::kFreeRange, 19'000);  // chosen: as the reservation
  set(CallKind::kCreateHandle, 0, 193'000);
  set(CallKind::kReleaseHandle, 0, 23'000);
  set(CallKind::kRetainHandle, 500);  // chosen
  set(CallKind::kMap, 0, 1'450);
  set(CallKind::kSetAccess, 0, 36'000);
  set(CallKind::kUnmap, 0, 25'600);
  // Streams and events. Query and wait: medians of a V100 trace; record: 0.45 us is the published
  // minimum, 1 us chosen.
  set(CallKind::kCreateStream, 10'000);  // chosen
  set(CallKind::kDestroyStream, 5'000);  // chosen
  set(CallKind::kQueryStream, 1'000);
  set(CallKind::kSynchronizeStream, 2'000);  // chosen, in addition to the wait
  set(CallKind::kWaitEvent, 1'000);
  set(CallKind::kCreateEvent, 1'000);   // chosen
  set(CallKind::kDestroyEvent, 1'000);  // chosen
  set(CallKind::kRecordEvent, 1'000);
  set(CallKind::kQueryEvent, 1'000);
  set(CallKind::kSynchronizeEvent, 2'000);   // chosen, in addition to the wait
  set(CallKind::kElapsedTime, 500);          // chosen
  set(CallKind::kSynchronizeDevice, 3'000);  // chosen, in addition to the wait
  // Work. A launch: median of 19,370 launches in a V100 trace.
  set(CallKind::kLaunchKernel, 7'000);
  set(CallKind::kMemcpyAsync, 7'000);  // chosen: as a launch
  set(CallKind::kMemcpy, 7'000);
  set(CallKind::kMemsetAsync, 7'000);
  set(CallKind::kMemset, 7'000);
  set(CallKind::kLaunchHostFunction, 7'000);
  // Capture and graphs, all chosen.
  set(CallKind::kBeginCapture, 5'000);
  set(CallKind::kEndCapture, 20'000);
  set(CallKind::kCaptureInfo, 100);
  set(CallKind::kGraphBuild, 500);
  set(CallKind::kInstantiateGraph, 200'000);
  set(CallKind::kLaunchGraph, 10'000);
  set(CallKind::kDestroyGraph, 10'000);
  // Pinned host memory, chosen: 100 us and what touching the pages costs.
  set(CallKind::kHostAlloc, 100'000, 0, 100'000);
  set(CallKind::kHostFree, 100'000, 0, 20'000);
  set(CallKind::kHostRegister, 50'000, 0, 50'000);
  set(CallKind::kHostUnregister, 50'000);
  set(CallKind::kModuleLoad, 100'000);
  return table;
}

}  // namespace levee::device::sim
