#include "allocator/analysis/facts.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace levee::analysis {

bool is_memory_call(DriverCall call) {
  switch (call) {
    case DriverCall::kMalloc:
    case DriverCall::kFree:
    case DriverCall::kReserveRange:
    case DriverCall::kFreeRange:
    case DriverCall::kCreateHandle:
    case DriverCall::kReleaseHandle:
    case DriverCall::kMap:
    case DriverCall::kSetAccess:
    case DriverCall::kUnmap:
      return true;
    case DriverCall::kNone:
    case DriverCall::kCreateEvent:
    case DriverCall::kDestroyEvent:
    case DriverCall::kRecordEvent:
    case DriverCall::kQueryEvent:
    case DriverCall::kWaitEvent:
    case DriverCall::kSynchronizeEvent:
    case DriverCall::kSynchronizeStream:
    case DriverCall::kSynchronizeDevice:
    case DriverCall::kMemoryInfo:
    case DriverCall::kCaptureState:
    case DriverCall::kCount:
      break;
  }
  return false;
}

bool takes_memory(DriverCall call) {
  return call == DriverCall::kMalloc || call == DriverCall::kCreateHandle;
}

std::uint64_t DriverTotals::total_calls() const {
  return std::accumulate(calls.begin(), calls.end(), std::uint64_t{0});
}

std::uint64_t DriverTotals::total_ns() const {
  return std::accumulate(ns.begin(), ns.end(), std::uint64_t{0});
}

std::uint64_t DriverTotals::memory_calls() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (is_memory_call(static_cast<DriverCall>(i))) sum += calls[i];
  }
  return sum;
}

std::uint64_t DriverTotals::memory_ns() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < ns.size(); ++i) {
    if (is_memory_call(static_cast<DriverCall>(i))) sum += ns[i];
  }
  return sum;
}

const std::string& TraceFacts::name_of(ContextId id) const {
  static const std::string kNoName;
  const auto found = names.find(id.value);
  return found == names.end() ? kNoName : found->second;
}

std::string TraceFacts::phase_path(std::uint32_t node) const {
  if (node == 0 || node >= phases.size()) return "outside any phase";
  std::string out;
  // A parent's index is always smaller, so this ends.
  for (std::uint32_t at = node; at != 0; at = phases[at].parent) {
    const std::string& name = name_of(phases[at].name);
    out = out.empty() ? name : name + "/" + out;
  }
  return out;
}

const ThreadFacts* TraceFacts::find_thread(std::uint32_t index) const {
  const auto found = std::lower_bound(
      threads.begin(), threads.end(), index,
      [](const ThreadFacts& thread, std::uint32_t wanted) { return thread.index < wanted; });
  return found == threads.end() || found->index != index ? nullptr : &*found;
}

std::string TraceFacts::thread_name(std::uint32_t index) const {
  const ThreadFacts* thread = find_thread(index);
  if (thread == nullptr) return fmt::format("thread #{}", index);
  return thread->name.empty() ? fmt::format("thread {}", thread->os_id) : thread->name;
}

std::uint64_t TraceFacts::os_thread(std::uint32_t index) const {
  const ThreadFacts* thread = find_thread(index);
  return thread == nullptr ? index : thread->os_id;
}

std::string TraceFacts::step_text(std::uint32_t step) const {
  if (steps.empty()) return {};
  if (step >= steps.size()) return "before the first step";
  if (step >= ended_steps() && step > 0)
    return fmt::format("after step {}", steps[step - 1].number);
  return fmt::format("step {}", steps[step].number);
}

std::uint32_t TraceFacts::device_of(LaneId lane) const {
  return lane.value < lane_table.size() ? lane_table[lane.value].device : 0;
}

std::uint64_t TraceFacts::stream_of(LaneId lane) const {
  return lane.value < lane_table.size() ? lane_table[lane.value].stream : 0;
}

PoolId TraceFacts::pool_of(std::uint16_t index) const {
  return index < pools.size() ? pools[index] : PoolId{};
}

std::uint32_t TraceFacts::step_at(std::uint64_t time_ns) const {
  const auto after =
      std::upper_bound(steps.begin(), steps.end(), time_ns,
                       [](std::uint64_t time, const Step& step) { return time < step.begin_ns; });
  if (after == steps.begin()) return kNone;
  return static_cast<std::uint32_t>(after - steps.begin()) - 1;
}

}  // namespace levee::analysis
