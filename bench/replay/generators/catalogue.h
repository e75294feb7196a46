// Every generated trace by its name: the one list that the lab's command, `levee replay` and the
// scoreboard share.
//
// Owns the list. Promises: names are unique; the same name, seed and lengths give the same trace on
// every machine.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/replay/generators/decoder_trace.h"
#include "bench/replay/op_trace.h"

namespace levee::replay {

enum class TraceSet : std::uint8_t {
  kDecoder,      ///< the sixteen named traces of one stream
  kStreams,      ///< the twenty-four named traces with side streams
  kAdversarial,  ///< patterns that break placement policies
  kLong,         ///< 10,000 steps, each of fresh lengths
};

struct Generated {
  std::string name;
  std::string what;
  TraceSet set = TraceSet::kAdversarial;
  bool needs_lengths = false;  ///< recorded lengths of requests, from bench/workloads/data
  std::function<OpTrace(std::uint32_t seed, const RecordedLengths& lengths)> make;
};

const std::vector<Generated>& catalogue();

/// Null if there is none.
const Generated* find_generated(std::string_view name);

std::optional<TraceSet> set_of(std::string_view name);

/// azure_conv.csv and azure_code.csv of a folder. Nothing if they cannot be read.
std::optional<RecordedLengths> read_lengths(const std::string& folder);

}  // namespace levee::replay
