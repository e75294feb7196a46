#include "bench/replay/largest_batch.h"

#include "bench/replay/runner.h"

namespace levee::replay {

namespace {

constexpr std::uint32_t kMostPermille = 64'000;
constexpr std::uint32_t kStep = 2;  // a fifth of a per cent: what the search tells apart

/// The largest of kStep, 2 kStep, …, `most` that fits, 0 if none does.
std::uint32_t bisect(std::uint32_t most, const std::function<bool(std::uint32_t)>& fits) {
  std::uint32_t good = 0;
  std::uint32_t bad = most / kStep + 1;
  while (bad - good > 1) {
    const std::uint32_t middle = good + (bad - good) / 2;
    (fits(middle * kStep) ? good : bad) = middle;
  }
  return good * kStep;
}

}  // namespace

std::vector<LargestBatch> largest_batches(const DecoderOptions& options,
                                          const RecordedLengths& lengths, Limits limits,
                                          const std::vector<std::string>& policies,
                                          const PolicyMaker& make) {
  const auto trace_at = [&](std::uint32_t permille) {
    DecoderOptions scaled = options;
    scaled.scale_permille = permille;
    return decoder_trace(scaled, lengths);
  };
  const std::uint32_t bound = bisect(kMostPermille, [&](std::uint32_t permille) {
    return round_up(facts_of(trace_at(permille)).peak_active, 2_MiB) <= limits.capacity;
  });
  std::vector<LargestBatch> all;
  for (const std::string& policy : policies) {
    const auto fits = [&](std::uint32_t permille) {
      const OpTrace trace = trace_at(permille);
      const std::unique_ptr<ReplayPolicy> replayed = make(policy, trace, limits);
      return run_policy(trace, facts_of(trace), *replayed, limits).failures == 0;
    };
    // Most policies under test come close to the bound: look there before searching everywhere.
    const std::uint32_t near = bound / 100 * 98 / kStep * kStep;
    std::uint32_t most = 0;
    if (bound != 0 && fits(bound)) {
      most = bound;
    } else if (near > 0 && fits(near)) {
      most = near + bisect(bound - near, [&](std::uint32_t more) { return fits(near + more); });
    } else if (near > 0) {
      most = bisect(near, fits);
    }
    all.push_back({options.name, policy, most, bound});
  }
  return all;
}

}  // namespace levee::replay
