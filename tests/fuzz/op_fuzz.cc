// Any bytes are a program of operations; whatever the program, the reference model, `validate` and
// the judge must agree with the allocator.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "tests/model/op.h"
#include "tests/model/runner.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t byte_count) {
  using namespace levee::model_test;
  RunOptions options;
  options.capacity = 128ULL << 20;
  const Program program = decode(std::span(data, byte_count));
  const RunResult result = run(program, options);
  if (!result.ok()) {
    std::fprintf(stderr, "op %zu: %s\n%s\n", result.at, result.problem.c_str(),
                 to_cpp(program).c_str());
    std::abort();
  }
  return 0;
}
