#include "allocator/c_api/config_reader.h"

#include <cstdlib>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace levee::c_api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Sets a variable for the length of a test.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~ScopedVariable() { unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

Bytes parsed(std::string_view text) {
  Bytes bytes{123};
  EXPECT_TRUE(parse_bytes(text, &bytes)) << text;
  return bytes;
}

TEST(ParseBytes, TakesTheWaysInWhichPeopleWriteSizes) {
  EXPECT_EQ(parsed("2097152"), 2_MiB);
  EXPECT_EQ(parsed("2MiB"), 2_MiB);
  EXPECT_EQ(parsed(" 2 mib "), 2_MiB);
  EXPECT_EQ(parsed("2M"), 2_MiB);
  EXPECT_EQ(parsed("2Mi"), 2_MiB);
  EXPECT_EQ(parsed("2MB"), 2'000'000_B);
  EXPECT_EQ(parsed("1.5GiB"), 1536_MiB);
  EXPECT_EQ(parsed("0"), 0_B);
  EXPECT_EQ(parsed("512B"), 512_B);
  EXPECT_EQ(parsed("3TiB"), 3072_GiB);
}

TEST(ParseBytes, KeepsEveryBitOfPlainNumbers) {
  EXPECT_EQ(parsed("9007199254740993"), 9007199254740993_B);  // 2^53 + 1
  EXPECT_EQ(parsed("9223372036854775808"), (Bytes{1ULL << 63}));
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const char* text :
       {"", " ", "MiB", "-1", "+1", "1e3", "0x10", "nan", "inf", "1.5", "1..5GiB", "2XiB", "2MiBB",
        "2 M B", "9223372036854775809", "99999999TiB", "18446744073709551616", "1,5GiB", "0.3B"}) {
    Bytes bytes{123};
    EXPECT_FALSE(parse_bytes(text, &bytes)) << text;
    EXPECT_EQ(bytes, Bytes{123}) << text;
  }
}

TEST(FormatBytes, ReadsBackAsTheSameNumber) {
  for (const Bytes bytes : {0_B, 1_B, 1023_B, 1_KiB, 1536_KiB, 2_MiB, 3_GiB, 1025_GiB, 2048_GiB,
                            Bytes{(1ULL << 53) + 1}}) {
    EXPECT_EQ(parsed(format_bytes(bytes)), bytes) << format_bytes(bytes);
  }
  EXPECT_EQ(format_bytes(2_MiB), "2MiB");
}

TEST(SetOption, SetsEveryOptionFromItsOwnText) {
  Config changed;
  changed.backing = Backing::kSegments;
  changed.stitch = StitchMode::kMove;
  changed.page_size = 32_MiB;
  changed.larger_pages_from = 1_GiB;
  changed.largest_page = 4_MiB;
  changed.slack = 0.25;
  changed.guard_share = 0.5;
  changed.guard_growth = 2.5;
  changed.guard_windows = 50;
  changed.predict = false;
  changed.rebase = false;
  changed.stream_affinity = false;
  changed.memory_fraction = 0.5;
  changed.record = false;
  changed.trace_path = "/some where/run.levee";
  changed.trace_cap = 0_B;
  changed.record_stacks = true;
  Config copy;
  for (const OptionInfo& info : options()) {
    EXPECT_NE(option_text(changed, info.name), option_text(Config{}, info.name)) << info.name;
    EXPECT_EQ(set_option(copy, info.name, option_text(changed, info.name)), "") << info.name;
    EXPECT_EQ(option_text(copy, info.name), option_text(changed, info.name)) << info.name;
  }
}

TEST(SetOption, RefusesABadValueWithWhatWouldBeAcceptedAndChangesNothing) {
  const struct {
    const char* name;
    const char* text;
    const char* hint;
  } cases[] = {
      {"backing", "paged", "pages, segments or auto"},
      {"stitch", "", "alias, move or none"},
      {"page_size", "3MiB", "a multiple of 2MiB"},
      {"page_size", "0", "a multiple of 2MiB"},
      {"page_size", "2GiB", "up to 1GiB"},
      {"largest_page", "3MiB", "a multiple of 2MiB"},
      {"larger_pages_from", "much", "0 (never), or a size"},
      {"slack", "1.1", "from 0 to 1"},
      {"guard_share", "-0.1", "from 0 to 1"},
      {"guard_growth", "9", "from 0 to 8"},
      {"guard_windows", "0", "from 1 to"},
      {"guard_windows", "2.5", "from 1 to"},
      {"guard_windows", "1000001", "from 1 to"},
      {"slack", "nan", "from 0 to 1"},
      {"slack", "-0", "from 0 to 1"},
      {"slack", "", "from 0 to 1"},
      {"predict", "maybe", "0 or 1"},
      {"memory_fraction", "0", "above 0"},
      {"memory_fraction", "1.5", "up to 1"},
      {"trace_cap", "1KiB", "at least 1MiB"},
  };
  for (const auto& each : cases) {
    Config config;
    const std::string sentence = set_option(config, each.name, each.text);
    EXPECT_THAT(sentence, HasSubstr(each.hint)) << each.name << "=" << each.text;
    EXPECT_THAT(sentence, HasSubstr(each.name));
    EXPECT_EQ(option_text(config, each.name), option_text(Config{}, each.name));
  }
}

TEST(OptionText, IsEmptyForWhatIsNoOption) {
  EXPECT_EQ(option_text(Config{}, "colour"), "");
  EXPECT_EQ(option_text(Config{}, ""), "");
}

TEST(SetOption, NamesTheOptionThatWasProbablyMeant) {
  Config config;
  EXPECT_EQ(set_option(config, "page_siez", "2MiB"),
            "page_siez is not an option of levee; did you mean page_size?");
  EXPECT_THAT(set_option(config, "colour", "red"), HasSubstr("the options are backing, stitch,"));
}

TEST(ConfigFromEnvironment, PutsVariablesOverTheDefaults) {
  const ScopedVariable page_size("LEVEE_PAGE_SIZE", "32MiB");
  const ScopedVariable record("LEVEE_RECORD", "off");
  std::string problems;
  const Config config = config_from_environment(&problems);
  EXPECT_EQ(problems, "");
  EXPECT_EQ(config.page_size, 32_MiB);
  EXPECT_FALSE(config.record);
  EXPECT_EQ(config.slack, Config{}.slack);
}

TEST(ConfigFromEnvironment, IgnoresWhatCannotBeUsedAndSaysSo) {
  const ScopedVariable page_size("LEVEE_PAGE_SIZE", "big");
  const ScopedVariable slack("LEVEE_SLACK", "2");
  std::string problems;
  const Config config = config_from_environment(&problems);
  EXPECT_EQ(problems,
            "LEVEE_PAGE_SIZE=big cannot be used: give a multiple of 2MiB up to 1GiB.\n"
            "LEVEE_SLACK=2 cannot be used: give a number from 0 to 1.");
  EXPECT_EQ(config.page_size, Config{}.page_size);
}

TEST(ConfigFromEnvironment, TakesAnEmptyVariableAsNotSet) {
  const ScopedVariable page_size("LEVEE_PAGE_SIZE", "");
  std::string problems;
  EXPECT_EQ(config_from_environment(&problems).page_size, Config{}.page_size);
  EXPECT_EQ(problems, "");
}

TEST(LaunchRank, IsWhatTheLauncherSays) {
  for (const char* name :
       {"RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS",
        "OMPI_COMM_WORLD_RANK", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR",
        "SLURM_JOB_ID", "SLURM_STEP_ID", "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE"}) {
    unsetenv(name);
  }
  // A port alone is no launcher.
  const ScopedVariable port("MASTER_PORT", "29511");
  EXPECT_EQ(launch_rank_from_environment().rank, -1);
  EXPECT_EQ(launch_rank_from_environment().launch, "");
  const ScopedVariable slurm("SLURM_PROCID", "9");
  EXPECT_EQ(launch_rank_from_environment().rank, 9);
  for (const char* no_rank : {"-4", "3rd", "", "99999999999"}) {
    const ScopedVariable rank("RANK", no_rank);
    EXPECT_EQ(launch_rank_from_environment().rank, 9) << no_rank;
  }
  const ScopedVariable rank("RANK", "3");
  const ScopedVariable local("LOCAL_RANK", "three");
  const ScopedVariable world("WORLD_SIZE", "8");
  EXPECT_EQ(launch_rank_from_environment().rank, 3);
  EXPECT_EQ(launch_rank_from_environment().local_rank, -1);
  EXPECT_EQ(launch_rank_from_environment().world_size, 8);
  const ScopedVariable run("TORCHELASTIC_RUN_ID", "nightly");
  EXPECT_EQ(launch_rank_from_environment().launch, "TORCHELASTIC_RUN_ID=nightly MASTER_PORT=29511");
}

TEST(UnknownEnvironmentNames, FindsMisspeltVariablesAndLeavesOthersAlone) {
  // What the developer's own environment brings along.
  for (const std::string& sentence : unknown_environment_names()) {
    unsetenv(sentence.substr(0, sentence.find(' ')).c_str());
  }
  EXPECT_THAT(unknown_environment_names(), IsEmpty());
  const ScopedVariable known("LEVEE_STITCH", "none");
  const ScopedVariable python_side("LEVEE_DISABLE", "0");
  const ScopedVariable unrelated("LEVEES_ON_THE_RIVER", "3");
  const ScopedVariable misspelt("LEVEE_STICH", "none");
  const ScopedVariable strange("LEVEE_QWERTYUIOP", "1");
  EXPECT_THAT(unknown_environment_names(),
              ElementsAre("LEVEE_QWERTYUIOP is not a variable of levee and is ignored.",
                          "LEVEE_STICH is not a variable of levee and is ignored; did you mean "
                          "LEVEE_STITCH?"));
}

}  // namespace
}  // namespace levee::c_api
