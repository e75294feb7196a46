#include "allocator/analysis/analyze.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "allocator/analysis/addr_map.h"
#include "allocator/analysis/explain.h"
#include "allocator/analysis/idle.h"
#include "allocator/analysis/moments.h"
#include "allocator/analysis/phases.h"
#include "allocator/analysis/storms.h"
#include "allocator/analysis/text.h"

namespace levee::analysis {
namespace {

constexpr std::uint64_t kSmallRequest = std::uint64_t{1} << 20;
// No process has more; a damaged file must not make every table as long as it likes.
constexpr std::size_t kMaxDevices = 64;
// Times and durations beyond this (73 years) come from damage; bounded, their sums cannot wrap.
constexpr std::uint64_t kMaxTime = std::uint64_t{1} << 61;

bool has_duration(EventKind kind) {
  return kind == EventKind::kDriverCall || kind == EventKind::kEmergencyRung ||
         kind == EventKind::kEmergencyEnd || kind == EventKind::kKernel ||
         kind == EventKind::kMemcpy || kind == EventKind::kMemset;
}

Event bounded(Event event) {
  event.time_ns = std::min(event.time_ns, kMaxTime);
  if (has_duration(event.kind())) event.a = std::min(event.a, kMaxTime);
  return event;
}

std::uint64_t bounded(Nanos time) {
  return std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(time.value, 0)), kMaxTime);
}

// Running numbers of one device. Before the base is known they are relative, modulo 2^64.
struct Running {
  std::uint64_t waiting = 0;  // freed bytes that another stream still uses
  std::uint64_t reserved = 0;
  std::uint64_t allocated = 0;
  bool is_base_known = false;
  bool is_uncertain = false;  // events were lost; the next checkpoint is believed

  // Where a part of the record is damaged, more may go than was seen to come.
  void take(std::uint64_t Running::*sum, std::uint64_t bytes) {
    this->*sum -= is_base_known ? std::min(this->*sum, bytes) : bytes;
  }
};

// A freed block whose other users have not passed yet.
struct WaitingBlock {
  std::size_t from_sample = 0;
  std::uint64_t bytes = 0;
  std::uint32_t device = 0;
};

class Pass {
 public:
  Pass(const record::TraceReader& trace, const AnalysisOptions& options)
      : trace_(trace), options_(options) {}

  TraceFacts run();

 private:
  void read_header();
  void read_tables();
  void begin_from(const record::TraceState& state);
  void handle(const record::TraceEvent& item);

  // One group of kinds each.
  void on_alloc(const Event& event, std::uint32_t thread);
  void on_free(const Event& event);
  void on_free_completed(const Event& event);
  void on_reserved(const Event& event, std::uint32_t thread);
  void on_driver_call(const Event& event, std::uint32_t thread);
  void on_emergency(const Event& event, std::uint32_t thread);
  void on_step(const Event& event);
  void on_counters(const Event& event);
  void on_lost();
  void on_activity(const Event& event);

  void finish();
  void fix_unknown_bases();
  void close_open_emergencies();
  void count_step_peaks();
  void measure_phases();
  void explain_moments();
  void say_what_is_missing();
  void collect_names();

  std::uint32_t device_of(const Event& event, std::uint32_t thread);
  void sample(std::uint32_t device, std::uint64_t time_ns) {
    facts_.devices[device].timeline.add(time_ns, running_[device].reserved,
                                        running_[device].allocated);
  }
  void start_waiting(std::uint32_t device, std::uint64_t addr, const WaitingBlock& block) {
    stop_waiting(addr);
    waiting_.emplace(addr, block);
    running_[device].waiting += block.bytes;
  }
  void stop_waiting(std::uint64_t addr) {
    if (waiting_.empty()) return;
    const auto found = waiting_.find(addr);
    if (found == waiting_.end()) return;
    running_[found->second.device].take(&Running::waiting, found->second.bytes);
    waiting_.erase(found);
  }
  Step& step() { return facts_.steps.empty() ? before_marks_ : facts_.steps.back(); }

  const record::TraceReader& trace_;
  const AnalysisOptions& options_;
  TraceFacts facts_;
  Step before_marks_;  // a step only if marks turn out to end steps
  std::vector<Running> running_;
  std::vector<BlockRecord> blocks_;
  std::vector<bool> was_used_elsewhere_;  // by block: recorded uses on other streams
  AddrMap live_;                          // address -> index into blocks_
  std::unordered_map<std::uint64_t, WaitingBlock> waiting_;
  std::unordered_map<std::uint32_t, std::uint32_t> last_device_;     // by thread
  std::unordered_map<std::uint32_t, std::uint32_t> open_emergency_;  // by thread
  std::vector<std::uint32_t> open_order_;
  std::vector<std::uint32_t> lane_slot_;  // lane id -> index into facts_.lanes
  std::vector<MemoryActivity> activity_;
  std::vector<std::vector<Span>> busy_;
  PhaseTracker phases_;
};

TraceFacts Pass::run() {
  read_header();
  read_tables();
  if (trace_.chapter_count() > 0) begin_from(trace_.chapter_state(0));
  record::EventQuery query;
  if (!options_.read_activity) query.kinds = record::KindSet::memory();
  const std::unique_ptr<record::EventCursor> cursor = trace_.events(query);
  for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
    for (const record::TraceEvent& item : batch) handle(item);
  }
  finish();
  return std::move(facts_);
}

void Pass::read_header() {
  const record::TraceHeader& header = trace_.header();
  const record::Coverage& coverage = trace_.coverage();
  facts_.program = header.program;
  facts_.host = header.host;
  facts_.levee_version = header.levee_version;
  facts_.pid = header.pid;
  facts_.rank = header.rank;
  facts_.world_size = header.world_size;
  facts_.launch = header.launch;
  facts_.is_modelled = header.is_modelled();
  facts_.start_ns = bounded(header.start);
  if (coverage.dropped_events > 0 || facts_.start_ns == 0) {
    facts_.start_ns = bounded(coverage.first);
  } else if (coverage.events > 0) {
    // Phases and marks may be older than the event that recording began with.
    facts_.start_ns = std::min(facts_.start_ns, bounded(coverage.first));
  }
  facts_.start_unix_ns = header.unix_ns(Nanos{static_cast<std::int64_t>(facts_.start_ns)});
  facts_.end_ns = std::max(facts_.start_ns, bounded(coverage.last));
  facts_.events = coverage.events;
}

void Pass::read_tables() {
  bool too_many = false;
  const auto device_index = [&](DeviceId id) {
    for (std::uint32_t i = 0; i < facts_.devices.size(); ++i) {
      if (facts_.devices[i].device == id) return i;
    }
    if (facts_.devices.size() == kMaxDevices) {
      too_many = true;
      return 0U;
    }
    DeviceFacts device;
    device.device = id;
    facts_.devices.push_back(std::move(device));
    return static_cast<std::uint32_t>(facts_.devices.size() - 1);
  };
  for (const record::TraceDevice& known : trace_.devices()) {
    DeviceFacts& device = facts_.devices[device_index(known.device)];
    device.name = known.name;
    device.total_bytes = known.total_memory.value;
  }
  for (const record::TraceLane& lane : trace_.lanes()) {
    const std::size_t id = lane.id.value;
    if (facts_.lane_table.size() <= id) facts_.lane_table.resize(id + 1);
    // Lane 0 is "no lane"; it must not bring a device into being.
    if (id != 0) facts_.lane_table[id] = {device_index(lane.device), lane.stream.value};
  }
  if (facts_.devices.empty()) facts_.devices.emplace_back();
  if (too_many) {
    facts_.completeness.remarks.push_back(fmt::format(
        "The file names more than {} devices; what happened on the others counts for the first.",
        kMaxDevices));
  }
  for (const record::TracePool& pool : trace_.pools()) {
    if (facts_.pools.size() <= pool.index) facts_.pools.resize(std::size_t{pool.index} + 1);
    facts_.pools[pool.index] = pool.pool;
  }
  for (const record::TraceThread& thread : trace_.threads()) {
    facts_.threads.push_back({thread.index, thread.os_id, thread.name});
  }
  std::stable_sort(facts_.threads.begin(), facts_.threads.end(),
                   [](const ThreadFacts& a, const ThreadFacts& b) { return a.index < b.index; });
  running_.resize(facts_.devices.size());
  busy_.resize(facts_.devices.size());
  // A file that dropped nothing begins before the first allocation, so everything counts from 0.
  const bool begins_at_zero = trace_.coverage().dropped_events == 0;
  for (Running& running : running_) running.is_base_known = begins_at_zero;
}

void Pass::begin_from(const record::TraceState& state) {
  const std::uint64_t now = facts_.start_ns;
  for (const record::DeviceCounters& counters : state.devices) {
    for (std::uint32_t i = 0; i < facts_.devices.size(); ++i) {
      if (facts_.devices[i].device != counters.device) continue;
      running_[i] = {0, counters.reserved.value, counters.allocated.value, true, false};
      facts_.devices[i].limit_bytes = counters.limit.value;
      sample(i, now);
    }
  }
  for (const record::LiveBlock& block : state.live) {
    if (block.is_waiting) {
      const std::uint32_t device = facts_.device_of(block.lane);
      start_waiting(device, block.addr.value, {0, block.bytes.value, device});
      continue;
    }
    BlockRecord record;
    record.addr = block.addr.value;
    record.bytes = block.bytes.value;
    record.requested_bytes = block.requested_bytes.value;
    record.begin_ns = bounded(block.allocated_at);
    record.context = block.context;
    record.lane = block.lane;
    record.pool = block.pool;
    live_.put(record.addr, static_cast<std::uint32_t>(blocks_.size()));
    blocks_.push_back(record);
    was_used_elsewhere_.push_back(false);
  }
  for (const record::OpenPhase& phase : state.phases) {
    phases_.push(phase.thread, phase.context, bounded(phase.since));
  }
  if (state.step != 0) {
    Step step;
    step.number = state.step;
    step.begin_ns = now;
    facts_.steps.push_back(step);
  }
}

std::uint32_t Pass::device_of(const Event& event, std::uint32_t thread) {
  if (facts_.devices.size() == 1) return 0;
  if (event.lane.value == 0) {
    const auto last = last_device_.find(thread);
    return last == last_device_.end() ? 0 : last->second;
  }
  const std::uint32_t device = facts_.device_of(event.lane);
  last_device_[thread] = device;
  return device;
}

// What the driver-time guard did, and why, for the reader of the record.
std::string guard_text(const Event& event) {
  switch (static_cast<GuardChange>(event.aux)) {
    case GuardChange::kOn:
      return fmt::format(
          "Mapping free pages together has taken more than its share of the time for long, {} of "
          "the "
          "last {}: from here on memory grows instead where the device has room (guard_share, "
          "guard_growth).",
          share_text(event.a, event.b), duration_text(event.b));
    case GuardChange::kOff:
      return "Nothing had to grow for long: free pages are mapped together again as they were "
             "before "
             "the driver-time guard went on.";
    case GuardChange::kOverruled:
      return fmt::format(
          "The driver-time guard is on, but memory can grow no further (guard_growth, a limit, or "
          "the "
          "device): free pages are mapped together all the same, which took {} of the last {}.",
          share_text(event.a, event.b), duration_text(event.b));
  }
  return "The driver-time guard changed in a way unknown to this version.";
}

void Pass::handle(const record::TraceEvent& item) {
  const Event event = bounded(item.event);
  facts_.end_ns = std::max(facts_.end_ns, event.time_ns);
  switch (event.kind()) {
    case EventKind::kAlloc:
      return on_alloc(event, item.thread);
    case EventKind::kFree:
      return on_free(event);
    case EventKind::kFreeCompleted:
      return on_free_completed(event);
    case EventKind::kRecordUse: {
      const std::uint32_t block = live_.find(event.a);
      if (block != AddrMap::kAbsent) was_used_elsewhere_[block] = true;
      return;
    }
    case EventKind::kSegmentAlloc:
    case EventKind::kSegmentFree:
    case EventKind::kPageCreate:
    case EventKind::kPageRelease:
      return on_reserved(event, item.thread);
    case EventKind::kStitch: {
      DeviceFacts& device = facts_.devices[device_of(event, item.thread)];
      ++device.stitches;
      device.stitched_bytes += event.b;
      return;
    }
    case EventKind::kRebase:
      ++facts_.devices[device_of(event, item.thread)].rebases;
      return;
    case EventKind::kDriverCall:
      return on_driver_call(event, item.thread);
    case EventKind::kEmergencyBegin:
    case EventKind::kEmergencyRung:
    case EventKind::kEmergencyEnd:
      return on_emergency(event, item.thread);
    case EventKind::kWaitInserted:
      ++facts_.devices[device_of(event, item.thread)].waits;
      return;
    case EventKind::kPhasePush:
      return phases_.push(item.thread, event.context(), event.time_ns);
    case EventKind::kPhasePop:
      return phases_.pop(item.thread, event.context(), event.time_ns);
    case EventKind::kStepMark:
      return on_step(event);
    case EventKind::kCounters:
      return on_counters(event);
    case EventKind::kKernel:
    case EventKind::kMemcpy:
    case EventKind::kMemset:
      return on_activity(event);
    case EventKind::kLost:
      return on_lost();
    case EventKind::kOutOfMemory: {
      const std::uint32_t device = device_of(event, item.thread);
      facts_.out_of_memory.push_back(
          {event.time_ns, event.a, event.b, device, facts_.step_at(event.time_ns)});
      return;
    }
    case EventKind::kLimit:
      facts_.devices[device_of(event, item.thread)].limit_bytes = event.a;
      return;
    case EventKind::kNote:
      facts_.notes.push_back({event.time_ns, std::string(trace_.context(event.context()).text)});
      return;
    case EventKind::kGuard:
      facts_.notes.push_back({event.time_ns, guard_text(event)});
      return;
    case EventKind::kUnmap:
    case EventKind::kNone:
      return;
  }
}

void Pass::on_alloc(const Event& event, std::uint32_t thread) {
  const std::uint32_t device = device_of(event, thread);
  BlockRecord block;
  block.addr = event.a;
  block.bytes = block_of(event.b).value;
  block.requested_bytes = requested_of(event.b).value;
  block.begin_ns = event.time_ns;
  block.context = event.context();
  block.phase = phases_.current(thread);
  block.thread = thread;
  block.lane = event.lane;
  block.pool = event.aux;
  const std::uint32_t index = static_cast<std::uint32_t>(blocks_.size());
  const std::uint32_t previous = live_.put(block.addr, index);
  stop_waiting(block.addr);  // handed out again: its wait is over
  if (previous != AddrMap::kAbsent) {
    // Its free was lost: addresses are handed out once at a time.
    blocks_[previous].end_ns = event.time_ns;
    running_[device].take(&Running::allocated, blocks_[previous].bytes);
    ++facts_.completeness.overwritten_blocks;
  }
  running_[device].allocated += block.bytes;
  DeviceFacts& facts = facts_.devices[device];
  ++facts.allocations;
  if (block.requested_bytes <= kSmallRequest) ++facts.small_allocations;
  PhaseNode& node = phases_.node(block.phase);
  ++node.allocations;
  node.allocated_bytes += block.bytes;
  ++step().allocations;
  blocks_.push_back(block);
  was_used_elsewhere_.push_back(false);
  sample(device, event.time_ns);
}

void Pass::on_free(const Event& event) {
  const std::uint32_t index = live_.erase(event.a);
  std::uint32_t device = facts_.device_of(event.lane);
  if (index == AddrMap::kAbsent) {
    ++facts_.completeness.unmatched_frees;
    running_[device].take(&Running::allocated, block_of(event.b).value);
    ++facts_.devices[device].frees;
    sample(device, event.time_ns);
    return;
  }
  BlockRecord& block = blocks_[index];
  device = facts_.device_of(block.lane);
  block.end_ns = event.time_ns;
  running_[device].take(&Running::allocated, block.bytes);
  ++facts_.devices[device].frees;
  sample(device, event.time_ns);
  if (was_used_elsewhere_[index]) {
    start_waiting(device, event.a,
                  {facts_.devices[device].timeline.size() - 1, block.bytes, device});
  }
}

void Pass::on_free_completed(const Event& event) {
  const auto found = waiting_.find(event.a);
  const std::uint32_t device = facts_.device_of(event.lane);
  Timeline& timeline = facts_.devices[device].timeline;
  if (found == waiting_.end() || timeline.empty()) return;
  timeline.add_waiting(found->second.from_sample, timeline.mark(event.time_ns),
                       found->second.bytes);
  stop_waiting(event.a);
}

void Pass::on_reserved(const Event& event, std::uint32_t thread) {
  const std::uint32_t device = device_of(event, thread);
  const bool grows =
      event.kind() == EventKind::kSegmentAlloc || event.kind() == EventKind::kPageCreate;
  DeviceFacts& facts = facts_.devices[device];
  MemoryActivity act;
  act.begin_ns = event.time_ns;
  act.device = device;
  if (grows) {
    running_[device].reserved += event.b;
    facts.created_bytes += event.b;
    act.acquired_bytes = event.b;
  } else {
    running_[device].take(&Running::reserved, event.b);
    facts.released_bytes += event.b;
    act.released_bytes = event.b;
  }
  const auto open = open_emergency_.find(thread);
  if (open != open_emergency_.end()) {
    act.is_inside_emergency = true;
    if (!grows) facts_.emergencies[open->second].released_bytes += event.b;
  }
  activity_.push_back(act);
  sample(device, event.time_ns);
}

void Pass::on_driver_call(const Event& event, std::uint32_t thread) {
  const std::uint32_t device = device_of(event, thread);
  const bool failed = (event.aux & kDriverCallFailed) != 0;
  const std::size_t number = event.aux & static_cast<std::uint16_t>(~kDriverCallFailed);
  if (number >= kDriverCallCount) return;
  const auto call = static_cast<DriverCall>(number);
  for (DriverTotals* totals : {&facts_.driver, &facts_.devices[device].driver}) {
    ++totals->calls[number];
    totals->ns[number] += event.a;
    if (failed) ++totals->failed;
  }
  DriverCallRecord record;
  record.begin_ns = event.time_ns;
  record.duration_ns = event.a;
  record.bytes = failed ? 0 : event.b;
  record.thread = thread;
  record.device = static_cast<std::uint16_t>(device);
  record.call = call;
  record.failed = failed;
  facts_.driver_calls.push_back(record);
  const bool is_memory = is_memory_call(call);
  Step& now = step();
  ++now.driver_calls;
  now.driver_ns += event.a;
  if (is_memory) {
    ++now.memory_calls;
    now.memory_ns += event.a;
  }
  phases_.node(phases_.current(thread)).driver_ns += event.a;
  busy_[device].emplace_back(event.time_ns, event.time_ns + event.a);
  const auto open = open_emergency_.find(thread);
  if (open != open_emergency_.end()) {
    ++facts_.emergencies[open->second].driver_calls;
    facts_.emergencies[open->second].driver_ns += event.a;
  }
  if (is_memory) {
    MemoryActivity act;
    act.begin_ns = event.time_ns;
    act.duration_ns = event.a;
    act.device = device;
    act.is_driver_call = true;
    act.is_inside_emergency = open != open_emergency_.end();
    activity_.push_back(act);
  }
}

void Pass::on_emergency(const Event& event, std::uint32_t thread) {
  const auto open = open_emergency_.find(thread);
  if (event.kind() == EventKind::kEmergencyBegin) {
    const std::uint32_t device = device_of(event, thread);
    Emergency emergency;
    emergency.begin_ns = event.time_ns;
    emergency.device = device;
    emergency.requested_bytes = event.a;
    emergency.reserved_before_bytes = event.b;
    emergency.reserved_after_bytes = event.b;
    emergency.allocated_bytes = running_[device].allocated;
    emergency.waiting_bytes = running_[device].waiting;
    emergency.cause = static_cast<EmergencyCause>(event.aux);
    emergency.limit_bytes = facts_.devices[device].limit_bytes;
    emergency.lane = event.lane;
    emergency.thread = thread;
    emergency.step =
        facts_.steps.empty() ? kNone : static_cast<std::uint32_t>(facts_.steps.size() - 1);
    emergency.phase = phases_.current(thread);
    emergency.context = event.context();
    ++phases_.node(emergency.phase).emergencies;
    ++step().emergencies;
    open_emergency_[thread] = static_cast<std::uint32_t>(facts_.emergencies.size());
    facts_.emergencies.push_back(std::move(emergency));
    return;
  }
  if (open == open_emergency_.end()) return;  // its begin was lost
  Emergency& emergency = facts_.emergencies[open->second];
  if (event.kind() == EventKind::kEmergencyRung) {
    emergency.rungs.push_back({static_cast<LadderRung>(event.aux), event.b, event.a});
    return;
  }
  emergency.duration_ns = event.a;
  emergency.reserved_after_bytes = event.b;
  emergency.outcome = event.aux == 1   ? EmergencyOutcome::kServed
                      : event.aux == 2 ? EmergencyOutcome::kFailed
                                       : EmergencyOutcome::kOutOfMemory;
  (emergency.step != kNone ? facts_.steps[emergency.step] : before_marks_).emergency_ns += event.a;
  busy_[emergency.device].emplace_back(emergency.begin_ns, emergency.begin_ns + event.a);
  open_emergency_.erase(open);
}

void Pass::on_step(const Event& event) {
  const std::uint64_t number = event.a + (event.b == 1 ? 1 : 0);
  facts_.marks_end_steps = event.b == 1;
  if (facts_.steps.empty() && event.b == 1) {
    // Where it began is not marked: set-up may be part of it.
    before_marks_.number = event.a;
    before_marks_.begin_ns = facts_.start_ns;
    before_marks_.end_ns = event.time_ns;
    facts_.steps.push_back(before_marks_);
    for (Emergency& emergency : facts_.emergencies) emergency.step = 0;
  } else if (!facts_.steps.empty()) {
    Step& previous = facts_.steps.back();
    // The same mark can arrive from several places (one optimizer and one hook): one step.
    if (previous.number == number) return;
    previous.end_ns = event.time_ns;
    previous.is_complete = true;
  }
  Step next;
  next.number = number;
  next.begin_ns = event.time_ns;
  facts_.steps.push_back(next);
}

void Pass::on_counters(const Event& event) {
  const std::uint32_t device = facts_.device_of(event.lane);
  Running& running = running_[device];
  Timeline& timeline = facts_.devices[device].timeline;
  if (!running.is_base_known) {
    timeline.rebase(timeline.size(), event.a - running.reserved, event.b - running.allocated);
    running = {running.waiting, event.a, event.b, true, false};
    sample(device, event.time_ns);
  } else if (running.is_uncertain) {
    running = {running.waiting, event.a, event.b, true, false};
    sample(device, event.time_ns);
  }
}

void Pass::on_lost() {
  for (Running& running : running_) running.is_uncertain = true;
}

void Pass::on_activity(const Event& event) {
  const std::size_t id = event.lane.value;
  if (lane_slot_.size() <= id) lane_slot_.resize(id + 1, kNone);
  if (lane_slot_[id] == kNone) {
    lane_slot_[id] = static_cast<std::uint32_t>(facts_.lanes.size());
    ActivityLane lane;
    lane.lane = event.lane;
    lane.device = facts_.device_of(event.lane);
    lane.stream = facts_.stream_of(event.lane);
    facts_.lanes.push_back(std::move(lane));
  }
  Interval interval;
  interval.begin_ns = event.time_ns;
  interval.duration_ns = event.a;
  interval.value = event.b;
  interval.name = event.context();
  interval.kind = event.kind();
  interval.aux = event.aux;
  facts_.end_ns = std::max(facts_.end_ns, event.time_ns + event.a);
  facts_.lanes[lane_slot_[id]].intervals.push_back(interval);
}

void Pass::finish() {
  phases_.finish(facts_.end_ns);
  facts_.spans = phases_.take_spans();
  facts_.phases = phases_.take_nodes();
  step().end_ns = facts_.end_ns;
  close_open_emergencies();
  fix_unknown_bases();
  for (DeviceFacts& device : facts_.devices) device.timeline.finish(facts_.end_ns);
  count_step_peaks();
  measure_phases();
  std::stable_sort(
      activity_.begin(), activity_.end(),
      [](const MemoryActivity& a, const MemoryActivity& b) { return a.begin_ns < b.begin_ns; });
  find_storms(facts_, activity_);
  std::stable_sort(
      facts_.driver_calls.begin(), facts_.driver_calls.end(),
      [](const DriverCallRecord& a, const DriverCallRecord& b) { return a.begin_ns < b.begin_ns; });
  for (ActivityLane& lane : facts_.lanes) {
    const auto by_begin = [](const Interval& a, const Interval& b) {
      return a.begin_ns < b.begin_ns;
    };
    if (!std::is_sorted(lane.intervals.begin(), lane.intervals.end(), by_begin)) {
      std::stable_sort(lane.intervals.begin(), lane.intervals.end(), by_begin);
    }
  }
  std::sort(facts_.lanes.begin(), facts_.lanes.end(),
            [](const ActivityLane& a, const ActivityLane& b) {
              return std::pair(a.device, a.lane) < std::pair(b.device, b.lane);
            });
  find_idle_gaps(facts_, std::move(busy_), options_.max_idle_gaps);
  say_what_is_missing();
  // Names first: origins of holders and pins are made of them.
  collect_names();
  if (options_.explain_moments) explain_moments();
  if (options_.keep_blocks) facts_.blocks = std::move(blocks_);
}

void Pass::close_open_emergencies() {
  for (const auto& [thread, index] : open_emergency_) {
    Emergency& emergency = facts_.emergencies[index];
    emergency.duration_ns = facts_.end_ns - emergency.begin_ns;
    busy_[emergency.device].emplace_back(emergency.begin_ns, facts_.end_ns);
  }
}

void Pass::fix_unknown_bases() {
  for (std::uint32_t i = 0; i < running_.size(); ++i) {
    Timeline& timeline = facts_.devices[i].timeline;
    if (running_[i].is_base_known || timeline.empty()) continue;
    // No checkpoint in the whole file: the lowest point becomes 0.
    std::int64_t lowest_reserved = 0;
    std::int64_t lowest_allocated = 0;
    for (std::size_t k = 0; k < timeline.size(); ++k) {
      lowest_reserved = std::min(lowest_reserved,
                                 static_cast<std::int64_t>(timeline.value(Series::kReserved, k)));
      lowest_allocated = std::min(lowest_allocated,
                                  static_cast<std::int64_t>(timeline.value(Series::kAllocated, k)));
    }
    timeline.rebase(timeline.size(), static_cast<std::uint64_t>(-lowest_reserved),
                    static_cast<std::uint64_t>(-lowest_allocated));
    facts_.completeness.remarks.push_back(
        fmt::format("The record of device {} starts in the middle and has no checkpoint: its sizes "
                    "are relative to the lowest point.",
                    facts_.devices[i].device.value));
  }
}

void Pass::count_step_peaks() {
  for (DeviceFacts& device : facts_.devices) {
    device.step_peaks.reserve(facts_.steps.size());
    for (const Step& step : facts_.steps) {
      device.step_peaks.push_back(
          {device.timeline.range(Series::kReserved, step.begin_ns, step.end_ns).max,
           device.timeline.range(Series::kAllocated, step.begin_ns, step.end_ns).max});
    }
    if (facts_.steps.size() > kWarmUpSteps) device.warm_step = kWarmUpSteps;
  }
}

void Pass::measure_phases() {
  for (const PhaseSpan& span : facts_.spans) {
    PhaseNode& node = facts_.phases[span.node];
    for (const DeviceFacts& device : facts_.devices) {
      if (device.timeline.empty()) continue;
      const std::uint64_t peak =
          device.timeline.range(Series::kAllocated, span.begin_ns, span.end_ns).max;
      const std::uint64_t before = device.timeline.value_before(Series::kAllocated, span.begin_ns);
      node.peak_bytes = std::max(node.peak_bytes, peak);
      node.peak_rise_bytes = std::max(node.peak_rise_bytes, peak > before ? peak - before : 0);
    }
  }
}

void Pass::explain_moments() {
  for (std::uint32_t i = 0; i < facts_.devices.size(); ++i) {
    DeviceFacts& device = facts_.devices[i];
    const Timeline& timeline = device.timeline;
    if (timeline.empty()) continue;
    std::size_t slackest = 0;
    std::int64_t slack = INT64_MIN;
    // Between the first and the last step: before and after them memory lies idle for good reasons.
    std::size_t first = 0;
    std::size_t last = timeline.size();
    if (facts_.steps.size() > 2) {
      first = timeline.index_at(facts_.steps.front().begin_ns);
      last = timeline.index_at(facts_.steps.back().begin_ns) + 1;
    }
    for (std::size_t k = first; k < last; ++k) {
      const auto here = static_cast<std::int64_t>(timeline.value(Series::kReserved, k) -
                                                  timeline.value(Series::kActive, k));
      if (here > slack) {
        slack = here;
        slackest = k;
      }
    }
    const auto at = [&](std::size_t sample) {
      const std::uint64_t time_ns = timeline.time_ns(sample);
      return describe_moment(facts_, i, time_ns, live_blocks(facts_, blocks_, i, time_ns));
    };
    device.at_reserved_peak = at(timeline.index_of_peak(Series::kReserved));
    device.at_allocated_peak = at(timeline.index_of_peak(Series::kAllocated));
    device.at_largest_slack = at(slackest);
    const auto at_peak = live_blocks(facts_, blocks_, i, device.at_allocated_peak.time_ns);
    device.holders_by_phase = holders(facts_, at_peak, Origin::kPhase, options_.max_holders);
    device.holders_by_stack = holders(facts_, at_peak, Origin::kStack, options_.max_holders);
    const std::uint64_t slack_ns = device.at_largest_slack.time_ns;
    device.pins =
        pins(facts_, live_blocks(facts_, blocks_, i, slack_ns), slack_ns, options_.max_pins);
    for (auto one = facts_.emergencies.rbegin(); one != facts_.emergencies.rend(); ++one) {
      if (one->device != i || !is_refused_by_fragmentation(facts_, *one)) continue;
      const std::uint64_t refused_ns = one->begin_ns + one->duration_ns;
      const auto live = live_blocks(facts_, blocks_, i, refused_ns);
      device.at_refusal = describe_moment(facts_, i, refused_ns, live);
      device.between = between(facts_, live, refused_ns, options_.max_pins);
      break;
    }
  }
}

void Pass::say_what_is_missing() {
  const record::Coverage& coverage = trace_.coverage();
  Completeness& out = facts_.completeness;
  out.is_whole = coverage.is_whole();
  out.lost_events = coverage.lost_events;
  out.dropped_events = coverage.dropped_events;
  out.damaged_blocks = coverage.damaged_blocks;
  const auto add = [&](std::string remark) { out.remarks.push_back(std::move(remark)); };
  if (coverage.dropped_events > 0) {
    add(
        fmt::format("The file reached its size cap: the oldest {} were overwritten, and the record "
                    "starts in the middle of the run.",
                    counted(coverage.dropped_events, "event", "events")));
  }
  if (coverage.lost_events > 0) {
    add(fmt::format("{} lost because a ring was full; sizes are corrected at the next checkpoint.",
                    counted(coverage.lost_events, "event was", "events were")));
  }
  if (coverage.damaged_blocks > 0) {
    add(fmt::format(
        "{} damaged and left out.",
        counted(coverage.damaged_blocks, "block of the file is", "blocks of the file are")));
  }
  if (coverage.ending == record::TraceEnding::kCut) {
    add("The file has no end mark: the program was killed, its disk was full, it is still running, "
        "or the file was cut while it was copied.");
  } else if (coverage.ending == record::TraceEnding::kStopped) {
    add(fmt::format("Recording stopped before the program ended: {}.", coverage.stop_reason));
  }
  if (out.unmatched_frees > 0) {
    add(fmt::format("{} of blocks whose allocation is not in the record.",
                    counted(out.unmatched_frees, "free", "frees")));
  }
  if (out.overwritten_blocks > 0) {
    add(fmt::format("{} allocated again without a recorded free.",
                    counted(out.overwritten_blocks, "block was", "blocks were")));
  }
}

void Pass::collect_names() {
  std::vector<bool> is_kept(std::size_t{kMaxContexts} + 1);
  const auto keep = [&](ContextId id) {
    if (id.value == 0 || id.value > kMaxContexts || is_kept[id.value]) return;
    is_kept[id.value] = true;
    facts_.names.emplace(id.value, std::string(trace_.context(id).text));
  };
  for (const PhaseNode& node : facts_.phases) keep(node.name);
  for (const BlockRecord& block : blocks_) keep(block.context);
  for (const Emergency& emergency : facts_.emergencies) keep(emergency.context);
  for (const ActivityLane& lane : facts_.lanes) {
    for (const Interval& interval : lane.intervals) keep(interval.name);
  }
}

}  // namespace

TraceFacts analyze(const record::TraceReader& trace, const AnalysisOptions& options) {
  return Pass(trace, options).run();
}

}  // namespace levee::analysis
