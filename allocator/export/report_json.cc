#include "allocator/export/report_json.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "allocator/analysis/analyze.h"
#include "allocator/analysis/explain.h"
#include "allocator/analysis/moments.h"
#include "allocator/analysis/oom_text.h"

namespace levee::exporting {
namespace {

using analysis::DeviceFacts;
using analysis::Emergency;
using analysis::kNone;
using analysis::MemoryMoment;
using analysis::Series;
using analysis::Step;
using analysis::Storm;
using analysis::TraceFacts;

const char* outcome_name(analysis::EmergencyOutcome outcome) {
  switch (outcome) {
    case analysis::EmergencyOutcome::kServed:
      return "served";
    case analysis::EmergencyOutcome::kOutOfMemory:
      return "out of memory";
    case analysis::EmergencyOutcome::kFailed:
      return "failed";
    case analysis::EmergencyOutcome::kUnknown:
      break;
  }
  return "unknown";
}

class ReportWriter {
 public:
  ReportWriter(const TraceFacts& facts, const ReportOptions& options, JsonWriter& json)
      : facts_(facts), options_(options), json_(json) {}

  void write() {
    json_.begin_object();
    json_.field("format", "levee-report").field("version", kReportVersion);
    source();
    completeness();
    json_.key("devices").begin_array();
    for (std::uint32_t i = 0; i < facts_.devices.size(); ++i) device(i);
    json_.end_array();
    driver("driver", facts_.driver);
    steps();
    emergencies();
    storms();
    phases();
    others();
    json_.field("advice", analysis::advice(facts_));
    json_.end_object();
  }

 private:
  std::uint64_t since_start(std::uint64_t time_ns) const {
    return time_ns > facts_.start_ns ? time_ns - facts_.start_ns : 0;
  }
  void step_number(const char* name, std::uint32_t step) {
    json_.key(name);
    if (step < facts_.steps.size()) {
      json_.value(facts_.steps[step].number);
    } else {
      json_.null();
    }
  }

  void source() {
    json_.key("source").begin_object();
    json_.field("path", facts_.path).field("label", facts_.label);
    json_.field("program", facts_.program).field("host", facts_.host);
    json_.field("pid", facts_.pid).field("rank", facts_.rank);
    json_.field("world_size", facts_.world_size).field("launch", facts_.launch);
    json_.field("levee_version", facts_.levee_version);
    json_.field("is_modelled", facts_.is_modelled).field("is_sampled", facts_.is_sampled);
    json_.field("start_ns", facts_.start_ns);
    json_.field("start_unix_ns", std::to_string(facts_.start_unix_ns));
    json_.field("duration_ns", facts_.duration_ns()).field("events", facts_.events);
    json_.end_object();
  }

  void completeness() {
    const analysis::Completeness& c = facts_.completeness;
    json_.key("completeness").begin_object();
    json_.field("is_whole", c.is_whole).field("lost_events", c.lost_events);
    json_.field("dropped_events", c.dropped_events).field("damaged_blocks", c.damaged_blocks);
    json_.field("unmatched_frees", c.unmatched_frees);
    json_.field("overwritten_blocks", c.overwritten_blocks);
    json_.field("has_memory", analysis::has_memory(facts_));
    json_.field("remarks", c.remarks);
    json_.end_object();
  }

  void moment(const char* name, const MemoryMoment& m) {
    json_.key(name).begin_object();
    json_.field("time_ns", since_start(m.time_ns));
    step_number("step", m.step);
    json_.field("reserved_bytes", m.reserved_bytes).field("allocated_bytes", m.allocated_bytes);
    json_.field("requested_bytes", m.requested_bytes).field("rounding_bytes", m.rounding_bytes);
    json_.field("waiting_bytes", m.waiting_bytes).field("free_bytes", m.free_bytes);
    json_.field("partial_page_bytes", m.partial_page_bytes);
    json_.field("private_pool_bytes", m.private_pool_bytes);
    json_.end_object();
  }

  void holders(const char* name, const std::vector<analysis::Holder>& list) {
    json_.key(name).begin_array();
    for (const analysis::Holder& holder : list) {
      json_.begin_object().field("origin", holder.origin).field("bytes", holder.bytes);
      json_.field("blocks", holder.blocks).end_object();
    }
    json_.end_array();
  }

  void pins(const char* name, const std::vector<analysis::Pin>& list) {
    json_.key(name).begin_array();
    for (const analysis::Pin& pin : list) {
      json_.begin_object().field("origin", pin.origin).field("blocks", pin.blocks);
      json_.field("block_bytes", pin.block_bytes).field("pinned_bytes", pin.pinned_bytes);
      json_.field("oldest_ns", pin.oldest_ns).end_object();
    }
    json_.end_array();
  }

  void driver(const char* name, const analysis::DriverTotals& totals) {
    json_.key(name).begin_object();
    json_.field("calls", totals.total_calls()).field("ns", totals.total_ns());
    json_.field("memory_calls", totals.memory_calls()).field("memory_ns", totals.memory_ns());
    json_.field("failed", totals.failed);
    json_.key("by_call").begin_array();
    for (std::size_t i = 0; i < analysis::kDriverCallCount; ++i) {
      if (totals.calls[i] == 0) continue;
      const auto call = static_cast<DriverCall>(i);
      json_.begin_object().field("call", driver_call_name(call));
      json_.field("is_memory", analysis::is_memory_call(call));
      json_.field("calls", totals.calls[i]).field("ns", totals.ns[i]).end_object();
    }
    json_.end_array().end_object();
  }

  void device(std::uint32_t index) {
    const DeviceFacts& d = facts_.devices[index];
    const auto peak = [&](Series series) {
      return d.timeline.range(series, 0, ~std::uint64_t{0}).max;
    };
    json_.begin_object();
    json_.field("id", d.device.value).field("name", d.name).field("total_bytes", d.total_bytes);
    json_.field("limit_bytes", d.limit_bytes);
    json_.field("peak_reserved_bytes", peak(Series::kReserved));
    json_.field("peak_allocated_bytes", peak(Series::kAllocated));
    json_.field("peak_active_bytes", peak(Series::kActive));
    // The fair base of a ratio is what was in use, waiting blocks included.
    json_.key("ratio");
    if (peak(Series::kActive) == 0) {
      json_.null();
    } else {
      json_.value(static_cast<double>(peak(Series::kReserved)) /
                  static_cast<double>(peak(Series::kActive)));
    }
    const bool has_samples = !d.timeline.empty();
    const std::size_t last = has_samples ? d.timeline.size() - 1 : 0;
    json_.field("end_reserved_bytes",
                has_samples ? d.timeline.value(Series::kReserved, last) : std::uint64_t{0});
    json_.field("end_allocated_bytes",
                has_samples ? d.timeline.value(Series::kAllocated, last) : std::uint64_t{0});
    json_.field("allocations", d.allocations).field("frees", d.frees);
    json_.field("small_allocations", d.small_allocations);
    json_.field("stitches", d.stitches).field("stitched_bytes", d.stitched_bytes);
    json_.field("rebases", d.rebases).field("waits", d.waits);
    json_.field("created_bytes", d.created_bytes).field("released_bytes", d.released_bytes);
    moment("at_reserved_peak", d.at_reserved_peak);
    moment("at_allocated_peak", d.at_allocated_peak);
    moment("at_largest_slack", d.at_largest_slack);
    holders("holders_by_phase", d.holders_by_phase);
    holders("holders_by_stack", d.holders_by_stack);
    pins("pins", d.pins);
    if (!d.between.empty()) moment("at_refusal", d.at_refusal);
    pins("between", d.between);
    json_.key("idle").begin_object();
    json_.field("kernel_ns", d.idle.kernel_ns).field("idle_ns", d.idle.idle_ns);
    json_.field("allocator_ns", d.idle.allocator_ns).end_object();
    driver("driver", d.driver);
    json_.end_object();
  }

  template <typename Get>
  void step_column(const char* name, Get get) {
    json_.key(name).begin_array();
    for (std::size_t i = 0; i < facts_.steps.size(); ++i) json_.value(get(facts_.steps[i], i));
    json_.end_array();
  }

  void steps() {
    json_.key("steps").begin_object();
    json_.field("count", static_cast<std::uint64_t>(facts_.steps.size()));
    json_.field("ended", static_cast<std::uint64_t>(facts_.ended_steps()));
    json_.field("warm_up", static_cast<std::uint64_t>(analysis::kWarmUpSteps));
    warm_totals();
    step_column("number", [](const Step& s, std::size_t) { return s.number; });
    step_column("begin_ns", [&](const Step& s, std::size_t) { return since_start(s.begin_ns); });
    step_column("duration_ns", [](const Step& s, std::size_t) { return s.duration_ns(); });
    step_column("is_complete", [](const Step& s, std::size_t) { return s.is_complete; });
    step_column("allocations", [](const Step& s, std::size_t) { return s.allocations; });
    step_column("driver_calls", [](const Step& s, std::size_t) { return s.driver_calls; });
    step_column("driver_ns", [](const Step& s, std::size_t) { return s.driver_ns; });
    step_column("memory_calls", [](const Step& s, std::size_t) { return s.memory_calls; });
    step_column("memory_ns", [](const Step& s, std::size_t) { return s.memory_ns; });
    step_column("emergencies", [](const Step& s, std::size_t) { return s.emergencies; });
    step_column("emergency_ns", [](const Step& s, std::size_t) { return s.emergency_ns; });
    json_.key("devices").begin_array();
    for (const DeviceFacts& d : facts_.devices) {
      json_.begin_object().field("id", d.device.value);
      step_column("peak_reserved_bytes",
                  [&](const Step&, std::size_t i) { return d.step_peaks[i].reserved_bytes; });
      step_column("peak_allocated_bytes",
                  [&](const Step&, std::size_t i) { return d.step_peaks[i].allocated_bytes; });
      json_.end_object();
    }
    json_.end_array().end_object();
  }

  // What a step costs once the run is warm: the number that a silent steady state makes 0.
  void warm_totals() {
    const std::size_t first = analysis::kWarmUpSteps;
    std::uint64_t steps = 0;
    std::uint64_t with_calls = 0;
    std::uint64_t calls = 0;
    std::uint64_t memory_ns = 0;
    std::uint64_t total_ns = 0;
    for (std::size_t i = first; i < facts_.steps.size(); ++i) {
      const Step& step = facts_.steps[i];
      if (!step.is_complete) continue;
      ++steps;
      calls += step.memory_calls;
      if (step.memory_calls > 0) ++with_calls;
      memory_ns += step.memory_ns;
      total_ns += step.duration_ns();
    }
    json_.key("after_warm_up").begin_object();
    json_.field("steps", steps).field("steps_with_memory_calls", with_calls);
    json_.field("memory_calls", calls).field("memory_ns", memory_ns);
    json_.field("total_ns", total_ns).end_object();
  }

  void emergencies() {
    std::uint64_t total_ns = 0;
    std::uint64_t refused = 0;
    for (const Emergency& e : facts_.emergencies) {
      total_ns += e.duration_ns;
      if (e.outcome == analysis::EmergencyOutcome::kOutOfMemory) ++refused;
    }
    json_.field("emergency_count", static_cast<std::uint64_t>(facts_.emergencies.size()));
    json_.field("emergency_ns", total_ns).field("emergencies_refused", refused);
    json_.key("emergencies").begin_array();
    const std::size_t listed = std::min(facts_.emergencies.size(), options_.max_emergencies);
    for (std::size_t i = 0; i < listed; ++i) emergency(facts_.emergencies[i]);
    json_.end_array();
  }

  void emergency(const Emergency& e) {
    const analysis::EmergencyText text = analysis::explain(facts_, e);
    json_.begin_object();
    json_.field("begin_ns", since_start(e.begin_ns)).field("duration_ns", e.duration_ns);
    json_.field("device", facts_.devices[e.device].device.value);
    json_.field("requested_bytes", e.requested_bytes);
    json_.field("reserved_before_bytes", e.reserved_before_bytes);
    json_.field("reserved_after_bytes", e.reserved_after_bytes);
    json_.field("allocated_bytes", e.allocated_bytes).field("waiting_bytes", e.waiting_bytes);
    json_.field("released_bytes", e.released_bytes).field("limit_bytes", e.limit_bytes);
    json_.field("driver_calls", e.driver_calls).field("driver_ns", e.driver_ns);
    json_.field("cause", analysis::cause_name(e.cause));
    json_.field("outcome", outcome_name(e.outcome));
    step_number("step", e.step);
    json_.field("phase", facts_.phase_path(e.phase));
    json_.field("thread", facts_.thread_name(e.thread));
    json_.field("stack", facts_.name_of(e.context));
    json_.field("place", analysis::place_text(facts_.name_of(e.context)));
    json_.key("storm");
    if (e.storm == kNone) {
      json_.null();
    } else {
      json_.value(e.storm);
    }
    json_.key("rungs").begin_array();
    for (const analysis::EmergencyRung& rung : e.rungs) {
      json_.begin_object().field("rung", analysis::rung_name(rung.rung));
      json_.field("usable_bytes", rung.usable_bytes).field("duration_ns", rung.duration_ns);
      json_.end_object();
    }
    json_.end_array();
    json_.key("text").begin_object();
    json_.field("headline", text.headline).field("cause", text.cause).field("rungs", text.rungs);
    json_.field("paid", text.paid).field("advice", text.advice);
    json_.end_object().end_object();
  }

  void storms() {
    json_.key("storms").begin_array();
    for (const Storm& s : facts_.storms) {
      json_.begin_object();
      json_.field("begin_ns", since_start(s.begin_ns)).field("end_ns", since_start(s.end_ns));
      json_.field("device", facts_.devices[s.device].device.value);
      json_.field("emergencies", s.emergencies);
      json_.field("released_bytes", s.released_bytes);
      json_.field("reacquired_bytes", s.reacquired_bytes);
      json_.field("driver_calls", s.driver_calls).field("driver_ns", s.driver_ns);
      json_.field("stall_ns", s.stall_ns);
      json_.field("reserved_before_bytes", s.reserved_before_bytes);
      json_.field("reserved_min_bytes", s.reserved_min_bytes);
      json_.field("reserved_end_bytes", s.reserved_end_bytes);
      step_number("first_step", s.first_step);
      step_number("last_step", s.last_step);
      json_.field("text", analysis::storm_text(facts_, s));
      json_.end_object();
    }
    json_.end_array();
  }

  void phases() {
    std::vector<std::uint32_t> order(facts_.phases.empty() ? 0 : facts_.phases.size() - 1);
    std::iota(order.begin(), order.end(), 1U);
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return facts_.phases[a].peak_bytes > facts_.phases[b].peak_bytes;
    });
    if (order.size() > options_.max_phases) order.resize(options_.max_phases);
    json_.key("phases").begin_array();
    for (const std::uint32_t index : order) {
      const analysis::PhaseNode& node = facts_.phases[index];
      json_.begin_object().field("path", facts_.phase_path(index)).field("depth", node.depth);
      json_.field("entries", node.entries).field("total_ns", node.total_ns);
      json_.field("allocations", node.allocations);
      json_.field("allocated_bytes", node.allocated_bytes);
      json_.field("driver_ns", node.driver_ns).field("emergencies", node.emergencies);
      json_.field("peak_bytes", node.peak_bytes).field("peak_rise_bytes", node.peak_rise_bytes);
      json_.end_object();
    }
    json_.end_array();
  }

  void others() {
    json_.key("out_of_memory").begin_array();
    for (const analysis::OutOfMemory& oom : facts_.out_of_memory) {
      json_.begin_object().field("time_ns", since_start(oom.time_ns));
      json_.field("requested_bytes", oom.requested_bytes);
      json_.field("reserved_bytes", oom.reserved_bytes);
      json_.field("device", facts_.devices[oom.device].device.value);
      step_number("step", oom.step);
      json_.end_object();
    }
    json_.end_array();
    json_.key("idle_gaps").begin_array();
    for (const analysis::IdleGap& gap : facts_.idle_gaps) {
      json_.begin_object().field("begin_ns", since_start(gap.begin_ns));
      json_.field("end_ns", since_start(gap.end_ns)).field("allocator_ns", gap.allocator_ns);
      json_.field("device", facts_.devices[gap.device].device.value);
      step_number("step", gap.step);
      json_.end_object();
    }
    json_.end_array();
    json_.key("notes").begin_array();
    for (const analysis::Note& note : facts_.notes) {
      json_.begin_object().field("time_ns", since_start(note.time_ns)).field("text", note.text);
      json_.end_object();
    }
    json_.end_array();
  }

  const TraceFacts& facts_;
  const ReportOptions& options_;
  JsonWriter& json_;
};

}  // namespace

void write_report(const TraceFacts& facts, const ReportOptions& options, JsonWriter& json) {
  ReportWriter(facts, options, json).write();
}

std::string report_json(const TraceFacts& facts, const ReportOptions& options) {
  StringSink sink;
  {
    JsonWriter json(sink);
    write_report(facts, options, json);
  }
  return sink.take();
}

const char* driver_call_name(DriverCall call) {
  switch (call) {
    case DriverCall::kMalloc:
      return "cudaMalloc";
    case DriverCall::kFree:
      return "cudaFree";
    case DriverCall::kReserveRange:
      return "cuMemAddressReserve";
    case DriverCall::kFreeRange:
      return "cuMemAddressFree";
    case DriverCall::kCreateHandle:
      return "cuMemCreate";
    case DriverCall::kReleaseHandle:
      return "cuMemRelease";
    case DriverCall::kMap:
      return "cuMemMap";
    case DriverCall::kSetAccess:
      return "cuMemSetAccess";
    case DriverCall::kUnmap:
      return "cuMemUnmap";
    case DriverCall::kCreateEvent:
      return "cudaEventCreate";
    case DriverCall::kDestroyEvent:
      return "cudaEventDestroy";
    case DriverCall::kRecordEvent:
      return "cudaEventRecord";
    case DriverCall::kQueryEvent:
      return "cudaEventQuery";
    case DriverCall::kWaitEvent:
      return "cudaStreamWaitEvent";
    case DriverCall::kSynchronizeEvent:
      return "cudaEventSynchronize";
    case DriverCall::kSynchronizeStream:
      return "cudaStreamSynchronize";
    case DriverCall::kSynchronizeDevice:
      return "cudaDeviceSynchronize";
    case DriverCall::kMemoryInfo:
      return "cudaMemGetInfo";
    case DriverCall::kCaptureState:
      return "cudaStreamIsCapturing";
    case DriverCall::kNone:
    case DriverCall::kCount:
      break;
  }
  return "unknown";
}

}  // namespace levee::exporting
