#include "bench/replay/readers/csv_reader.h"

#include <array>
#include <charconv>

#include <fmt/format.h>

namespace levee::replay {

namespace {

/// Up to five fields of a line, separated by commas or spaces. Empty fields count when commas
/// separate.
struct Fields {
  std::array<std::string_view, 5> at;
  std::size_t count = 0;
};

Fields split(std::string_view line) {
  Fields fields;
  const char separator = line.find(',') != std::string_view::npos ? ',' : ' ';
  while (fields.count < fields.at.size()) {
    const std::size_t end = line.find(separator);
    fields.at[fields.count++] = line.substr(0, end);
    if (end == std::string_view::npos) break;
    line.remove_prefix(end + 1);
  }
  return fields;
}

template <typename T>
bool number(std::string_view text, T& out) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc{} && end == text.data() + text.size();
}

}  // namespace

OpTrace read_csv(std::string name, std::string_view text, ReadError* error, FlopModel flops) {
  OpTraceBuilder builder(std::move(name));
  std::size_t line_number = 0;
  // A mark's work is known from the step's first request, which follows it: hold the mark back
  // until then.
  bool mark_pending = false;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++line_number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#' || (line_number == 1 && line.substr(0, 3) == "op,"))
      continue;
    const Fields f = split(line);
    const char op = f.at[0].size() == 1 ? f.at[0][0] : '?';
    std::int64_t id = 0;
    std::uint64_t bytes = 0;
    std::uint64_t stream = 0;
    bool good = f.count >= 2 && number(f.at[1], id);
    switch (op) {
      case 'a':
        good = good && f.count >= 3 && number(f.at[2], bytes) && bytes <= (1ULL << 44);
        if (f.count >= 4 && !f.at[3].empty()) good = good && number(f.at[3], stream);
        if (!good) break;
        if (mark_pending)
          builder.step(
              static_cast<std::uint64_t>(flops.mflop_per_byte * static_cast<double>(bytes)));
        mark_pending = false;
        builder.alloc(static_cast<std::uint64_t>(id), Bytes{bytes}, stream);
        break;
      case 'f':
        if (good) builder.free(static_cast<std::uint64_t>(id));
        break;
      case 'r':
        good = good && f.count >= 4 && number(f.at[3], stream);
        if (good) builder.record_use(static_cast<std::uint64_t>(id), stream);
        break;
      case 'm':
        if (good && id >= 0) mark_pending = true;
        break;
      case 's': {
        std::uint64_t mflop = 0;
        if (f.count >= 3 && !f.at[2].empty()) good = good && number(f.at[2], mflop);
        if (good) builder.step(mflop);
        break;
      }
      default:
        good = false;
    }
    if (!good) {
      if (error != nullptr)
        error->sentence = fmt::format("line {} is no op of a levee CSV trace: \"{}\"", line_number,
                                      line.substr(0, 80));
      return {};
    }
  }
  return builder.finish();
}

}  // namespace levee::replay
