// Seeded random programs against the reference model. `--seed=N` runs one seed, `--programs=N` so
// many seeds of each shape; LEVEE_PROGRAMS in the environment does the same for ctest.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/model/op.h"
#include "tests/model/runner.h"

namespace levee::model_test {
namespace {

std::uint64_t only_seed = 0;
std::uint64_t programs = 40;

struct Case {
  const char* name;
  Shape shape;
  RunOptions options;
};

Case make_case(const char* name, Shape shape, StitchMode stitch = StitchMode::kAlias,
               Backing backing = Backing::kAuto) {
  Case made{name, shape, {}};
  made.options.capacity = shape.capacity;
  made.options.config.stitch = stitch;
  made.options.config.backing = backing;
  // What segments and plain growth cannot promise.
  made.options.check_promise = stitch != StitchMode::kNone && backing != Backing::kSegments;
  return made;
}

// Pages of several units from the first MiB on. The promise counts units, which these cannot keep.
Case with_larger_pages(Case one) {
  one.options.config.larger_pages_from = 8_MiB;
  one.options.config.largest_page = 8_MiB;
  one.options.check_promise = false;
  return one;
}

// The driver-time guard, on as soon as anything was stitched in two steps.
Case with_guard(Case one) {
  one.options.config.guard_share = 1e-9;
  one.options.config.guard_windows = 1;
  one.options.clock_factor = 1000;
  return one;
}

class RandomPrograms : public testing::TestWithParam<Case> {};

TEST_P(RandomPrograms, AgreeWithTheReferenceAndTheJudge) {
  const Case& one = GetParam();
  const std::uint64_t first = only_seed != 0 ? only_seed : 1;
  const std::uint64_t last = only_seed != 0 ? only_seed : programs;
  for (std::uint64_t seed = first; seed <= last; ++seed) {
    const std::string problem = check(generate(seed, one.shape), one.options);
    ASSERT_EQ(problem, "") << "seed " << seed << " of " << one.name;
  }
}

constexpr std::uint64_t MiB = 1ULL << 20;

INSTANTIATE_TEST_SUITE_P(
    Shapes, RandomPrograms,
    testing::Values(
        make_case("one_stream", {.ops = 300}),
        make_case("one_stream_tight", {.ops = 300, .capacity = 64 * MiB}),
        make_case("two_streams", {.ops = 300, .streams = 2}),
        make_case("eight_streams_tight", {.ops = 400, .streams = 8, .capacity = 96 * MiB}),
        make_case("limits", {.ops = 300, .streams = 2, .capacity = 128 * MiB, .limits = true}),
        make_case("faults", {.ops = 300, .streams = 3, .capacity = 96 * MiB, .faults = true}),
        make_case("pools", {.ops = 300, .streams = 3, .capacity = 128 * MiB, .pools = true}),
        make_case(
            "captures",
            {.ops = 400, .streams = 3, .capacity = 192 * MiB, .pools = true, .captures = true}),
        make_case("captures_with_faults", {.ops = 400,
                                           .streams = 3,
                                           .capacity = 128 * MiB,
                                           .faults = true,
                                           .pools = true,
                                           .captures = true}),
        make_case("moving_stitches", {.ops = 300, .streams = 3, .capacity = 96 * MiB},
                  StitchMode::kMove),
        make_case("moving_stitches_with_faults",
                  {.ops = 300, .streams = 3, .capacity = 96 * MiB, .faults = true},
                  StitchMode::kMove),
        with_larger_pages(make_case("larger_pages", {.ops = 300, .streams = 2})),
        with_larger_pages(make_case(
            "larger_pages_with_faults",
            {.ops = 300, .streams = 3, .capacity = 192 * MiB, .faults = true, .pools = true})),
        with_larger_pages(make_case("larger_pages_moving", {.ops = 300, .streams = 2},
                                    StitchMode::kMove)),
        with_guard(make_case("guard", {.ops = 400, .capacity = 160 * MiB})),
        with_guard(make_case("guard_with_faults",
                             {.ops = 400, .streams = 3, .capacity = 160 * MiB, .faults = true})),
        with_guard(make_case("guard_tight_with_pools_and_captures", {.ops = 400,
                                                                     .streams = 3,
                                                                     .capacity = 96 * MiB,
                                                                     .pools = true,
                                                                     .captures = true,
                                                                     .limits = true})),
        make_case("plain_growth", {.ops = 300, .streams = 3, .capacity = 96 * MiB},
                  StitchMode::kNone),
        make_case("segments", {.ops = 300, .streams = 3, .capacity = 192 * MiB}, StitchMode::kAlias,
                  Backing::kSegments)),
    [](const auto& one) { return std::string(one.param.name); });

TEST(RandomProgramsWithTheGuard, HaveItOn) {
  const Case one = with_guard(make_case("guard", {.ops = 400, .capacity = 160 * MiB}));
  int on = 0;
  int grew = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const RunResult result = run(generate(seed, one.shape), one.options);
    on += result.stats.num_guard_entries > 0 ? 1 : 0;
    grew += result.stats.num_guard_growths > 0 ? 1 : 0;
  }
  EXPECT_GT(on, 5);
  EXPECT_GT(grew, 2);
}

TEST(OpLanguage, TextAndGeneratedProgramsAreTheSame) {
  const Program program = generate(
      7,
      {.ops = 500, .streams = 4, .faults = true, .pools = true, .captures = true, .limits = true});
  Program again;
  std::string problem;
  ASSERT_TRUE(parse(to_text(program), &again, &problem)) << problem;
  EXPECT_EQ(to_text(program), to_text(again));
  EXPECT_FALSE(parse("alloc 1 two 3\n", &again, &problem));
  EXPECT_EQ(problem, "alloc 1 two 3");
  EXPECT_FALSE(parse("free 1 2\n", &again, &problem));
}

TEST(Shrinking, FindsTheOperationsThatMatter) {
  // A run without room for two blocks: with the promise turned around, any refusal is a failure.
  Program program = generate(3, {.ops = 60, .capacity = 64 * MiB});
  program.push_back(Alloc{1'000'000, 65 * MiB, 0});
  RunOptions options;
  options.capacity = 64 * MiB;
  EXPECT_TRUE(run_isolated(program, options).ok());
}

}  // namespace
}  // namespace levee::model_test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (const char* count = std::getenv("LEVEE_PROGRAMS")) {
    levee::model_test::programs = std::strtoull(count, nullptr, 10);
  }
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.rfind("--seed=", 0) == 0) levee::model_test::only_seed = std::stoull(arg.substr(7));
    if (arg.rfind("--programs=", 0) == 0) levee::model_test::programs = std::stoull(arg.substr(11));
  }
  return RUN_ALL_TESTS();
}
