// The C interface as its users see it: through liblevee.so, and without a GPU.
#include "allocator/c_api/levee.h"

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using testing::HasSubstr;

std::string option(const char* name) {
  char buffer[256];
  levee_get_option(name, buffer, sizeof(buffer));
  return buffer;
}

// One program, one process: levee can be started once, so the order of these tests is part of them.
// GoogleTest runs the tests of a suite in the order in which they stand.

TEST(CAbi, SaysItsVersions) {
  EXPECT_EQ(levee_abi_version(), LEVEE_ABI_VERSION);
  EXPECT_THAT(levee_version(), testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
}

TEST(CAbi, BeforeStartEverythingSaysSo) {
  void* pointer = nullptr;
  EXPECT_EQ(levee_is_started(), 0);
  EXPECT_EQ(levee_runtime(), nullptr);
  EXPECT_EQ(levee_allocate(0, 1024, nullptr, &pointer), LEVEE_UNSUPPORTED);
  EXPECT_THAT(levee_last_error(), HasSubstr("not started"));
  int count = 0;
  EXPECT_EQ(levee_device_count(&count), LEVEE_UNSUPPORTED);
  EXPECT_EQ(levee_flush(), LEVEE_UNSUPPORTED);
  EXPECT_EQ(levee_stats_json(0, nullptr, 0), 0U);
  EXPECT_EQ(levee_trace_path(nullptr, 0), 0U);
  levee_push_phase("x");
  levee_pop_phase();
  levee_mark_step();
}

TEST(CAbi, ListsItsSettings) {
  levee_option_info info{};
  int count = 0;
  while (levee_option_at(count, &info) == LEVEE_OK) {
    EXPECT_THAT(info.env, testing::StartsWith("LEVEE_"));
    EXPECT_NE(std::string{info.help}, "");
    ++count;
  }
  EXPECT_GE(count, 11);
  EXPECT_EQ(levee_option_at(-1, &info), LEVEE_INVALID_ARGUMENT);
  EXPECT_EQ(levee_option_at(0, nullptr), LEVEE_INVALID_ARGUMENT);
}

TEST(CAbi, SettingsAreCheckedAndKept) {
  EXPECT_EQ(levee_set_option("page_size", "32MiB"), LEVEE_OK);
  EXPECT_EQ(option("page_size"), "32MiB");
  EXPECT_EQ(levee_set_option("page_size", "huge"), LEVEE_INVALID_ARGUMENT);
  EXPECT_THAT(levee_last_error(), HasSubstr("a multiple of 2MiB"));
  EXPECT_EQ(option("page_size"), "32MiB");
  EXPECT_EQ(levee_set_option("colour", "red"), LEVEE_INVALID_ARGUMENT);
  EXPECT_EQ(levee_set_option(nullptr, "1"), LEVEE_INVALID_ARGUMENT);
  EXPECT_EQ(levee_set_option("record", "0"), LEVEE_OK);
}

TEST(CAbi, TextsFitTheCallersBuffer) {
  EXPECT_EQ(levee_get_option("page_size", nullptr, 0), 5U);
  char small[3] = {'?', '?', '?'};
  EXPECT_EQ(levee_get_option("page_size", small, sizeof(small)), 5U);
  EXPECT_EQ(std::string(small), "32");
  char one = '?';
  levee_get_option("page_size", &one, 1);
  EXPECT_EQ(one, '\0');
}

TEST(CAbi, StartsOnceAndThenKeepsItsSettings) {
  EXPECT_EQ(levee_start(), LEVEE_OK);
  EXPECT_EQ(levee_start(), LEVEE_OK);
  EXPECT_EQ(levee_is_started(), 1);
  EXPECT_NE(levee_runtime(), nullptr);
  EXPECT_EQ(levee_is_forked_child(), 0);
  EXPECT_EQ(levee_set_option("page_size", "2MiB"), LEVEE_UNSUPPORTED);
  EXPECT_THAT(levee_last_error(), HasSubstr("runs already"));
  EXPECT_EQ(option("page_size"), "32MiB");
}

TEST(CAbi, RefusesBadArgumentsWithASentence) {
  void* pointer = nullptr;
  EXPECT_EQ(levee_allocate(0, 0, nullptr, &pointer), LEVEE_OK) << "size 0 is no request";
  EXPECT_EQ(pointer, nullptr);
  EXPECT_EQ(levee_allocate(0, 1, nullptr, nullptr), LEVEE_INVALID_ARGUMENT);
  EXPECT_NE(levee_allocate(12345, 1, nullptr, &pointer), LEVEE_OK);
  EXPECT_NE(std::string{levee_last_error()}, "");
  EXPECT_EQ(levee_free(nullptr), LEVEE_OK);
  int local = 0;
  EXPECT_EQ(levee_free(&local), LEVEE_NOT_OWNED);
  EXPECT_THAT(levee_last_error(), HasSubstr("no memory of levee"));
  EXPECT_EQ(levee_record_use(&local, nullptr), LEVEE_NOT_OWNED);
  EXPECT_EQ(levee_record_use_on(&local, 0, nullptr), LEVEE_NOT_OWNED);
  EXPECT_EQ(levee_base_allocation(&local, nullptr, nullptr), LEVEE_NOT_OWNED);
  for (const double fraction : {0.0, -1.0, 2.0}) {
    EXPECT_EQ(levee_set_memory_fraction(0, fraction), LEVEE_INVALID_ARGUMENT);
  }
}

TEST(CAbi, ReleasesAFilterThatCameToNothing) {
  int released = 0;
  const auto release = [](void* user) { ++*static_cast<int*>(user); };
  EXPECT_NE(levee_pool_begin(12345, 0, 1, nullptr, &released, release), LEVEE_OK);
  EXPECT_EQ(released, 1);
}

TEST(CAbi, KernelsWithoutARecordingAreRefusedWithASentence) {
  EXPECT_EQ(levee_is_recording(), 0);
  EXPECT_EQ(levee_start_kernels(), LEVEE_UNSUPPORTED);
  EXPECT_THAT(levee_last_error(), HasSubstr("recording is off"));
  levee_stop_kernels();
  EXPECT_EQ(levee_intern_stack("a.py:1 f", 8), 0U);
}

}  // namespace
