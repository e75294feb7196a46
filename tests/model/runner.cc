#include "tests/model/runner.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "allocator/core/make_allocator.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"
#include "tests/model/crew.h"
#include "tests/model/reference_model.h"

namespace levee::model_test {
namespace {

using device::sim::CallKind;

constexpr std::array<CallKind, kFaultKinds> kFaultCalls = {
    CallKind::kCreateHandle, CallKind::kMap,           CallKind::kSetAccess,
    CallKind::kUnmap,        CallKind::kReleaseHandle, CallKind::kReserveRange,
    CallKind::kFreeRange,    CallKind::kCreateEvent,   CallKind::kRecordEvent,
    CallKind::kWaitEvent,    CallKind::kQueryEvent,    CallKind::kSynchronizeEvent,
    CallKind::kMalloc,       CallKind::kFree,          CallKind::kSynchronizeDevice,
    CallKind::kMemoryInfo};

constexpr std::uint64_t kPage = 2ULL << 20;

class Run {
 public:
  Run(const RunOptions& options)
      : options_(options), model_(model_config(options)), device_(model_, DeviceId{0}) {
    Result<std::unique_ptr<Allocator>> made =
        core::make_allocator(device_, options.config, nullptr);
    if (!made.ok()) {
      problem_ = "no allocator";
      return;
    }
    allocator_ = std::move(*made);
    AllocatorHooks hooks;
    hooks.free_memory = [this] { return free_on_oom(); };
    allocator_->set_hooks(std::move(hooks));
    streams_.push_back(StreamId{0});
    model_.set_faults(options.faults);
    is_faulty_ = was_faulty_ = !options.faults.empty();
    is_single_fault_ = options.faults.size() == 1 && options.faults[0].times == 1;
  }

  RunResult go(const Program& program) {
    std::size_t next = 0;
    while (next < program.size() && problem_.empty()) {
      // One thread's turn: until the program names another one.
      crew_.run(thread_, [&] {
        do {
          result_.at = next;
          ++result_.performed;
          std::visit([&](const auto& op) { perform(op); }, program[next]);
          ++next;
          if (problem_.empty()) check_state();
        } while (next < program.size() && problem_.empty() && thread_ == turn_);
      });
      turn_ = thread_;
    }
    result_.stats = allocator_ == nullptr ? Stats{} : allocator_->stats();
    for (std::size_t i = 0; i < device::sim::kCallKinds; ++i) {
      result_.calls[i] = model_.calls(static_cast<CallKind>(i));
    }
    const std::uint64_t performed = result_.performed;
    if (problem_.empty()) finish();
    result_.performed = performed;
    result_.problem = problem_;
    return std::move(result_);
  }

 private:
  static device::sim::ModelConfig model_config(const RunOptions& options) {
    device::sim::ModelConfig config;
    config.devices[0].total_memory = Bytes{options.capacity};
    config.judge = device::sim::JudgeMode::kCount;
    return config;
  }

  StreamId stream(std::uint32_t index) {
    while (streams_.size() <= index) {
      const Result<StreamId> made =
          model_.create_stream(DeviceId{0}, {.non_blocking = true, .priority = 0});
      streams_.push_back(*made);
    }
    return streams_[index];
  }
  /// The operation does nothing here.
  void skip() { --result_.performed; }
  void fail(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }
  PoolId pool_id(std::uint32_t pool) const { return PoolId{0, pool}; }
  std::uint64_t calls(CallKind kind) const { return model_.calls(kind); }

  void perform(const Alloc& op) {
    if (op.bytes == 0 || reference_.is_live(op.id)) return skip();
    OomReport report;
    const std::uint64_t created = calls(CallKind::kCreateHandle) + calls(CallKind::kMalloc);
    const device::sim::MemoryUse before = model_.memory_use(DeviceId{0});
    const Result<Block> block = allocator_->allocate(Bytes{op.bytes}, stream(op.stream), &report);
    if (calls(CallKind::kCreateHandle) + calls(CallKind::kMalloc) != created) {
      ++result_.growths;
      if (reference_.allocated() + op.bytes <= reference_.peak_allocated()) {
        ++result_.growths_below_maximum;
      }
    }
    if (!block.ok()) {
      ++result_.refused;
      result_.refused_ids.push_back(op.id);
      const device::sim::MemoryUse after = model_.memory_use(DeviceId{0});
      if (is_single_fault_ && !in_capture_ &&
          (after.used > before.used || after.mapped > before.mapped)) {
        fail("a request that was refused left memory behind: " + told(report));
      }
      if (block.code() == StatusCode::kOutOfMemory) {
        check_refusal(op, report);
      } else if (!is_faulty_) {
        fail("allocation failed with " + std::string(name_of(block.code())));
      }
      return;
    }
    ++result_.served;
    note_pool_units(*block);
    fail(reference_.on_alloc(
        op.id, {block->addr.value, block->bytes.value, block->requested_bytes.value, op.stream,
                static_cast<std::uint32_t>(block->pool.second)}));
    if (block->requested_bytes.value != op.bytes) fail("another size than asked for");
  }

  // Pages that a pool ever used: from its first capture on, they are its own.
  void note_pool_units(const Block& block) {
    if (block.pool.second == 0) return;
    std::set<std::uint64_t>& units = pool_units_[static_cast<std::uint32_t>(block.pool.second)];
    const std::uint64_t last = (block.addr.value + block.bytes.value - 1) / kPage;
    for (std::uint64_t unit = block.addr.value / kPage; unit <= last; ++unit) units.insert(unit);
  }

  static std::string told(const OomReport& report) {
    std::string text = "cause " + std::to_string(static_cast<int>(report.cause)) + ", reserved " +
                       std::to_string(report.reserved_bytes.value) + ", device free " +
                       std::to_string(report.device_free_bytes.value) + "; freed by rungs";
    for (std::uint32_t i = 0; i < report.rung_count; ++i) {
      text += " " + std::to_string(report.rungs[i].freed.value);
    }
    return text;
  }

  // P1: live pages and those the request needs do not fit. What it says while a stream captures,
  // with segments and under the limit of a pool is in allocator/README.md.
  void check_refusal(const Alloc& op, const OomReport& report) {
    if (report.requested_bytes.value != op.bytes) fail("the report is of another request");
    if (is_faulty_) return;
    std::uint64_t room = options_.capacity - std::min(options_.capacity, others_);
    if (limit_ != 0) room = std::min(room, limit_);
    const std::uint64_t rounded = (op.bytes + 511) / 512 * 512;
    const std::uint64_t need = (rounded + kPage - 1) / kPage;
    const auto refused = [&](const std::string& although) {
      fail("refused " + std::to_string(op.bytes) + " bytes although " + although + " and " +
           std::to_string(room / kPage) + " may be held; " + told(report));
    };
    std::set<std::uint64_t> used = reference_.used_units();
    for (const auto& [pool, is_captured] : captured_pools_) {
      if (is_captured) used.insert(pool_units_[pool].begin(), pool_units_[pool].end());
    }
    const bool fits = (used.size() + need) * kPage <= room;
    if (report.cause == EmergencyCause::kPoolLimitReached) {
      const std::uint32_t pool = pool_of(op.stream);
      if (pool == 0) return fail("refused for the limit of a pool, and it went to none");
      const std::uint64_t limit = pool_limits_.count(pool) != 0 ? pool_limits_.at(pool) : 0;
      if (limit == 0) return fail("refused for the limit of a pool that has none");
      if (!options_.check_promise || in_capture_ || has_segments_ || !fits) return;
      const std::uint64_t own = units_of_pool(pool).size();
      room = limit;
      if ((own + need) * kPage <= limit) refused(std::to_string(own) + " pages are the pool's");
      return;
    }
    if (in_capture_ || has_segments_ || options_.config.backing == Backing::kSegments) {
      // Nobody may wait or give back while a stream captures, and a segment is one piece; but what
      // was never taken from the device can be had.
      if (report.reserved_bytes.value + need * kPage <= room) {
        refused(std::to_string(report.reserved_bytes.value / kPage) + " pages are reserved");
      }
      return;
    }
    if (options_.check_promise && fits) refused(std::to_string(used.size()) + " pages are in use");
  }

  /// That a request of the stream goes to: 0 is the default pool.
  std::uint32_t pool_of(std::uint32_t index) const {
    for (auto region = region_order_.rbegin(); region != region_order_.rend(); ++region) {
      if (region->second == index) return region->first;
    }
    return 0;
  }
  std::set<std::uint64_t> units_of_pool(std::uint32_t pool) {
    std::set<std::uint64_t> units;
    if (captured_pools_[pool]) units = pool_units_[pool];
    for (const auto& [id, block] : reference_.live()) {
      if (block.pool != pool) continue;
      const std::uint64_t last = (block.addr + block.bytes - 1) / kPage;
      for (std::uint64_t unit = block.addr / kPage; unit <= last; ++unit) units.insert(unit);
    }
    return units;
  }

  bool free_on_oom() {
    bool freed = false;
    for (std::uint32_t id : std::exchange(free_on_oom_, {})) {
      if (!reference_.is_live(id)) continue;
      perform(Free{id});
      freed = true;
    }
    return freed;
  }
  void perform(const FreeOnOom& op) {
    if (!reference_.is_live(op.id)) return skip();
    free_on_oom_.push_back(op.id);
  }

  // A capture belongs to the thread that began it.
  void perform(const SwitchThread& op) {
    if (in_capture_ || thread_ == op.thread) return skip();
    thread_ = op.thread;
  }
  void perform(const EndThread& op) {
    if (op.thread == thread_ || op.thread == 0) return skip();
    crew_.end(op.thread);
  }

  void perform(const Free& op) {
    if (!reference_.is_live(op.id)) return skip();
    const ReferenceModel::Live live = reference_.at(op.id);
    const Result<Block> freed = allocator_->free(DeviceAddr{live.addr});
    if (!freed.ok()) return fail("a live block cannot be freed");
    if (freed->bytes.value != live.bytes || freed->requested_bytes.value != live.requested) {
      return fail("the freed block is described wrongly");
    }
    reference_.on_free(op.id);
    shared_.erase(op.id);
    if (allocator_->free(DeviceAddr{live.addr}).code() != StatusCode::kNotOwned) {
      fail("a second free is accepted");
    }
  }

  void perform(const RecordUse& op) {
    if (!reference_.is_live(op.id)) return skip();
    if (is_capturing(op.stream) || is_capturing(reference_.at(op.id).stream)) return skip();
    if (in_capture_ && reference_.at(op.id).pool != 0) return skip();
    shared_.insert(op.id);
    if (reference_.at(op.id).pool != 0) join_pool(reference_.at(op.id).pool, op.stream);
    const Status status =
        allocator_->record_use(DeviceAddr{reference_.at(op.id).addr}, stream(op.stream));
    if (!status.ok()) fail("record_use of a live block is refused");
  }

  void perform(const Work& op) {
    device::sim::Work work;
    work.duration = Nanos{static_cast<std::int64_t>(op.us) * 1000};
    work.name = "kernel";
    const Status status =
        model_.enqueue(DeviceId{0}, stream(op.stream), CallKind::kLaunchKernel, work);
    if (!status.ok() && !is_faulty_) fail("a kernel cannot be enqueued");
  }

  void perform(const Wait& op) {
    if (op.stream == op.other || is_capturing(op.stream) || is_capturing(op.other)) {
      return skip();
    }
    // Where a fault is injected the order is not there, and nothing else.
    static_cast<void>(order_by_event(op.stream, op.other));
  }
  bool order_by_event(std::uint32_t waiter, std::uint32_t other) {
    const Result<EventId> event = model_.create_event(DeviceId{0});
    if (!event.ok()) return false;
    const bool ordered = model_.record_event(*event, DeviceId{0}, stream(other)).ok() &&
                         model_.wait_event(DeviceId{0}, stream(waiter), *event).ok();
    // A fault may meet this call as well; the second try is not about the allocator.
    if (!model_.destroy_event(*event).ok() && !model_.destroy_event(*event).ok()) {
      fail("the program cannot destroy its event");
    }
    return ordered;
  }
  // By waiting on the host if a fault forbids an event. Not while a stream captures.
  void order(std::uint32_t waiter, std::uint32_t other) {
    if (waiter == other || order_by_event(waiter, other)) return;
    const Status waited = model_.synchronize_stream(DeviceId{0}, stream(other));
    if (!waited.ok()) fail("the program cannot order its streams");
  }
  /// From now on the stream uses memory of the pool.
  void join_pool(std::uint32_t pool, std::uint32_t joining) {
    pool_streams_[pool].insert(joining);
    for (std::uint32_t launched : launch_streams_[pool]) order(joining, launched);
  }

  void perform(const Sync& op) {
    if (in_capture_) return skip();
    const Status status = model_.synchronize_stream(DeviceId{0}, stream(op.stream));
    static_cast<void>(status);
  }
  void perform(const Advance& op) {
    model_.advance(Nanos{static_cast<std::int64_t>(op.us) * 1000 * options_.clock_factor});
  }

  void perform(const Trim& op) {
    const std::uint64_t before = reserved();
    const Result<Bytes> freed = allocator_->trim(Bytes{op.keep});
    if (!freed.ok()) {
      if (!is_faulty_ && !in_capture_) fail("trim fails");
      return;
    }
    if (before - reserved() != freed->value) fail("trim says another number than it freed");
    if (is_faulty_ || captured_ || has_segments_ || !options_.check_promise) return;
    const std::uint64_t floor = std::max<std::uint64_t>(used_pages() * kPage, op.keep);
    if (before > op.keep && reserved() > floor + kPage) {
      fail("trim left more than live pages and what was to be kept");
    }
  }

  void perform(const SetLimit& op) {
    limit_ = op.bytes;
    allocator_->set_limit(Bytes{op.bytes});
    if (allocator_->limit().value != op.bytes) fail("the limit is another one");
  }
  void perform(const SetOthers& op) {
    others_ = op.bytes;
    model_.set_used_by_others(DeviceId{0}, Bytes{op.bytes});
  }

  void perform(const Fault& op) {
    is_faulty_ = was_faulty_ = true;
    device::sim::Fault fault = device::sim::Fault::fail_nth(
        kFaultCalls[op.call % kFaultCalls.size()], std::max(1U, op.nth));
    fault.times = std::max(1U, op.times);
    model_.set_faults({fault});
  }
  void perform(const ClearFaults&) {
    model_.set_faults({});
    is_faulty_ = false;
  }

  void perform(const PoolBegin& op) {
    if (in_capture_ || regions_[op.pool] != 0) return skip();
    join_pool(op.pool, op.stream);
    const StreamId routed = stream(op.stream);
    const Status status = allocator_->begin_allocate_to_pool(
        pool_id(op.pool), [routed](StreamId s) { return s == routed; });
    if (!status.ok()) return fail("a pool region cannot begin");
    region_order_.emplace_back(op.pool, op.stream);
    ++regions_[op.pool];
    ++uses_[op.pool];
    if (allocator_->pool_use_count(pool_id(op.pool)) != uses_[op.pool]) fail("use count");
  }
  void perform(const PoolEnd& op) {
    if (capture_pool_ == op.pool || regions_[op.pool] == 0) return skip();
    if (!allocator_->end_allocate_to_pool(pool_id(op.pool)).ok())
      return fail("a region cannot end");
    std::erase_if(region_order_, [&](const auto& region) { return region.first == op.pool; });
    --regions_[op.pool];
  }
  void perform(const PoolRelease& op) {
    if (in_capture_ || regions_[op.pool] != 0 || uses_[op.pool] == 0) return skip();
    if (!allocator_->release_pool(pool_id(op.pool)).ok()) return fail("a pool cannot be released");
    if (--uses_[op.pool] == 0) {
      // Its graphs are gone, and what they used is only ordered by the streams they ran on.
      for (const Graph& graph : graphs_[op.pool]) {
        const Status destroyed = model_.destroy_exec(graph.exec);
        static_cast<void>(destroyed);
      }
      graphs_[op.pool].clear();
      pool_limits_.erase(op.pool);
      checkpoints_.erase(op.pool);
      captured_pools_[op.pool] = false;
      captured_ = std::any_of(captured_pools_.begin(), captured_pools_.end(),
                              [](const auto& entry) { return entry.second; });
    }
  }

  // Settings of a pool that exists.
  void check_setting(Status status) {
    if (!status.ok()) fail("a pool's setting is refused");
  }
  void perform(const PoolLimit& op) {
    if (uses_[op.pool] == 0) return skip();
    check_setting(allocator_->set_pool_limit(pool_id(op.pool), Bytes{op.bytes}));
    pool_limits_[op.pool] = op.bytes;
  }
  void perform(const PoolNoSplit& op) {
    if (uses_[op.pool] == 0) return skip();
    check_setting(allocator_->set_pool_no_split(pool_id(op.pool)));
  }
  void perform(const PoolServes& op) {
    if (uses_[op.pool] == 0) return skip();
    check_setting(allocator_->set_pool_use_on_oom(pool_id(op.pool), op.on != 0));
  }
  void perform(const PoolSegments& op) {
    if (uses_[op.pool] == 0) return skip();
    check_setting(allocator_->set_pool_backing(pool_id(op.pool),
                                               op.on != 0 ? Backing::kSegments : Backing::kPages));
    has_segments_ = true;
  }
  void perform(const PoolTrim& op) {
    if (uses_[op.pool] == 0) return skip();
    const std::uint64_t before = reserved();
    const Result<Bytes> freed = allocator_->trim_pool(pool_id(op.pool));
    if (!freed.ok()) {
      if (!is_faulty_ && !in_capture_) fail("a pool cannot be trimmed");
      return;
    }
    if (before - reserved() != freed->value) fail("trim_pool says another number than it freed");
  }

  bool is_capturing(std::uint32_t index) const { return in_capture_ && capture_stream_ == index; }

  void perform(const CaptureBegin& op) {
    if (in_capture_ || op.stream == 0 || regions_[op.pool] != 0) return skip();
    join_pool(op.pool, op.stream);
    const StreamId captured = stream(op.stream);
    const Status begun = allocator_->begin_allocate_to_pool(
        pool_id(op.pool), [captured](StreamId s) { return s == captured; });
    if (!begun.ok()) return fail("a capture's region cannot begin");
    allocator_->expect_stream(captured);
    region_order_.emplace_back(op.pool, op.stream);
    ++regions_[op.pool];
    ++uses_[op.pool];
    if (!model_.begin_capture(DeviceId{0}, captured, device::sim::CaptureMode::kThreadLocal).ok()) {
      return perform(PoolEnd{op.pool});
    }
    in_capture_ = true;
    capture_stream_ = op.stream;
    capture_pool_ = op.pool;
    captured_ = true;
    captured_pools_[op.pool] = true;
  }
  void perform(const CaptureEnd& op) {
    if (!in_capture_ || capture_pool_ != op.pool) return skip();
    end_capture();
  }
  void end_capture() {
    const std::uint32_t pool = capture_pool_;
    const Result<device::sim::GraphId> graph =
        model_.end_capture(DeviceId{0}, stream(capture_stream_));
    in_capture_ = false;
    capture_pool_ = 0;
    if (!graph.ok() && !was_faulty_) fail("the capture was broken");
    if (graph.ok()) {
      const Result<device::sim::ExecId> exec = model_.instantiate(*graph);
      if (exec.ok()) graphs_[pool].push_back(Graph{*exec, ids_of(pool)});
      const Status destroyed = model_.destroy_graph(*graph);
      static_cast<void>(destroyed);
    }
    perform(PoolEnd{pool});
  }
  void perform(const Replay& op) {
    if (in_capture_ || graphs_[op.pool].empty()) return skip();
    // A graph's owner must not hold anything in the pool that was handed out after the capture, nor
    // lend what it holds to other streams while the graph writes it.
    const Graph& graph = graphs_[op.pool].back();
    const std::set<std::uint32_t> now = ids_of(op.pool);
    if (!std::includes(graph.live.begin(), graph.live.end(), now.begin(), now.end())) return skip();
    const auto is_shared = [&](std::uint32_t id) { return shared_.count(id) != 0; };
    if (std::any_of(now.begin(), now.end(), is_shared)) return skip();
    // ... and orders the launch behind whatever the pool's blocks were used for.
    for (std::uint32_t other : pool_streams_[op.pool]) order(op.stream, other);
    const Status launched = model_.launch_graph(DeviceId{0}, stream(op.stream), graph.exec);
    if (!launched.ok() && !is_faulty_) fail("a graph cannot be launched");
    // What follows in the pool comes after the launch, which the allocator does not see.
    launch_streams_[op.pool].insert(op.stream);
    for (std::uint32_t other : std::set<std::uint32_t>(pool_streams_[op.pool])) {
      join_pool(op.pool, other);
    }
  }

  void perform(const Checkpoint& op) {
    if (uses_[op.pool] == 0) return skip();
    Result<std::shared_ptr<PoolCheckpoint>> made = allocator_->checkpoint_pool(pool_id(op.pool));
    if (!made.ok()) return fail("no checkpoint");
    checkpoints_[op.pool] = {*made, {}};
    for (const auto& [id, block] : reference_.live()) {
      if (block.pool == op.pool) checkpoints_[op.pool].live[id] = block;
    }
  }
  void perform(const Restore& op) {
    // Legal for captured pools alone: elsewhere the addresses may serve others by now.
    const auto found = checkpoints_.find(op.pool);
    if (found == checkpoints_.end() || !captured_pools_[op.pool] || in_capture_) return skip();
    Result<CheckpointDelta> delta =
        allocator_->restore_pool(pool_id(op.pool), *found->second.checkpoint);
    if (!delta.ok()) {
      // Blocks that live in the picture and now wait for streams stand in the way, as does memory
      // that was freed before the pool was captured.
      return;
    }
    std::map<std::uint64_t, std::uint32_t> ids;
    for (const auto& [id, block] : reference_.live()) ids[block.addr] = id;
    for (DeviceAddr addr : delta->freed) {
      shared_.erase(ids.at(addr.value));
      reference_.on_free(ids.at(addr.value));
    }
    for (const Block& block : delta->allocated) {
      bool known = false;
      for (const auto& [id, old] : found->second.live) {
        if (old.addr != block.addr.value) continue;
        known = true;
        fail(reference_.on_alloc(id, old));
      }
      if (!known) fail("restored a block that was not in the picture");
    }
  }

  void perform(const Step&) { allocator_->mark_step(); }
  void perform(const ResetPeaks&) {
    allocator_->reset_peak_stats();
    reference_.reset_peaks();
  }

  // Segments tile, their sum is reserved, their live blocks are the reference's.
  void perform(const model_test::Snapshot&) {
    const levee::Snapshot snapshot = allocator_->snapshot();
    std::uint64_t sum = 0;
    std::size_t live = 0;
    for (const SnapshotSegment& segment : snapshot.segments) {
      sum += segment.bytes.value;
      std::uint64_t at = segment.addr.value;
      for (const SnapshotBlock& block : segment.blocks) {
        if (block.addr.value != at) return fail("a snapshot's segment has a gap");
        at += block.bytes.value;
        if (block.state == BlockState::kLive) ++live;
      }
      if (at != segment.addr.value + segment.bytes.value) return fail("a segment does not tile");
    }
    if (sum != reserved()) fail("a snapshot's bytes are not what is reserved");
    if (live != reference_.count()) fail("a snapshot shows other live blocks");
  }

  std::uint64_t reserved() const {
    return static_cast<std::uint64_t>(allocator_->stats().reserved_bytes[0].current);
  }

  std::uint64_t used_pages() const { return reference_.used_units().size(); }

  static bool is_due(std::uint32_t every, std::size_t at) { return every != 0 && at % every == 0; }

  void check_state() {
    if (model_.hazard_count() != 0) return fail("the judge: " + model_.report());
    const std::uint64_t used = model_.memory_use(DeviceId{0}).used.value;
    result_.peak_reserved = std::max(result_.peak_reserved, used);
    result_.most_events = std::max(result_.most_events,
                                   calls(CallKind::kCreateEvent) - calls(CallKind::kDestroyEvent));
    // From the operation after the one that met it.
    if (is_single_fault_ && calls(options_.faults[0].kind) >= options_.faults[0].first) {
      is_faulty_ = false;
    }
    if (is_due(options_.validate_every, result_.at)) allocator_->validate();
    if (is_due(options_.compare_every, result_.at)) compare_counters(used);
  }

  void compare_counters(std::uint64_t used) {
    const Stats stats = allocator_->stats();
    const auto expect = [&](const char* what, std::int64_t have, std::uint64_t want) {
      if (have != static_cast<std::int64_t>(want)) {
        fail(std::string(what) + " is " + std::to_string(have) + ", not " + std::to_string(want));
      }
    };
    expect("allocated", stats.allocated_bytes[0].current, reference_.allocated());
    // Those of blocks that wait are among them; how many wait is the streams' affair.
    const std::int64_t waiting = stats.active_bytes[0].current - stats.allocated_bytes[0].current;
    const std::int64_t waiting_requested =
        stats.requested_bytes[0].current - static_cast<std::int64_t>(reference_.requested());
    if (waiting_requested < 0 || waiting_requested > waiting ||
        (waiting_requested == 0) != (waiting == 0)) {
      fail("requested exceeds that of live blocks by " + std::to_string(waiting_requested) +
           " with " + std::to_string(waiting) + " waiting");
    }
    expect("peak allocated", stats.allocated_bytes[0].peak, reference_.peak_allocated());
    expect("blocks", stats.allocation[0].current, reference_.count());
    expect("reserved", stats.reserved_bytes[0].current, used);
    if (stats.active_bytes[0].current < stats.allocated_bytes[0].current ||
        stats.reserved_bytes[0].current < stats.active_bytes[0].current) {
      fail("reserved < active, or active < allocated");
    }
  }

  void finish() {
    crew_.run(thread_, [&] {
      if (in_capture_) end_capture();
    });
    perform(ClearFaults{});
    for (const auto& [pool, count] : std::map<std::uint32_t, int>(regions_)) {
      if (count > 0) perform(PoolEnd{pool});
    }
    while (reference_.count() > 0 && problem_.empty())
      perform(Free{reference_.live().begin()->first});
    for (const auto& [pool, count] : std::map<std::uint32_t, int>(uses_)) {
      for (int i = 0; i < count; ++i) perform(PoolRelease{pool});
    }
    if (!problem_.empty()) return;
    check_state();
    compare_counters(model_.memory_use(DeviceId{0}).used.value);
    const Result<Bytes> trimmed = allocator_->trim(0_B);
    if (!trimmed.ok()) return fail("the last trim fails");
    if (reserved() != 0) fail("memory stays after everything was freed and trimmed");
    allocator_->validate();
    allocator_.reset();
    model_.shut_down();
    if (model_.hazard_count() != 0) fail("the judge, at the end: " + model_.report());
  }

  std::set<std::uint32_t> ids_of(std::uint32_t pool) const {
    std::set<std::uint32_t> ids;
    for (const auto& [id, block] : reference_.live()) {
      if (block.pool == pool) ids.insert(id);
    }
    return ids;
  }

  struct Graph {
    device::sim::ExecId exec;
    std::set<std::uint32_t> live;  // blocks of the pool when the capture ended
  };
  struct Picture {
    std::shared_ptr<PoolCheckpoint> checkpoint;
    std::map<std::uint32_t, ReferenceModel::Live> live;
  };

  const RunOptions& options_;
  device::sim::GpuModel model_;
  device::sim::SimDevice device_;
  std::unique_ptr<Allocator> allocator_;
  ReferenceModel reference_;
  std::vector<StreamId> streams_;
  std::map<std::uint32_t, int> regions_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> region_order_;  // pool, stream; oldest first
  std::map<std::uint32_t, int> uses_;
  std::map<std::uint32_t, bool> captured_pools_;
  std::map<std::uint32_t, std::vector<Graph>> graphs_;
  std::map<std::uint32_t, Picture> checkpoints_;
  bool in_capture_ = false;
  bool captured_ = false;
  std::uint32_t capture_stream_ = 0;
  std::uint32_t capture_pool_ = 0;
  bool is_faulty_ = false;   // a plan of faults is in force
  bool was_faulty_ = false;  // ... or was
  bool is_single_fault_ = false;
  bool has_segments_ = false;
  std::map<std::uint32_t, std::uint64_t> pool_limits_;
  std::map<std::uint32_t, std::set<std::uint64_t>> pool_units_;
  std::map<std::uint32_t, std::set<std::uint32_t>> pool_streams_;  // that used its blocks
  std::map<std::uint32_t, std::set<std::uint32_t>> launch_streams_;
  std::set<std::uint32_t> shared_;  // live blocks that other streams use
  std::vector<std::uint32_t> free_on_oom_;
  std::uint64_t limit_ = 0;
  std::uint64_t others_ = 0;
  std::string problem_;
  RunResult result_;
  Crew crew_;
  std::uint32_t thread_ = 0;  // whose operations follow
  std::uint32_t turn_ = 0;    // whose turn it is
};

}  // namespace

RunResult run(const Program& program, const RunOptions& options) {
  Run one(options);
  return one.go(program);
}

RunResult run_isolated(const Program& program, const RunOptions& options) {
  int ends[2];
  if (pipe(ends) != 0) {
    RunResult none;
    none.problem = "no pipe";
    return none;
  }
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    dup2(ends[1], 2);  // the text of a failed check
    const RunResult result = run(program, options);
    if (!result.ok()) {
      const std::string text = "op " + std::to_string(result.at) + ": " + result.problem;
      [[maybe_unused]] const ssize_t written = write(ends[1], text.data(), text.size());
    }
    _exit(result.ok() ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> buffer{};
  for (ssize_t n = 0; (n = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  RunResult result;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return result;
  result.problem = text.empty() ? "the process ended without a word" : text;
  return result;
}

namespace {
// What a problem is about: its first words, without those that hold numbers.
std::string gist(const std::string& problem) {
  std::istringstream words(problem);
  std::string text;
  std::string word;
  while (text.size() < 60 && static_cast<bool>(words >> word)) {
    if (std::none_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; })) {
      text += word + " ";
    }
  }
  return text;
}
}  // namespace

Program shrink(const Program& program, const RunOptions& options) {
  Program best = program;
  const std::string wanted = gist(run_isolated(program, options).problem);
  for (std::size_t size = std::max<std::size_t>(1, best.size() / 2); size >= 1; size /= 2) {
    for (std::size_t at = 0; at < best.size();) {
      Program shorter(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(at));
      const std::size_t end = std::min(best.size(), at + size);
      shorter.insert(shorter.end(), best.begin() + static_cast<std::ptrdiff_t>(end), best.end());
      const RunResult result = run_isolated(shorter, options);
      if (!result.ok() && gist(result.problem) == wanted) {
        best = std::move(shorter);
      } else {
        at += size;
      }
    }
    if (size == 1) break;
  }
  return best;
}

std::string check(const Program& program, const RunOptions& options) {
  const RunResult result = run_isolated(program, options);
  if (result.ok()) return "";
  const Program shorter = shrink(program, options);
  const RunResult again = run_isolated(shorter, options);
  return result.problem + "\nShrunk to " + std::to_string(shorter.size()) +
         " operations, which say: " + again.problem + "\n" + to_cpp(shorter) + "\n";
}

}  // namespace levee::model_test
