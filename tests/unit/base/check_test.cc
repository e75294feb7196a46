#include "allocator/base/check.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/heap_count.h"

namespace levee::base {
namespace {

TEST(Check, AConditionThatHoldsDoesNothing) {
  int evaluations = 0;
  LEVEE_CHECK(++evaluations == 1);
  LEVEE_CHECK_EQ(++evaluations, 2);
  EXPECT_EQ(evaluations, 2);
}

TEST(Check, DetailsAreEvaluatedOnFailureOnly) {
  int evaluations = 0;
  LEVEE_CHECK(true, ++evaluations);
  LEVEE_CHECK_LE(1, 2, ++evaluations);
  EXPECT_EQ(evaluations, 0);
}

TEST(CheckDeathTest, TheMessageNamesFileLineConditionAndDetails) {
  const bool is_free = false;
  EXPECT_DEATH(LEVEE_CHECK(is_free), "levee: check failed at .*check_test\\.cc:[0-9]+: is_free\n");
  EXPECT_DEATH(LEVEE_CHECK(is_free, "block at ", DeviceAddr{0x1000}, " of ", 512_B),
               "is_free: block at 0x1000 of 512 B");
}

TEST(CheckDeathTest, TheFileIsNamedFromTheRepositoryRoot) {
  EXPECT_DEATH(LEVEE_CHECK(false), "check failed at tests/unit/base/check_test\\.cc:");
}

TEST(CheckDeathTest, AComparisonPrintsBothOperands) {
  const int small = 3;
  const int big = 5;
  EXPECT_DEATH(LEVEE_CHECK_EQ(small, big), "small == big \\(3 vs 5\\)");
  EXPECT_DEATH(LEVEE_CHECK_NE(small, small), "small != small \\(3 vs 3\\)");
  EXPECT_DEATH(LEVEE_CHECK_LT(big, small), "big < small \\(5 vs 3\\)");
  EXPECT_DEATH(LEVEE_CHECK_LT(big, big), "big < big \\(5 vs 5\\)");
  EXPECT_DEATH(LEVEE_CHECK_LE(big, small), "big <= small \\(5 vs 3\\)");
  EXPECT_DEATH(LEVEE_CHECK_GT(small, big), "small > big \\(3 vs 5\\)");
  EXPECT_DEATH(LEVEE_CHECK_GT(big, big), "big > big \\(5 vs 5\\)");
  EXPECT_DEATH(LEVEE_CHECK_GE(small, big, "in pool ", 7), "small >= big \\(3 vs 5\\): in pool 7");
}

TEST(Check, ComparisonsAcceptWhatTheyShould) {
  LEVEE_CHECK_EQ(3, 3U);
  LEVEE_CHECK_NE(3, 4);
  LEVEE_CHECK_LT(3, 4);
  LEVEE_CHECK_LE(4, 4);
  LEVEE_CHECK_LE(3, 4);
  LEVEE_CHECK_GT(4, 3);
  LEVEE_CHECK_GE(4, 4);
  LEVEE_CHECK_GE(5, 4);
}

TEST(CheckDeathTest, IntegersOfDifferentSignednessCompareByValue) {
  EXPECT_DEATH(LEVEE_CHECK_EQ(-1, ~0U), "\\(-1 vs 4294967295\\)");
  EXPECT_DEATH(LEVEE_CHECK_GE(-1, 0U), "\\(-1 vs 0\\)");
  LEVEE_CHECK_LT(-1, 0U);
}

TEST(CheckDeathTest, AnOperandThatCannotBePrintedIsAQuestionMark) {
  struct Opaque {
    bool operator==(const Opaque&) const { return false; }
  };
  EXPECT_DEATH(LEVEE_CHECK_EQ(Opaque{}, Opaque{}), "\\(\\? vs \\?\\)");
}

TEST(CheckDeathTest, AFailedStatusIsPrinted) {
  LEVEE_CHECK_OK(Status{});
  EXPECT_DEATH(LEVEE_CHECK_OK((Status{StatusCode::kOutOfMemory, 2})),
               "is ok: it is out of memory \\(native code 2\\)");
  EXPECT_DEATH(LEVEE_CHECK_OK((Status{StatusCode::kNotReady, 0}), "event ", 3),
               "it is not ready; event 3");
}

TEST(CheckDeathTest, UnreachableSaysWhatArrived) {
  EXPECT_DEATH(LEVEE_UNREACHABLE("state ", 9), "unreachable: state 9");
}

TEST(CheckDeathTest, AMessageThatIsTooLongIsCutAndStillPrinted) {
  const std::string text(5000, 'x');
  EXPECT_DEATH(LEVEE_CHECK(false, std::string_view{text}), "check failed at .*xxx\\.\\.\\.\n");
}

TEST(CheckDeathTest, DebugChecksFollowTheBuild) {
  int evaluations = 0;
  if constexpr (kChecked) {
    EXPECT_DEATH(LEVEE_DCHECK(evaluations == 1, "detail"), "evaluations == 1: detail");
    EXPECT_DEATH(LEVEE_DCHECK_EQ(evaluations, 1), "evaluations == 1 \\(0 vs 1\\)");
    LEVEE_DCHECK(++evaluations == 1);
    EXPECT_EQ(evaluations, 1);
  } else {
    LEVEE_DCHECK(++evaluations == 5);
    LEVEE_DCHECK_EQ(++evaluations, 5);
    EXPECT_EQ(evaluations, 0);
  }
}

// The message is built on the stack: a process whose heap is full or corrupt still says what broke.
TEST(Check, MakingTheMessageAllocatesNothing) {
  const test::HeapCount count;
  FixedBuffer<detail::kMaxMessage> text;
  detail::begin_message(text, "core/pool.cc", 12, "live == 0");
  text << ": " << 1_MiB << " at " << DeviceAddr{0x10} << " " << 2.5;
  EXPECT_EQ(count.value(), 0);
  EXPECT_EQ(text.view(),
            "levee: check failed at core/pool.cc:12: live == 0: 1048576 B at 0x10 2.5");
}

}  // namespace
}  // namespace levee::base
