#include "allocator/export/chrome.h"

#include <algorithm>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "allocator/analysis/explain.h"
#include "allocator/analysis/oom_text.h"
#include "allocator/export/json_writer.h"
#include "allocator/export/report_json.h"
#include "allocator/export/sinks.h"

namespace levee::exporting {
namespace {

using analysis::BlockRecord;
using analysis::Series;
using analysis::TraceFacts;

// Tracks of levee's own beside those of threads and devices.
constexpr std::uint64_t kStormTrack = 1;

enum class ItemKind : std::uint8_t {
  kStep,
  kPhase,
  kStorm,
  kEmergency,
  kDriverCall,
  kKernel,
  kFree,  // before the allocation that reuses the bytes at the same tick
  kAlloc,
  kCounter,
};

struct Item {
  std::uint64_t time_ns;
  std::uint32_t index;   // into the list of its kind
  std::uint32_t second;  // kernels: lane; counters: device
  ItemKind kind;
};

class CountingSink final : public ByteSink {
 public:
  explicit CountingSink(ByteSink& sink) : sink_(sink) {}
  void write(std::string_view bytes) override {
    size_ += bytes.size();
    sink_.write(bytes);
  }
  std::uint64_t size() const { return size_; }

 private:
  ByteSink& sink_;
  std::uint64_t size_ = 0;
};

class ChromeWriter {
 public:
  ChromeWriter(const TraceFacts& facts, const ChromeOptions& options)
      : facts_(facts), options_(options) {}

  bool write(const std::string& path, std::vector<std::string>* written, std::string* why) {
    collect();
    std::size_t at = 0;
    std::vector<Part> parts;
    do {
      const std::string name = parts.empty() ? path : part_path(path, parts.size() + 1);
      Part part;
      part.path = name;
      auto file =
          FileSink::create(name, options_.gzip ? FileCoding::kGzip : FileCoding::kPlain, why);
      if (file == nullptr) return false;
      const std::size_t begin = at;
      at = write_part(*file, at);
      part.first_ns = begin < items_.size() ? items_[begin].time_ns : facts_.start_ns;
      part.last_ns = at > begin ? items_[at - 1].time_ns : part.first_ns;
      part.events = at - begin;
      // With more to come, the first file is a part like the others.
      if (parts.empty() && at < items_.size()) part.path = part_path(path, 1);
      if (!commit_as(*file, name, part.path, why)) return false;
      parts.push_back(part);
    } while (at < items_.size());
    for (const Part& part : parts) written->push_back(part.path);
    if (parts.size() > 1) return write_index(path, parts, written, why);
    return true;
  }

 private:
  struct Part {
    std::string path;
    std::uint64_t first_ns = 0;
    std::uint64_t last_ns = 0;
    std::uint64_t events = 0;
  };

  static bool commit_as(FileSink& file, const std::string& name, const std::string& wanted,
                        std::string* why) {
    if (!file.commit(why)) return false;
    if (name == wanted) return true;
    if (std::rename(name.c_str(), wanted.c_str()) == 0) return true;
    *why = fmt::format("Cannot write {}.", wanted);
    return false;
  }

  static std::pair<std::string, std::string> split_suffix(const std::string& path) {
    for (const std::string_view suffix :
         {".pt.trace.json.gz", ".pt.trace.json", ".json.gz", ".json"}) {
      if (path.size() > suffix.size() && path.ends_with(suffix)) {
        return {path.substr(0, path.size() - suffix.size()), std::string(suffix)};
      }
    }
    return {path, ""};
  }
  static std::string part_path(const std::string& path, std::size_t number) {
    const auto [stem, suffix] = split_suffix(path);
    return fmt::format("{}.part{}{}", stem, number, suffix);
  }

  std::uint64_t since_start(std::uint64_t time_ns) const {
    return time_ns > facts_.start_ns ? time_ns - facts_.start_ns : 0;
  }

  void collect() {
    const auto add = [&](std::uint64_t time, std::size_t index, ItemKind kind,
                         std::size_t second = 0) {
      items_.push_back(
          {time, static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(second), kind});
    };
    for (std::size_t i = 0; i < facts_.steps.size(); ++i) {
      add(facts_.steps[i].begin_ns, i, ItemKind::kStep);
    }
    for (std::size_t i = 0; i < facts_.spans.size(); ++i) {
      add(facts_.spans[i].begin_ns, i, ItemKind::kPhase);
    }
    for (std::size_t i = 0; i < facts_.storms.size(); ++i) {
      add(facts_.storms[i].begin_ns, i, ItemKind::kStorm);
    }
    for (std::size_t i = 0; i < facts_.emergencies.size(); ++i) {
      add(facts_.emergencies[i].begin_ns, i, ItemKind::kEmergency);
    }
    for (std::size_t i = 0; i < facts_.driver_calls.size(); ++i) {
      add(facts_.driver_calls[i].begin_ns, i, ItemKind::kDriverCall);
    }
    for (std::size_t lane = 0; lane < facts_.lanes.size(); ++lane) {
      const auto& intervals = facts_.lanes[lane].intervals;
      for (std::size_t i = 0; i < intervals.size(); ++i) {
        add(intervals[i].begin_ns, i, ItemKind::kKernel, lane);
      }
    }
    for (std::size_t i = 0; i < facts_.blocks.size(); ++i) {
      const BlockRecord& block = facts_.blocks[i];
      if (block.begin_ns >= facts_.start_ns) add(block.begin_ns, i, ItemKind::kAlloc);
      if (block.end_ns != analysis::kStillLive) add(block.end_ns, i, ItemKind::kFree);
    }
    thin_memory_events();
    for (std::size_t d = 0; d < facts_.devices.size(); ++d) counters_of(d, add);
    std::stable_sort(items_.begin(), items_.end(), [](const Item& a, const Item& b) {
      return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.kind < b.kind;
    });
  }

  // Counter tracks draw steps, so each change is one event; beyond some thousands, the extremes of
  // stretches.
  template <typename Add>
  void counters_of(std::size_t device, Add add) {
    constexpr std::size_t kMaxCounters = 20'000;
    const analysis::Timeline& timeline = facts_.devices[device].timeline;
    for (const std::size_t i : extremes(timeline, kMaxCounters)) {
      add(timeline.time_ns(i), i, ItemKind::kCounter, device);
    }
  }

  // Indices of at most about `max` samples: every one if they are few, else the lowest and highest
  // allocated and reserved of each of max / 4 equal stretches.
  static std::vector<std::size_t> extremes(const analysis::Timeline& timeline, std::size_t max) {
    std::vector<std::size_t> out;
    const std::size_t size = timeline.size();
    const std::size_t stretches = std::max<std::size_t>(1, max / 4);
    const std::size_t width = size <= max ? 1 : (size + stretches - 1) / stretches;
    for (std::size_t first = 0; first < size; first += width) {
      if (width == 1) {
        out.push_back(first);
        continue;
      }
      const std::size_t last = std::min(first + width, size);
      for (const Series series : {Series::kReserved, Series::kAllocated}) {
        const auto& column = timeline.column(series);
        const auto begin = column.begin() + static_cast<std::ptrdiff_t>(first);
        const auto end = column.begin() + static_cast<std::ptrdiff_t>(last);
        const auto [low, high] = std::minmax_element(begin, end);
        out.push_back(static_cast<std::size_t>(low - column.begin()));
        out.push_back(static_cast<std::size_t>(high - column.begin()));
      }
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  void thin_memory_events() {
    if (options_.max_memory_events == 0) return;
    std::vector<std::size_t> of_device(facts_.devices.size());
    std::vector<Item> kept;
    for (const Item& item : items_) {
      if (is_memory(item)) ++of_device[device_of(item)];
    }
    const auto is_over = [&](std::size_t n) { return n > options_.max_memory_events; };
    if (std::none_of(of_device.begin(), of_device.end(), is_over)) return;
    // The viewer sees memory only at these events: those nearest to the extremes of the curves tell
    // its shape.
    std::vector<std::vector<std::uint64_t>> times(facts_.devices.size());
    for (std::size_t d = 0; d < facts_.devices.size(); ++d) {
      for (const std::size_t i : extremes(facts_.devices[d].timeline, options_.max_memory_events)) {
        times[d].push_back(facts_.devices[d].timeline.time_ns(i));
      }
    }
    for (const Item& item : items_) {
      if (!is_memory(item)) {
        kept.push_back(item);
        continue;
      }
      const auto& keep = times[device_of(item)];
      if (std::binary_search(keep.begin(), keep.end(), item.time_ns)) {
        kept.push_back(item);
      } else {
        ++thinned_;
      }
    }
    items_ = std::move(kept);
  }

  static bool is_memory(const Item& item) {
    return item.kind == ItemKind::kAlloc || item.kind == ItemKind::kFree;
  }
  std::size_t device_of(const Item& item) const {
    return facts_.device_of(facts_.blocks[item.index].lane);
  }

  std::size_t write_part(ByteSink& file, std::size_t at) {
    CountingSink counted(file);
    JsonWriter json(counted);
    json.begin_object();
    json.field("schemaVersion", 1);
    json.key("deviceProperties").begin_array();
    for (const analysis::DeviceFacts& device : facts_.devices) {
      json.begin_object().field("id", device.device.value);
      json.field("name", device.name.empty() ? "CUDA device" : device.name);
      json.field("totalGlobalMem", device.total_bytes);
      json.field("computeMajor", 0).field("computeMinor", 0);
      json.end_object();
    }
    json.end_array();
    json.field("displayTimeUnit", "ms");
    json.key("baseTimeNanoseconds").value(facts_.start_unix_ns);
    json.key("levee").begin_object();
    json.field("version", facts_.levee_version).field("times_are_modelled", facts_.is_modelled);
    json.field("memory_events_left_out", thinned_);
    json.field("remarks", facts_.completeness.remarks);
    json.end_object();
    if (facts_.rank >= 0) {
      json.key("distributedInfo").begin_object();
      json.field("backend", "nccl").field("rank", facts_.rank);
      json.field("world_size", facts_.world_size).end_object();
    }
    json.key("traceEvents").begin_array();
    frame(json);
    for (; at < items_.size(); ++at) {
      if (options_.max_part_bytes != 0 && (at & 0xFFU) == 0) {
        json.flush();
        if (counted.size() >= options_.max_part_bytes) break;
      }
      item(json, items_[at]);
    }
    json.end_array();
    json.field("traceName", facts_.program.empty() ? facts_.path : facts_.program);
    json.end_object();
    return at;
  }

  void name_track(JsonWriter& json, const char* what, std::uint64_t pid, std::uint64_t tid,
                  const std::string& name) {
    json.begin_object().field("ph", "M").field("name", what).field("pid", pid).field("tid", tid);
    json.field("ts", 0).key("args").begin_object().field("name", name).end_object().end_object();
  }

  // Names of processes and threads, and the span of everything, which the TensorBoard plugin takes
  // its time buckets from.
  void frame(JsonWriter& json) {
    const std::uint64_t pid = facts_.pid;
    name_track(json, "process_name", pid, 0, facts_.program.empty() ? "python" : facts_.program);
    for (const analysis::ThreadFacts& thread : facts_.threads) {
      name_track(json, "thread_name", pid, thread.os_id, facts_.thread_name(thread.index));
    }
    for (const analysis::DeviceFacts& device : facts_.devices) {
      const auto id = static_cast<std::uint64_t>(device.device.value);
      name_track(json, "process_name", id, 0, fmt::format("GPU {} {}", id, device.name));
    }
    for (const analysis::ActivityLane& lane : facts_.lanes) {
      const auto id = static_cast<std::uint64_t>(facts_.devices[lane.device].device.value);
      name_track(json, "thread_name", id, lane.stream, fmt::format("stream {}", lane.stream));
    }
    json.begin_object()
        .field("ph", "X")
        .field("cat", "Trace")
        .field("name", "PyTorch Profiler (0)");
    json.field("pid", "Spans").field("tid", "PyTorch Profiler").key("ts").fixed(0, 3);
    json.key("dur").fixed(facts_.duration_ns(), 3).end_object();
  }

  void begin_slice(JsonWriter& json, std::string_view category, std::string_view name,
                   std::uint64_t pid, std::uint64_t tid, std::uint64_t begin_ns,
                   std::uint64_t duration_ns) {
    json.begin_object().field("ph", "X").field("cat", category).field("name", name);
    json.field("pid", pid).field("tid", tid);
    json.key("ts").fixed(since_start(begin_ns), 3).key("dur").fixed(duration_ns, 3);
    json.key("args").begin_object();
  }
  static void end_slice(JsonWriter& json) { json.end_object().end_object(); }

  std::uint64_t main_thread() const {
    return facts_.threads.empty() ? facts_.pid : facts_.threads.front().os_id;
  }

  void item(JsonWriter& json, const Item& item) {
    const std::uint64_t pid = facts_.pid;
    switch (item.kind) {
      case ItemKind::kStep: {
        const analysis::Step& step = facts_.steps[item.index];
        begin_slice(json, "user_annotation", fmt::format("ProfilerStep#{}", step.number), pid,
                    main_thread(), step.begin_ns, step.duration_ns());
        json.field("driver calls", step.driver_calls).field("emergencies", step.emergencies);
        return end_slice(json);
      }
      case ItemKind::kPhase: {
        const analysis::PhaseSpan& span = facts_.spans[item.index];
        begin_slice(json, "user_annotation", facts_.name_of(facts_.phases[span.node].name), pid,
                    facts_.os_thread(span.thread), span.begin_ns, span.end_ns - span.begin_ns);
        return end_slice(json);
      }
      case ItemKind::kStorm: {
        const analysis::Storm& storm = facts_.storms[item.index];
        begin_slice(json, "levee", "allocator storm", pid, kStormTrack, storm.begin_ns,
                    storm.end_ns - storm.begin_ns);
        json.field("what", analysis::storm_text(facts_, storm));
        json.field("emergencies", storm.emergencies).field("lost ns", storm.stall_ns);
        return end_slice(json);
      }
      case ItemKind::kEmergency:
        return emergency(json, facts_.emergencies[item.index]);
      case ItemKind::kDriverCall: {
        const analysis::DriverCallRecord& call = facts_.driver_calls[item.index];
        const char* name = driver_call_name(call.call);
        const bool is_driver_api = std::string_view(name).starts_with("cuMem");
        const char* category = is_driver_api ? "cuda_driver" : "cuda_runtime";
        if (options_.flavour == ChromeFlavour::kTensorBoard) category = "runtime";
        begin_slice(json, category, name, pid, facts_.os_thread(call.thread), call.begin_ns,
                    call.duration_ns);
        if (call.bytes > 0) json.field("bytes", call.bytes);
        if (call.failed) json.field("failed", true);
        return end_slice(json);
      }
      case ItemKind::kKernel:
        return activity(json, facts_.lanes[item.second],
                        facts_.lanes[item.second].intervals[item.index]);
      case ItemKind::kAlloc:
      case ItemKind::kFree:
        return memory(json, facts_.blocks[item.index], item.time_ns, item.kind == ItemKind::kFree);
      case ItemKind::kCounter: {
        const analysis::DeviceFacts& device = facts_.devices[item.second];
        json.begin_object().field("ph", "C").field("cat", "levee");
        json.field("name", fmt::format("memory of GPU {}", device.device.value));
        json.field("pid", pid).field("tid", std::uint64_t{0});
        json.key("ts").fixed(since_start(item.time_ns), 3).key("args").begin_object();
        json.field("reserved", device.timeline.value(Series::kReserved, item.index));
        json.field("allocated", device.timeline.value(Series::kAllocated, item.index));
        json.end_object().end_object();
        return;
      }
    }
  }

  void emergency(JsonWriter& json, const analysis::Emergency& e) {
    const analysis::EmergencyText text = analysis::explain(facts_, e);
    begin_slice(json, "levee", fmt::format("emergency: {}", analysis::cause_name(e.cause)),
                facts_.pid, facts_.os_thread(e.thread), e.begin_ns, e.duration_ns);
    json.field("requested bytes", e.requested_bytes);
    json.field("reserved before", e.reserved_before_bytes);
    json.field("reserved after", e.reserved_after_bytes);
    json.field("allocated", e.allocated_bytes).field("driver calls", e.driver_calls);
    json.field("cause", text.cause).field("rungs", text.rungs).field("paid", text.paid);
    json.field("advice", text.advice);
    end_slice(json);
  }

  void activity(JsonWriter& json, const analysis::ActivityLane& lane,
                const analysis::Interval& interval) {
    const auto device = static_cast<std::uint64_t>(facts_.devices[lane.device].device.value);
    const bool is_kernel = interval.kind == EventKind::kKernel;
    const char* category = "kernel";
    std::string name = "kernel";
    if (is_kernel) {
      if (const std::string& known = facts_.name_of(interval.name); !known.empty()) name = known;
    } else if (interval.kind == EventKind::kMemset) {
      category = "gpu_memset";
      name = "Memset (Device)";
    } else {
      static constexpr const char* kKinds[] = {"HtoH", "HtoD", "DtoH", "DtoD"};
      category = "gpu_memcpy";
      name = interval.aux < 4 ? fmt::format("Memcpy {}", kKinds[interval.aux]) : "Memcpy";
    }
    begin_slice(json, category, name, device, lane.stream, interval.begin_ns, interval.duration_ns);
    json.field("device", device).field("context", 1).field("stream", lane.stream);
    if (is_kernel) {
      json.field("correlation", interval.value);
    } else {
      json.field("bytes", interval.value);
    }
    end_slice(json);
  }

  void memory(JsonWriter& json, const BlockRecord& block, std::uint64_t time_ns, bool is_free) {
    const std::uint32_t index = facts_.device_of(block.lane);
    const analysis::DeviceFacts& device = facts_.devices[index];
    const analysis::Timeline& timeline = device.timeline;
    const std::size_t at = timeline.index_at(time_ns);
    json.begin_object().field("ph", "i").field("cat", "cpu_instant_event").field("s", "t");
    json.field("name", "[memory]")
        .field("pid", facts_.pid)
        .field("tid", facts_.os_thread(block.thread));
    json.key("ts").fixed(since_start(time_ns), 3).key("args").begin_object();
    json.field("Total Reserved", timeline.value(Series::kReserved, at));
    json.field("Total Allocated", timeline.value(Series::kAllocated, at));
    const auto bytes = static_cast<std::int64_t>(block.bytes);
    json.field("Bytes", is_free ? -bytes : bytes).field("Addr", block.addr);
    json.field("Device Id", device.device.value).field("Device Type", 1);
    json.field("Ev Idx", next_event_++);
    json.end_object().end_object();
  }

  bool write_index(const std::string& path, const std::vector<Part>& parts,
                   std::vector<std::string>* written, std::string* why) {
    const std::string name = split_suffix(path).first + ".parts.json";
    const auto file = FileSink::create(name, FileCoding::kPlain, why);
    if (file == nullptr) return false;
    {
      JsonWriter json(*file);
      json.begin_object().field("format", "levee-chrome-parts").field("version", 1);
      json.key("parts").begin_array();
      for (const Part& part : parts) {
        const std::size_t slash = part.path.rfind('/');
        json.begin_object();
        json.field("file", slash == std::string::npos ? part.path : part.path.substr(slash + 1));
        json.key("from_us").fixed(since_start(part.first_ns), 3);
        json.key("to_us").fixed(since_start(part.last_ns), 3);
        json.field("events", part.events).end_object();
      }
      json.end_array();
      json.key("steps").begin_array();
      for (std::size_t i = 0; i < facts_.steps.size(); ++i) {
        for (const analysis::DeviceFacts& device : facts_.devices) {
          json.begin_object().field("step", facts_.steps[i].number);
          json.field("device", device.device.value);
          json.field("peak_reserved_bytes", device.step_peaks[i].reserved_bytes);
          json.field("peak_allocated_bytes", device.step_peaks[i].allocated_bytes).end_object();
        }
      }
      json.end_array().end_object();
    }
    written->push_back(name);
    return file->commit(why);
  }

  const TraceFacts& facts_;
  const ChromeOptions& options_;
  std::vector<Item> items_;
  std::uint64_t thinned_ = 0;
  std::uint64_t next_event_ = 0;
};

}  // namespace

bool write_chrome(const TraceFacts& facts, const ChromeOptions& options, const std::string& path,
                  std::vector<std::string>* written, std::string* why) {
  return ChromeWriter(facts, options).write(path, written, why);
}

}  // namespace levee::exporting
