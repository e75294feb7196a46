// Phases: which named spans of the program were open on a thread, as a tree over the whole run.
//
// Owns the tree, the open stack of each thread and the finished spans. Promises: a pop that does
// not match the top closes everything above the phase it names, and is ignored if that phase is not
// open, so that a lost event costs names, not the pass. Node 0 is "outside any phase".
// Single-threaded.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "allocator/analysis/facts.h"

namespace levee::analysis {

class PhaseTracker {
 public:
  static constexpr std::size_t kMaxDepth = 256;  ///< phases nested deeper share the innermost node

  PhaseTracker();

  void push(std::uint32_t thread, ContextId name, std::uint64_t time_ns);
  void pop(std::uint32_t thread, ContextId name, std::uint64_t time_ns);
  /// Closes what is still open.
  void finish(std::uint64_t time_ns);

  /// Innermost open phase of the thread; 0 if none.
  std::uint32_t current(std::uint32_t thread) const;
  PhaseNode& node(std::uint32_t index) { return nodes_[index]; }
  std::vector<PhaseNode> take_nodes() { return std::move(nodes_); }
  /// By begin.
  std::vector<PhaseSpan> take_spans();

 private:
  struct Open {
    std::uint32_t node;
    std::uint64_t begin_ns;
  };
  std::uint32_t child(std::uint32_t parent, ContextId name);
  void close(std::uint32_t thread, std::vector<Open>& stack, std::uint64_t time_ns);

  std::vector<PhaseNode> nodes_;
  std::unordered_map<std::uint64_t, std::uint32_t> children_;    // parent << 32 | name
  std::unordered_map<std::uint32_t, std::vector<Open>> stacks_;  // by thread
  std::vector<PhaseSpan> spans_;
};

}  // namespace levee::analysis
