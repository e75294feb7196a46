#include "bench/replay/generators/catalogue.h"

#include <charconv>
#include <fstream>

#include <fmt/format.h>

#include "allocator/analysis/text.h"
#include "bench/replay/generators/adversarial.h"

namespace levee::replay {

namespace {

bool needs_lengths(const DecoderOptions& options) {
  return options.lengths == LengthKind::kConversation || options.lengths == LengthKind::kCode;
}

std::string describe(const DecoderOptions& o) {
  std::string text = fmt::format("a decoder of 24 layers, {} training{}", o.lora ? "LoRA" : "full",
                                 o.recompute ? " with recomputation" : "");
  switch (o.side) {
    case SidePattern::kNone:
      break;
    case SidePattern::kPrefetch:
      text += ", batches prefetched on a stream";
      break;
    case SidePattern::kFsdp:
      text += ", weights gathered and gradients reduced on side streams";
      break;
    case SidePattern::kOneShot:
      text += ", after a stream that is used once";
      break;
    case SidePattern::kMulti:
      text += fmt::format(", buffers on {}",
                          analysis::counted(o.side_streams, "side stream", "side streams"));
      break;
  }
  return text;
}

/// The decoder again at every call, so that the seed is the caller's.
Generated decoder(const DecoderOptions& options, TraceSet set) {
  return {options.name, describe(options), set, needs_lengths(options),
          [options](std::uint32_t seed, const RecordedLengths& lengths) {
            DecoderOptions seeded = options;
            seeded.seed = seed;
            return decoder_trace(seeded, lengths);
          }};
}

Generated long_run() {
  DecoderOptions options;
  options.name = "fresh-10k";
  options.lengths = LengthKind::kLogNormal;
  options.recompute = true;
  options.steps = 10'000;
  options.layers = 8;
  options.width = 1024;
  options.ffn = 2752;
  Generated generated = decoder(options, TraceSet::kLong);
  generated.what = "10,000 steps of a decoder of 8 layers, each with fresh lengths";
  return generated;
}

std::vector<Generated> make_catalogue() {
  std::vector<Generated> all;
  for (const AdversarialPattern& pattern : adversarial_patterns()) {
    all.push_back({pattern.name, pattern.attacks, TraceSet::kAdversarial, false,
                   [pattern](std::uint32_t seed, const RecordedLengths& /*lengths*/) {
                     return pattern.make(pattern.name, seed);
                   }});
  }
  for (const DecoderOptions& options : named_decoder_traces(1))
    all.push_back(decoder(options, TraceSet::kDecoder));
  for (const DecoderOptions& options : named_stream_traces(1))
    all.push_back(decoder(options, TraceSet::kStreams));
  all.push_back(long_run());
  return all;
}

std::optional<std::vector<std::uint32_t>> first_column(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::vector<std::uint32_t> numbers;
  std::string line;
  std::getline(file, line);  // the names of the columns
  while (std::getline(file, line)) {
    std::uint32_t number = 0;
    const auto [end, code] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (code != std::errc{}) return std::nullopt;
    numbers.push_back(number);
  }
  if (numbers.empty()) return std::nullopt;
  return numbers;
}

}  // namespace

const std::vector<Generated>& catalogue() {
  static const std::vector<Generated> kAll = make_catalogue();
  return kAll;
}

const Generated* find_generated(std::string_view name) {
  for (const Generated& generated : catalogue()) {
    if (generated.name == name) return &generated;
  }
  return nullptr;
}

std::optional<TraceSet> set_of(std::string_view name) {
  if (name == "decoder") return TraceSet::kDecoder;
  if (name == "streams") return TraceSet::kStreams;
  if (name == "adversarial") return TraceSet::kAdversarial;
  if (name == "long") return TraceSet::kLong;
  return std::nullopt;
}

std::optional<RecordedLengths> read_lengths(const std::string& folder) {
  auto conversation = first_column(folder + "/azure_conv.csv");
  auto code = first_column(folder + "/azure_code.csv");
  if (!conversation || !code) return std::nullopt;
  return RecordedLengths{std::move(*conversation), std::move(*code)};
}

}  // namespace levee::replay
