#include "bench/replay/policies/policy_factory.h"

#include <fmt/format.h>

#include "bench/replay/peers/cub_policy.h"
#include "bench/replay/policies/levee_policy.h"
#include "bench/replay/policies/simple_policies.h"
#include "bench/replay/policies/stream_pool_model.h"
#include "bench/replay/policies/torch_model.h"

namespace levee::replay {

namespace {

TorchOptions torch_options(std::string_view name, std::uint64_t event_lag) {
  TorchOptions options;
  options.label = name;
  options.event_lag = event_lag;
  if (name == "expandable") options.expandable_segments = true;
  if (name == "native-split") {
    options.max_split_size = 128_MiB;
    options.garbage_collection_threshold = 0.8;
  }
  if (name == "native-pow2") options.roundup_power2_divisions = 8;
  return options;
}

bool is_torch(std::string_view name) {
  return name == "native" || name == "native-split" || name == "native-pow2" ||
         name == "expandable";
}

std::unique_ptr<ReplayPolicy> make_levee(std::string_view name, const OpTrace& trace, Limits limits,
                                         const PolicyOptions& options) {
  LeveeOptions o = levee_options_for(trace);
  o.label = name;
  o.judge = options.judge;
  o.step_marks = options.step_marks;
  if (name == "levee-move") o.config.stitch = StitchMode::kMove;
  if (name == "levee-none") o.config.stitch = StitchMode::kNone;
  if (name == "levee-anywhere") o.config.stream_affinity = false;
  return std::make_unique<LeveePolicy>(o, limits, trace.stream_count);
}

}  // namespace

const std::vector<PolicyInfo>& policy_list() {
  static const std::vector<PolicyInfo> kAll{
      {"native", "PyTorch's caching allocator, defaults (model)"},
      {"native-split",
       "the same with max_split_size_mb:128,garbage_collection_threshold:0.8 (model)"},
      {"native-pow2", "the same with roundup_power2_divisions:8 (model)"},
      {"expandable", "the same with expandable_segments:True (model)"},
      {"cub", "cub::CachingDeviceAllocator of the CUDA toolkit, bins for every size"},
      {"cub-default", "the same as it comes"},
      {"cudaMallocAsync", "the driver's stream-ordered pool (model, not validated)"},
      {"cudaMalloc", "no caching: one cudaMalloc a request"},
      {"levee", "levee itself: the code that this installation runs"},
      {"levee-move", "levee, pages moved instead of mapped a second time"},
      {"levee-none", "levee without bringing pages together: plain growth"},
      {"levee-anywhere", "levee, blocks of side streams placed like all others"},
      {"bound", "what is in use, in whole pages: no placement can do better"},
  };
  return kAll;
}

std::unique_ptr<ReplayPolicy> make_policy(std::string_view name, const OpTrace& trace,
                                          Limits limits, const PolicyOptions& options,
                                          std::string* why) {
  if (is_torch(name)) return std::make_unique<TorchModel>(torch_options(name, kHostAhead), limits);
  if (name == "cub" || name == "cub-default") return make_cub(name, limits, why);
  if (name == "cudaMallocAsync") return std::make_unique<StreamPoolModel>(limits);
  if (name == "cudaMalloc") return std::make_unique<PlainMalloc>(limits);
  if (name == "bound") return std::make_unique<LowerBound>(limits);
  if (name == "levee" || name == "levee-move" || name == "levee-none" || name == "levee-anywhere")
    return make_levee(name, trace, limits, options);
  std::string known;
  for (const PolicyInfo& info : policy_list())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", info.name);
  *why = fmt::format("there is no policy \"{}\"; there are {}", name, known);
  return nullptr;
}

}  // namespace levee::replay
