#include "allocator/analysis/explain.h"

#include <algorithm>

#include <fmt/format.h>

#include "allocator/analysis/analyze.h"
#include "allocator/analysis/oom_text.h"
#include "allocator/analysis/text.h"

namespace levee::analysis {
namespace {

const EmergencyRung* most_useful(const Emergency& emergency) {
  const EmergencyRung* best = nullptr;
  for (const EmergencyRung& rung : emergency.rungs) {
    if (rung.usable_bytes > 0 && (best == nullptr || rung.usable_bytes > best->usable_bytes)) {
      best = &rung;
    }
  }
  return best;
}

std::string place_text(const TraceFacts& facts, const Emergency& emergency) {
  std::string out = facts.step_text(emergency.step);
  if (!out.empty()) out += ", ";
  out += facts.phase_path(emergency.phase);
  out += ", thread " + facts.thread_name(emergency.thread);
  return out;
}

// What the process could still take from the device when the emergency began. An upper bound: what
// others hold of the device is not in the record. 0 if the device's size is not known.
std::uint64_t obtainable_bytes(const TraceFacts& facts, const Emergency& emergency, bool is_limit) {
  const auto room_to = [&](std::uint64_t most) {
    return most - std::min(most, emergency.reserved_before_bytes);
  };
  const std::uint64_t of_device = room_to(facts.devices[emergency.device].total_bytes);
  if (!is_limit || emergency.limit_bytes == 0) return of_device;
  return of_device == 0 ? room_to(emergency.limit_bytes)
                        : std::min(of_device, room_to(emergency.limit_bytes));
}

// Where memory was when the ladder's end was reached: what it could give back is with the device
// then, so that what is still free lies between live blocks. As the error message counts it.
Squeeze squeeze_of(const TraceFacts& facts, const Emergency& emergency) {
  Emergency after = emergency;
  if (emergency.reserved_after_bytes > 0) {
    after.reserved_before_bytes = emergency.reserved_after_bytes;
  }
  Squeeze out;
  out.requested_bytes = emergency.requested_bytes;
  out.live_bytes = emergency.allocated_bytes + emergency.waiting_bytes;
  out.between_bytes =
      after.reserved_before_bytes - std::min(out.live_bytes, after.reserved_before_bytes);
  out.at_hand_bytes =
      obtainable_bytes(facts, after, emergency.cause == EmergencyCause::kLimitReached);
  return out;
}

std::string advise(const TraceFacts& facts, const Emergency& emergency) {
  const bool failed = emergency.outcome == EmergencyOutcome::kOutOfMemory;
  const std::uint64_t used = emergency.allocated_bytes + emergency.waiting_bytes;
  const std::uint64_t free_bytes =
      emergency.reserved_before_bytes > used ? emergency.reserved_before_bytes - used : 0;
  const bool is_limit = emergency.cause == EmergencyCause::kLimitReached;
  if (emergency.outcome == EmergencyOutcome::kFailed) {
    return "The driver's answer was no want of memory: the exception names its error.";
  }
  if (emergency.cause == EmergencyCause::kMapFailed) {
    return "The driver refused a mapping although memory was free: address space or mapping limits "
           "of the driver. A larger page_size needs fewer mappings.";
  }
  if (emergency.cause == EmergencyCause::kPoolLimitReached) {
    return "Raise the limit of this pool, or let the pool use other memory when it is full.";
  }
  if (failed && free_bytes < emergency.requested_bytes) {
    const std::uint64_t lacking = emergency.requested_bytes - free_bytes;
    const std::uint64_t obtainable = obtainable_bytes(facts, emergency, is_limit);
    if (obtainable >= lacking) {
      return fmt::format(
          "Live blocks fill what this process can have of the device; the rest belongs to others. "
          "Save up to {} (smaller batch, shorter sequences, activation checkpointing).",
          bytes_text(lacking));
    }
    const std::uint64_t missing = lacking - obtainable;
    if (is_limit) {
      return fmt::format(
          "Raise the memory fraction of this process by at least {}, or use a smaller batch.",
          bytes_text(missing));
    }
    return fmt::format(
        "Live blocks fill the device: save at least {} (smaller batch, shorter sequences, "
        "activation checkpointing).",
        bytes_text(missing));
  }
  if (is_refused_by_fragmentation(facts, emergency)) {
    return fmt::format(
        "{} were free, but not in one usable piece: on pages that also hold live blocks, which "
        "`levee report` lists under \"{}\", for the last refusal of this kind.",
        bytes_text(squeeze_of(facts, emergency).between_bytes), kBetweenHeading);
  }
  if (failed) {
    const Squeeze squeeze = squeeze_of(facts, emergency);
    if (!is_limit) return nearly_full_advice(squeeze);
    return fmt::format(
        "Raise the memory fraction of this process by at least {}, or use a smaller batch.",
        bytes_text(squeeze.requested_bytes -
                   std::min(squeeze.at_hand_bytes, squeeze.requested_bytes)));
  }
  const EmergencyRung* rung = most_useful(emergency);
  if (rung == nullptr) {
    return "No rung freed anything, yet the request was served: another thread freed memory "
           "meanwhile. Nothing to do unless it recurs.";
  }
  switch (rung->rung) {
    case LadderRung::kOwnEvents:
      return "Freed blocks waited for work on other streams (record_stream). Let that work finish "
             "earlier, or limit how far the host runs ahead.";
    case LadderRung::kCallbacks:
      return "A library's cache held the memory (its callback gave it back). Bound that cache, or "
             "clear it between phases.";
    case LadderRung::kFragments:
      return "Memory was in pieces kept for other uses; harmless once. If it recurs every step, "
             "mark steps (levee.mark_step) so that placement can learn.";
    case LadderRung::kOtherPools:
      return "Free pages lay in private pools (CUDA graphs, MemPool). Share one pool between "
             "graphs, or release graphs that are done.";
    case LadderRung::kCachedHandles:
      return is_limit ? std::string(
                            "Cached memory had to be given back because of the limit of "
                            "this process. A slightly higher memory fraction avoids it.")
                      : std::string(
                            "Cached memory had to be given back to the device and taken "
                            "anew, which synchronises. The run is within a few percent of "
                            "the device's capacity; a slightly smaller batch avoids it.");
    case LadderRung::kOutOfMemory:
      break;
  }
  return "No rung freed memory, so nothing can be said beyond the cause.";
}

}  // namespace

bool is_refused_by_fragmentation(const TraceFacts& facts, const Emergency& emergency) {
  const std::uint64_t used = emergency.allocated_bytes + emergency.waiting_bytes;
  return emergency.outcome == EmergencyOutcome::kOutOfMemory &&
         emergency.cause != EmergencyCause::kMapFailed &&
         emergency.cause != EmergencyCause::kPoolLimitReached &&
         emergency.reserved_before_bytes >= used &&
         emergency.reserved_before_bytes - used >= emergency.requested_bytes &&
         is_fragmentation_why(squeeze_of(facts, emergency));
}

EmergencyText explain(const TraceFacts& facts, const Emergency& emergency) {
  EmergencyText out;
  const char* outcome = "served";
  if (emergency.outcome == EmergencyOutcome::kOutOfMemory) outcome = "refused (out of memory)";
  if (emergency.outcome == EmergencyOutcome::kFailed) outcome = "refused (an error of the driver)";
  if (emergency.outcome == EmergencyOutcome::kUnknown)
    outcome = "not finished when the record ends,";
  out.headline = fmt::format(
      "At {} on device {}, a request of {} was {} after {}.",
      duration_text(emergency.begin_ns - std::min(facts.start_ns, emergency.begin_ns)),
      facts.devices[emergency.device].device.value, bytes_text(emergency.requested_bytes), outcome,
      duration_text(emergency.duration_ns));
  out.cause = fmt::format("Cause: {}, with {} reserved and {} allocated",
                          cause_text(emergency.cause), bytes_text(emergency.reserved_before_bytes),
                          bytes_text(emergency.allocated_bytes));
  if (emergency.waiting_bytes > 0) {
    out.cause +=
        fmt::format(" and {} waiting for other streams", bytes_text(emergency.waiting_bytes));
  }
  if (emergency.limit_bytes > 0) {
    out.cause += fmt::format(" (limit {})", bytes_text(emergency.limit_bytes));
  }
  out.cause += ".";
  for (const EmergencyRung& rung : emergency.rungs) {
    if (rung.rung == LadderRung::kOutOfMemory) continue;  // the end of trying
    out.rungs.push_back(fmt::format(
        "{}: {} in {}", rung_text(rung.rung),
        rung.usable_bytes == 0 ? std::string("nothing") : bytes_text(rung.usable_bytes) + " usable",
        duration_text(rung.duration_ns)));
  }
  out.paid = fmt::format("Paid by {}: {}, of which {} in {}.", place_text(facts, emergency),
                         duration_text(emergency.duration_ns), duration_text(emergency.driver_ns),
                         counted(emergency.driver_calls, "driver call", "driver calls"));
  if (emergency.released_bytes > 0) {
    out.paid += fmt::format(" {} went back to the device.", bytes_text(emergency.released_bytes));
  }
  out.advice = advise(facts, emergency);
  return out;
}

std::string emergency_text(const TraceFacts& facts, const Emergency& emergency) {
  const EmergencyText text = explain(facts, emergency);
  std::string out = text.headline + "\n" + text.cause + "\n";
  for (std::size_t i = 0; i < text.rungs.size(); ++i) {
    out += fmt::format("Rung {}: {}.\n", i + 1, text.rungs[i]);
  }
  out += text.paid + "\nAdvice: " + text.advice + "\n";
  return out;
}

std::string storm_text(const TraceFacts& facts, const Storm& storm) {
  std::string where = facts.step_text(storm.first_step);
  if (storm.last_step != storm.first_step && storm.last_step != kNone) {
    where += " to " + facts.step_text(storm.last_step);
  }
  std::string out = fmt::format(
      "{}: {}, {} given back, {} taken again, {} costing {}; the program lost {}",
      where.empty()
          ? std::string("device ") + std::to_string(facts.devices[storm.device].device.value)
          : where,
      counted(storm.emergencies, "emergency", "emergencies"), bytes_text(storm.released_bytes),
      bytes_text(storm.reacquired_bytes),
      counted(storm.driver_calls, "driver memory call", "driver memory calls"),
      duration_text(storm.driver_ns), duration_text(storm.stall_ns));
  if (storm.reserved_min_bytes < storm.reserved_before_bytes) {
    out += fmt::format("; reserved fell from {} to {}", bytes_text(storm.reserved_before_bytes),
                       bytes_text(storm.reserved_min_bytes));
  }
  return out + ".";
}

bool has_memory(const TraceFacts& facts) {
  return !facts.out_of_memory.empty() ||
         std::any_of(facts.devices.begin(), facts.devices.end(), [&](const DeviceFacts& device) {
           return device.allocations > 0 ||
                  device.timeline.range(Series::kReserved, 0, facts.end_ns).max > 0;
         });
}

std::vector<std::string> advice(const TraceFacts& facts) {
  std::vector<std::string> out;
  if (!has_memory(facts)) return out;
  if (!facts.out_of_memory.empty()) {
    const OutOfMemory& last = facts.out_of_memory.back();
    std::string text =
        fmt::format("{} refused; the last asked for {} with {} reserved.",
                    counted(facts.out_of_memory.size(), "request was", "requests were"),
                    bytes_text(last.requested_bytes), bytes_text(last.reserved_bytes));
    for (auto one = facts.emergencies.rbegin(); one != facts.emergencies.rend(); ++one) {
      if (one->outcome != EmergencyOutcome::kOutOfMemory) continue;
      text += fmt::format(" What would help is said at the emergency of {}.",
                          duration_text(one->begin_ns - std::min(facts.start_ns, one->begin_ns)));
      break;
    }
    out.push_back(std::move(text));
  }
  std::uint64_t stall = 0;
  for (const Storm& storm : facts.storms) stall += storm.stall_ns;
  if (!facts.storms.empty()) {
    out.push_back(
        fmt::format("{} cost {} ({} of the run): the run works at the edge of its memory. A batch "
                    "a few percent smaller, or a higher limit, removes them.",
                    counted(facts.storms.size(), "storm", "storms"), duration_text(stall),
                    share_text(stall, facts.duration_ns())));
  }
  for (const DeviceFacts& device : facts.devices) {
    const MemoryMoment& peak = device.at_reserved_peak;
    const std::uint64_t used =
        device.at_allocated_peak.allocated_bytes + device.at_allocated_peak.waiting_bytes;
    // Less than that is no loss to speak of, whatever its share.
    constexpr std::uint64_t kWorthWords = 64 << 20;
    if (used > 0 && peak.reserved_bytes > used + std::max(used / 20, kWorthWords)) {
      std::string text = fmt::format(
          "Device {}: at its peak levee reserved {}, {} times the most that was in use at once.",
          device.device.value, bytes_text(peak.reserved_bytes),
          ratio_text(peak.reserved_bytes, used));
      if (!device.pins.empty()) {
        const Pin& most = device.pins.front();
        text += fmt::format(
            " Most of what cannot be given back is pinned by what was allocated {}{} ({}).",
            most.origin == facts.phase_path(0) ? "" : "in ", most.origin,
            bytes_text(most.pinned_bytes));
      }
      out.push_back(std::move(text));
    }
    if (device.warm_step != kNone && !facts.is_sampled) {
      std::uint64_t calls = 0;
      std::uint64_t steps = 0;
      for (std::size_t i = device.warm_step; i < facts.ended_steps(); ++i) {
        calls += facts.steps[i].memory_calls;
        if (facts.steps[i].memory_calls > 0) ++steps;
      }
      if (calls > 0 && facts.emergencies.empty()) {
        out.push_back(fmt::format(
            "{} after the first {}, in {}: live memory kept making new maxima, or sizes never "
            "settled.",
            counted(calls, "driver memory call was made", "driver memory calls were made"),
            counted(kWarmUpSteps, "step", "steps"), counted(steps, "step", "steps")));
      }
    }
    if (device.idle.allocator_ns * 100 > device.idle.kernel_ns + device.idle.idle_ns &&
        device.idle.kernel_ns > 0) {
      out.push_back(fmt::format(
          "The GPU was idle for {} while the allocator was in the driver ({} of the time between "
          "the "
          "first and the last kernel).",
          duration_text(device.idle.allocator_ns),
          share_text(device.idle.allocator_ns, device.idle.kernel_ns + device.idle.idle_ns)));
    }
  }
  if (facts.steps.empty() && !facts.is_sampled) {
    out.push_back(
        "No steps are marked. levee.mark_step() (or an optimizer hook) marks them; then placement "
        "can "
        "learn from the position in the step, and this report shows costs by step.");
  }
  if (out.empty()) {
    const bool has_steady_state =
        !facts.is_sampled && std::any_of(facts.devices.begin(), facts.devices.end(),
                                         [](const auto& d) { return d.warm_step != kNone; });
    std::string text = has_steady_state
                           ? "Nothing to do: reserved memory follows what is in use, and steady "
                             "state made no driver call."
                           : fmt::format(
                                 "Nothing to do: reserved memory follows what is in use. "
                                 "What a steady state costs is seen in recordings of more "
                                 "than {} steps.",
                                 kWarmUpSteps);
    // Praise of what is not in the file would be a guess.
    if (!facts.completeness.remarks.empty())
      text = "As far as the recording goes: n" + text.substr(1);
    out.push_back(std::move(text));
  }
  return out;
}

}  // namespace levee::analysis
