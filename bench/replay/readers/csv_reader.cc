#include "bench/replay/readers/csv_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace levee::replay {

namespace {

constexpr std::string_view kHistoryHead = "time_us,action,block,bytes,stream";

/// Up to five fields of a line of history, separated by commas.
struct Fields {
  std::array<std::string_view, 5> at;
  std::size_t count = 0;
};

Fields split(std::string_view line) {
  Fields fields;
  while (fields.count < fields.at.size()) {
    const std::size_t end = line.find(',');
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

/// The lines of a text that say something, with their numbers.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {}

  bool next(std::string_view& line) {
    while (!text_.empty()) {
      const std::size_t end = text_.find('\n');
      line = text_.substr(0, end);
      text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
      ++number_;
      while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
      if (!line.empty() && line.front() != '#') return true;
    }
    return false;
  }
  std::size_t number() const { return number_; }

 private:
  std::string_view text_;
  std::size_t number_ = 0;
};

std::string complaint(std::size_t number, std::string_view line) {
  std::string shown;
  for (const char c : line.substr(0, 80)) shown += c >= 0x20 && c < 0x7f ? c : '?';
  return fmt::format("line {} is no op of a levee CSV trace: \"{}\"", number, shown);
}

std::uint64_t mflop(double per_byte, std::uint64_t bytes) {
  constexpr double kMost = 1e18;
  const double work = per_byte * static_cast<double>(bytes);
  return work > 0 && work < kMost ? static_cast<std::uint64_t>(work) : 0;
}

/// Fields of a line of ops, from left to right.
class OpFields {
 public:
  explicit OpFields(std::string_view line)
      : at_(line.data()), end_(at_ + line.size()), separator_(line.size() > 1 ? line[1] : ',') {}

  char op() {
    const bool good = end_ - at_ > 2 && (separator_ == ',' || separator_ == ' ');
    if (!good) return '?';
    at_ += 2;
    return at_[-2];
  }
  /// Takes a number and the separator behind it, if there is one.
  template <typename T>
  bool take(T& out) {
    const auto [next, code] = std::from_chars(at_, end_, out);
    if (code != std::errc{} || (next != end_ && *next != separator_)) return false;
    at_ = next == end_ ? next : next + 1;
    return true;
  }
  /// Leaves a field out, whatever it says.
  void skip() {
    while (at_ != end_ && *at_ != separator_) ++at_;
    if (at_ != end_) ++at_;
  }
  bool is_at_end() const { return at_ == end_; }
  /// As `take`; an empty or absent field leaves `out` as it is.
  template <typename T>
  bool take_if_any(T& out) {
    if (at_ == end_) return true;
    if (*at_ != separator_) return take(out);
    ++at_;
    return true;
  }

 private:
  const char* at_;
  const char* end_;
  char separator_;
};

class OpsReader {
 public:
  explicit OpsReader(const ReadOptions& options) : options_(options), builder_(options.name) {}

  bool add(std::string_view line) {
    OpFields fields(line);
    const char op = fields.op();
    std::int64_t id = 0;
    std::uint64_t value = 0;
    std::uint64_t stream = 0;
    if (op == '?' || !fields.take(id)) return false;
    const auto key = static_cast<std::uint64_t>(id);
    switch (op) {
      case 'a':
      case 'b':
        if (!fields.take(value) || Bytes{value} > kMaxRequested || !fields.take_if_any(stream))
          return false;
        see_thread(fields);
        if (op == 'b') {
          builder_.live_at_start(key, Bytes{value}, stream);
          return true;
        }
        if (pending_mark_) builder_.step(mflop(options_.mflop_per_byte, value), pending_mark_);
        pending_mark_.reset();
        builder_.alloc(key, Bytes{value}, stream);
        return true;
      case 'f':
        fields.skip();
        fields.skip();
        see_thread(fields);
        builder_.free(key);
        return true;
      case 'r':
        if (!fields.take_if_any(value) || !fields.take(stream)) return false;
        see_thread(fields);
        builder_.record_use(key, stream);
        return true;
      case 'p':
        if (id < 0 || Bytes{key} > kMaxLive) return false;
        builder_.set_recorded_peak_reserved(Bytes{key});
        if (line.ends_with("levee")) builder_.levees_own();
        return true;
      case 'm':
        // A mark's work is known from the step's first request, which follows it.
        if (id >= 0) pending_mark_ = key + 1;
        return true;
      case 'e':
        if (id < 0) return false;
        builder_.marks_end_steps(key);
        return true;
      case 's':
        if (!fields.take_if_any(value)) return false;
        fields.skip();
        see_thread(fields);
        builder_.step(value, id < 0 ? std::nullopt : std::optional(key));
        return true;
      default:
        return false;
    }
  }
  OpTrace finish() { return builder_.finish(); }

 private:
  // A line that names no thread is of the one before.
  void see_thread(OpFields& fields) {
    std::uint64_t thread = 0;
    if (!fields.is_at_end() && fields.take(thread)) builder_.on_thread(thread);
  }

  const ReadOptions& options_;
  OpTraceBuilder builder_;
  std::optional<std::uint64_t> pending_mark_;  // the step that begins with the next request
};

class HistoryReader {
 public:
  explicit HistoryReader(const ReadOptions& options) : builder_(options.name) {}

  bool add(std::string_view line) {
    const Fields f = split(line);
    Event e;
    if (f.count < 4 || !number(f.at[2], e.block) || !number(f.at[3], e.bytes) ||
        Bytes{e.bytes} > kMaxRequested)
      return false;
    if (f.count >= 5 && !f.at[4].empty() && !number(f.at[4], e.stream)) return false;
    const std::string_view action = f.at[1];
    if (action == "alloc") {
      e.kind = 'a';
    } else if (action == "free_requested") {
      e.kind = 'q';
    } else if (action == "free_completed" || action == "free") {
      e.kind = 'f';
      has_completed_ = true;
    } else if (action == "segment_alloc" || action == "segment_map") {
      e.kind = '+';
    } else if (action == "segment_free" || action == "segment_unmap") {
      e.kind = '-';
    } else if (action == "step") {
      e.kind = 's';
    } else {
      return action == "oom" || action == "snapshot" || action == "annotate";
    }
    events_.push_back(e);
    return true;
  }

  OpTrace finish() {
    const char free_kind = has_completed_ ? 'f' : 'q';
    IdTable live;
    IdTable placed;
    for (const Event& e : events_) {
      const auto key = static_cast<std::uint64_t>(e.block);
      if (e.kind == 'a') {
        live.put(key, 0);
      } else if (e.kind == free_kind && live.take(key) == IdTable::kNone &&
                 placed.put(key, 0) == IdTable::kNone) {
        builder_.live_at_start(key, Bytes{e.bytes}, e.stream);
      }
    }
    std::uint64_t reserved = 0;
    std::uint64_t peak = 0;
    for (const Event& e : events_) {
      if (e.kind == 'a')
        builder_.alloc(static_cast<std::uint64_t>(e.block), Bytes{e.bytes}, e.stream);
      if (e.kind == free_kind) builder_.free(static_cast<std::uint64_t>(e.block));
      if (e.kind == 's') builder_.step(0);
      if (e.kind == '+') reserved = std::min(reserved + e.bytes, kMaxLive.value);
      if (e.kind == '-') reserved -= std::min(reserved, e.bytes);
      peak = std::max(peak, reserved);
    }
    OpTrace trace = builder_.finish();
    // Gains of reserved memory are the whole of it only if the history has the beginning.
    if (trace.completeness.starts_at_beginning) trace.recorded_peak_reserved = Bytes{peak};
    return trace;
  }

 private:
  struct Event {
    std::int64_t block = 0;
    std::uint64_t bytes = 0;
    std::uint64_t stream = 0;
    char kind = 0;
  };
  OpTraceBuilder builder_;
  std::vector<Event> events_;
  bool has_completed_ = false;
};

template <typename Reader>
OpTrace read_lines(Lines lines, Reader reader, bool has_head, ReadError* error) {
  std::string_view line;
  bool first = true;
  while (lines.next(line)) {
    const bool skip = first && (has_head || line.starts_with("op,"));
    first = false;
    if (skip || reader.add(line)) continue;
    error->sentence = complaint(lines.number(), line);
    return {};
  }
  return reader.finish();
}

}  // namespace

OpTrace read_csv(std::string_view text, const ReadOptions& options, ReadError* error) {
  std::string_view first;
  if (Lines(text).next(first) && first == kHistoryHead)
    return read_lines(Lines(text), HistoryReader(options), true, error);
  return read_lines(Lines(text), OpsReader(options), false, error);
}

}  // namespace levee::replay
