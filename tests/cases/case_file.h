// A public report as a program of operations and what must be true of it.
//
// A .case file: lines that begin with '#' say in our words what the pattern is; then
//   case ID              our label, as in README.md
//   source REPO#N YEAR   where the pattern was reported
//   capacity BYTES
//   expect METRIC RELATION NUMBER      any number of them; metrics as in `value_of`
//   ops
// and the operations, one a line (tests/model/op.h). Beside the expectations every program is held
// against the reference model, the judge, `validate` and promise P1, as all programs are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/model/op.h"
#include "tests/model/runner.h"

namespace levee::cases {

struct Expectation {
  std::string metric;
  std::string relation;  ///< "==", "<=" or ">="
  std::uint64_t number = 0;
};

struct CaseFile {
  std::string id;
  std::string pattern;
  std::string source;
  std::uint64_t capacity = 0;
  std::vector<Expectation> expectations;
  model_test::Program program;
};

/// False, with the reason in `problem`, if the text is no case.
bool parse_case(std::string_view text, CaseFile* file, std::string* problem);

/// False if there is no such metric.
bool value_of(const std::string& metric, const model_test::RunResult& result, std::uint64_t* value);

/// Runs it and compares; "" or what does not hold.
std::string problem_of(const CaseFile& file, const model_test::RunOptions& options);

}  // namespace levee::cases
