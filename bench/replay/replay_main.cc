// The lab's command: traces x policies x limits, as a table and as JSON. `levee replay` and the
// scoreboard stand on it.
//
//     levee_replay_lab [--set decoder|streams|adversarial|long]...
//                      [--file FILE[:MFLOP_PER_BYTE]]... [--lengths FOLDER]
//                      [--policies native,expandable,levee,...] [--limit 1.05x|BYTES] [--seed N]
//                      [--only TRACE] [--steps N] [--no-marks] [--judge] [--largest-batch]
//                      [--threads one|as-recorded] [--json FILE]
//
// --largest-batch: instead of replaying them, finds for each decoder trace of a set the largest
// batch that a policy trains within --limit BYTES. --steps shortens generated traces. --threads
// as-recorded makes each request on the thread that made it, where the trace tells.
//
// Owns nothing but the reading of its arguments. Exit code 0: every replay ran; 1: a file could not
// be read or written; 2: wrong usage.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>
#include <fmt/format.h>

#include "allocator/base/check.h"
#include "bench/replay/generators/catalogue.h"
#include "bench/replay/generators/decoder_trace.h"
#include "bench/replay/largest_batch.h"
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
  std::uint32_t steps = 0;
  bool marks = true;
  bool judge = false;
  bool largest_batch = false;
  ReplayThreads threads = ReplayThreads::kOne;
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
    if (name == "--largest-batch") {
      out.largest_batch = true;
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
    } else if (name == "--threads") {
      if (value != "one" && value != "as-recorded") return "--threads takes one or as-recorded";
      if (value == "as-recorded") out.threads = ReplayThreads::kAsRecorded;
    } else if (name == "--json") {
      out.json = value;
    } else if (name == "--steps") {
      out.steps = static_cast<std::uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    } else if (name == "--seed") {
      out.seed = static_cast<std::uint32_t>(std::strtoul(value.c_str(), nullptr, 10));
    } else {
      return fmt::format("{} is no option", name);
    }
  }
  for (const std::string& set : out.sets) {
    if (!set_of(set)) return "no set is called " + set;
  }
  if (out.sets.empty() && out.files.empty()) return "name a --set or a --file";
  if (out.largest_batch && (out.limit.empty() || out.limit.back() == 'x'))
    return "--largest-batch needs --limit BYTES";
  return {};
}

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
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
  const EarlyWaits& w = r.early_waits;
  if (w.side_allocations != 0) {
    fmt::print("  side {}: early {} fresh {} ({:.1f} %), main early {} fresh {}",
               w.side_allocations, w.side_early, w.side_fresh, w.side_pct(), w.main_early,
               w.main_fresh);
  }
  if (r.threads > 1) fmt::print("  {} threads", r.threads);
  if (r.guard_step >= 0) {
    fmt::print("  guard at step {}, {:.3f} % after it, {:.3f} % in the last 20", r.guard_step,
               r.driver_pct_guarded, r.driver_pct_last);
  }
  for (const auto& [name, value] : r.details) {
    if (value != 0) fmt::print("  {} {}", name, value);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

int fail(const std::string& what) {
  fmt::print(stderr, "levee_replay_lab: {}\n", what);
  return 1;
}

int write(const std::string& path, const std::string& text) {
  if (path.empty()) return 0;
  std::ofstream out(path);
  out << text;
  out.close();
  return out ? 0 : fail(path + " cannot be written");
}

/// Shortens the decoder traces to `--steps`.
std::vector<DecoderOptions> decoders(const Arguments& arguments, TraceSet set) {
  std::vector<DecoderOptions> all = set == TraceSet::kDecoder ? named_decoder_traces(arguments.seed)
                                                              : named_stream_traces(arguments.seed);
  for (DecoderOptions& options : all) {
    if (arguments.steps != 0) options.steps = arguments.steps;
  }
  std::erase_if(all, [&](const DecoderOptions& options) {
    return !arguments.only.empty() && options.name != arguments.only;
  });
  return all;
}

int find_largest_batches(const Arguments& arguments, const RecordedLengths& lengths) {
  const Limits limits{Bytes{std::strtoull(arguments.limit.c_str(), nullptr, 10)}};
  const auto make = [&](const std::string& name, const OpTrace& trace, Limits of) {
    std::string why;
    auto policy = make_policy(name, trace, of, {arguments.judge, arguments.marks}, &why);
    LEVEE_CHECK(policy != nullptr, "no policy of this name");
    return policy;
  };
  std::string json;
  for (const std::string& set : arguments.sets) {
    if (*set_of(set) != TraceSet::kDecoder && *set_of(set) != TraceSet::kStreams) continue;
    for (const DecoderOptions& options : decoders(arguments, *set_of(set))) {
      for (const LargestBatch& found :
           largest_batches(options, lengths, limits, arguments.policies, make)) {
        fmt::print("{:<18} {:<11} {:.3f} of {:.3f} times the batch\n", found.trace, found.policy,
                   found.permille / 1000.0, found.bound_permille / 1000.0);
        json += fmt::format(
            "{}{{\"trace\":\"{}\",\"policy\":\"{}\",\"permille\":{},\"bound_permille\":{}}}",
            json.empty() ? "" : ",\n", found.trace, found.policy, found.permille,
            found.bound_permille);
      }
    }
  }
  return write(arguments.json, "[" + json + "]\n");
}

bool is_policy(const std::string& name) {
  return std::any_of(policy_list().begin(), policy_list().end(),
                     [&](const PolicyInfo& info) { return info.name == name; });
}

/// A trace and how long it took to read.
struct Loaded {
  OpTrace trace;
  double seconds = 0;
};

/// Empty, or what went wrong.
std::string load_file(const std::string& argument, Loaded& out) {
  const std::size_t colon = argument.rfind(':');
  const std::string path = argument.substr(0, colon);
  ReadOptions options;
  if (colon != std::string::npos)
    options.mflop_per_byte = std::strtod(argument.c_str() + colon + 1, nullptr);
  const std::string name = path.substr(path.find_last_of('/') + 1);
  options.name = name.substr(0, name.find('.'));
  const auto text = read_file(path);
  if (!text) return path + " cannot be read";
  ReadError error;
  const std::clock_t began = std::clock();
  out.trace = read_recording(*text, options, &error);
  out.seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
  return error.sentence.empty() ? "" : path + ": " + error.sentence;
}

/// The traces that the arguments name, one at a time: some take hundreds of megabytes.
class Source {
 public:
  Source(const Arguments& arguments, const RecordedLengths& lengths) : lengths_(lengths) {
    for (const std::string& set : arguments.sets) {
      const TraceSet wanted = *set_of(set);
      if (arguments.steps != 0 && (wanted == TraceSet::kDecoder || wanted == TraceSet::kStreams)) {
        for (const DecoderOptions& options : decoders(arguments, wanted)) {
          makers_.push_back([this, options](Loaded& out) {
            out.trace = decoder_trace(options, lengths_);
            return std::string();
          });
        }
        continue;
      }
      for (const Generated& generated : catalogue()) {
        const bool is_asked = arguments.only.empty() || generated.name == arguments.only;
        if (generated.set != wanted || !is_asked) continue;
        makers_.push_back([this, &generated, seed = arguments.seed](Loaded& out) {
          out.trace = generated.make(seed, lengths_);
          return std::string();
        });
      }
    }
    for (const std::string& file : arguments.files)
      makers_.push_back([file](Loaded& out) { return load_file(file, out); });
  }

  std::size_t count() const { return makers_.size(); }
  std::string load(std::size_t index, Loaded& out) const { return makers_[index](out); }

 private:
  const RecordedLengths& lengths_;
  std::vector<std::function<std::string(Loaded&)>> makers_;
};

int run(const Arguments& arguments) {
  RecordedLengths lengths;
  if (!arguments.sets.empty()) {
    auto read = read_lengths(arguments.lengths);
    if (!read) return fail("no lengths in " + arguments.lengths + "; --lengths names the folder");
    lengths = std::move(*read);
  }
  if (arguments.largest_batch) return find_largest_batches(arguments, lengths);
  fmt::print("{:<18} {:<11} {:>8} {:>9} {:>8} {:>8} {:>8} {:>7} {:>7} {:>11} {:>5} {:>5} {:>6}\n",
             "trace", "policy", "live MiB", "reserved", "ratio", "%warm", "%optim.", "%all",
             "%create", "dirty steps", "emerg", "fail", "s");
  std::vector<ReplayResult> results;
  const Source source(arguments, lengths);
  for (std::size_t i = 0; i < source.count(); ++i) {
    Loaded loaded;
    if (const std::string problem = source.load(i, loaded); !problem.empty()) return fail(problem);
    const OpTrace& trace = loaded.trace;
    if (!arguments.only.empty() && trace.name != arguments.only) continue;
    const TraceFacts facts = facts_of(trace);
    const Limits limits{limit_bytes(arguments.limit, facts)};
    for (const std::string& name : arguments.policies) {
      std::string why;
      const std::unique_ptr<ReplayPolicy> policy =
          make_policy(name, trace, limits, {arguments.judge, arguments.marks}, &why);
      if (policy == nullptr && !is_policy(name)) return usage(why);
      if (policy == nullptr) {  // a peer that this build lacks
        fmt::print(stderr, "levee_replay_lab: {}; it is left out\n", why);
        continue;
      }
      results.push_back(run_policy(trace, facts, *policy, limits, {}, arguments.threads));
      results.back().read_seconds = loaded.seconds;
      print_row(results.back());
    }
  }
  return write(arguments.json, to_json(results));
}

}  // namespace
}  // namespace levee::replay

int main(int count, char** values) {
  levee::replay::Arguments arguments;
  const std::string problem = levee::replay::parse(count, values, arguments);
  if (!problem.empty()) return levee::replay::usage(problem);
  return levee::replay::run(arguments);
}
