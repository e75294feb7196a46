#include "allocator/device/sim/fault_counter.h"

namespace levee::device::sim {

void FaultCounter::install(FaultPlan plan) {
  rules_.clear();
  for (const Fault& fault : plan) rules_.push_back(Rule{fault});
}

FaultCounter::Verdict FaultCounter::consult_slow(CallKind kind, DeviceId device) {
  Verdict verdict;
  bool decided = false;
  for (Rule& rule : rules_) {
    const Fault& fault = rule.fault;
    if (fault.kind != kind || (fault.device.has_value() && *fault.device != device)) continue;
    ++rule.seen;
    if (decided || rule.seen < fault.first || rule.applied >= fault.times) continue;
    const std::uint64_t since = rule.seen - fault.first;
    if (since % (fault.every == 0 ? 1 : fault.every) != 0) continue;
    ++rule.applied;
    verdict = Verdict{fault.status, fault.delay};
    decided = true;
  }
  return verdict;
}

}  // namespace levee::device::sim
