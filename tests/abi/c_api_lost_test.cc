// The C interface on a device that is lost while it is used: the third page is never made. Each
// call says what happened, and that it is no want of memory. On a simulated GPU, through
// liblevee.so.
#include "allocator/c_api/levee.h"

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kMiB = std::size_t{1} << 20;

// One program, one process, one loss: GoogleTest runs the tests in the order in which they stand.
class CApiLost : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    // Read at the first call of CUDA, which is below.
    ASSERT_EQ(::setenv("SIMGPU_FAULTS",
                       "cuMemCreate:first=3:every=1:times=forever:error=719;"
                       "cuMemRelease:every=1:times=forever:error=719",
                       /*overwrite=*/1),
              0);
    ASSERT_EQ(levee_set_option("record", "0"), LEVEE_OK);
    ASSERT_EQ(levee_start(), LEVEE_OK) << levee_last_error();
    ASSERT_EQ(levee_allocate(0, 4 * kMiB, nullptr, &kept_), LEVEE_OK) << levee_last_error();
    void* out = &out;
    ASSERT_EQ(levee_allocate(0, 64 * kMiB, nullptr, &out), LEVEE_DEVICE_LOST);
    EXPECT_EQ(out, nullptr);
  }
  static void* kept_;
};
void* CApiLost::kept_ = nullptr;

TEST_F(CApiLost, ARequestIsNoOutOfMemory) {
  void* out = nullptr;
  EXPECT_EQ(levee_allocate(0, 64 * kMiB, nullptr, &out), LEVEE_DEVICE_LOST);
  EXPECT_EQ(out, nullptr);
  EXPECT_THAT(levee_last_error(), HasSubstr("allocate"));
  EXPECT_THAT(levee_last_error(), Not(HasSubstr("out of memory")));
  EXPECT_THAT(levee_last_error(), Not(HasSubstr("Tried to allocate")));
}

TEST_F(CApiLost, WhatIsCachedCannotBeGivenBack) {
  EXPECT_EQ(levee_free(kept_), LEVEE_OK) << "that is between levee and its caller";
  std::size_t given_back = 7;
  EXPECT_EQ(levee_trim(0, 0, &given_back), LEVEE_DEVICE_LOST);
  EXPECT_EQ(given_back, 0U);
  EXPECT_THAT(levee_last_error(), HasSubstr("trim"));
}

}  // namespace
