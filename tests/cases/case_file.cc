#include "tests/cases/case_file.h"

#include <sstream>

namespace levee::cases {

using device::sim::CallKind;

bool parse_case(std::string_view text, CaseFile* file, std::string* problem) {
  *file = CaseFile{};
  std::istringstream lines{std::string(text)};
  std::string line;
  bool has_ops = false;
  while (!has_ops && std::getline(lines, line)) {
    if (line.empty()) continue;
    if (line[0] == '#') {
      file->pattern += (file->pattern.empty() ? "" : " ") + line.substr(line.size() > 1 ? 2 : 1);
      continue;
    }
    std::istringstream words(line);
    std::string word;
    words >> word;
    bool is_good = true;
    if (word == "case") {
      is_good = static_cast<bool>(words >> file->id);
    } else if (word == "source") {
      std::string year;
      is_good = static_cast<bool>(words >> file->source >> year);
      file->source += " " + year;
    } else if (word == "capacity") {
      is_good = static_cast<bool>(words >> file->capacity);
    } else if (word == "expect") {
      Expectation one;
      is_good = static_cast<bool>(words >> one.metric >> one.relation >> one.number) &&
                (one.relation == "==" || one.relation == "<=" || one.relation == ">=");
      file->expectations.push_back(one);
    } else if (word == "ops") {
      has_ops = true;
    } else {
      is_good = false;
    }
    if (!is_good) {
      *problem = line;
      return false;
    }
  }
  if (!has_ops || file->id.empty() || file->capacity == 0) {
    *problem = "no \"case\", no \"capacity\" or no \"ops\"";
    return false;
  }
  std::string rest{std::istreambuf_iterator<char>(lines), {}};
  return model_test::parse(rest, &file->program, problem);
}

bool value_of(const std::string& metric, const model_test::RunResult& result,
              std::uint64_t* value) {
  const auto calls = [&](CallKind kind) { return result.calls[static_cast<std::size_t>(kind)]; };
  const auto of = [](std::int64_t number) { return static_cast<std::uint64_t>(number); };
  if (metric == "refused") {
    *value = result.refused;
  } else if (metric == "emergencies") {
    *value = of(result.stats.num_emergencies);
  } else if (metric == "peak_reserved") {
    *value = result.peak_reserved;
  } else if (metric == "reserved_end") {
    *value = of(result.stats.reserved_bytes[0].current);
  } else if (metric == "growths") {  // requests during which the device was asked for memory
    *value = result.growths;
  } else if (metric == "growths_below_maximum") {
    *value = result.growths_below_maximum;
  } else if (metric == "stitches") {
    *value = of(result.stats.num_stitches);
  } else if (metric == "events_alive") {
    *value = result.most_events;
  } else if (metric == "host_waits") {  // the program's own go through cudaStreamSynchronize
    *value = calls(CallKind::kSynchronizeEvent) + calls(CallKind::kSynchronizeDevice);
  } else if (metric == "ranges") {
    *value = calls(CallKind::kReserveRange);
  } else {
    return false;
  }
  return true;
}

std::string problem_of(const CaseFile& file, const model_test::RunOptions& options) {
  const model_test::RunResult result = model_test::run(file.program, options);
  if (!result.ok()) return "operation " + std::to_string(result.at) + ": " + result.problem;
  std::string problems;
  for (const Expectation& one : file.expectations) {
    std::uint64_t have = 0;
    if (!value_of(one.metric, result, &have)) return "there is no metric " + one.metric;
    const bool holds = one.relation == "=="   ? have == one.number
                       : one.relation == "<=" ? have <= one.number
                                              : have >= one.number;
    if (!holds) {
      problems += one.metric + " is " + std::to_string(have) + ", not " + one.relation + " " +
                  std::to_string(one.number) + "\n";
    }
  }
  return problems;
}

}  // namespace levee::cases
