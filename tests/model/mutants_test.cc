// Each mutation takes one line of core away; the judge, `validate` or the reference model must
// notice.
//
// A test per line: short programs made for it, then seeded ones. The same programs pass unmutated,
// so that it is the missing line which is found.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "allocator/core/mutants.h"
#include "tests/model/op.h"
#include "tests/model/runner.h"

namespace levee::model_test {
namespace {

using core::Mutant;
constexpr std::uint64_t MiB = 1ULL << 20;

struct Case {
  Mutant mutant;
  const char* name;
  Shape shape;
  /// Words that the report must hold: what notices, and why. One of them is enough.
  std::vector<std::string> words;
};

bool says_one_of(const std::string& problem, const std::vector<std::string>& words) {
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    return problem.find(word) != std::string::npos;
  });
}

// The first report that says one of the words, or else the last one of any kind.
std::string find_problem(const Case& one, std::uint64_t seeds,
                         const std::vector<std::string>& words) {
  RunOptions options;
  options.capacity = one.shape.capacity;
  std::string last;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    const RunResult result = run_isolated(generate(seed, one.shape), options);
    if (result.ok()) continue;
    last = result.problem;
    if (says_one_of(last, words)) break;
  }
  return last;
}

class Mutants : public testing::TestWithParam<Case> {};

TEST_P(Mutants, AreCaught) {
  const Case& one = GetParam();
  core::active_mutant = one.mutant;
  const std::string problem = find_problem(one, 200, one.words);
  core::active_mutant = Mutant::kNone;
  ASSERT_NE(problem, "") << "nothing noticed that the line is gone";
  EXPECT_TRUE(says_one_of(problem, one.words)) << problem;
}

TEST_P(Mutants, ThePlainAllocatorPassesTheSamePrograms) {
  EXPECT_EQ(find_problem(GetParam(), 10, {}), "");
}

INSTANTIATE_TEST_SUITE_P(
    Lines, Mutants,
    testing::Values(
        Case{Mutant::kNoWait,
             "no_wait",
             {.ops = 200, .streams = 3},
             {"unordered use", "use through another address"}},
        Case{Mutant::kNoAliasHide,
             "no_alias_hide",
             {.ops = 300, .capacity = 64 * MiB},
             {"live twice", "another slot", "on offer", "agree"}},
        Case{Mutant::kUnmapBeforeDone,
             "unmap_before_done",
             {.ops = 200, .streams = 2},
             {"unmapped in use"}},
        Case{Mutant::kReleaseWhileMapped,
             "release_while_mapped",
             {.ops = 300, .capacity = 64 * MiB},
             {"reserved is", "leak", "bad range", "map over"}},
        Case{Mutant::kLeakHandle,
             "leak_handle",
             {.ops = 40, .pools = true, .captures = true},
             {"leak", "reserved is"}},
        Case{Mutant::kNoSetAccess, "no_set_access", {.ops = 60}, {"without access"}},
        Case{Mutant::kBlockUnderLock,
             "block_under_lock",
             {.ops = 200, .streams = 2},
             {"under lock", "pool lock"}},
        Case{Mutant::kForgetUses, "forget_uses", {.ops = 300, .streams = 3}, {"unordered use"}},
        Case{Mutant::kLendCaptured,
             "lend_captured",
             {.ops = 400, .streams = 3, .capacity = 128 * MiB, .pools = true, .captures = true},
             {"graph over live", "live twice", "on offer", "unordered use"}},
        Case{Mutant::kWaitInCapture,
             "wait_in_capture",
             {.ops = 400, .streams = 3, .capacity = 128 * MiB, .pools = true, .captures = true},
             {"capture"}},
        Case{Mutant::kPageTwiceInZone,
             "page_twice_in_zone",
             {.ops = 400, .capacity = 64 * MiB},
             {"twice", "overlap", "cut of bytes"}},
        Case{Mutant::kNoCut, "no_cut", {.ops = 60}, {"overlap", "live twice", "free bytes"}},
        Case{Mutant::kNoStamp,
             "no_stamp",
             {.ops = 200, .streams = 3},
             {"unordered use", "use through another address"}},
        Case{Mutant::kNoRollbackUnmap,
             "no_rollback_unmap",
             {.ops = 300, .streams = 2, .capacity = 96 * MiB, .faults = true},
             {"map over a mapping", "leak", "reserved"}}),
    [](const auto& one) { return std::string(one.param.name); });

TEST(MutantList, HasACaseForEachMutation) {
  // The test binary names 14 of them; a new enumerator needs a case above.
  EXPECT_EQ(static_cast<int>(Mutant::kCount) - 1, 14);
}

}  // namespace
}  // namespace levee::model_test
