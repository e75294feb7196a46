#include "bench/replay/readers/kineto_reader.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "allocator/analysis/text.h"
#include "bench/replay/readers/json_scanner.h"

namespace levee::replay {

namespace {

constexpr std::int64_t kCudaDeviceType = 1;
constexpr std::int64_t kMaxDevices = 4096;
constexpr auto kMaxBytes = static_cast<std::int64_t>(kMaxLive.value);

struct MemoryEvent {
  double ts = 0;
  std::uint64_t addr = 0;
  std::int64_t bytes = 0;       // negative: freed
  std::int64_t allocated = -1;  // in all, after the event; -1: not told
  std::int64_t reserved = -1;
  std::uint32_t device = 0;
};

class KinetoReader {
 public:
  KinetoReader(std::string_view text, const ReadOptions& options, ReadError* error)
      : text_(text), json_(text), options_(options), error_(error), builder_(options.name) {}

  OpTrace read() {
    if (!find_events() || !read_events()) return {};
    if (events_.empty()) {
      fail(
          "it holds no [memory] events of a GPU; profile with profile_memory=True (a job that runs "
          "under levee records itself: replay its .levee file)");
      return {};
    }
    if (!keep_one_device()) return {};
    place_what_was_live();
    write_ops();
    return builder_.finish();
  }

 private:
  bool fail(std::string sentence) {
    if (error_->sentence.empty()) error_->sentence = std::move(sentence);
    return false;
  }
  bool malformed() {
    return fail(fmt::format("its JSON is malformed or cut off near byte {}", json_.position()));
  }

  /// Moves to the first event of the list.
  bool find_events() {
    if (json_.take('[')) return true;
    if (!json_.take('{')) return malformed();
    while (json_.peek() == '"') {
      const auto key = json_.string();
      if (!key || !json_.take(':')) return malformed();
      if (*key == "levee") builder_.levees_own();  // as its exporter writes
      if (*key == "traceEvents") return json_.take('[') || malformed();
      if (!json_.skip()) return malformed();
      if (!json_.take(',')) break;
    }
    return fail("this JSON is no trace of PyTorch's profiler (it has no traceEvents)");
  }

  bool read_events() {
    if (json_.take(']')) return true;
    do {
      if (json_.peek() != '{') {
        if (!json_.skip()) return malformed();
      } else if (!read_event()) {
        return malformed();
      }
    } while (json_.take(','));
    return json_.take(']') || malformed();
  }

  bool read_event() {
    std::string_view name;
    double ts = 0;
    std::size_t args = 0;
    json_.take('{');
    if (json_.take('}')) return true;
    do {
      const auto key = json_.string();
      if (!key || !json_.take(':')) return false;
      if (*key == "name" && json_.peek() == '"') {
        name = json_.string().value_or("");
      } else if (*key == "ts" && json_.peek() != '"') {
        const auto value = json_.number();
        if (!value) return false;
        ts = *value;
      } else {
        json_.peek();
        if (*key == "args") args = json_.position();
        if (!json_.skip()) return false;
      }
    } while (json_.take(','));
    if (!json_.take('}')) return false;
    if (name == "[memory]" && args != 0) read_memory(ts, text_.substr(args));
    if (const auto step = profiler_step(name)) steps_.push_back({*step, ts});
    return true;
  }

  void read_memory(double ts, std::string_view text) {
    JsonScanner args(text);
    MemoryEvent event;
    event.ts = ts;
    std::int64_t type = -1;
    std::int64_t device = 0;
    bool has_bytes = false;
    if (!args.take('{')) return;
    do {
      const auto key = args.string();
      if (!key || !args.take(':')) return;
      const char next = args.peek();
      if (next != '-' && (next < '0' || next > '9')) {
        args.skip();
        continue;
      }
      const auto value = args.integer();
      if (!value) return;
      if (*key == "Addr") event.addr = static_cast<std::uint64_t>(*value);
      if (*key == "Bytes") event.bytes = *value;
      if (*key == "Bytes") has_bytes = true;
      if (*key == "Total Allocated") event.allocated = *value;
      if (*key == "Total Reserved") event.reserved = *value;
      if (*key == "Device Type") type = *value;
      if (*key == "Device Id") device = *value;
    } while (args.take(','));
    const bool is_sane = std::abs(event.bytes) <= kMaxBytes && event.allocated <= kMaxBytes &&
                         event.reserved <= kMaxBytes;
    if (type != kCudaDeviceType || !has_bytes || device < 0 || device >= kMaxDevices) return;
    if (!is_sane) {
      ++absurd_;
      return;
    }
    event.device = static_cast<std::uint32_t>(device);
    events_.push_back(event);
  }

  bool keep_one_device() {
    std::vector<std::size_t> counts;
    for (const MemoryEvent& e : events_) {
      if (counts.size() <= e.device) counts.resize(e.device + 1);
      ++counts[e.device];
    }
    const auto device = choose_device(counts, options_.device, error_);
    if (!device) return false;
    std::erase_if(events_, [&](const MemoryEvent& e) { return e.device != *device; });
    std::stable_sort(events_.begin(), events_.end(),
                     [](const MemoryEvent& a, const MemoryEvent& b) { return a.ts < b.ts; });
    keep_each_once(steps_);
    return true;
  }

  void place_what_was_live() {
    IdTable allocated;
    IdTable placed;
    Bytes named{};
    for (const MemoryEvent& e : events_) {
      if (e.bytes >= 0) {
        allocated.put(e.addr, 0);
      } else if (allocated.take(e.addr) == IdTable::kNone &&
                 placed.put(e.addr, 0) == IdTable::kNone) {
        const Bytes bytes{static_cast<std::uint64_t>(-e.bytes)};
        if (named + bytes > kMaxLive) return;
        builder_.live_at_start(e.addr, bytes, 0);
        named += bytes;
      }
    }
    const MemoryEvent& first = events_.front();
    const std::int64_t before = first.allocated < 0 ? 0 : first.allocated - first.bytes;
    if (before > 0 && static_cast<std::uint64_t>(before) > named.value)
      builder_.unnamed_live_at_start(Bytes{static_cast<std::uint64_t>(before)} - named);
  }

  void write_ops() {
    std::size_t next_step = 0;
    std::int64_t peak_reserved = 0;
    std::uint64_t gaps = 0;
    std::int64_t before = -1;
    for (const MemoryEvent& e : events_) {
      for (; next_step < steps_.size() && steps_[next_step].time <= e.ts; ++next_step)
        builder_.step(0, steps_[next_step].number);
      if (e.bytes >= 0) {
        builder_.alloc(e.addr, Bytes{static_cast<std::uint64_t>(e.bytes)}, 0);
      } else {
        builder_.free(e.addr);
      }
      if (before >= 0 && e.allocated >= 0 && before + e.bytes != e.allocated) ++gaps;
      before = e.allocated;
      peak_reserved = std::max(peak_reserved, e.reserved);
    }
    builder_.set_recorded_peak_reserved(Bytes{static_cast<std::uint64_t>(peak_reserved)});
    builder_.note("A profiler trace names no streams: all of it is replayed on one.");
    if (gaps != 0) {
      builder_.gap(
          fmt::format("At {} its totals do not add up: events are missing or out of order there.",
                      analysis::counted(gaps, "place", "places")));
    }
    if (absurd_ != 0)
      builder_.note(
          fmt::format("{} left out.", analysis::counted(absurd_, "event of impossible size is",
                                                        "events of impossible size are")));
  }

  std::string_view text_;
  JsonScanner json_;
  const ReadOptions& options_;
  ReadError* error_;
  OpTraceBuilder builder_;
  std::vector<MemoryEvent> events_;
  std::vector<ProfilerStep> steps_;
  std::uint64_t absurd_ = 0;
};

}  // namespace

OpTrace read_kineto(std::string_view text, const ReadOptions& options, ReadError* error) {
  return KinetoReader(text, options, error).read();
}

}  // namespace levee::replay
