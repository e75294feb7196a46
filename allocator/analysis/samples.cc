#include "allocator/analysis/samples.h"

#include <algorithm>

namespace levee::analysis {

TraceFacts facts_from_samples(const SampledRun& run) {
  TraceFacts facts;
  facts.label = run.label;
  facts.program = run.program;
  facts.is_modelled = run.is_modelled;
  facts.is_sampled = true;
  facts.events = run.samples.size();
  facts.phases.resize(1);
  DeviceFacts& device = facts.devices.emplace_back();
  device.name = run.device_name;
  device.total_bytes = run.total_bytes;
  std::uint64_t before_ns = 0;
  for (const MemorySample& sample : run.samples) {
    const std::uint64_t middle_ns =
        before_ns + (std::max(sample.time_ns, before_ns) - before_ns) / 2;
    const std::uint64_t reserved = std::max(sample.reserved_peak_bytes, sample.reserved_bytes);
    const std::uint64_t allocated = std::max(sample.allocated_peak_bytes, sample.allocated_bytes);
    if (reserved != sample.reserved_bytes || allocated != sample.allocated_bytes) {
      device.timeline.add(middle_ns, reserved, allocated);
    }
    device.timeline.add(sample.time_ns, sample.reserved_bytes, sample.allocated_bytes);
    if (sample.step >= 0) {
      Step step;
      step.number = static_cast<std::uint64_t>(sample.step);
      step.begin_ns = before_ns;
      step.end_ns = sample.time_ns;
      step.is_complete = true;
      facts.steps.push_back(step);
      device.step_peaks.push_back({reserved, allocated});
    }
    before_ns = std::max(sample.time_ns, before_ns);
  }
  facts.end_ns = before_ns;
  device.timeline.finish(before_ns);
  const auto moment = [&](std::size_t at) {
    MemoryMoment out;
    out.time_ns = device.timeline.time_ns(at);
    out.reserved_bytes = device.timeline.value(Series::kReserved, at);
    out.allocated_bytes = device.timeline.value(Series::kAllocated, at);
    out.free_bytes = out.reserved_bytes - std::min(out.reserved_bytes, out.allocated_bytes);
    out.step = facts.step_at(out.time_ns);
    return out;
  };
  if (!device.timeline.empty()) {
    device.at_reserved_peak = moment(device.timeline.index_of_peak(Series::kReserved));
    device.at_allocated_peak = moment(device.timeline.index_of_peak(Series::kAllocated));
  }
  facts.completeness.remarks.push_back(
      "Made of samples, not of a record: what happened between two samples is not known.");
  return facts;
}

}  // namespace levee::analysis
