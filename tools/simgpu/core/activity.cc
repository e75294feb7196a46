#include "tools/simgpu/core/activity.h"

#include <array>
#include <unordered_map>
#include <utility>

#include "allocator/base/mutex.h"
#include "tools/simgpu/core/process.h"

namespace levee::simgpu::activity {

std::atomic<std::uint32_t> flags{0};

namespace {

using device::sim::ActivityRecord;
using device::sim::WorkKind;

constexpr std::uint32_t kExternalKinds = 16;

struct Buffer {
  base::Mutex mutex;
  std::vector<Record> records LEVEE_GUARDED_BY(mutex);
  std::unordered_map<std::uint32_t, Details> details LEVEE_GUARDED_BY(mutex);
};
Buffer& buffer() {
  static auto* value = new Buffer;  // never destroyed: work may complete while the process ends
  return *value;
}

std::atomic<std::uint32_t> last_correlation{0};
std::atomic<void (*)(const CallSite&)> on_call{nullptr};
std::atomic<void (*)()> on_many_pending{nullptr};

thread_local std::array<std::vector<std::uint64_t>, kExternalKinds> external_ids;

std::uint32_t wanted_for(WorkKind kind) {
  switch (kind) {
    case WorkKind::kKernel:
      return kKernels;
    case WorkKind::kMemcpyHostToDevice:
    case WorkKind::kMemcpyDeviceToHost:
    case WorkKind::kMemcpyDeviceToDevice:
    case WorkKind::kMemcpyPeer:
    case WorkKind::kMemcpyHostToHost:
      return kCopies;
    case WorkKind::kMemset:
      return kFills;
    default:
      return 0;
  }
}

void unpack_dimensions(const Kernel& kernel, Record* out) {
  const std::uint64_t grid = kernel.last_grid.load(std::memory_order_relaxed);
  const std::uint64_t block = kernel.last_block.load(std::memory_order_relaxed);
  if (grid == 0 || block == 0) return;
  out->grid[0] = static_cast<std::uint32_t>(grid);
  out->grid[1] = static_cast<std::uint32_t>(grid >> 32 & 0xFFFF);
  out->grid[2] = static_cast<std::uint32_t>(grid >> 48);
  out->block[0] = static_cast<std::uint32_t>(block & 0xFFFF);
  out->block[1] = static_cast<std::uint32_t>(block >> 16 & 0xFFFF);
  out->block[2] = static_cast<std::uint32_t>(block >> 32 & 0xFFFF);
}

void on_completed_work(const ActivityRecord& done) {
  if (!is_on(wanted_for(done.kind))) return;
  Process* process = Process::running();
  if (process == nullptr) return;
  Record record;
  record.type = RecordType::kWork;
  record.start = done.start;
  record.end = done.end;
  record.correlation = static_cast<std::uint32_t>(done.correlation);
  record.work = done.kind;
  record.name = done.name;
  record.device = done.device.value;
  record.bytes = done.bytes.value;
  record.graph = done.graph;
  record.node = done.node;
  const auto stream = process->model().stream_info(done.device, done.stream);
  if (stream.ok()) record.stream_number = stream->number;
  if (done.kind == WorkKind::kKernel) {
    if (const Kernel* kernel = kernels().find_by_name(done.name))
      unpack_dimensions(*kernel, &record);
  }
  Buffer& to = buffer();
  base::MutexLock lock(to.mutex);
  const auto known = to.details.find(record.correlation);
  if (known != to.details.end() && done.graph == 0) {
    const Details& details = known->second;
    for (int i = 0; i < 3; ++i) {
      record.grid[i] = details.grid[i];
      record.block[i] = details.block[i];
    }
    record.dynamic_shared = details.dynamic_shared;
    record.from_kind = static_cast<std::uint8_t>(details.from);
    record.to_kind = static_cast<std::uint8_t>(details.to);
    record.from_device = details.from_device;
    record.to_device = details.to_device;
    record.is_async = details.is_async;
    record.value = details.value;
    to.details.erase(known);
  }
  to.records.push_back(record);
}

}  // namespace

void want(std::uint32_t record_kinds) {
  std::uint32_t old = flags.load();
  while (!flags.compare_exchange_weak(old, (old & ~kAnyRecord) | (record_kinds & kAnyRecord))) {
  }
  Process* process = Process::get();
  if (process == nullptr) return;
  const bool wants_work = (record_kinds & kAnyWork) != 0;
  const bool wanted_work = (old & kAnyWork) != 0;
  if (wants_work && !wanted_work) process->model().set_activity_hook(&on_completed_work);
  if (!wants_work && wanted_work) process->model().set_activity_hook({});
}

std::uint32_t next_correlation() {
  return last_correlation.fetch_add(1, std::memory_order_relaxed) + 1;
}

void note_details(std::uint32_t correlation, const Details& details) {
  Buffer& to = buffer();
  base::MutexLock lock(to.mutex);
  to.details[correlation] = details;
}

void add(const Record& record) {
  Buffer& to = buffer();
  base::MutexLock lock(to.mutex);
  to.records.push_back(record);
}

void take(std::vector<Record>* out) {
  if (Process* process = Process::running()) process->model().run_due();
  Buffer& from = buffer();
  base::MutexLock lock(from.mutex);
  if (out->empty()) {
    out->swap(from.records);
  } else {
    out->insert(out->end(), from.records.begin(), from.records.end());
    from.records.clear();
  }
}

std::size_t pending() {
  Buffer& to = buffer();
  base::MutexLock lock(to.mutex);
  return to.records.size();
}

void push_external(std::uint32_t kind, std::uint64_t id) {
  if (kind < kExternalKinds) external_ids[kind].push_back(id);
}

bool pop_external(std::uint32_t kind, std::uint64_t* id) {
  if (kind >= kExternalKinds || external_ids[kind].empty()) return false;
  if (id != nullptr) *id = external_ids[kind].back();
  external_ids[kind].pop_back();
  return true;
}

void add_external_ids(std::uint32_t correlation) {
  for (std::uint32_t kind = 0; kind < kExternalKinds; ++kind) {
    if (external_ids[kind].empty()) continue;
    Record record;
    record.type = RecordType::kExternalId;
    record.correlation = correlation;
    record.external_kind = kind;
    record.external_id = external_ids[kind].back();
    add(record);
  }
}

void SyncScope::begin_slow() {
  start_ = process_.model().now();
}

void SyncScope::end_slow() {
  const ThreadState& thread = this_thread();
  Record record;
  record.type = RecordType::kSynchronisation;
  record.sync = type_;
  record.start = start_;
  record.end = process_.model().now();
  record.correlation = static_cast<std::uint32_t>(thread.correlation);
  record.device = thread.device;
  if (type_ == SyncType::kStream || type_ == SyncType::kStreamWaitEvent) {
    const auto stream = process_.model().stream_info(current_device(), to_stream(stream_));
    if (stream.ok()) record.stream_number = stream->number;
  }
  add(record);
}

void set_listener(Listener listener_in) {
  on_call.store(listener_in.on_call);
  on_many_pending.store(listener_in.on_many_pending);
}

void tell_call(const CallSite& site) {
  if (auto* told = on_call.load(std::memory_order_acquire)) told(site);
}

void tell_if_many_pending() {
  constexpr std::size_t kMany = 200'000;  // chosen: about 40 MB of records
  if (pending() < kMany) return;
  if (auto* told = on_many_pending.load(std::memory_order_acquire)) told();
}

}  // namespace levee::simgpu::activity
