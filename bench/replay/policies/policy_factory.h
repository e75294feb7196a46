// Policies by name: the one list that the lab's command, `levee replay` and the scoreboard share.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bench/replay/op_trace.h"
#include "bench/replay/policy.h"

namespace levee::replay {

struct PolicyInfo {
  std::string_view name;
  std::string_view what;
};

/// All of them, in the order of tables. Those that this build lacks say so when they are made.
const std::vector<PolicyInfo>& policy_list();

struct PolicyOptions {
  bool judge = false;      ///< levee: count hazards
  bool step_marks = true;  ///< levee: is told of steps
};

/// Nothing, with one sentence in `why`, if there is no such policy, or this build lacks it.
std::unique_ptr<ReplayPolicy> make_policy(std::string_view name, const OpTrace& trace,
                                          Limits limits, const PolicyOptions& options,
                                          std::string* why);

}  // namespace levee::replay
