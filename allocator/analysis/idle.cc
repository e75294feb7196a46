#include "allocator/analysis/idle.h"

#include <algorithm>

namespace levee::analysis {

std::vector<Span> join_spans(std::vector<Span> spans) {
  std::sort(spans.begin(), spans.end());
  std::vector<Span> out;
  for (const Span& span : spans) {
    if (span.second <= span.first) continue;
    if (!out.empty() && span.first <= out.back().second) {
      out.back().second = std::max(out.back().second, span.second);
    } else {
      out.push_back(span);
    }
  }
  return out;
}

void find_idle_gaps(TraceFacts& facts, std::vector<std::vector<Span>> allocator_spans,
                    std::size_t max_gaps) {
  allocator_spans.resize(facts.devices.size());
  for (std::uint32_t device = 0; device < facts.devices.size(); ++device) {
    std::vector<Span> running;
    for (const ActivityLane& lane : facts.lanes) {
      if (lane.device != device) continue;
      for (const Interval& interval : lane.intervals) {
        running.emplace_back(interval.begin_ns, interval.begin_ns + interval.duration_ns);
      }
    }
    running = join_spans(std::move(running));
    const std::vector<Span> allocator = join_spans(std::move(allocator_spans[device]));
    IdleTotals& totals = facts.devices[device].idle;
    std::size_t next = 0;
    for (std::size_t i = 0; i < running.size(); ++i) {
      totals.kernel_ns += running[i].second - running[i].first;
      if (i + 1 == running.size()) break;
      IdleGap gap;
      gap.begin_ns = running[i].second;
      gap.end_ns = running[i + 1].first;
      gap.device = device;
      totals.idle_ns += gap.end_ns - gap.begin_ns;
      while (next < allocator.size() && allocator[next].second <= gap.begin_ns) ++next;
      for (std::size_t k = next; k < allocator.size() && allocator[k].first < gap.end_ns; ++k) {
        gap.allocator_ns +=
            std::min(allocator[k].second, gap.end_ns) - std::max(allocator[k].first, gap.begin_ns);
      }
      totals.allocator_ns += gap.allocator_ns;
      if (gap.allocator_ns > 0) {
        gap.step = facts.step_at(gap.begin_ns);
        facts.idle_gaps.push_back(gap);
      }
    }
  }
  std::stable_sort(
      facts.idle_gaps.begin(), facts.idle_gaps.end(),
      [](const IdleGap& a, const IdleGap& b) { return a.allocator_ns > b.allocator_ns; });
  if (facts.idle_gaps.size() > max_gaps) facts.idle_gaps.resize(max_gaps);
}

}  // namespace levee::analysis
