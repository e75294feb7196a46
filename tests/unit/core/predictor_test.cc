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
    step.right += brief.lifetime != Lifetime::kLong ? 1 : 0;
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

// A step of scratch memory (gone at once), of blocks that a dozen requests outlive, and of one that
// is large and gone at once. What was said of the last of each.
struct Said {
  Lifetime scratch = Lifetime::kLong;
  Lifetime stays_a_while = Lifetime::kLong;
  Lifetime large = Lifetime::kLong;
};
Said play_scratch(Predictor& predictor) {
  Said said;
  predictor.begin_step();
  for (int i = 0; i < 20; ++i) {
    const Predictor::Guess while_ = predictor.on_request(3_MiB);
    said.stays_a_while = while_.lifetime;
    for (int k = 0; k < 12; ++k) {
      const Predictor::Guess scratch = predictor.on_request(4_MiB);
      said.scratch = scratch.lifetime;
      predictor.on_free(scratch.ticket);
    }
    predictor.on_free(while_.ticket);
  }
  const Predictor::Guess large = predictor.on_request(16_MiB);
  said.large = large.lifetime;
  predictor.on_free(large.ticket);
  return said;
}

TEST(Predictor, WhatGoesAtOnceIsToldFromWhatGoesSoon) {
  Predictor predictor;
  for (int step = 1; step <= 12; ++step) {
    const Said said = play_scratch(predictor);
    EXPECT_NE(said.stays_a_while, Lifetime::kBrief) << step;
    EXPECT_NE(said.large, Lifetime::kBrief) << "four times the mean";
    if (step < 5) {
      EXPECT_NE(said.scratch, Lifetime::kBrief) << "too early to count on it";
    } else {
      EXPECT_EQ(said.scratch, Lifetime::kBrief) << step;
      EXPECT_EQ(said.stays_a_while, Lifetime::kShort) << step;
      EXPECT_EQ(said.large, Lifetime::kShort) << step;
    }
  }
}

TEST(Predictor, OneLongerLifeUndoesAHabitOfBriefOnes) {
  Predictor predictor;
  for (int step = 0; step < 12; ++step) play_scratch(predictor);
  // The same moments, but what was scratch memory stays for twenty requests.
  std::vector<Predictor::Ticket*> kept;
  for (int repeat = 0; repeat < 2; ++repeat) {
    predictor.begin_step();
    const Predictor::Guess first = predictor.on_request(3_MiB);
    const Predictor::Guess scratch = predictor.on_request(4_MiB);
    EXPECT_EQ(scratch.lifetime, repeat == 0 ? Lifetime::kBrief : Lifetime::kShort);
    for (int k = 0; k < 20; ++k) kept.push_back(predictor.on_request(4_MiB).ticket);
    predictor.on_free(scratch.ticket);
    predictor.on_free(first.ticket);
    for (Predictor::Ticket* ticket : kept) predictor.on_free(ticket);
    kept.clear();
  }
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
