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

// Training with recomputation keeps each layer's input, an evaluation does not; both ask for the
// same sizes. Says how many kept blocks of training were taken for short-lived ones.
int wrong_inputs(Predictor& predictor, bool trains) {
  constexpr int kLayers = 24;
  predictor.begin_step();
  int wrong = 0;
  std::vector<Predictor::Ticket*> inputs;
  for (int layer = 0; layer < kLayers; ++layer) {
    for (int i = 0; i < 4; ++i) predictor.on_free(predictor.on_request(9_MiB).ticket);
    const Predictor::Guess input = predictor.on_request(8_MiB);
    wrong += trains && input.lifetime == Lifetime::kShort ? 1 : 0;
    if (!trains && !inputs.empty()) {
      predictor.on_free(inputs.back());
      inputs.pop_back();
    }
    inputs.push_back(input.ticket);
  }
  // The backward pass outlasts what counts as short.
  for (int i = 0; i < 60; ++i) predictor.on_free(predictor.on_request(9_MiB).ticket);
  for (Predictor::Ticket* input : inputs) predictor.on_free(input);
  return wrong;
}

TEST(Predictor, AnEvaluationDoesNotUnteachTraining) {
  Predictor predictor;
  for (int i = 0; i < 10; ++i) wrong_inputs(predictor, /*trains=*/true);
  EXPECT_EQ(wrong_inputs(predictor, /*trains=*/true), 0);
  for (int i = 0; i < 5; ++i) wrong_inputs(predictor, /*trains=*/false);
  // The first two layers look the same in both.
  EXPECT_LE(wrong_inputs(predictor, /*trains=*/true), 2);
}

}  // namespace
}  // namespace levee::core
