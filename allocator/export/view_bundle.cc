#include "allocator/export/view_bundle.h"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "allocator/export/column_chunk.h"
#include "allocator/export/json_writer.h"
#include "allocator/export/report_json.h"
#include "allocator/export/sinks.h"

namespace levee::exporting {
namespace {

using analysis::Series;
using analysis::Timeline;
using analysis::TimelineLevel;
using analysis::TraceFacts;
using Column = std::vector<std::uint64_t>;
using Columns = std::vector<std::span<const std::uint64_t>>;

// Rows a chunk: a zoomed-in view of 1200 pixels needs one or two of them.
constexpr std::size_t kChunkRows = 16'384;
// Columns of the whole run for which the `first` tables are made: more than the view's widest
// picture has.
constexpr std::uint64_t kFirstColumns = 2048;

// A stretch of time with something in it: a kernel, a copy, a phase.
struct Spans {
  std::string kind;   // "kernels", "driver" or "phases"
  std::string label;  // "stream 0x7", "main, depth 0"
  std::int32_t device = 0;
  Column begin;
  Column duration;
  Column name;  // index into the bundle's names
};

class BundleWriter {
 public:
  BundleWriter(const TraceFacts& facts, const ViewOptions& options, FileSink& data,
               JsonWriter& json)
      : facts_(facts), options_(options), data_(data), json_(json) {}

  void write() {
    json_.begin_object();
    json_.field("format", "levee-view").field("version", kViewVersion);
    json_.field("title", options_.title);
    json_.key("report");
    write_report(facts_, {}, json_);
    json_.key("curves").begin_array();
    for (const analysis::DeviceFacts& device : facts_.devices) curve(device);
    json_.end_array();
    json_.key("lanes").begin_array();
    for (const analysis::ActivityLane& lane : facts_.lanes) activity_lane(lane);
    driver_lanes();
    phase_lanes();
    json_.end_array();
    json_.field("names", names_);
    json_.end_object();
  }

 private:
  std::uint64_t since_start(std::uint64_t time_ns) const {
    return time_ns > facts_.start_ns ? time_ns - facts_.start_ns : 0;
  }

  // Writes one table of rows as chunks; the first column is time and becomes relative to the start.
  void table(const Columns& columns) {
    const std::size_t rows = columns.front().size();
    json_.key("chunks").begin_array();
    for (std::size_t first = 0; first < rows; first += kChunkRows) {
      const std::size_t last = std::min(first + kChunkRows, rows);
      Column time;
      time.reserve(last - first);
      for (std::size_t i = first; i < last; ++i) time.push_back(since_start(columns[0][i]));
      Columns part = {time};
      for (std::size_t c = 1; c < columns.size(); ++c) {
        part.push_back(columns[c].subspan(first, last - first));
      }
      const ColumnChunk chunk = encode_chunk(part, 0, last - first);
      // [offset, bytes, rows, coding, bases, units, time of the last row]
      json_.begin_array().value(data_.size()).value(std::uint64_t{chunk.bytes.size()});
      json_.value(std::uint64_t{chunk.count}).value(chunk.is_plain ? "f8" : "d4");
      json_.begin_array();
      for (const std::uint64_t base : chunk.bases) json_.value(base);
      json_.end_array().begin_array();
      for (const std::uint64_t unit : chunk.units) json_.value(unit);
      json_.end_array().value(time.back()).end_array();
      data_.write(chunk.bytes);
    }
    json_.end_array();
  }

  // The longest row of a `first` table, in time.
  std::uint64_t widest_row() const { return since_start(facts_.end_ns) / kFirstColumns; }

  // Adds `row` of a timeline's `level` (0 = the samples) to `out`; if it is too wide for one column
  // of a picture of the whole run, the rows it stands for instead: levels are cut by count, and a
  // pause in the program makes a row wide, whose extremes were true for a moment of it and not
  // throughout.
  void add_first_rows(const Timeline& timeline, std::size_t level, std::size_t row,
                      std::vector<Column>& out) const {
    const bool is_sample = level == 0;
    const Column& times = is_sample ? timeline.times() : timeline.levels()[level - 1].time_ns;
    const std::uint64_t next = row + 1 < times.size() ? times[row + 1] : timeline.end_ns();
    if (is_sample || next - times[row] <= widest_row()) {
      auto column = out.begin();
      (column++)->push_back(times[row]);
      for (const Series series : {Series::kReserved, Series::kAllocated, Series::kActive}) {
        if (column == out.end()) break;
        const auto* range = is_sample ? nullptr : &timeline.levels()[level - 1].of(series);
        (column++)->push_back(is_sample ? timeline.value(series, row) : range->min[row]);
        (column++)->push_back(is_sample ? timeline.value(series, row) : range->max[row]);
      }
      return;
    }
    const std::size_t rows = level == 1 ? timeline.size() : timeline.levels()[level - 2].size();
    const std::size_t first = row * Timeline::kLevelFactor;
    for (std::size_t i = first; i < std::min(first + Timeline::kLevelFactor, rows); ++i) {
      add_first_rows(timeline, level - 1, i, out);
    }
  }

  void begin_first(std::size_t rows) {
    json_.key("first").begin_object();
    json_.field("rows", std::uint64_t{rows}).field("widest_ns", widest_row());
  }

  void curve(const analysis::DeviceFacts& device) {
    const Timeline& timeline = device.timeline;
    const bool has_detail =
        options_.max_detail_samples == 0 || timeline.size() <= options_.max_detail_samples;
    json_.begin_object().field("device", device.device.value).field("name", device.name);
    json_.field("total_bytes", device.total_bytes).field("limit_bytes", device.limit_bytes);
    json_.field("samples", std::uint64_t{timeline.size()});
    json_.field("end_ns", since_start(timeline.end_ns()));
    json_.field("has_active", timeline.has_waiting()).field("has_detail", has_detail);
    if (!timeline.levels().empty()) {
      std::vector<Column> rows(timeline.has_waiting() ? 7 : 5);
      const std::size_t top = timeline.levels().size();
      for (std::size_t i = 0; i < timeline.levels().back().size(); ++i) {
        add_first_rows(timeline, top, i, rows);
      }
      begin_first(rows.front().size());
      table(Columns(rows.begin(), rows.end()));
      json_.end_object();
    }
    json_.key("levels").begin_array();
    // Coarsest first: what a view draws before anything else.
    for (auto level = timeline.levels().rbegin(); level != timeline.levels().rend(); ++level) {
      json_.begin_object().field("rows", std::uint64_t{level->size()});
      Columns columns = {level->time_ns, level->reserved.min, level->reserved.max,
                         level->allocated.min, level->allocated.max};
      if (timeline.has_waiting()) {
        columns.push_back(level->active.min);
        columns.push_back(level->active.max);
      }
      table(columns);
      json_.end_object();
    }
    json_.end_array();
    json_.key("detail").begin_object();
    json_.field("rows", has_detail ? std::uint64_t{timeline.size()} : std::uint64_t{0});
    if (has_detail && !timeline.empty()) {
      Columns columns = {timeline.times(), timeline.column(Series::kReserved),
                         timeline.column(Series::kAllocated)};
      if (timeline.has_waiting()) columns.push_back(timeline.column(Series::kActive));
      table(columns);
    } else {
      json_.key("chunks").begin_array().end_array();
    }
    json_.end_object().end_object();
  }

  std::uint64_t name_index(const std::string& name) {
    const auto [known, is_new] = name_ids_.try_emplace(name, names_.size());
    if (is_new) names_.push_back(name);
    return known->second;
  }

  void activity_lane(const analysis::ActivityLane& lane) {
    Spans spans;
    spans.kind = "kernels";
    spans.label =
        lane.stream == 0 ? std::string("default stream") : fmt::format("stream {:#x}", lane.stream);
    spans.device = facts_.devices[lane.device].device.value;
    std::unordered_map<std::uint32_t, std::uint64_t> known;  // context -> name index
    for (const analysis::Interval& interval : lane.intervals) {
      spans.begin.push_back(interval.begin_ns);
      spans.duration.push_back(interval.duration_ns);
      if (interval.kind == EventKind::kKernel) {
        const auto [entry, is_new] = known.try_emplace(interval.name.value, 0);
        if (is_new) {
          const std::string& text = facts_.name_of(interval.name);
          entry->second = name_index(text.empty() ? "kernel" : text);
        }
        spans.name.push_back(entry->second);
      } else {
        spans.name.push_back(name_index(copy_name(interval)));
      }
    }
    write_spans(spans);
  }

  static std::string copy_name(const analysis::Interval& interval) {
    if (interval.kind == EventKind::kMemset) return "memset";
    switch (interval.aux) {  // cudaMemcpyKind
      case 0:
        return "memcpy host to host";
      case 1:
        return "memcpy host to device";
      case 2:
        return "memcpy device to host";
      case 3:
        return "memcpy device to device";
      default:
        return "memcpy";
    }
  }

  void driver_lanes() {
    std::vector<Spans> lanes(facts_.devices.size());
    for (const analysis::DriverCallRecord& call : facts_.driver_calls) {
      Spans& spans = lanes[call.device];
      spans.begin.push_back(call.begin_ns);
      spans.duration.push_back(call.duration_ns);
      spans.name.push_back(name_index(driver_call_name(call.call)));
    }
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      if (lanes[i].begin.empty()) continue;
      lanes[i].kind = "driver";
      lanes[i].label = "driver calls";
      lanes[i].device = facts_.devices[i].device.value;
      write_spans(lanes[i]);
    }
  }

  void phase_lanes() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Spans> lanes;  // (thread, depth)
    std::unordered_map<std::uint32_t, std::uint64_t> known;
    for (const analysis::PhaseSpan& span : facts_.spans) {
      const analysis::PhaseNode& node = facts_.phases[span.node];
      if (node.depth > options_.max_phase_depth) continue;
      Spans& spans = lanes[{span.thread, node.depth}];
      if (spans.kind.empty()) {
        spans.kind = "phases";
        spans.label = facts_.thread_name(span.thread);
        spans.device = -1;
      }
      spans.begin.push_back(span.begin_ns);
      spans.duration.push_back(span.end_ns - span.begin_ns);
      const auto [entry, is_new] = known.try_emplace(node.name.value, 0);
      if (is_new) entry->second = name_index(facts_.name_of(node.name));
      spans.name.push_back(entry->second);
    }
    for (const auto& [place, spans] : lanes) write_spans(spans);
  }

  // As add_first_rows: begin, extent, busy time, and of a span alone its name's index + 1.
  void add_first_spans(const Spans& spans, const std::vector<std::array<Column, 3>>& levels,
                       std::size_t level, std::size_t row, std::array<Column, 4>& out) const {
    const auto add = [&](std::uint64_t begin, std::uint64_t extent, std::uint64_t busy,
                         std::uint64_t name) {
      out[0].push_back(begin);
      out[1].push_back(extent);
      out[2].push_back(busy);
      out[3].push_back(name);
    };
    if (level == 0) {
      add(spans.begin[row], spans.duration[row], spans.duration[row], spans.name[row] + 1);
      return;
    }
    const std::array<Column, 3>& here = levels[level - 1];
    if (here[1][row] <= widest_row()) {
      add(here[0][row], here[1][row], here[2][row], 0);
      return;
    }
    const std::size_t rows = level == 1 ? spans.begin.size() : levels[level - 2][0].size();
    const std::size_t first = row * Timeline::kLevelFactor;
    for (std::size_t i = first; i < std::min(first + Timeline::kLevelFactor, rows); ++i) {
      add_first_spans(spans, levels, level - 1, i, out);
    }
  }

  void write_spans(const Spans& spans) {
    json_.begin_object().field("kind", spans.kind).field("label", spans.label);
    json_.field("device", spans.device).field("count", std::uint64_t{spans.begin.size()});
    // Levels of 8, 64, ... neighbours: where they begin and end, and how much of that is busy.
    std::vector<std::array<Column, 3>> levels;
    Column begin = spans.begin;
    Column extent = spans.duration;
    Column busy = spans.duration;
    while (begin.size() > Timeline::kCoarsestBuckets) {
      std::array<Column, 3> level;
      for (std::size_t first = 0; first < begin.size(); first += Timeline::kLevelFactor) {
        const std::size_t last = std::min(first + Timeline::kLevelFactor, begin.size());
        std::uint64_t end = 0;
        std::uint64_t sum = 0;
        for (std::size_t i = first; i < last; ++i) {
          end = std::max(end, begin[i] + extent[i]);
          sum += busy[i];
        }
        level[0].push_back(begin[first]);
        level[1].push_back(end - begin[first]);
        level[2].push_back(sum);
      }
      begin = level[0];
      extent = level[1];
      busy = level[2];
      levels.push_back(std::move(level));
    }
    if (!levels.empty()) {
      std::array<Column, 4> rows;
      for (std::size_t i = 0; i < levels.back()[0].size(); ++i) {
        add_first_spans(spans, levels, levels.size(), i, rows);
      }
      begin_first(rows[0].size());
      table({rows[0], rows[1], rows[2], rows[3]});
      json_.end_object();
    }
    json_.key("levels").begin_array();
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
      json_.begin_object().field("rows", std::uint64_t{(*level)[0].size()});
      table({(*level)[0], (*level)[1], (*level)[2]});
      json_.end_object();
    }
    json_.end_array();
    json_.key("detail").begin_object().field("rows", std::uint64_t{spans.begin.size()});
    table({spans.begin, spans.duration, spans.name});
    json_.end_object().end_object();
  }

  const TraceFacts& facts_;
  const ViewOptions& options_;
  FileSink& data_;
  JsonWriter& json_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::uint64_t> name_ids_;
};

}  // namespace

bool write_view(const TraceFacts& facts, const ViewOptions& options, const std::string& folder,
                std::string* why) {
  if (!make_folders(folder, why)) return false;
  const auto data = FileSink::create(folder + "/view.bin", FileCoding::kPlain, why);
  if (data == nullptr) return false;
  const auto index = FileSink::create(folder + "/view.json", FileCoding::kPlain, why);
  if (index == nullptr) return false;
  {
    JsonWriter json(*index);
    BundleWriter(facts, options, *data, json).write();
  }
  // The index last: a reader that finds it finds all it points to.
  return data->commit(why) && index->commit(why);
}

}  // namespace levee::exporting
