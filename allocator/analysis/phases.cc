#include "allocator/analysis/phases.h"

#include <algorithm>

namespace levee::analysis {

PhaseTracker::PhaseTracker() : nodes_(1) {}

std::uint32_t PhaseTracker::child(std::uint32_t parent, ContextId name) {
  const std::uint64_t key = std::uint64_t{parent} << 32 | name.value;
  const auto [found, is_new] =
      children_.try_emplace(key, static_cast<std::uint32_t>(nodes_.size()));
  if (is_new) {
    PhaseNode node;
    node.parent = parent;
    node.name = name;
    node.depth = nodes_[parent].depth + 1;
    nodes_.push_back(node);
  }
  return found->second;
}

void PhaseTracker::push(std::uint32_t thread, ContextId name, std::uint64_t time_ns) {
  std::vector<Open>& stack = stacks_[thread];
  // Deeper than any program nests: the innermost node stands for what is inside it.
  const bool is_too_deep = stack.size() >= kMaxDepth;
  const std::uint32_t node =
      is_too_deep ? stack.back().node : child(stack.empty() ? 0 : stack.back().node, name);
  ++nodes_[node].entries;
  stack.push_back({node, time_ns});
}

void PhaseTracker::pop(std::uint32_t thread, ContextId name, std::uint64_t time_ns) {
  const auto entry = stacks_.find(thread);
  if (entry == stacks_.end()) return;
  std::vector<Open>& stack = entry->second;
  const auto match = std::find_if(stack.rbegin(), stack.rend(),
                                  [&](const Open& open) { return nodes_[open.node].name == name; });
  if (match == stack.rend()) return;
  const auto keep = static_cast<std::size_t>(stack.rend() - match) - 1;
  while (stack.size() > keep) close(thread, stack, time_ns);
}

void PhaseTracker::close(std::uint32_t thread, std::vector<Open>& stack, std::uint64_t time_ns) {
  const Open open = stack.back();
  stack.pop_back();
  spans_.push_back({open.node, thread, open.begin_ns, std::max(time_ns, open.begin_ns)});
  nodes_[open.node].total_ns += spans_.back().end_ns - spans_.back().begin_ns;
}

void PhaseTracker::finish(std::uint64_t time_ns) {
  for (auto& [thread, stack] : stacks_) {
    while (!stack.empty()) close(thread, stack, time_ns);
  }
}

std::uint32_t PhaseTracker::current(std::uint32_t thread) const {
  const auto entry = stacks_.find(thread);
  return entry == stacks_.end() || entry->second.empty() ? 0 : entry->second.back().node;
}

std::vector<PhaseSpan> PhaseTracker::take_spans() {
  // Outer before inner where both begin at once: the outer one is longer.
  std::stable_sort(spans_.begin(), spans_.end(), [](const PhaseSpan& a, const PhaseSpan& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  return std::move(spans_);
}

}  // namespace levee::analysis
