#include "allocator/core/predictor.h"

#include <gtest/gtest.h>

#include <vector>

namespace levee::core {
namespace {

// A step: one block that lives through the step, and many that go at once.
struct Step {
  int right = 0;
  int asked = 0;
};
Step play(Predictor& predictor, std::uint64_t scale) {
  Step step;
  const Predictor::Guess kept = predictor.on_request(Bytes{scale * 3});
  ++step.asked;
  step.right += kept.lifetime == Lifetime::kLong ? 1 : 0;
  for (int i = 0; i < 200; ++i) {
    const Predictor::Guess brief = predictor.on_request(Bytes{scale * 2});
    ++step.asked;
    step.right += brief.lifetime == Lifetime::kShort ? 1 : 0;
    predictor.on_free(brief.ticket);
  }
  predictor.on_free(kept.ticket);
  return step;
}

TEST(Predictor, SaysLongUntilAStepIsMarked) {
  Predictor predictor;
  const Step step = play(predictor, 1 << 20);
  EXPECT_EQ(step.right, 1);
}

TEST(Predictor, LearnsTheStepWhateverItsLength) {
  Predictor predictor;
  for (std::uint64_t i = 0; i < 10; ++i) {
    predictor.begin_step();
    play(predictor, (1 << 20) + i * 77'312);
  }
  predictor.begin_step();
  const Step step = play(predictor, 5'000'000);
  EXPECT_GE(step.right * 100, step.asked * 97);
}

TEST(Predictor, ALongLifeIsNoticedWhileTheBlockStillLives) {
  Predictor predictor;
  std::vector<Predictor::Ticket*> kept;
  for (int i = 0; i < 6; ++i) {
    predictor.begin_step();
    const Predictor::Guess leak = predictor.on_request(64_MiB);
    if (i > 3) {
      EXPECT_EQ(leak.lifetime, Lifetime::kLong);
    }
    kept.push_back(leak.ticket);
    for (int k = 0; k < 300; ++k) predictor.on_free(predictor.on_request(8_MiB).ticket);
  }
  for (Predictor::Ticket* ticket : kept) predictor.on_free(ticket);
}

TEST(Predictor, ARequestThatFailedTeachesNothing) {
  Predictor predictor;
  predictor.begin_step();
  for (int i = 0; i < 100; ++i) predictor.drop(predictor.on_request(8_MiB).ticket);
  EXPECT_EQ(predictor.on_request(8_MiB).lifetime, Lifetime::kLong);
}

}  // namespace
}  // namespace levee::core
