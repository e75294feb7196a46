#include "allocator/analysis/storms.h"

#include <algorithm>
#include <numeric>

namespace levee::analysis {
namespace {

// One device's storm while it grows.
struct OpenStorm {
  Storm storm;
  std::uint64_t last_ns = 0;  // end of the last thing that belongs to it
  bool is_weathered = false;  // something was served

  bool takes(std::uint64_t begin_ns, std::uint32_t step) const {
    if (begin_ns <= last_ns + kStormGapNs) return true;
    return step != kNone && step == storm.last_step;
  }
  void extend(std::uint64_t end_ns, std::uint32_t step) {
    last_ns = std::max(last_ns, end_ns);
    storm.end_ns = last_ns;
    if (step != kNone) storm.last_step = step;
  }
};

OpenStorm open_storm(const Emergency& emergency, std::uint32_t index) {
  OpenStorm out;
  out.storm.begin_ns = emergency.begin_ns;
  out.storm.device = emergency.device;
  out.storm.first_emergency = index;
  out.storm.reserved_before_bytes = emergency.reserved_before_bytes;
  out.storm.first_step = emergency.step;
  out.storm.last_step = emergency.step;
  out.last_ns = emergency.begin_ns;
  return out;
}

}  // namespace

void find_storms(TraceFacts& facts, const std::vector<MemoryActivity>& activity) {
  std::vector<std::vector<const MemoryActivity*>> by_device(facts.devices.size());
  for (const MemoryActivity& act : activity) by_device[act.device].push_back(&act);
  for (std::uint32_t device = 0; device < facts.devices.size(); ++device) {
    const std::vector<const MemoryActivity*>& own = by_device[device];
    OpenStorm open;
    bool is_open = false;
    const auto close = [&] {
      if (!is_open) return;
      is_open = false;
      if (!open.is_weathered) {
        // Refusals and nothing else: they are told one by one.
        auto refused = facts.emergencies.begin() + open.storm.first_emergency;
        for (std::uint32_t left = open.storm.emergencies; left > 0; ++refused) {
          if (refused->device != device) continue;
          refused->storm = kNone;
          --left;
        }
        return;
      }
      Storm& storm = open.storm;
      const Timeline& timeline = facts.devices[device].timeline;
      const Range reserved = timeline.range(Series::kReserved, storm.begin_ns, storm.end_ns);
      storm.reserved_min_bytes = reserved.min;
      if (!timeline.empty()) {
        storm.reserved_end_bytes =
            timeline.value(Series::kReserved, timeline.index_at(storm.end_ns));
      }
      facts.storms.push_back(storm);
    };
    const auto take_activity = [&](const MemoryActivity& act) {
      if (!is_open) return;
      const std::uint32_t step = facts.step_at(act.begin_ns);
      const bool may_follow =
          act.is_inside_emergency || open.storm.reacquired_bytes < open.storm.released_bytes;
      if (!may_follow || !open.takes(act.begin_ns, step)) return;
      open.storm.released_bytes += act.released_bytes;
      if (!act.is_inside_emergency) open.storm.reacquired_bytes += act.acquired_bytes;
      if (act.is_driver_call) {
        ++open.storm.driver_calls;
        open.storm.driver_ns += act.duration_ns;
        if (!act.is_inside_emergency) open.storm.stall_ns += act.duration_ns;
      }
      open.extend(act.begin_ns + act.duration_ns, step);
    };

    auto next = own.begin();
    const auto run_until = [&](std::uint64_t time_ns) {
      for (; next != own.end() && (*next)->begin_ns < time_ns; ++next) take_activity(**next);
    };
    for (std::uint32_t i = 0; i < facts.emergencies.size(); ++i) {
      Emergency& emergency = facts.emergencies[i];
      if (emergency.device != device) continue;
      run_until(emergency.begin_ns);
      if (is_open && !open.takes(emergency.begin_ns, emergency.step)) close();
      if (!is_open) {
        open = open_storm(emergency, i);
        is_open = true;
      }
      emergency.storm = static_cast<std::uint32_t>(facts.storms.size());
      if (emergency.outcome == EmergencyOutcome::kServed ||
          emergency.outcome == EmergencyOutcome::kUnknown) {
        open.is_weathered = true;
      }
      ++open.storm.emergencies;
      open.storm.stall_ns += emergency.duration_ns;
      open.extend(emergency.begin_ns + emergency.duration_ns, emergency.step);
    }
    run_until(~std::uint64_t{0});
    close();
  }
  // Storms of several devices are listed by begin; the emergencies follow them.
  std::vector<std::uint32_t> order(facts.storms.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return facts.storms[a].begin_ns < facts.storms[b].begin_ns;
  });
  std::vector<Storm> sorted;
  std::vector<std::uint32_t> place(order.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    sorted.push_back(facts.storms[order[i]]);
    place[order[i]] = i;
  }
  facts.storms = std::move(sorted);
  for (Emergency& emergency : facts.emergencies) {
    if (emergency.storm != kNone) emergency.storm = place[emergency.storm];
  }
}

}  // namespace levee::analysis
