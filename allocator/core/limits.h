// How much memory may be held: the process's limit and what the device last refused.
//
// 0 means no limit. `room` answers in whole units. A limit below what is held takes nothing away;
// it stops creation until enough has been given back. Guarded by the pool lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include <levee/units.h>

namespace levee::core {

struct Limits {
  Bytes process;  ///< most bytes to hold from the device; 0: none

  static constexpr std::uint32_t kNoLimit = std::numeric_limits<std::uint32_t>::max();

  static std::uint32_t room(Bytes limit, Bytes held, Bytes unit) {
    if (limit.value == 0) return kNoLimit;
    if (held >= limit) return 0;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>((limit - held) / unit, kNoLimit - 1));
  }
  std::uint32_t room_units(Bytes reserved, Bytes unit) const {
    return room(process, reserved, unit);
  }
};

}  // namespace levee::core
