// After each test case of a program: its name, its time in milliseconds and the mutants that it
// reached, as a line of the file that LEVEE_BRANCHES_LOG names.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "tests/branches/switch.h"

namespace {

class Listener final : public testing::EmptyTestEventListener {
 public:
  explicit Listener(const char* path) : log_(path, std::ios::app) {}

  void OnTestEnd(const testing::TestInfo& test) override {
    log_ << test.test_suite_name() << '.' << test.name() << ' ' << test.result()->elapsed_time();
    // What was reached before the first case, or between two, counts for the next one.
    for (int number = 1; number <= levee_branches::kMost; ++number) {
      if (levee_branches::reached[number].exchange(0) != 0) log_ << ' ' << number;
    }
    log_ << std::endl;
  }

 private:
  std::ofstream log_;
};

const bool is_listening = [] {
  const char* path = std::getenv("LEVEE_BRANCHES_LOG");
  if (path == nullptr) return false;
  testing::UnitTest::GetInstance()->listeners().Append(new Listener(path));
  return true;
}();

}  // namespace
