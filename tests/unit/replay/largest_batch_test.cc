#include "bench/replay/largest_batch.h"

#include <gtest/gtest.h>

#include "bench/replay/policies/policy_factory.h"
#include "bench/replay/policies/simple_policies.h"

namespace levee::replay {
namespace {

DecoderOptions small_decoder() {
  DecoderOptions options;
  options.name = "small";
  options.lengths = LengthKind::kLogNormal;
  options.layers = 2;
  options.width = 256;
  options.ffn = 512;
  options.steps = 4;
  return options;
}

PolicyMaker maker() {
  return [](const std::string& name, const OpTrace& trace, Limits limits) {
    std::string why;
    return make_policy(name, trace, limits, {}, &why);
  };
}

TEST(LargestBatch, TheBoundIsWhatLiveBytesAllow) {
  const Limits limits{2_GiB};
  const auto found = largest_batches(small_decoder(), {}, limits, {"bound", "native"}, maker());
  ASSERT_EQ(found.size(), 2U);
  const auto live_at = [](std::uint32_t permille) {
    DecoderOptions options = small_decoder();
    options.scale_permille = permille;
    return facts_of(decoder_trace(options, {})).peak_active;
  };
  EXPECT_LE(live_at(found[0].bound_permille), limits.capacity);
  EXPECT_GT(live_at(found[0].bound_permille + 2) + 2_MiB, limits.capacity);
  EXPECT_EQ(found[0].permille, found[0].bound_permille);
  EXPECT_LT(found[1].permille, found[1].bound_permille) << "native reserves more than live";
  EXPECT_GT(found[1].permille, 0U);
}

TEST(LargestBatch, NothingFitsIntoADeviceThatTheModelAloneFills) {
  const auto found = largest_batches(small_decoder(), {}, Limits{2_MiB}, {"native"}, maker());
  EXPECT_EQ(found[0].bound_permille, 0U);
  EXPECT_EQ(found[0].permille, 0U);
}

}  // namespace
}  // namespace levee::replay
