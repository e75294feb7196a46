#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "bench/replay/generators/adversarial.h"
#include "bench/replay/generators/catalogue.h"
#include "bench/replay/generators/decoder_trace.h"
#include "bench/replay/generators/seeded_random.h"

namespace levee::replay {
namespace {

TEST(SeededRandom, IsPythonsRandom) {
  // random.Random(1): getrandbits(32) twice, random(), randint(3, 9), lognormvariate(5.6, 0.9).
  SeededRandom random(1);
  EXPECT_EQ(random.next_u32(), 577090037U);
  EXPECT_EQ(random.next_u32(), 2444712010U);
  EXPECT_DOUBLE_EQ(random.uniform(), 0.8474337369372327);
  EXPECT_EQ(random.between(3, 9), 9U);
  EXPECT_NEAR(random.log_normal(5.6, 0.9), 580.2503811019781, 1e-9);
}

/// Ops that a builder would have to repair are mistakes of the generator.
void expect_sound(const OpTrace& trace) {
  EXPECT_TRUE(trace.completeness.is_complete())
      << trace.name << ": " << trace.completeness.sentence();
  std::vector<char> state(trace.id_count, 0);
  for (const Op& op : trace.ops) {
    if (op.kind == OpKind::kStep) continue;
    ASSERT_LT(op.id, trace.id_count);
    if (op.kind == OpKind::kAlloc) {
      ASSERT_EQ(state[op.id]++, 0);
      ASSERT_LT(op.stream, trace.stream_count);
    } else {
      ASSERT_EQ(state[op.id], 1) << trace.name;
      if (op.kind == OpKind::kFree) ++state[op.id];
    }
  }
}

bool same(const OpTrace& a, const OpTrace& b) {
  if (a.ops.size() != b.ops.size()) return false;
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    if (a.ops[i].bytes != b.ops[i].bytes || a.ops[i].id != b.ops[i].id) return false;
  }
  return true;
}

TEST(AdversarialPatterns, AreSoundNamedOnceAndTheSameForTheSameSeed) {
  std::set<std::string> names;
  for (const AdversarialPattern& p : adversarial_patterns()) {
    EXPECT_TRUE(names.insert(p.name).second);
    EXPECT_FALSE(p.attacks.empty());
    const OpTrace trace = p.make(p.name, 3);
    EXPECT_GT(trace.ops.size(), 1000U) << p.name;
    expect_sound(trace);
    EXPECT_TRUE(same(trace, p.make(p.name, 3))) << p.name;
  }
}

RecordedLengths some_lengths() {
  RecordedLengths lengths;
  for (std::uint32_t i = 1; i < 40; ++i) {
    lengths.conversation.push_back(i * 100);
    lengths.code.push_back(i * 180);
  }
  return lengths;
}

TEST(Catalogue, NamesEveryGeneratedTraceOnce) {
  std::set<std::string> names;
  for (const Generated& generated : catalogue()) {
    EXPECT_TRUE(names.insert(generated.name).second) << generated.name;
    EXPECT_FALSE(generated.what.empty());
    EXPECT_EQ(find_generated(generated.name), &generated);
  }
  EXPECT_EQ(names.size(), adversarial_patterns().size() + 16 + 24 + 1);
  EXPECT_EQ(find_generated("nothing"), nullptr);
  EXPECT_EQ(set_of("long"), TraceSet::kLong);
  EXPECT_FALSE(set_of("short"));
  EXPECT_FALSE(read_lengths("no such folder"));
}

TEST(Catalogue, TheSeedIsTheCallers) {
  const Generated* logn = find_generated("logn-lora-ck");
  ASSERT_NE(logn, nullptr);
  EXPECT_FALSE(logn->needs_lengths);
  EXPECT_TRUE(same(logn->make(1, {}), logn->make(1, {})));
  EXPECT_FALSE(same(logn->make(1, {}), logn->make(2, {})));
}

TEST(DecoderTraces, AreSoundInEveryVariant) {
  for (auto named : {named_decoder_traces(1), named_stream_traces(1)}) {
    for (DecoderOptions& options : named) {
      options.steps = 3;
      options.layers = 3;
      options.eval_every = options.eval_every != 0 ? 2 : 0;
      expect_sound(decoder_trace(options, some_lengths()));
    }
  }
  EXPECT_EQ(named_decoder_traces(1).size(), 16U);
  EXPECT_EQ(named_stream_traces(1).size(), 24U);
}

TEST(DecoderTraces, RecomputeKeepsLessAndWorksMore) {
  DecoderOptions options;
  options.steps = 2;
  const OpTrace plain = decoder_trace(options, some_lengths());
  options.recompute = true;
  const OpTrace recompute = decoder_trace(options, some_lengths());
  const TraceFacts a = facts_of(plain);
  const TraceFacts b = facts_of(recompute);
  EXPECT_LT(b.peak_live.value, a.peak_live.value * 3 / 4);
  EXPECT_GT(b.total_seconds, a.total_seconds * 1.2);
  EXPECT_EQ(plain.stream_count, 1U);
}

TEST(DecoderTraces, SideStreamsAreThoseOfThePattern) {
  DecoderOptions options;
  options.steps = 2;
  options.side = SidePattern::kMulti;
  options.side_streams = 16;
  EXPECT_EQ(decoder_trace(options, some_lengths()).stream_count, 17U);
  options.side = SidePattern::kFsdp;
  EXPECT_EQ(decoder_trace(options, some_lengths()).stream_count, 3U);
}

TEST(RecordedLengths, AreReadFromBothFilesOrNotAtAll) {
  const std::string folder =
      testing::TempDir() + "levee_lengths_test_" + std::to_string(::getpid());
  std::filesystem::create_directories(folder);
  const std::string conversation = folder + "/azure_conv.csv";
  const std::string code = folder + "/azure_code.csv";
  EXPECT_FALSE(read_lengths(folder)) << "no file";
  std::ofstream(conversation) << "tokens,generated\n5,1\n6,2\n";
  EXPECT_FALSE(read_lengths(folder)) << "one file";
  for (const char* bad : {"", "tokens,generated\n", "tokens,generated\n5,1\nx,2\n"}) {
    std::ofstream(code) << bad;
    EXPECT_FALSE(read_lengths(folder)) << bad;
  }
  std::ofstream(code) << "tokens,generated\n7,1\n";
  const auto lengths = read_lengths(folder);
  ASSERT_TRUE(lengths);
  EXPECT_EQ(lengths->conversation, (std::vector<std::uint32_t>{5, 6}));
  EXPECT_EQ(lengths->code, (std::vector<std::uint32_t>{7}));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace levee::replay
