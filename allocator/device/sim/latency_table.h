// What each call costs the host and what work costs a stream, in virtual time. Data, replaceable as
// a whole: a table measured on hardware takes the place of `published()`.
//
// A call costs `fixed + per_page * pages + per_mib * MiB`, where a page is 2 MiB of the memory
// concerned, rounded up. Figures: "A100" are averages over 4,096 pages of 2 MiB published for the
// VMM calls of an A100 (allocator/device/README.md lists each with its origin); "V100" are medians
// read out of a recorded trace; "chosen" are guesses of the right order.
#pragma once

#include <array>
#include <cstdint>

#include <levee/units.h>

#include "allocator/device/sim/call_kind.h"

namespace levee::device::sim {

struct CallCost {
  std::int64_t fixed_ns = 0;
  std::int64_t per_page_ns = 0;
  std::int64_t per_mib_ns = 0;
};

/// Bandwidths and shortest durations of work on a stream.
struct WorkCosts {
  std::int64_t kernel_floor_ns = 2'500;  ///< chosen: an empty kernel from start to end
  std::int64_t copy_floor_ns = 2'000;    ///< chosen
  double host_to_device_gbs = 25.0;      ///< PCIe 4 x16, pinned, usual practical rate
  double device_to_host_gbs = 25.0;
  double pageable_gbs = 6.0;  ///< chosen: staged through a pinned buffer
  double device_to_device_gbs =
      1'000.0;  ///< bytes read plus bytes written at about 2 TB/s, of an 80 GB A100
  double memset_gbs = 1'500.0;
  double peer_gbs = 250.0;                  ///< NVLink 3, one direction
  double flops = 312e12 * 0.4;              ///< dense bf16 of an A100 at 40 % utilisation
  double bytes_per_second = 2.0e12 * 0.75;  ///< of device memory, for the memory side of a kernel
};

enum class CopyDirection : std::uint8_t {
  kHostToDevice,
  kDeviceToHost,
  kDeviceToDevice,
  kPeer,
  kHostToHost
};

struct LatencyTable {
  std::array<CallCost, kCallKinds> calls{};
  WorkCosts work;

  CallCost& operator[](CallKind kind) { return calls[static_cast<std::size_t>(kind)]; }
  const CallCost& operator[](CallKind kind) const { return calls[static_cast<std::size_t>(kind)]; }

  constexpr Nanos call_cost(CallKind kind, Bytes bytes) const {
    const CallCost& cost = calls[static_cast<std::size_t>(kind)];
    if (cost.per_page_ns == 0 && cost.per_mib_ns == 0) return Nanos{cost.fixed_ns};
    const auto pages = static_cast<std::int64_t>(bytes.value / (2U << 20) +
                                                 (bytes.value % (2U << 20) != 0 ? 1 : 0));
    const auto mib = static_cast<std::int64_t>(bytes.value >> 20);
    return Nanos{cost.fixed_ns + cost.per_page_ns * pages + cost.per_mib_ns * mib};
  }
  /// Duration of a kernel by a roofline: the longer of its arithmetic and its memory traffic.
  Nanos kernel_duration(double flops, double bytes) const;
  Nanos copy_duration(Bytes bytes, CopyDirection direction, bool pageable) const;
  Nanos memset_duration(Bytes bytes) const;

  static LatencyTable published();  ///< the default
  static LatencyTable
  zero();  ///< calls cost nothing, work takes the duration it is given; for unit tests
};

}  // namespace levee::device::sim
