// What every reader of recordings is told, and how it says no.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/replay/op_trace.h"

namespace levee::replay {

struct ReadError {
  std::string sentence;  ///< empty = no error
};

struct ReadOptions {
  std::string name;           ///< of the trace
  std::int64_t device = -1;   ///< which device of the recording; -1 = the one with most events
  double mflop_per_byte = 0;  ///< CSV with `m` marks: modelled work of a step for each byte of its
                              ///< first request
};

/// N of the profiler's "ProfilerStep#N"; nothing if the name is another.
std::optional<std::uint64_t> profiler_step(std::string_view name);

/// A step that the profiler marked.
struct ProfilerStep {
  std::uint64_t number = 0;
  double time = 0;
};
/// By time, each number once, at its first mark: the profiler writes a step for the host, and again
/// for the GPU.
void keep_each_once(std::vector<ProfilerStep>& steps);

/// The index that `counts` (events by device) and the wish lead to. Nothing, with a sentence, if
/// the recording lacks the device.
template <typename Counts>
std::optional<std::size_t> choose_device(const Counts& counts, std::int64_t wish,
                                         ReadError* error) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > counts[best]) best = i;
  }
  if (wish < 0) return best;
  const auto wanted = static_cast<std::size_t>(wish);
  if (wanted < counts.size() && counts[wanted] != 0) return wanted;
  error->sentence = "it has no events of device " + std::to_string(wish) +
                    "; most events are of device " + std::to_string(best);
  return std::nullopt;
}

}  // namespace levee::replay
