// Faults as data: which call of which kind fails, how, and how often; which event completes late or
// never.
//
// A plan is a list of rules that the model consults at each counted call, in order; the first that
// applies wins. A call that fails by a rule has changed nothing (but has cost its time). Counting
// starts when the plan is installed. Costs nothing while no rule is installed.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/device/native_status.h"
#include "allocator/device/sim/call_kind.h"

namespace levee::device::sim {

inline constexpr Nanos kNever{std::numeric_limits<std::int64_t>::max() / 4};

struct Fault {
  CallKind kind = CallKind::kMalloc;
  std::optional<DeviceId> device;  ///< none: calls on every device, counted together
  std::uint64_t first = 1;         ///< the first call that fails, counted from 1 since installation
  std::uint64_t every = 1;         ///< then each further `every`-th ...
  std::uint64_t times = 1;         ///< ... until it has failed this often. kForever: no end
  Native status = Native::kOutOfMemory;
  /// With kRecordEvent and status kSuccess: the record works, but the event completes this much
  /// later than the work before it (kNever: not within the life of the process). Only the event is
  /// late; the stream goes on.
  Nanos delay{};

  static constexpr std::uint64_t kForever = std::numeric_limits<std::uint64_t>::max();

  static Fault fail_nth(CallKind kind, std::uint64_t n, Native status = Native::kOutOfMemory) {
    return Fault{.kind = kind,
                 .device = {},
                 .first = n,
                 .every = 1,
                 .times = 1,
                 .status = status,
                 .delay = {}};
  }
  static Fault fail_every(CallKind kind, std::uint64_t k, Native status = Native::kOutOfMemory) {
    return Fault{.kind = kind,
                 .device = {},
                 .first = k,
                 .every = k,
                 .times = kForever,
                 .status = status,
                 .delay = {}};
  }
  /// Calls number `first` to `last` fail.
  static Fault fail_window(CallKind kind, std::uint64_t first, std::uint64_t last,
                           Native status = Native::kOutOfMemory) {
    return Fault{.kind = kind,
                 .device = {},
                 .first = first,
                 .every = 1,
                 .times = last - first + 1,
                 .status = status,
                 .delay = {}};
  }
  /// The event recorded by the n-th record completes `delay` late.
  static Fault late_event(std::uint64_t n, Nanos delay = kNever) {
    return Fault{.kind = CallKind::kRecordEvent,
                 .device = {},
                 .first = n,
                 .every = 1,
                 .times = 1,
                 .status = Native::kSuccess,
                 .delay = delay};
  }
};

using FaultPlan = std::vector<Fault>;

}  // namespace levee::device::sim
