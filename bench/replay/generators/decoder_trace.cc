#include "bench/replay/generators/decoder_trace.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include <fmt/format.h>

#include "bench/replay/generators/seeded_random.h"

namespace levee::replay {

namespace {

using Id = std::uint64_t;

constexpr std::uint64_t kHalf = 2;  // bytes of a bf16 number
constexpr std::uint64_t kFloat = 4;
constexpr std::uint64_t kIndex = 8;
constexpr std::uint64_t kLoraRank = 16;
constexpr std::uint64_t kAdaptersPerLayer = 4;
constexpr std::uint64_t kShards = 8;  // ranks that share a model under kFsdp
constexpr std::uint64_t kMainStream = 0;

std::vector<std::uint32_t> length_table(LengthKind kind, const RecordedLengths& recorded) {
  std::vector<std::uint32_t> table;
  std::uint32_t longest = 0;
  switch (kind) {
    case LengthKind::kFixed:
      table.assign(10, 1024);
      longest = 1024;
      break;
    case LengthKind::kConversation:
      table = recorded.conversation;
      longest = 4096;
      break;
    case LengthKind::kCode:
      table = recorded.code;
      longest = 8192;
      break;
    case LengthKind::kLogNormal: {
      SeededRandom random(7);
      for (int i = 0; i < 50000; ++i)
        table.push_back(static_cast<std::uint32_t>(random.log_normal(5.6, 0.9)));
      longest = 2048;
      break;
    }
  }
  for (std::uint32_t& n : table) n = std::clamp<std::uint32_t>(n, 8, longest);
  return table;
}

/// One training run, written into a trace.
class DecoderRun {
 public:
  DecoderRun(const DecoderOptions& options, const RecordedLengths& recorded)
      : o_(options),
        lengths_(length_table(options.lengths, recorded)),
        random_(options.seed),
        trace_(options.name) {
    const std::uint64_t square = o_.width * o_.width;
    weights_ = {
        square,   square,  square, square, o_.width * o_.ffn, o_.width * o_.ffn, o_.width * o_.ffn,
        o_.width, o_.width};
    for (const std::uint64_t n : weights_) layer_weights_ += n;
    parameters_ = o_.layers * (4 * square + 3 * o_.width * o_.ffn) + o_.words * o_.width;
  }

  OpTrace run() {
    make_model();
    for (std::uint32_t step = 0; step < o_.steps; ++step) {
      train_step();
      if (o_.eval_every != 0 && step % o_.eval_every == o_.eval_every - 1) {
        for (int i = 0; i < 5; ++i) evaluate();
      }
    }
    return trace_.finish();
  }

 private:
  /// What a layer keeps for its backward pass, in the order of its forward pass.
  enum Saved {
    kNorm,
    kQuery,
    kKey,
    kValue,
    kAttention,
    kLogSum,
    kResidual,
    kNorm2,
    kGate,
    kUp,
    kActivated,
    kProduct,
    kSavedCount
  };
  using SavedIds = std::array<Id, kSavedCount>;
  struct Layer {
    Id input = 0;
    SavedIds saved{};
    bool has_saved = false;
  };

  Id alloc(std::uint64_t bytes, std::uint64_t stream = kMainStream) {
    trace_.alloc(++next_id_, Bytes{bytes}, stream);
    return next_id_;
  }
  void drop(Id id) { trace_.free(id); }
  Id hidden() { return alloc(tokens_ * o_.width * kHalf); }
  Id inner() { return alloc(tokens_ * o_.ffn * kHalf); }
  Id logits(std::uint64_t item) { return alloc(tokens_ * o_.words * item); }

  std::uint64_t draw_length() {
    std::uint32_t longest = 0;
    for (std::uint32_t i = 0; i < o_.batch; ++i)
      longest = std::max(longest, random_.choice(lengths_));
    return longest;
  }

  std::uint64_t scaled(std::uint64_t tokens) const { return tokens * o_.scale_permille / 1000; }

  void begin_step(std::uint64_t tokens, double flops_per_parameter) {
    tokens_ = std::max<std::uint64_t>(1, scaled(tokens));
    trace_.step(static_cast<std::uint64_t>(flops_per_parameter * static_cast<double>(parameters_) *
                                           static_cast<double>(tokens_) / 1e6));
  }

  std::uint64_t shards() const { return o_.side == SidePattern::kFsdp ? kShards : 1; }

  void make_model() {
    trace_.alloc(0, 512_B, kMainStream);  // fixes stream index 0 as the main stream
    trace_.free(0);
    for (std::uint32_t l = 0; l < o_.layers; ++l) {
      for (const std::uint64_t n : weights_) alloc(n * kHalf / shards());
    }
    alloc(o_.words * o_.width * kHalf);
    alloc(o_.words * o_.width * kHalf);
    if (o_.side == SidePattern::kOneShot) {
      std::vector<Id> once;
      for (int i = 0; i < 12; ++i)
        once.push_back(alloc(std::uint64_t{random_.between(64, 512)} << 20, 1));
      for (const Id id : once) drop(id);
    }
  }

  /// Forward pass of one layer over `tokens_`; returns its output.
  Id forward(SavedIds& saved) {
    saved[kNorm] = hidden();
    const Id q = hidden();
    const Id k = hidden();
    saved[kValue] = hidden();
    saved[kQuery] = hidden();  // rotated
    saved[kKey] = hidden();
    drop(q);
    drop(k);
    saved[kAttention] = hidden();
    saved[kLogSum] = alloc(tokens_ * o_.heads * kFloat);
    const Id projected = hidden();
    saved[kResidual] = hidden();
    drop(projected);
    saved[kNorm2] = hidden();
    saved[kGate] = inner();
    saved[kUp] = inner();
    saved[kActivated] = inner();
    saved[kProduct] = inner();
    const Id down = hidden();
    const Id output = hidden();
    drop(down);
    return output;
  }

  void drop_saved(const SavedIds& saved) {
    for (const Saved s : {kNorm, kQuery, kKey, kValue, kAttention, kLogSum, kResidual, kNorm2,
                          kGate, kUp, kActivated, kProduct})
      drop(saved[s]);
  }

  void train_step() {
    std::uint64_t length = draw_length();
    length = (length + o_.pad_to - 1) / o_.pad_to * o_.pad_to;
    begin_step(o_.batch * length, (o_.recompute ? 8.0 : 6.0) * (o_.lora ? 2.0 / 3.0 : 1.0));
    std::vector<Id> batch_tensors;
    if (o_.side == SidePattern::kPrefetch) batch_tensors = prefetch();
    const Id embedded = hidden();
    const Id ids = alloc(tokens_ * kIndex);
    std::vector<Layer> layers;
    const Id last = forward_all(embedded, layers);

    std::vector<Id> gradients;
    Id gradient = loss_and_its_gradient(last, gradients);
    for (const auto& [first, second] : side_buffers_) {
      drop(first);
      drop(second);
    }
    side_buffers_.clear();
    for (std::uint32_t l = o_.layers; l-- > 0;)
      gradient = backward(l, layers[l], embedded, gradient, gradients);
    drop(embedded);
    drop(ids);
    drop(gradient);
    drop(loss_);
    if (!optimizer_made_) make_optimizer();
    for (const Id id : gradients) drop(id);
    for (const Id id : batch_tensors) drop(id);
  }

  Id forward_all(Id embedded, std::vector<Layer>& layers) {
    Id x = embedded;
    if (o_.side == SidePattern::kFsdp) gathered_[0] = gather();
    for (std::uint32_t l = 0; l < o_.layers; ++l) {
      if (o_.side == SidePattern::kFsdp && l + 1 < o_.layers) gathered_[l + 1] = gather();
      if (o_.side == SidePattern::kMulti) side_work(l);
      Layer layer;
      layer.input = x;
      const Id y = forward(layer.saved);
      if (o_.side == SidePattern::kFsdp && l + 1 < o_.layers) release_gathered(l);
      layer.has_saved = !o_.recompute;
      if (o_.recompute) drop_saved(layer.saved);
      layers.push_back(layer);
      x = y;
    }
    return x;
  }

  Id loss_and_its_gradient(Id last, std::vector<Id>& gradients) {
    const Id normed = hidden();
    const Id scores = logits(kHalf);
    const Id scores32 = logits(kFloat);
    const Id log_softmax = logits(kFloat);
    loss_ = alloc(512);
    const Id gradient32 = logits(kFloat);
    drop(log_softmax);
    const Id gradient16 = logits(kHalf);
    drop(gradient32);
    drop(scores32);
    const Id out = hidden();
    if (!o_.lora) gradients.push_back(alloc(o_.words * o_.width * kHalf));
    drop(gradient16);
    drop(scores);
    drop(normed);
    drop(last);
    return out;
  }

  Id backward(std::uint32_t l, Layer& layer, Id embedded, Id gradient, std::vector<Id>& gradients) {
    const auto weight_gradient = [&](std::uint64_t numbers) {
      if (!o_.lora) gradients.push_back(alloc(numbers * kHalf));
    };
    const std::uint64_t square = o_.width * o_.width;
    const std::uint64_t wide = o_.width * o_.ffn;
    if (o_.side == SidePattern::kFsdp && l > 0) gathered_[l - 1] = gather();
    if (!layer.has_saved) drop(forward(layer.saved));
    const SavedIds& saved = layer.saved;
    const Id d_product = inner();
    weight_gradient(wide);
    const Id d_gate = inner();
    const Id d_up = inner();
    drop(d_product);
    drop(saved[kProduct]);
    drop(saved[kActivated]);
    const Id d_norm_a = hidden();
    const Id d_norm_b = hidden();
    weight_gradient(wide);
    weight_gradient(wide);
    drop(d_gate);
    drop(d_up);
    drop(saved[kGate]);
    drop(saved[kUp]);
    const Id d_residual = hidden();
    drop(d_norm_a);
    drop(d_norm_b);
    drop(saved[kNorm2]);
    weight_gradient(o_.width);
    const Id d_attention = hidden();
    weight_gradient(square);
    const Id d_query = hidden();
    const Id d_key = hidden();
    const Id d_value = hidden();
    drop(d_attention);
    for (const Saved s : {kQuery, kKey, kValue, kAttention, kLogSum, kResidual}) drop(saved[s]);
    const Id d_input = hidden();
    drop(d_query);
    drop(d_key);
    drop(d_value);
    for (int i = 0; i < 3; ++i) weight_gradient(square);
    weight_gradient(o_.width);
    if (o_.lora) {
      for (std::uint64_t i = 0; i < kAdaptersPerLayer; ++i)
        gradients.push_back(alloc(kLoraRank * o_.width * kFloat));
    }
    if (o_.side == SidePattern::kFsdp) reduce_scatter(l, gradients);
    drop(saved[kNorm]);
    const Id next = hidden();
    drop(d_input);
    drop(d_residual);
    drop(gradient);
    if (layer.input != embedded) drop(layer.input);
    return next;
  }

  void make_optimizer() {
    optimizer_made_ = true;
    if (o_.lora) {
      for (std::uint64_t i = 0; i < o_.layers * kAdaptersPerLayer; ++i) {
        alloc(kLoraRank * o_.width * kFloat);
        alloc(kLoraRank * o_.width * kFloat);
      }
      return;
    }
    for (std::uint32_t l = 0; l < o_.layers; ++l) {
      for (const std::uint64_t n : weights_) {
        alloc(n / shards() * kFloat);
        alloc(n / shards() * kFloat);
      }
    }
    alloc(o_.words * o_.width * kFloat);
    alloc(o_.words * o_.width * kFloat);
  }

  void evaluate() {
    begin_step(o_.batch * draw_length(), 2.0);
    Id x = hidden();
    for (std::uint32_t l = 0; l < o_.layers; ++l) {
      SavedIds saved{};
      const Id y = forward(saved);
      drop_saved(saved);
      drop(x);
      x = y;
    }
    const Id scores = logits(kHalf);
    drop(x);
    drop(scores);
  }

  // ---- Side streams.

  /// The next batch is made on stream 1; returns the tensors of the current one, which the main
  /// stream uses now.
  std::vector<Id> prefetch() {
    std::vector<Id> current = std::exchange(next_batch_, {});
    const std::uint64_t positions = scaled(o_.batch * draw_length());
    constexpr std::uint64_t kFeatures = 1024;
    next_batch_ = {alloc(positions * kIndex, 1), alloc(positions * kIndex, 1),
                   alloc(positions * kFeatures * kHalf, 1)};
    const Id raw = alloc(positions * kFeatures * kFloat, 1);
    drop(raw);
    for (const Id id : current) trace_.record_use(id, kMainStream);
    return current;
  }

  Id gather() { return alloc(layer_weights_ * kHalf, 1); }

  void release_gathered(std::uint32_t l) {
    trace_.record_use(gathered_[l], kMainStream);
    drop(gathered_[l]);
  }

  void reduce_scatter(std::uint32_t l, std::vector<Id>& gradients) {
    release_gathered(l);
    constexpr std::size_t kPerLayer = 9;
    const std::size_t kept = gradients.size() - kPerLayer;
    const std::vector<Id> full(gradients.begin() + static_cast<std::ptrdiff_t>(kept),
                               gradients.end());
    gradients.resize(kept);
    const Id flat = alloc(layer_weights_ * kHalf, 2);
    for (const Id id : full) drop(id);
    gradients.push_back(alloc(layer_weights_ * kHalf / kShards, 2));
    drop(flat);
  }

  void side_work(std::uint32_t l) {
    const std::uint64_t stream = 1 + l % o_.side_streams;
    const Id first = alloc(tokens_ * o_.width * kHalf, stream);
    const Id second = alloc(tokens_ * o_.width * kHalf, stream);
    side_buffers_.emplace_back(first, second);
    if (side_buffers_.size() <= o_.side_streams) return;
    const auto [a, b] = side_buffers_.front();
    side_buffers_.pop_front();
    drop(a);
    trace_.record_use(b, kMainStream);
    drop(b);
  }

  DecoderOptions o_;
  std::vector<std::uint32_t> lengths_;
  SeededRandom random_;
  OpTraceBuilder trace_;
  std::vector<std::uint64_t> weights_;  // numbers of each weight of a layer
  std::uint64_t layer_weights_ = 0;
  std::uint64_t parameters_ = 0;
  std::uint64_t tokens_ = 0;
  Id next_id_ = 0;
  Id loss_ = 0;
  bool optimizer_made_ = false;
  std::vector<Id> next_batch_;
  std::deque<std::pair<Id, Id>> side_buffers_;
  std::array<Id, 256> gathered_{};
};

const char* name_of(LengthKind kind) {
  switch (kind) {
    case LengthKind::kFixed:
      return "fixed";
    case LengthKind::kConversation:
      return "conv";
    case LengthKind::kCode:
      return "code";
    case LengthKind::kLogNormal:
      return "logn";
  }
  return "?";
}

}  // namespace

OpTrace decoder_trace(const DecoderOptions& options, const RecordedLengths& recorded) {
  return DecoderRun(options, recorded).run();
}

std::vector<DecoderOptions> named_decoder_traces(std::uint32_t seed) {
  std::vector<DecoderOptions> all;
  for (const LengthKind kind :
       {LengthKind::kFixed, LengthKind::kConversation, LengthKind::kCode, LengthKind::kLogNormal}) {
    for (const bool recompute : {false, true}) {
      for (const bool lora : {false, true}) {
        DecoderOptions o;
        o.name =
            fmt::format("{}-{}{}", name_of(kind), lora ? "lora" : "full", recompute ? "-ck" : "");
        o.lengths = kind;
        o.recompute = recompute;
        o.lora = lora;
        o.batch = kind == LengthKind::kCode ? 2 : 4;
        o.eval_every = lora ? 20 : 0;
        o.seed = seed;
        all.push_back(o);
      }
    }
  }
  return all;
}

std::vector<DecoderOptions> named_stream_traces(std::uint32_t seed) {
  struct Pattern {
    const char* name;
    SidePattern side;
    std::uint32_t streams;
  };
  constexpr std::array<Pattern, 6> kPatterns{{{"prefetch", SidePattern::kPrefetch, 1},
                                              {"fsdp", SidePattern::kFsdp, 1},
                                              {"oneshot", SidePattern::kOneShot, 1},
                                              {"multi1", SidePattern::kMulti, 1},
                                              {"multi4", SidePattern::kMulti, 4},
                                              {"multi16", SidePattern::kMulti, 16}}};
  std::vector<DecoderOptions> all;
  for (const LengthKind kind : {LengthKind::kConversation, LengthKind::kLogNormal}) {
    for (const bool recompute : {false, true}) {
      for (const Pattern& pattern : kPatterns) {
        DecoderOptions o;
        o.name = fmt::format("{}{}-{}", name_of(kind), recompute ? "-ck" : "", pattern.name);
        o.lengths = kind;
        o.recompute = recompute;
        o.side = pattern.side;
        o.side_streams = pattern.streams;
        o.steps = 100;
        o.seed = seed;
        all.push_back(o);
      }
    }
  }
  return all;
}

}  // namespace levee::replay
