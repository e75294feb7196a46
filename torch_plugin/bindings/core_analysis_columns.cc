#include "torch_plugin/bindings/core_analysis_columns.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>
#include <utility>

#include "allocator/analysis/dump.h"
#include "allocator/analysis/oom_text.h"
#include "allocator/export/report_json.h"
#include "allocator/record/trace_reader.h"
#include "torch_plugin/bindings/levee_error.h"

namespace py = pybind11;

namespace levee::bindings {
namespace {

using analysis::TraceFacts;

// A numpy array with one number a row.
template <typename T, typename Rows, typename Get>
py::array_t<T> numbers(const Rows& rows, Get get) {
  py::array_t<T> out(static_cast<py::ssize_t>(rows.size()));
  T* at = out.mutable_data();
  for (const auto& row : rows) *at++ = static_cast<T>(get(row));
  return out;
}

// Texts repeat: each is made a Python string once.
class TextColumn {
 public:
  explicit TextColumn(std::size_t rows) : list_(rows) {}
  void set(std::size_t row, const std::string& text) {
    const auto [known, is_new] = known_.try_emplace(text);
    if (is_new) {
      known->second = py::bytes(text).attr("decode")("utf-8", "replace");
    }
    list_[row] = known->second;
  }
  py::list take() { return std::move(list_); }

 private:
  py::list list_;
  std::unordered_map<std::string, py::object> known_;
};

template <typename Rows, typename Get>
py::list texts(const Rows& rows, Get get) {
  TextColumn out(rows.size());
  std::size_t i = 0;
  for (const auto& row : rows) out.set(i++, get(row));
  return out.take();
}

class Tables {
 public:
  explicit Tables(const TraceFacts& facts) : facts_(facts) {}

  py::dict blocks() const {
    const auto& rows = facts_.blocks;
    py::dict out;
    using analysis::BlockRecord;
    out["begin_ns"] =
        numbers<std::int64_t>(rows, [&](const BlockRecord& b) { return since(b.begin_ns); });
    // -1: still live when the record ends.
    out["end_ns"] = numbers<std::int64_t>(rows, [&](const BlockRecord& b) {
      return b.end_ns == analysis::kStillLive ? std::int64_t{-1} : since(b.end_ns);
    });
    out["address"] = numbers<std::uint64_t>(rows, [](const BlockRecord& b) { return b.addr; });
    out["bytes"] = numbers<std::uint64_t>(rows, [](const BlockRecord& b) { return b.bytes; });
    out["requested_bytes"] =
        numbers<std::uint64_t>(rows, [](const BlockRecord& b) { return b.requested_bytes; });
    out["device"] = numbers<std::int32_t>(
        rows, [&](const BlockRecord& b) { return device_id(facts_.device_of(b.lane)); });
    out["stream"] = numbers<std::uint64_t>(
        rows, [&](const BlockRecord& b) { return facts_.stream_of(b.lane); });
    out["pool_first"] = numbers<std::uint64_t>(
        rows, [&](const BlockRecord& b) { return facts_.pool_of(b.pool).first; });
    out["pool_second"] = numbers<std::uint64_t>(
        rows, [&](const BlockRecord& b) { return facts_.pool_of(b.pool).second; });
    out["thread"] = texts(rows, [&](const BlockRecord& b) { return thread(b.thread); });
    out["phase"] = texts(rows, [&](const BlockRecord& b) { return phase(b.phase); });
    out["stack"] = texts(rows, [&](const BlockRecord& b) { return facts_.name_of(b.context); });
    return out;
  }

  py::dict steps() const {
    const auto& rows = facts_.steps;
    using analysis::Step;
    py::dict out;
    out["step"] = numbers<std::uint64_t>(rows, [](const Step& s) { return s.number; });
    out["begin_ns"] = numbers<std::int64_t>(rows, [&](const Step& s) { return since(s.begin_ns); });
    out["duration_ns"] =
        numbers<std::uint64_t>(rows, [](const Step& s) { return s.duration_ns(); });
    out["allocations"] = numbers<std::uint64_t>(rows, [](const Step& s) { return s.allocations; });
    out["driver_calls"] =
        numbers<std::uint64_t>(rows, [](const Step& s) { return s.driver_calls; });
    out["driver_ns"] = numbers<std::uint64_t>(rows, [](const Step& s) { return s.driver_ns; });
    out["driver_memory_calls"] =
        numbers<std::uint64_t>(rows, [](const Step& s) { return s.memory_calls; });
    out["driver_memory_ns"] =
        numbers<std::uint64_t>(rows, [](const Step& s) { return s.memory_ns; });
    out["emergencies"] = numbers<std::uint32_t>(rows, [](const Step& s) { return s.emergencies; });
    out["emergency_ns"] =
        numbers<std::uint64_t>(rows, [](const Step& s) { return s.emergency_ns; });
    std::vector<std::uint64_t> reserved(rows.size());
    std::vector<std::uint64_t> allocated(rows.size());
    for (const analysis::DeviceFacts& device : facts_.devices) {
      for (std::size_t i = 0; i < rows.size(); ++i) {
        reserved[i] = std::max(reserved[i], device.step_peaks[i].reserved_bytes);
        allocated[i] = std::max(allocated[i], device.step_peaks[i].allocated_bytes);
      }
    }
    out["peak_reserved_bytes"] =
        numbers<std::uint64_t>(reserved, [](std::uint64_t v) { return v; });
    out["peak_allocated_bytes"] =
        numbers<std::uint64_t>(allocated, [](std::uint64_t v) { return v; });
    return out;
  }

  py::dict emergencies() const {
    const auto& rows = facts_.emergencies;
    using analysis::Emergency;
    py::dict out;
    out["begin_ns"] =
        numbers<std::int64_t>(rows, [&](const Emergency& e) { return since(e.begin_ns); });
    out["duration_ns"] =
        numbers<std::uint64_t>(rows, [](const Emergency& e) { return e.duration_ns; });
    out["device"] =
        numbers<std::int32_t>(rows, [&](const Emergency& e) { return device_id(e.device); });
    out["requested_bytes"] =
        numbers<std::uint64_t>(rows, [](const Emergency& e) { return e.requested_bytes; });
    out["reserved_before_bytes"] =
        numbers<std::uint64_t>(rows, [](const Emergency& e) { return e.reserved_before_bytes; });
    out["reserved_after_bytes"] =
        numbers<std::uint64_t>(rows, [](const Emergency& e) { return e.reserved_after_bytes; });
    out["allocated_bytes"] =
        numbers<std::uint64_t>(rows, [](const Emergency& e) { return e.allocated_bytes; });
    out["released_bytes"] =
        numbers<std::uint64_t>(rows, [](const Emergency& e) { return e.released_bytes; });
    out["driver_calls"] =
        numbers<std::uint64_t>(rows, [](const Emergency& e) { return e.driver_calls; });
    out["driver_ns"] = numbers<std::uint64_t>(rows, [](const Emergency& e) { return e.driver_ns; });
    out["step"] = numbers<std::int64_t>(rows, [&](const Emergency& e) { return step(e.step); });
    out["storm"] = numbers<std::int64_t>(rows, [](const Emergency& e) {
      return e.storm == analysis::kNone ? std::int64_t{-1} : std::int64_t{e.storm};
    });
    out["was_served"] = numbers<bool>(
        rows, [](const Emergency& e) { return e.outcome == analysis::EmergencyOutcome::kServed; });
    out["cause"] =
        texts(rows, [](const Emergency& e) { return std::string(analysis::cause_name(e.cause)); });
    out["phase"] = texts(rows, [&](const Emergency& e) { return phase(e.phase); });
    out["thread"] = texts(rows, [&](const Emergency& e) { return thread(e.thread); });
    out["stack"] = texts(rows, [&](const Emergency& e) { return facts_.name_of(e.context); });
    return out;
  }

  py::dict driver_calls() const {
    const auto& rows = facts_.driver_calls;
    using Call = analysis::DriverCallRecord;
    py::dict out;
    out["begin_ns"] = numbers<std::int64_t>(rows, [&](const Call& c) { return since(c.begin_ns); });
    out["duration_ns"] = numbers<std::uint64_t>(rows, [](const Call& c) { return c.duration_ns; });
    out["bytes"] = numbers<std::uint64_t>(rows, [](const Call& c) { return c.bytes; });
    out["device"] = numbers<std::int32_t>(rows, [&](const Call& c) { return device_id(c.device); });
    out["failed"] = numbers<bool>(rows, [](const Call& c) { return c.failed; });
    out["call"] =
        texts(rows, [](const Call& c) { return std::string(exporting::driver_call_name(c.call)); });
    out["thread"] = texts(rows, [&](const Call& c) { return thread(c.thread); });
    return out;
  }

  py::dict phases() const {
    const auto& rows = facts_.spans;
    using Span = analysis::PhaseSpan;
    py::dict out;
    out["begin_ns"] = numbers<std::int64_t>(rows, [&](const Span& s) { return since(s.begin_ns); });
    out["duration_ns"] =
        numbers<std::uint64_t>(rows, [](const Span& s) { return s.end_ns - s.begin_ns; });
    out["depth"] =
        numbers<std::uint32_t>(rows, [&](const Span& s) { return facts_.phases[s.node].depth; });
    out["path"] = texts(rows, [&](const Span& s) { return phase(s.node); });
    out["thread"] = texts(rows, [&](const Span& s) { return thread(s.thread); });
    return out;
  }

  py::dict activity() const {
    std::vector<std::pair<const analysis::ActivityLane*, const analysis::Interval*>> rows;
    for (const analysis::ActivityLane& lane : facts_.lanes) {
      for (const analysis::Interval& interval : lane.intervals) rows.emplace_back(&lane, &interval);
    }
    using Row = std::pair<const analysis::ActivityLane*, const analysis::Interval*>;
    py::dict out;
    out["begin_ns"] =
        numbers<std::int64_t>(rows, [&](const Row& r) { return since(r.second->begin_ns); });
    out["duration_ns"] =
        numbers<std::uint64_t>(rows, [](const Row& r) { return r.second->duration_ns; });
    out["device"] =
        numbers<std::int32_t>(rows, [&](const Row& r) { return device_id(r.first->device); });
    out["stream"] = numbers<std::uint64_t>(rows, [](const Row& r) { return r.first->stream; });
    const auto is_kernel = [](const Row& r) { return r.second->kind == EventKind::kKernel; };
    out["bytes"] = numbers<std::uint64_t>(
        rows, [&](const Row& r) { return is_kernel(r) ? std::uint64_t{0} : r.second->value; });
    out["correlation"] = numbers<std::uint64_t>(
        rows, [&](const Row& r) { return is_kernel(r) ? r.second->value : std::uint64_t{0}; });
    out["kind"] =
        texts(rows, [](const Row& r) { return std::string(analysis::kind_name(r.second->kind)); });
    out["name"] = texts(rows, [&](const Row& r) { return facts_.name_of(r.second->name); });
    return out;
  }

  py::dict timeline() const {
    struct Row {
      std::uint32_t device;
      std::size_t sample;
    };
    std::vector<Row> rows;
    for (std::uint32_t d = 0; d < facts_.devices.size(); ++d) {
      for (std::size_t i = 0; i < facts_.devices[d].timeline.size(); ++i) rows.push_back({d, i});
    }
    const auto value = [&](analysis::Series series) {
      return [this, series](const Row& r) {
        return facts_.devices[r.device].timeline.value(series, r.sample);
      };
    };
    py::dict out;
    out["time_ns"] = numbers<std::int64_t>(rows, [&](const Row& r) {
      return since(facts_.devices[r.device].timeline.time_ns(r.sample));
    });
    out["device"] = numbers<std::int32_t>(rows, [&](const Row& r) { return device_id(r.device); });
    out["reserved_bytes"] = numbers<std::uint64_t>(rows, value(analysis::Series::kReserved));
    out["allocated_bytes"] = numbers<std::uint64_t>(rows, value(analysis::Series::kAllocated));
    out["active_bytes"] = numbers<std::uint64_t>(rows, value(analysis::Series::kActive));
    return out;
  }

 private:
  std::int64_t since(std::uint64_t time_ns) const {
    return static_cast<std::int64_t>(time_ns - facts_.start_ns);
  }
  std::int32_t device_id(std::uint32_t index) const { return facts_.devices[index].device.value; }
  std::int64_t step(std::uint32_t index) const {
    return index < facts_.steps.size() ? static_cast<std::int64_t>(facts_.steps[index].number) : -1;
  }
  std::string thread(std::uint32_t index) const { return facts_.thread_name(index); }
  std::string phase(std::uint32_t node) const {
    return node == 0 ? std::string() : facts_.phase_path(node);
  }

  const TraceFacts& facts_;
};

}  // namespace

std::vector<std::string> table_names() {
  return {"timeline", "steps", "emergencies", "driver_calls", "phases", "activity", "blocks"};
}

py::dict table_columns(const TraceFacts& facts, const std::string& name) {
  const Tables tables(facts);
  if (name == "timeline") return tables.timeline();
  if (name == "steps") return tables.steps();
  if (name == "emergencies") return tables.emergencies();
  if (name == "driver_calls") return tables.driver_calls();
  if (name == "phases") return tables.phases();
  if (name == "activity") return tables.activity();
  if (name == "blocks") return tables.blocks();
  raise_error("There is no table \"" + name + "\".");
}

py::dict timeline_columns(const TraceFacts& facts, std::size_t device) {
  if (device >= facts.devices.size()) raise_error("The recording has no such device.");
  const analysis::Timeline& timeline = facts.devices[device].timeline;
  const auto column = [&](const std::vector<std::uint64_t>& values, std::uint64_t base) {
    return numbers<std::int64_t>(values, [base](std::uint64_t v) { return v - base; });
  };
  py::dict out;
  out["time_ns"] = column(timeline.times(), facts.start_ns);
  out["reserved"] = column(timeline.column(analysis::Series::kReserved), 0);
  out["allocated"] = column(timeline.column(analysis::Series::kAllocated), 0);
  out["active"] = column(timeline.column(analysis::Series::kActive), 0);
  return out;
}

void event_batches(const std::string& path, const py::function& on_batch, std::size_t rows) {
  std::string why;
  const std::unique_ptr<record::TraceReader> reader = record::TraceReader::open(path, &why);
  if (reader == nullptr) raise_error(why);
  const std::int64_t start = reader->header().start.value;
  std::unordered_map<std::uint32_t, std::string> thread_names;
  for (const record::TraceThread& thread : reader->threads()) {
    thread_names[thread.index] = thread.name.empty() ? std::to_string(thread.os_id) : thread.name;
  }
  std::vector<record::TraceEvent> held;
  const auto emit = [&] {
    using Row = record::TraceEvent;
    py::dict out;
    out["time_ns"] = numbers<std::int64_t>(
        held, [&](const Row& r) { return static_cast<std::int64_t>(r.event.time_ns) - start; });
    out["kind"] =
        texts(held, [](const Row& r) { return std::string(analysis::kind_name(r.event.kind())); });
    out["thread"] = texts(held, [&](const Row& r) {
      const auto known = thread_names.find(r.thread);
      return known == thread_names.end() ? std::to_string(r.thread) : known->second;
    });
    out["device"] = numbers<std::int32_t>(held, [&](const Row& r) {
      return r.event.lane.value == 0 ? -1 : reader->lane(r.event.lane).device.value;
    });
    out["stream"] = numbers<std::uint64_t>(
        held, [&](const Row& r) { return reader->lane(r.event.lane).stream.value; });
    out["a"] = numbers<std::uint64_t>(held, [](const Row& r) { return r.event.a; });
    out["b"] = numbers<std::uint64_t>(held, [](const Row& r) { return r.event.b; });
    out["aux"] = numbers<std::uint16_t>(held, [](const Row& r) { return r.event.aux; });
    out["context"] = texts(
        held, [&](const Row& r) { return std::string(reader->context(r.event.context()).text); });
    on_batch(out);
    held.clear();
  };
  const auto cursor = reader->events({});
  for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
    for (const record::TraceEvent& item : batch) {
      held.push_back(item);
      if (held.size() >= rows) emit();
    }
  }
  emit();
}

}  // namespace levee::bindings
