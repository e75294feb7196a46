#include "allocator/export/perfetto.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "allocator/analysis/explain.h"
#include "allocator/analysis/oom_text.h"
#include "allocator/export/proto_writer.h"
#include "allocator/export/report_json.h"
#include "allocator/export/sinks.h"

namespace levee::exporting {
namespace {

using analysis::Series;
using analysis::TraceFacts;

// Field numbers of perfetto/trace/trace_packet.proto and of the messages below it.
namespace packet {
constexpr std::uint32_t kTimestamp = 8;
constexpr std::uint32_t kSequenceId = 10;
constexpr std::uint32_t kTrackEvent = 11;
constexpr std::uint32_t kInternedData = 12;
constexpr std::uint32_t kSequenceFlags = 13;
constexpr std::uint32_t kTrackDescriptor = 60;
}  // namespace packet
namespace event {
constexpr std::uint32_t kDebugAnnotations = 4;
constexpr std::uint32_t kType = 9;
constexpr std::uint32_t kNameIid = 10;
constexpr std::uint32_t kTrackUuid = 11;
constexpr std::uint32_t kCounterValue = 30;
constexpr std::uint64_t kSliceBegin = 1;
constexpr std::uint64_t kSliceEnd = 2;
constexpr std::uint64_t kCounter = 4;
}  // namespace event
namespace track {
constexpr std::uint32_t kUuid = 1;
constexpr std::uint32_t kName = 2;
constexpr std::uint32_t kProcess = 3;
constexpr std::uint32_t kParentUuid = 5;
constexpr std::uint32_t kCounter = 8;
constexpr std::uint32_t kCounterUnit = 3;
constexpr std::uint64_t kUnitBytes = 3;  // CounterDescriptor.UNIT_SIZE_BYTES
}  // namespace track

constexpr std::uint64_t kSequence = 1;
constexpr std::uint64_t kStateCleared = 1;
constexpr std::uint64_t kNeedsState = 2;

struct Slice {
  std::uint64_t begin_ns;
  std::uint64_t end_ns;
  std::uint64_t track;
  std::uint64_t name;
  std::string annotations;  // encoded
};

struct Edge {
  std::uint64_t time_ns;
  std::uint32_t slice;  // or sample of a counter
  std::uint32_t order;  // ends before begins at one time; outer slices begin first and end last
  std::uint64_t counter_track;
  std::uint64_t value;
};

class PerfettoWriter {
 public:
  PerfettoWriter(const TraceFacts& facts, ByteSink& sink) : facts_(facts), sink_(sink) {}

  void write() {
    const std::uint64_t process =
        new_track(0, facts_.program.empty() ? "python" : facts_.program, 2);
    collect_counters(process);
    collect_slices(process);
    write_names();
    write_edges();
  }

 private:
  static std::string annotation(std::string_view name, std::string_view text) {
    return ProtoWriter().text(10, name).text(6, text).take();
  }
  static std::string annotation(std::string_view name, std::uint64_t number) {
    return ProtoWriter().text(10, name).varint(3, number).take();
  }

  void put(const ProtoWriter& message) {
    sink_.write(ProtoWriter().message(1, message.bytes()).bytes());
  }

  // kind: 0 slices, 1 a counter of bytes, 2 the process.
  std::uint64_t new_track(std::uint64_t parent, const std::string& name, int kind) {
    const std::uint64_t uuid = ++tracks_;
    ProtoWriter descriptor;
    descriptor.varint(track::kUuid, uuid).text(track::kName, name);
    if (parent != 0) descriptor.varint(track::kParentUuid, parent);
    if (kind == 1) {
      descriptor.message(track::kCounter,
                         ProtoWriter().varint(track::kCounterUnit, track::kUnitBytes).bytes());
    } else if (kind == 2) {
      descriptor.message(track::kProcess,
                         ProtoWriter().varint(1, facts_.pid).text(6, name).bytes());
    }
    put(ProtoWriter().message(packet::kTrackDescriptor, descriptor.bytes()));
    return uuid;
  }

  std::uint64_t intern(const std::string& name) {
    const auto [known, is_new] = names_.try_emplace(name, names_.size() + 1);
    return known->second;
  }

  void collect_counters(std::uint64_t process) {
    for (const analysis::DeviceFacts& device : facts_.devices) {
      const analysis::Timeline& timeline = device.timeline;
      for (const Series series : {Series::kReserved, Series::kAllocated}) {
        const char* what = series == Series::kReserved ? "reserved" : "allocated";
        const std::uint64_t uuid =
            new_track(process, fmt::format("GPU {} {}", device.device.value, what), 1);
        std::uint64_t previous = ~std::uint64_t{0};
        for (std::size_t i = 0; i < timeline.size(); ++i) {
          const std::uint64_t value = timeline.value(series, i);
          if (value == previous) continue;
          previous = value;
          edges_.push_back({timeline.time_ns(i), 0, 1, uuid, value});
        }
      }
    }
  }

  void add(std::uint64_t begin_ns, std::uint64_t end_ns, std::uint64_t uuid,
           const std::string& name, std::string annotations = {}) {
    slices_.push_back(
        {begin_ns, std::max(begin_ns, end_ns), uuid, intern(name), std::move(annotations)});
  }

  static void annotate(std::string& out, const std::string& encoded) {
    out += ProtoWriter().message(event::kDebugAnnotations, encoded).bytes();
  }

  void collect_slices(std::uint64_t process) {
    if (!facts_.steps.empty()) {
      const std::uint64_t uuid = new_track(process, "steps", 0);
      for (const analysis::Step& step : facts_.steps) {
        add(step.begin_ns, step.end_ns, uuid, fmt::format("step {}", step.number));
      }
    }
    if (!facts_.storms.empty()) {
      const std::uint64_t uuid = new_track(process, "allocator storms", 0);
      for (const analysis::Storm& storm : facts_.storms) {
        std::string notes;
        annotate(notes, annotation("what", analysis::storm_text(facts_, storm)));
        annotate(notes, annotation("lost_ns", storm.stall_ns));
        add(storm.begin_ns, storm.end_ns, uuid, "storm", std::move(notes));
      }
    }
    std::map<std::uint32_t, std::uint64_t> emergency_tracks;
    for (const analysis::Emergency& e : facts_.emergencies) {
      std::uint64_t& uuid = emergency_tracks[e.thread];
      if (uuid == 0) uuid = new_track(process, "emergencies, " + facts_.thread_name(e.thread), 0);
      const analysis::EmergencyText text = analysis::explain(facts_, e);
      std::string notes;
      annotate(notes, annotation("cause", text.cause));
      annotate(notes, annotation("paid", text.paid));
      annotate(notes, annotation("advice", text.advice));
      annotate(notes, annotation("requested_bytes", e.requested_bytes));
      add(e.begin_ns, e.begin_ns + e.duration_ns, uuid,
          fmt::format("emergency: {}", analysis::cause_name(e.cause)), std::move(notes));
    }
    std::map<std::uint32_t, std::uint64_t> call_tracks;
    for (const analysis::DriverCallRecord& call : facts_.driver_calls) {
      std::uint64_t& uuid = call_tracks[call.thread];
      if (uuid == 0)
        uuid = new_track(process, "driver calls, " + facts_.thread_name(call.thread), 0);
      add(call.begin_ns, call.begin_ns + call.duration_ns, uuid, driver_call_name(call.call));
    }
    std::map<std::uint32_t, std::uint64_t> phase_tracks;
    for (const analysis::PhaseSpan& span : facts_.spans) {
      std::uint64_t& uuid = phase_tracks[span.thread];
      if (uuid == 0) uuid = new_track(process, "phases, " + facts_.thread_name(span.thread), 0);
      add(span.begin_ns, span.end_ns, uuid, facts_.name_of(facts_.phases[span.node].name));
    }
    for (const analysis::ActivityLane& lane : facts_.lanes) {
      const std::uint64_t uuid = new_track(
          process,
          fmt::format("GPU {} stream {:#x}", facts_.devices[lane.device].device.value, lane.stream),
          0);
      for (const analysis::Interval& interval : lane.intervals) {
        std::string name = interval.kind == EventKind::kKernel   ? facts_.name_of(interval.name)
                           : interval.kind == EventKind::kMemcpy ? "memcpy"
                                                                 : "memset";
        if (name.empty()) name = "kernel";
        add(interval.begin_ns, interval.begin_ns + interval.duration_ns, uuid, name);
      }
    }
  }

  // The first packet of the sequence: it clears what readers may know and carries every name.
  void write_names() {
    ProtoWriter interned;
    for (const auto& [name, id] : names_) {
      interned.message(2, ProtoWriter().varint(1, id).text(2, name).bytes());
    }
    ProtoWriter message;
    message.varint(packet::kSequenceId, kSequence).varint(packet::kSequenceFlags, kStateCleared);
    message.message(packet::kInternedData, interned.bytes());
    put(message);
  }

  void write_edges() {
    // Slices that begin together: the longest outside. Slices that end together: the last begun
    // first.
    std::stable_sort(slices_.begin(), slices_.end(), [](const Slice& a, const Slice& b) {
      return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
    });
    for (std::uint32_t i = 0; i < slices_.size(); ++i) {
      edges_.push_back({slices_[i].begin_ns, i, 2, 0, event::kSliceBegin});
      edges_.push_back({slices_[i].end_ns, i, slices_[i].end_ns == slices_[i].begin_ns ? 3U : 0U, 0,
                        event::kSliceEnd});
    }
    std::stable_sort(edges_.begin(), edges_.end(), [](const Edge& a, const Edge& b) {
      if (a.time_ns != b.time_ns) return a.time_ns < b.time_ns;
      if (a.order != b.order) return a.order < b.order;
      if (a.order == 0) return a.slice > b.slice;
      return false;
    });
    for (const Edge& edge : edges_) {
      ProtoWriter content;
      if (edge.counter_track != 0) {
        content.varint(event::kType, event::kCounter).varint(event::kTrackUuid, edge.counter_track);
        content.varint(event::kCounterValue, edge.value);
      } else {
        const Slice& slice = slices_[edge.slice];
        content.varint(event::kType, edge.value).varint(event::kTrackUuid, slice.track);
        if (edge.value == event::kSliceBegin) content.varint(event::kNameIid, slice.name);
      }
      std::string encoded = content.take();
      if (edge.counter_track == 0 && edge.value == event::kSliceBegin) {
        encoded += slices_[edge.slice].annotations;
      }
      ProtoWriter message;
      message.varint(packet::kTimestamp, edge.time_ns).varint(packet::kSequenceId, kSequence);
      message.message(packet::kTrackEvent, encoded);
      message.varint(packet::kSequenceFlags, kNeedsState);
      put(message);
    }
  }

  const TraceFacts& facts_;
  ByteSink& sink_;
  std::uint64_t tracks_ = 0;
  std::unordered_map<std::string, std::uint64_t> names_;
  std::vector<Slice> slices_;
  std::vector<Edge> edges_;
};

}  // namespace

bool write_perfetto(const TraceFacts& facts, const std::string& path, std::string* why) {
  const auto file = FileSink::create(path, FileCoding::kPlain, why);
  if (file == nullptr) return false;
  PerfettoWriter(facts, *file).write();
  return file->commit(why);
}

}  // namespace levee::exporting
