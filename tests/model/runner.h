// Runs a program against a real allocator on a judging GpuModel, with the reference model beside
// it.
//
// After each operation: the answers agree with the reference, the counters add up, `validate` holds
// and the judge has found nothing; a refusal is held against promise P1. At the end everything is
// freed, trimmed to nothing, and the model shut down without leaks. A failure is a sentence; a
// broken invariant ends the process, which `run_isolated` turns into a sentence too. Threads of a
// program are real ones that take turns, so that the same program always does the same.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <levee/config.h>
#include <levee/stats.h>

#include "allocator/device/sim/call_kind.h"
#include "allocator/device/sim/fault_plan.h"
#include "tests/model/op.h"

namespace levee::model_test {

struct RunOptions {
  std::uint64_t capacity = 256ULL << 20;
  Config config;
  /// Operations from one `validate` to the next, and from one comparison of the counters to the
  /// next; 0: none but the last.
  std::uint32_t validate_every = 1;
  std::uint32_t compare_every = 1;
  /// In force from the start, as if the program began with it. With a single call that fails, a
  /// request that is refused must leave no memory and no mapping behind.
  device::sim::FaultPlan faults;
  /// What `advance` is multiplied by: the driver-time guard looks at tenths of seconds.
  std::int64_t clock_factor = 1;
  bool check_promise = true;  ///< P1: an out-of-memory although the pages would have sufficed fails
};

struct RunResult {
  std::string problem;  ///< "" if all went well
  std::size_t at = 0;   ///< operation at which it did not
  std::uint64_t served = 0;
  std::uint64_t refused = 0;
  std::uint64_t performed = 0;  ///< operations that did something

  // What the program cost, before everything is given back.
  std::vector<std::uint32_t> refused_ids;
  std::uint64_t peak_reserved = 0;
  std::uint64_t growths = 0;  ///< requests during which the device was asked for memory
  std::uint64_t growths_below_maximum = 0;  ///< ... though live bytes made no new maximum
  std::uint64_t most_events = 0;            ///< alive at a time, the program's own ones included
  Stats stats;
  std::array<std::uint64_t, device::sim::kCallKinds> calls{};

  bool ok() const { return problem.empty(); }
};

RunResult run(const Program& program, const RunOptions& options);
/// In a child process: a crash or a failed check becomes a problem.
RunResult run_isolated(const Program& program, const RunOptions& options);
/// A shorter program that fails in `run_isolated` with the same words.
Program shrink(const Program& program, const RunOptions& options);
/// Runs isolated; on failure the text of a report with the shrunk program, ready to paste. "" if
/// ok.
std::string check(const Program& program, const RunOptions& options);

}  // namespace levee::model_test
