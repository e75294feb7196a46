// The device calls that bring pages to addresses and take them away, each all or nothing.
//
// Owns nothing. Promises (P4): on success everything asked is done; on failure everything done is
// taken back, and what a failing rollback could not take back is reported as left over, for the
// caller to account for: nothing is ever forgotten. Order of calls: create, map, set access; unmap
// before release. Does not: touch the space, choose, or lock. Called with the growth mutex held and
// no pool lock, since these calls cost from a microsecond to milliseconds and some of them block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <levee/ids.h>
#include <levee/status.h>
#include <levee/units.h>

#include "allocator/device/device.h"

namespace levee::core {

class Mapper {
 public:
  explicit Mapper(device::Device& device) : device_(device) {}

  /// One page to be mapped.
  struct Piece {
    HandleId handle;
    Bytes bytes;
  };
  struct Created {
    Status status;                  ///< of the first call that failed, or ok
    std::vector<HandleId> handles;  ///< all that were asked for, or none
    std::uint32_t made = 0;         ///< that the device granted, whether they were kept or not
    Bytes made_bytes;               ///< of those
    std::vector<Piece> leftover;    ///< could not be released in the rollback; still held
  };
  Created create(std::span<const Bytes> sizes);

  struct Mapped {
    Status status;
    /// After a failure: indices of pieces that are still mapped, since unmapping failed too.
    std::vector<std::uint32_t> leftover;
  };
  /// Maps the pieces side by side from `base`, then sets access over all of them with one call.
  Mapped map(DeviceAddr base, std::span<const Piece> pieces);

  Status unmap(DeviceAddr base, Bytes bytes) { return device_.unmap(base, bytes); }
  Status release(HandleId handle) { return device_.release_handle(handle); }

 private:
  device::Device& device_;
};

}  // namespace levee::core
