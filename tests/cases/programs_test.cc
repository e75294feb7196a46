// Every .case file of this folder, under each way of joining pages and on single settings: the
// expectations hold as the allocator is shipped; whatever the settings, the judge, the reference
// model and promise P1 have nothing to say.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cases/case_file.h"

namespace levee::cases {
namespace {

std::vector<std::filesystem::path> case_paths() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(LEVEE_CASES_FOLDER)) {
    if (entry.path().extension() == ".case") paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

CaseFile read_case(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  CaseFile file;
  std::string problem;
  EXPECT_TRUE(parse_case(text.str(), &file, &problem)) << path << ": " << problem;
  return file;
}

class PublicCases : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(PublicCases, AsShipped) {
  const CaseFile file = read_case(GetParam());
  model_test::RunOptions options;
  options.capacity = file.capacity;
  EXPECT_EQ(problem_of(file, options), "")
      << file.id << ", " << file.source << ": " << file.pattern;
}

TEST_P(PublicCases, UnderOtherSettings) {
  CaseFile file = read_case(GetParam());
  file.expectations.clear();
  for (StitchMode stitch : {StitchMode::kAlias, StitchMode::kMove, StitchMode::kNone}) {
    for (Backing backing : {Backing::kPages, Backing::kSegments}) {
      for (bool plain : {false, true}) {
        model_test::RunOptions options;
        options.capacity = file.capacity;
        options.config.stitch = stitch;
        options.config.backing = backing;
        options.config.predict = options.config.rebase = !plain;
        if (plain) options.config.slack = 0;
        options.check_promise = stitch != StitchMode::kNone && backing == Backing::kPages;
        EXPECT_EQ(problem_of(file, options), "")
            << file.id << " with stitch " << static_cast<int>(stitch) << ", backing "
            << static_cast<int>(backing);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, PublicCases, testing::ValuesIn(case_paths()),
                         [](const auto& one) { return one.param.stem().string(); });

TEST(CaseFiles, SayWhatIsWrongWithThem) {
  CaseFile file;
  std::string problem;
  EXPECT_FALSE(parse_case("case C1\ncapacity 8\nexpect refused = 0\nops\n", &file, &problem));
  EXPECT_EQ(problem, "expect refused = 0");
  EXPECT_FALSE(parse_case("case C1\nops\n", &file, &problem));
  EXPECT_FALSE(parse_case("case C1\ncapacity 8\nops\nalloc 1\n", &file, &problem));
  EXPECT_EQ(problem, "alloc 1");
}

TEST(CaseFiles, ExpectationsThatDoNotHoldAreTold) {
  CaseFile file;
  std::string problem;
  ASSERT_TRUE(
      parse_case("# two blocks\ncase C0\nsource us#1 2026\ncapacity 16777216\n"
                 "expect refused == 0\nexpect peak_reserved <= 1\nexpect growths >= 3\n"
                 "ops\nalloc 1 4194304 0\nalloc 2 33554432 0\n",
                 &file, &problem))
      << problem;
  model_test::RunOptions options;
  options.capacity = file.capacity;
  EXPECT_EQ(problem_of(file, options),
            "refused is 1, not == 0\npeak_reserved is 4194304, not <= 1\ngrowths is 1, not >= 3\n");
  file.expectations = {{"colour", "==", 1}};
  EXPECT_EQ(problem_of(file, options), "there is no metric colour");
}

}  // namespace
}  // namespace levee::cases
