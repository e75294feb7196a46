// Traces of a few ops for the tests of the lab.
#pragma once

#include <string>
#include <string_view>

#include "bench/replay/op_trace.h"
#include "bench/replay/policy.h"
#include "bench/replay/readers/csv_reader.h"
#include "bench/replay/runner.h"

namespace levee::replay::test {

/// A trace from the lines of the lab's CSV.
inline OpTrace ops(std::string_view lines) {
  ReadError error;
  ReadOptions options;
  options.name = "small";
  return read_csv(lines, options, &error);
}

inline ReplayResult replay(const OpTrace& trace, ReplayPolicy& policy, Limits limits = {}) {
  return run_policy(trace, facts_of(trace), policy, limits);
}

}  // namespace levee::replay::test
