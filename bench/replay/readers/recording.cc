#include "bench/replay/readers/recording.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <system_error>
#include <unordered_set>

#include "bench/replay/readers/csv_reader.h"
#include "bench/replay/readers/kineto_reader.h"
#include "bench/replay/readers/levee_reader.h"
#include "bench/replay/readers/snapshot_reader.h"

namespace levee::replay {

std::string_view name_of(RecordingKind kind) {
  switch (kind) {
    case RecordingKind::kLevee:
      return "levee recording";
    case RecordingKind::kSnapshot:
      return "PyTorch snapshot";
    case RecordingKind::kKineto:
      return "profiler trace";
    case RecordingKind::kCsv:
      return "CSV";
  }
  return "?";
}

RecordingKind kind_of(std::string_view bytes) {
  constexpr std::string_view kLevee = "LEVEETRC";
  // How pickles of protocol 2 and later, and of a dict by protocols 0 and 1, begin.
  constexpr char kProto = '\x80';
  if (bytes.starts_with(kLevee)) return RecordingKind::kLevee;
  if (bytes.starts_with(kProto) || bytes.starts_with("(d") || bytes.starts_with("}q"))
    return RecordingKind::kSnapshot;
  const std::size_t first = bytes.find_first_not_of(" \n\r\t");
  if (first != std::string_view::npos && (bytes[first] == '{' || bytes[first] == '['))
    return RecordingKind::kKineto;
  return RecordingKind::kCsv;
}

std::optional<std::uint64_t> profiler_step(std::string_view name) {
  constexpr std::string_view kPrefix = "ProfilerStep#";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  std::uint64_t number = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (code != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

void keep_each_once(std::vector<ProfilerStep>& steps) {
  std::stable_sort(steps.begin(), steps.end(),
                   [](const ProfilerStep& a, const ProfilerStep& b) { return a.time < b.time; });
  std::unordered_set<std::uint64_t> seen;
  std::erase_if(steps, [&](const ProfilerStep& s) { return !seen.insert(s.number).second; });
}

OpTrace read_recording(std::string_view bytes, const ReadOptions& options, ReadError* error) {
  OpTrace trace;
  switch (kind_of(bytes)) {
    case RecordingKind::kLevee:
      trace = read_levee(std::as_bytes(std::span(bytes)), options, error);
      break;
    case RecordingKind::kSnapshot:
      trace = read_snapshot(bytes, options, error);
      break;
    case RecordingKind::kKineto:
      trace = read_kineto(bytes, options, error);
      break;
    case RecordingKind::kCsv:
      if (bytes.substr(0, std::min<std::size_t>(bytes.size(), 4096)).find('\0') !=
          std::string_view::npos) {
        error->sentence =
            "it is no recording that levee knows (levee's own, a PyTorch snapshot, a profiler "
            "trace "
            "or CSV)";
        return {};
      }
      trace = read_csv(bytes, options, error);
      break;
  }
  if (error->sentence.empty() && trace.id_count == 0)
    error->sentence = "it holds no allocation: there is nothing to replay";
  if (!error->sentence.empty()) return {};
  return trace;
}

}  // namespace levee::replay
