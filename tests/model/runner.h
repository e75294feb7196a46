// Runs a program against a real allocator on a judging GpuModel, with the reference model beside
// it.
//
// After each operation: the answers agree with the reference, the counters add up, `validate` holds
// and the judge has found nothing. At the end everything is freed, trimmed to nothing, and the
// model shut down without leaks. A failure is a sentence; a broken invariant ends the process,
// which `run_isolated` turns into a sentence too.
#pragma once

#include <cstdint>
#include <string>

#include <levee/config.h>

#include "tests/model/op.h"

namespace levee::model_test {

struct RunOptions {
  std::uint64_t capacity = 256ULL << 20;
  Config config;
  bool validate_each = true;
  bool check_promise = true;  ///< P1: an out-of-memory although the pages would have sufficed fails
};

struct RunResult {
  std::string problem;  ///< "" if all went well
  std::size_t at = 0;   ///< operation at which it did not
  std::uint64_t served = 0;
  std::uint64_t refused = 0;
  bool ok() const { return problem.empty(); }
};

RunResult run(const Program& program, const RunOptions& options);
/// In a child process: a crash or a failed check becomes a problem.
RunResult run_isolated(const Program& program, const RunOptions& options);
/// A shorter program that still fails in `run_isolated`.
Program shrink(const Program& program, const RunOptions& options);
/// Runs isolated; on failure the text of a report with the shrunk program, ready to paste. "" if
/// ok.
std::string check(const Program& program, const RunOptions& options);

}  // namespace levee::model_test
