// After each test case of a program: its name, its time in milliseconds and the mutants that it
// reached, as a line of the file that BRANCHES_LOG names. What was reached outside of all
// cases (the set-up of a suite) is a line for the cases of the suite together.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/branches/switch.h"

namespace {

class Listener final : public testing::EmptyTestEventListener {
 public:
  explicit Listener(const char* path) : log_(path, std::ios::app) {}

  void OnTestStart(const testing::TestInfo& test) override {
    for (int number = 1; number <= levee_branches::kMost; ++number) {
      if (levee_branches::reached[number].load() == 0) continue;
      tell(std::string(test.test_suite_name()) + ".* 1000");
      return;
    }
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    tell(std::string(test.test_suite_name()) + '.' + test.name() + ' ' +
         std::to_string(test.result()->elapsed_time()));
  }

 private:
  void tell(const std::string& about) {
    log_ << about;
    for (int number = 1; number <= levee_branches::kMost; ++number) {
      if (levee_branches::reached[number].exchange(0) != 0) log_ << ' ' << number;
    }
    log_ << std::endl;
  }

  std::ofstream log_;
};

const bool is_listening = [] {
  const char* path = std::getenv("BRANCHES_LOG");
  if (path == nullptr) return false;
  testing::UnitTest::GetInstance()->listeners().Append(new Listener(path));
  return true;
}();

}  // namespace
