#include "tests/model/runner.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "allocator/core/make_allocator.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"
#include "tests/model/reference_model.h"

namespace levee::model_test {
namespace {

using device::sim::CallKind;

constexpr std::array<CallKind, 12> kFaultCalls = {
    CallKind::kCreateHandle, CallKind::kMap,           CallKind::kSetAccess,
    CallKind::kUnmap,        CallKind::kReleaseHandle, CallKind::kReserveRange,
    CallKind::kFreeRange,    CallKind::kCreateEvent,   CallKind::kRecordEvent,
    CallKind::kWaitEvent,    CallKind::kQueryEvent,    CallKind::kSynchronizeEvent};

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
    streams_.push_back(StreamId{0});
  }

  RunResult go(const Program& program) {
    RunResult result;
    for (std::size_t i = 0; i < program.size() && problem_.empty(); ++i) {
      result.at = i;
      std::visit([&](const auto& op) { perform(op); }, program[i]);
      if (problem_.empty()) check_state();
    }
    if (problem_.empty()) finish();
    result.problem = problem_;
    result.served = served_;
    result.refused = refused_;
    return result;
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
  void fail(const std::string& problem) {
    if (problem_.empty()) problem_ = problem;
  }
  PoolId pool_id(std::uint32_t pool) const { return PoolId{0, pool}; }

  void perform(const Alloc& op) {
    if (op.bytes == 0 || reference_.is_live(op.id)) return;
    OomReport report;
    const Result<Block> block = allocator_->allocate(Bytes{op.bytes}, stream(op.stream), &report);
    if (!block.ok()) {
      ++refused_;
      if (block.code() == StatusCode::kOutOfMemory) {
        check_refusal(op.bytes, report);
      } else if (!has_faults_) {
        fail("allocation failed with " + std::string(name_of(block.code())));
      }
      return;
    }
    ++served_;
    fail(reference_.on_alloc(
        op.id, {block->addr.value, block->bytes.value, block->requested_bytes.value, op.stream,
                static_cast<std::uint32_t>(block->pool.second)}));
    if (block->requested_bytes.value != op.bytes) fail("another size than asked for");
  }

  // P1: live pages and those the request needs do not fit.
  void check_refusal(std::uint64_t bytes, const OomReport& report) {
    if (report.requested_bytes.value != bytes) fail("the report is of another request");
    if (!options_.check_promise || has_faults_ || captured_ || in_capture_) return;
    std::uint64_t room = options_.capacity - std::min(options_.capacity, others_);
    if (limit_ != 0) room = std::min(room, limit_);
    const std::uint64_t page = 2ULL << 20;
    const std::uint64_t rounded = (bytes + 511) / 512 * 512;
    const std::uint64_t need = (rounded + page - 1) / page;
    if ((reference_.used_pages() + need) * page <= room) {
      fail("refused " + std::to_string(bytes) + " bytes although " +
           std::to_string(reference_.used_pages()) + " pages are in use and " +
           std::to_string(room / page) + " may be held");
    }
  }

  void perform(const Free& op) {
    if (!reference_.is_live(op.id)) return;
    const ReferenceModel::Live live = reference_.at(op.id);
    const Result<Block> freed = allocator_->free(DeviceAddr{live.addr});
    if (!freed.ok()) return fail("a live block cannot be freed");
    if (freed->bytes.value != live.bytes || freed->requested_bytes.value != live.requested) {
      return fail("the freed block is described wrongly");
    }
    reference_.on_free(op.id);
    if (allocator_->free(DeviceAddr{live.addr}).code() != StatusCode::kNotOwned) {
      fail("a second free is accepted");
    }
  }

  void perform(const RecordUse& op) {
    if (!reference_.is_live(op.id)) return;
    if (is_capturing(op.stream) || is_capturing(reference_.at(op.id).stream)) return;
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
    if (!status.ok() && !has_faults_) fail("a kernel cannot be enqueued");
  }

  void perform(const Wait& op) {
    if (op.stream == op.other || is_capturing(op.stream) || is_capturing(op.other)) return;
    const Result<EventId> event = model_.create_event(DeviceId{0});
    if (!event.ok()) return;
    if (model_.record_event(*event, DeviceId{0}, stream(op.other)).ok()) {
      const Status waited = model_.wait_event(DeviceId{0}, stream(op.stream), *event);
      static_cast<void>(waited);  // an injected fault: the order is then not there, nothing else
    }
    const Status destroyed = model_.destroy_event(*event);
    static_cast<void>(destroyed);
  }

  void perform(const Sync& op) {
    if (in_capture_) return;
    const Status status = model_.synchronize_stream(DeviceId{0}, stream(op.stream));
    static_cast<void>(status);
  }
  void perform(const Advance& op) {
    model_.advance(Nanos{static_cast<std::int64_t>(op.us) * 1000});
  }

  void perform(const Trim& op) {
    const std::uint64_t before = reserved();
    const Result<Bytes> freed = allocator_->trim(Bytes{op.keep});
    if (!freed.ok()) {
      if (!has_faults_ && !in_capture_) fail("trim fails");
      return;
    }
    if (before - reserved() != freed->value) fail("trim says another number than it freed");
    if (!has_faults_ && !captured_ && options_.check_promise && before > op.keep) {
      const std::uint64_t page = 2ULL << 20;
      const std::uint64_t floor = std::max(reference_.used_pages() * page, op.keep);
      if (reserved() > floor + page) fail("trim left more than live pages and what was to be kept");
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
    has_faults_ = true;
    device::sim::Fault fault = device::sim::Fault::fail_nth(
        kFaultCalls[op.call % kFaultCalls.size()], std::max(1U, op.nth));
    fault.times = std::max(1U, op.times);
    model_.set_faults({fault});
  }
  void perform(const ClearFaults&) { model_.set_faults({}); }

  void perform(const PoolBegin& op) {
    if (in_capture_ || regions_[op.pool] != 0) return;
    const StreamId routed = stream(op.stream);
    const Status status = allocator_->begin_allocate_to_pool(
        pool_id(op.pool), [routed](StreamId s) { return s == routed; });
    if (!status.ok()) return fail("a pool region cannot begin");
    ++regions_[op.pool];
    ++uses_[op.pool];
    if (allocator_->pool_use_count(pool_id(op.pool)) != uses_[op.pool]) fail("use count");
  }
  void perform(const PoolEnd& op) {
    if (capture_pool_ == op.pool || regions_[op.pool] == 0) return;
    if (!allocator_->end_allocate_to_pool(pool_id(op.pool)).ok())
      return fail("a region cannot end");
    --regions_[op.pool];
  }
  void perform(const PoolRelease& op) {
    if (in_capture_ || regions_[op.pool] != 0 || uses_[op.pool] == 0) return;
    if (!allocator_->release_pool(pool_id(op.pool)).ok()) return fail("a pool cannot be released");
    if (--uses_[op.pool] == 0) {
      // Its graphs are gone, and what they used is only ordered by the streams they ran on.
      for (const Graph& graph : graphs_[op.pool]) {
        const Status destroyed = model_.destroy_exec(graph.exec);
        static_cast<void>(destroyed);
      }
      graphs_[op.pool].clear();
      checkpoints_.erase(op.pool);
      captured_pools_[op.pool] = false;
      captured_ = std::any_of(captured_pools_.begin(), captured_pools_.end(),
                              [](const auto& entry) { return entry.second; });
    }
  }

  bool is_capturing(std::uint32_t index) const { return in_capture_ && capture_stream_ == index; }

  void perform(const CaptureBegin& op) {
    if (in_capture_ || op.stream == 0 || regions_[op.pool] != 0) return;
    const StreamId captured = stream(op.stream);
    const Status begun = allocator_->begin_allocate_to_pool(
        pool_id(op.pool), [captured](StreamId s) { return s == captured; });
    if (!begun.ok()) return fail("a capture's region cannot begin");
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
    if (!in_capture_ || capture_pool_ != op.pool) return;
    end_capture();
  }
  void end_capture() {
    const std::uint32_t pool = capture_pool_;
    const Result<device::sim::GraphId> graph =
        model_.end_capture(DeviceId{0}, stream(capture_stream_));
    in_capture_ = false;
    capture_pool_ = 0;
    if (!graph.ok() && !has_faults_) fail("the capture was broken");
    if (graph.ok()) {
      const Result<device::sim::ExecId> exec = model_.instantiate(*graph);
      if (exec.ok()) graphs_[pool].push_back(Graph{*exec, ids_of(pool)});
      const Status destroyed = model_.destroy_graph(*graph);
      static_cast<void>(destroyed);
    }
    perform(PoolEnd{pool});
  }
  void perform(const Replay& op) {
    if (in_capture_ || graphs_[op.pool].empty()) return;
    // A graph's owner must not hold anything in the pool that was handed out after the capture.
    const Graph& graph = graphs_[op.pool].back();
    const std::set<std::uint32_t> now = ids_of(op.pool);
    if (!std::includes(graph.live.begin(), graph.live.end(), now.begin(), now.end())) return;
    const Status launched = model_.launch_graph(DeviceId{0}, stream(op.stream), graph.exec);
    if (!launched.ok() && !has_faults_) fail("a graph cannot be launched");
  }

  void perform(const Checkpoint& op) {
    if (uses_[op.pool] == 0) return;
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
    if (found == checkpoints_.end() || !captured_pools_[op.pool] || in_capture_) return;
    Result<CheckpointDelta> delta =
        allocator_->restore_pool(pool_id(op.pool), *found->second.checkpoint);
    if (!delta.ok()) {
      // Blocks that live in the picture and now wait for streams stand in the way, as does memory
      // that was freed before the pool was captured.
      return;
    }
    std::map<std::uint64_t, std::uint32_t> ids;
    for (const auto& [id, block] : reference_.live()) ids[block.addr] = id;
    for (DeviceAddr addr : delta->freed) reference_.on_free(ids.at(addr.value));
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

  void check_state() {
    if (options_.validate_each) allocator_->validate();
    const Stats stats = allocator_->stats();
    const auto expect = [&](const char* what, std::int64_t have, std::uint64_t want) {
      if (have != static_cast<std::int64_t>(want)) {
        fail(std::string(what) + " is " + std::to_string(have) + ", not " + std::to_string(want));
      }
    };
    expect("allocated", stats.allocated_bytes[0].current, reference_.allocated());
    expect("requested", stats.requested_bytes[0].current, reference_.requested());
    expect("peak allocated", stats.allocated_bytes[0].peak, reference_.peak_allocated());
    expect("blocks", stats.allocation[0].current, reference_.count());
    expect("reserved", stats.reserved_bytes[0].current, model_.memory_use(DeviceId{0}).used.value);
    if (stats.active_bytes[0].current < stats.allocated_bytes[0].current ||
        stats.reserved_bytes[0].current < stats.active_bytes[0].current) {
      fail("reserved < active, or active < allocated");
    }
    if (model_.hazard_count() != 0) fail("the judge: " + model_.report());
  }

  void finish() {
    if (in_capture_) end_capture();
    model_.set_faults({});
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
  std::map<std::uint32_t, int> uses_;
  std::map<std::uint32_t, bool> captured_pools_;
  std::map<std::uint32_t, std::vector<Graph>> graphs_;
  std::map<std::uint32_t, Picture> checkpoints_;
  bool in_capture_ = false;
  bool captured_ = false;
  std::uint32_t capture_stream_ = 0;
  std::uint32_t capture_pool_ = 0;
  bool has_faults_ = false;
  std::uint64_t limit_ = 0;
  std::uint64_t others_ = 0;
  std::uint64_t served_ = 0;
  std::uint64_t refused_ = 0;
  std::string problem_;
};

}  // namespace

RunResult run(const Program& program, const RunOptions& options) {
  Run one(options);
  return one.go(program);
}

RunResult run_isolated(const Program& program, const RunOptions& options) {
  int ends[2];
  if (pipe(ends) != 0) return RunResult{"no pipe", 0, 0, 0};
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

Program shrink(const Program& program, const RunOptions& options) {
  Program best = program;
  for (std::size_t size = std::max<std::size_t>(1, best.size() / 2); size >= 1; size /= 2) {
    for (std::size_t at = 0; at < best.size();) {
      Program shorter(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(at));
      const std::size_t end = std::min(best.size(), at + size);
      shorter.insert(shorter.end(), best.begin() + static_cast<std::ptrdiff_t>(end), best.end());
      if (!run_isolated(shorter, options).ok()) {
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
