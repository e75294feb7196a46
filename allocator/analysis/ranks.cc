#include "allocator/analysis/ranks.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "allocator/analysis/text.h"

namespace levee::analysis {

RankReport merge_ranks(const std::vector<const TraceFacts*>& runs, std::size_t max_steps) {
  RankReport out;
  std::map<std::uint64_t, std::vector<const Step*>> by_number;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const TraceFacts& facts = *runs[r];
    RankFacts rank;
    rank.rank = facts.rank;
    rank.label = facts.rank >= 0 ? fmt::format("rank {}", facts.rank) : facts.label;
    for (const DeviceFacts& device : facts.devices) {
      rank.peak_reserved_bytes = std::max(
          rank.peak_reserved_bytes, device.timeline.range(Series::kReserved, 0, facts.end_ns).max);
      rank.peak_allocated_bytes =
          std::max(rank.peak_allocated_bytes,
                   device.timeline.range(Series::kAllocated, 0, facts.end_ns).max);
    }
    rank.emergencies = facts.emergencies.size();
    for (const Step& step : facts.steps) {
      if (!step.is_complete) continue;
      auto& row = by_number[step.number];
      row.resize(runs.size());
      row[r] = &step;
    }
    out.ranks.push_back(std::move(rank));
  }
  // Driver calls inside an emergency are part of it; what is outside is growth.
  const auto allocator_ns = [](const Step& step) {
    return std::max(step.emergency_ns, step.memory_ns);
  };
  for (const auto& [number, row] : by_number) {
    if (std::find(row.begin(), row.end(), nullptr) != row.end()) continue;
    ++out.shared_steps;
    SharedStep shared;
    shared.number = number;
    for (std::uint32_t r = 0; r < row.size(); ++r) {
      const std::uint64_t time = allocator_ns(*row[r]);
      out.ranks[r].allocator_ns += time;
      if (time > kStallNs) ++out.ranks[r].stalled_steps;
      if (time > shared.allocator_ns) {
        shared.others_ns = shared.allocator_ns;
        shared.allocator_ns = time;
        shared.slowest = r;
      } else {
        shared.others_ns = std::max(shared.others_ns, time);
      }
    }
    out.lost_ns += shared.allocator_ns;
    out.ranks[shared.slowest].cost_ns += shared.allocator_ns - shared.others_ns;
    if (shared.allocator_ns > 0) out.worst_steps.push_back(shared);
  }
  std::stable_sort(
      out.worst_steps.begin(), out.worst_steps.end(),
      [](const SharedStep& a, const SharedStep& b) { return a.allocator_ns > b.allocator_ns; });
  if (out.worst_steps.size() > max_steps) out.worst_steps.resize(max_steps);

  const auto worst = std::max_element(
      out.ranks.begin(), out.ranks.end(),
      [](const RankFacts& a, const RankFacts& b) { return a.cost_ns < b.cost_ns; });
  if (out.shared_steps == 0) {
    out.verdict =
        "The ranks have no step in common, so nothing can be said about who waits for whom.";
  } else if (worst == out.ranks.end() || worst->cost_ns <= kStallNs) {
    out.verdict = fmt::format("No rank holds the others up: over {} the allocators cost {} in all.",
                              counted(out.shared_steps, "shared step", "shared steps"),
                              duration_text(out.lost_ns));
  } else {
    out.verdict = fmt::format(
        "{} holds the others up: in {} its allocator took more than {}, and the job lost {} to it.",
        worst->label, counted(worst->stalled_steps, "step", "steps"), duration_text(kStallNs),
        duration_text(worst->cost_ns));
  }
  return out;
}

}  // namespace levee::analysis
