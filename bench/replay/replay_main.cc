// The lab's command: traces x policies x limits, as a table and as JSON. `levee replay` and the
// scoreboard stand on it.
//
//     levee_replay_lab [--set decoder|streams|adversarial]... [--file FILE[:MFLOP_PER_BYTE]]...
//     [--lengths FOLDER]
//                      [--policies native,expandable,levee,…] [--limit 1.05x|BYTES] [--seed N]
//                      [--only TRACE]
//                      [--no-marks] [--judge] [--json FILE]
//
// Owns nothing but the reading of its arguments. Exit code 0: every replay ran; 1: a file could not
// be read or written; 2: wrong usage.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <fmt/format.h>

#include "bench/replay/generators/adversarial.h"
#include "bench/replay/generators/decoder_trace.h"
#include "bench/replay/policies/policy_factory.h"
#include "bench/replay/readers/recording.h"
#include "bench/replay/result_json.h"
#include "bench/replay/runner.h"

namespace levee::replay {
namespace {

constexpr double kMiB = 1 << 20;

struct Arguments {
  std::vector<std::string> sets;
  std::vector<std::string> files;
  std::string lengths = "bench/workloads/data";
  std::vector<std::string> policies{"native", "expandable", "levee"};
  std::string limit;
  std::string only;
  std::string json;
  std::uint32_t seed = 1;
  bool marks = true;
  bool judge = false;
};

int usage(const std::string& what) {
  fmt::print(stderr, "levee_replay_lab: {}; the head of replay_main.cc lists the options\n", what);
  return 2;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = text.find(',');
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

/// Empty if the arguments are good, else what is wrong with them.
std::string parse(int count, char** values, Arguments& out) {
  for (int i = 1; i < count; ++i) {
    const std::string name = values[i];
    if (name == "--no-marks") {
      out.marks = false;
      continue;
    }
    if (name == "--judge") {
      out.judge = true;
      continue;
    }
    if (i + 1 >= count) return fmt::format("{} is unknown or lacks its value", name);
    const std::string value = values[++i];
    if (name == "--set") {
      out.sets.push_back(value);
    } else if (name == "--file") {
      out.files.push_back(value);
    } else if (name == "--lengths") {
      out.lengths = value;
    } else if (name == "--policies") {
      out.policies = split_list(value);
    } else if (name == "--limit") {
      out.limit = value;
    } else if (name == "--only") {
      out.only = value;
    } else if (name == "--json") {
      out.json = value;
    } else if (name == "--seed") {
      out.seed = static_cast<std::uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    } else {
      return fmt::format("{} is no option", name);
    }
  }
  if (out.sets.empty() && out.files.empty()) return "name a --set or a --file";
  return {};
}

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::optional<std::vector<std::uint32_t>> read_lengths(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::vector<std::uint32_t> lengths;
  std::string line;
  std::getline(file, line);  // the names of the columns
  while (std::getline(file, line)) {
    lengths.push_back(static_cast<std::uint32_t>(std::strtoul(line.c_str(), nullptr, 10)));
  }
  return lengths;
}

/// Bytes of `--limit` for a trace: a number of bytes, or a factor of what is live at most
/// ("1.05x"), in whole pages.
Bytes limit_bytes(const std::string& limit, const TraceFacts& facts) {
  if (limit.empty()) return 0_B;
  if (limit.back() != 'x') return Bytes{std::strtoull(limit.c_str(), nullptr, 10)};
  const double factor = std::strtod(limit.c_str(), nullptr);
  return round_up(
      Bytes{static_cast<std::uint64_t>(factor * static_cast<double>(facts.peak_active.value))},
      2_MiB);
}

void print_row(const ReplayResult& r) {
  fmt::print(
      "{:<18} {:<11} {:>8.0f} {:>9.0f} {:>8.4f} {:>8.3f} {:>8.3f} {:>7.2f} {:>7.1f} {:>5}/{:<5} "
      "{:>5} {:>5} {:>6.2f}",
      r.trace, r.policy, static_cast<double>(r.peak_live.value) / kMiB,
      static_cast<double>(r.peak_reserved.value) / kMiB, r.ratio, r.driver_pct_warm,
      r.driver_pct_warm_optimistic, r.driver_pct, r.creation_pct, r.dirty_steps, r.warm_steps,
      r.emergencies, r.failures, r.wall_seconds);
  for (const auto& [name, value] : r.details) {
    if (value != 0) fmt::print("  {} {}", name, value);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

int run(const Arguments& arguments) {
  std::vector<OpTrace> traces;
  RecordedLengths recorded;
  for (const std::string& set : arguments.sets) {
    if (set != "decoder" && set != "streams" && set != "adversarial")
      return usage("no set is called " + set);
    if (set == "adversarial") {
      for (const AdversarialPattern& p : adversarial_patterns())
        traces.push_back(p.make(p.name, arguments.seed));
      continue;
    }
    const auto conversation = read_lengths(arguments.lengths + "/azure_conv.csv");
    const auto code = read_lengths(arguments.lengths + "/azure_code.csv");
    if (!conversation || !code) {
      fmt::print(stderr, "levee_replay_lab: no lengths in {}; --lengths names the folder\n",
                 arguments.lengths);
      return 1;
    }
    recorded = RecordedLengths{*conversation, *code};
    const auto named = set == "decoder" ? named_decoder_traces(arguments.seed)
                                        : named_stream_traces(arguments.seed);
    for (const DecoderOptions& options : named) {
      if (arguments.only.empty() || options.name == arguments.only)
        traces.push_back(decoder_trace(options, recorded));
    }
  }
  for (const std::string& file : arguments.files) {
    const std::size_t colon = file.rfind(':');
    const std::string path = file.substr(0, colon);
    ReadOptions options;
    if (colon != std::string::npos)
      options.mflop_per_byte = std::strtod(file.c_str() + colon + 1, nullptr);
    const auto text = read_file(path);
    if (!text) {
      fmt::print(stderr, "levee_replay_lab: {} cannot be read\n", path);
      return 1;
    }
    ReadError error;
    std::string name = path.substr(path.find_last_of('/') + 1);
    options.name = name.substr(0, name.find('.'));
    traces.push_back(read_recording(*text, options, &error));
    if (!error.sentence.empty()) {
      fmt::print(stderr, "levee_replay_lab: {}: {}\n", path, error.sentence);
      return 1;
    }
  }
  fmt::print("{:<18} {:<11} {:>8} {:>9} {:>8} {:>8} {:>8} {:>7} {:>7} {:>11} {:>5} {:>5} {:>6}\n",
             "trace", "policy", "live MiB", "reserved", "ratio", "%warm", "%optim.", "%all",
             "%create", "dirty steps", "emerg", "fail", "s");
  std::vector<ReplayResult> results;
  for (const OpTrace& trace : traces) {
    if (!arguments.only.empty() && trace.name != arguments.only) continue;
    const TraceFacts facts = facts_of(trace);
    const Limits limits{limit_bytes(arguments.limit, facts)};
    for (const std::string& name : arguments.policies) {
      std::string why;
      const std::unique_ptr<ReplayPolicy> policy =
          make_policy(name, trace, limits, {arguments.judge, arguments.marks}, &why);
      if (policy == nullptr) return usage(why);
      results.push_back(run_policy(trace, facts, *policy, limits));
      print_row(results.back());
    }
  }
  if (arguments.json.empty()) return 0;
  std::ofstream out(arguments.json);
  out << to_json(results);
  out.close();
  if (out) return 0;
  fmt::print(stderr, "levee_replay_lab: {} cannot be written\n", arguments.json);
  return 1;
}

}  // namespace
}  // namespace levee::replay

int main(int count, char** values) {
  levee::replay::Arguments arguments;
  const std::string problem = levee::replay::parse(count, values, arguments);
  if (!problem.empty()) return levee::replay::usage(problem);
  return levee::replay::run(arguments);
}
