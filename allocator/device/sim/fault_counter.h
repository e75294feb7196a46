// Applies a FaultPlan: counts calls and says which of them fails.
//
// Not thread-safe; the model's mutex guards it. Costs: one branch while the plan is empty.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "allocator/device/sim/fault_plan.h"

namespace levee::device::sim {

class FaultCounter {
 public:
  void install(FaultPlan plan);

  struct Verdict {
    Native status = Native::kSuccess;
    Nanos delay{};  ///< for a record that works, but completes late
  };
  /// Counts this call for every rule it matches. The first rule that applies decides.
  Verdict consult(CallKind kind, DeviceId device) {
    if (rules_.empty()) return {};
    return consult_slow(kind, device);
  }

 private:
  struct Rule {
    Fault fault;
    std::uint64_t seen = 0;
    std::uint64_t applied = 0;
  };
  Verdict consult_slow(CallKind kind, DeviceId device);

  std::vector<Rule> rules_;
};

}  // namespace levee::device::sim
