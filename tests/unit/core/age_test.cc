#include "allocator/core/age.h"

#include <gtest/gtest.h>

namespace levee::core {
namespace {

TEST(Age, CountsMarkedSteps) {
  Age age;
  const Age::Moment birth = age.moment();
  age.begin_step();
  EXPECT_EQ(age.now(), 1U);
  EXPECT_FALSE(age.is_old(birth));
  age.begin_step();
  EXPECT_TRUE(age.is_old(birth));
}

TEST(Age, WithoutMarksFourTurnoversStandForAStep) {
  Age age;
  age.pass_bytes(100, 100);
  const Age::Moment birth = age.moment();
  age.pass_bytes(400, 100);
  EXPECT_EQ(age.now(), 1U);
  EXPECT_FALSE(age.is_old(birth));
  age.pass_bytes(400, 100);
  EXPECT_TRUE(age.is_old(birth));
}

TEST(Age, WithoutMarksTheProgramIsYoungWhileLiveBytesGrow) {
  Age age;
  age.pass_bytes(4000, 100);
  age.pass_bytes(4000, 100);
  EXPECT_EQ(age.now(), 10U);
  age.pass_bytes(10, 105);
  EXPECT_EQ(age.now(), 9U) << "a twentieth more: turnovers of 105 now, no new beginning";
  age.pass_bytes(10, 110);
  EXPECT_EQ(age.now(), 0U);
}

TEST(Age, IsSettledTwentyStepsAfterTheLastGrowth) {
  Age age;
  age.pass_bytes(1000, 1000);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(age.is_settled()) << i;
    age.begin_step();
  }
  EXPECT_TRUE(age.is_settled());
  age.pass_bytes(10, 1050);  // less than a sixteenth more
  EXPECT_TRUE(age.is_settled());
  age.pass_bytes(10, 1100);
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(age.is_settled()) << i;
    age.begin_step();
  }
  EXPECT_TRUE(age.is_settled());
}

TEST(Age, WithoutMarksTurnoversSettleIt) {
  Age age;
  age.pass_bytes(1000, 1000);
  age.pass_bytes(79'000, 1000);
  EXPECT_FALSE(age.is_settled());
  age.pass_bytes(2'000, 1000);
  EXPECT_TRUE(age.is_settled());
}

}  // namespace
}  // namespace levee::core
