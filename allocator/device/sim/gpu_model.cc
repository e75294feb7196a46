#include "allocator/device/sim/gpu_model.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "allocator/base/check.h"
#include "allocator/device/sim/gpu_model_state.h"

namespace levee::device::sim {

// ---- What belongs to a thread

std::uint64_t this_thread_number() {
  static std::atomic<std::uint64_t> next{1};
  thread_local const std::uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

int& pool_locks_of_this_thread() {
  thread_local int locks = 0;
  return locks;
}

CaptureMode& capture_mode_of_this_thread() {
  thread_local CaptureMode mode = CaptureMode::kGlobal;
  return mode;
}

// ---- The frame of a call

namespace {

// Callbacks run in these calls alone. In others the caller may hold a lock that the callback needs:
// with CUDA, host functions run on a thread of the driver.
bool runs_callbacks(CallKind kind) {
  switch (kind) {
    case CallKind::kQueryEvent:
    case CallKind::kQueryStream:
    case CallKind::kSynchronizeEvent:
    case CallKind::kSynchronizeStream:
    case CallKind::kSynchronizeDevice:
    case CallKind::kMemcpy:
    case CallKind::kMemset:
    case CallKind::kFree:
      return true;
    default:
      return false;
  }
}

}  // namespace

Call::Call(GpuModel::State& state, CallKind kind, DeviceId device,
           CallArguments arguments) LEVEE_NO_THREAD_SAFETY_ANALYSIS : state_(state),
                                                                      kind_(kind),
                                                                      device_(device),
                                                                      arguments_(arguments) {
  state_.mutex.lock();
  native_ = enter();
}

Call::~Call() LEVEE_NO_THREAD_SAFETY_ANALYSIS {
  if (state_.is_judging()) state_.hazards.set_answer(log_entry_, native_);
  state_.mutex.unlock();
  if (runs_callbacks(kind_) &&
      (state_.activity.next_due() <= state_.clock.now() || state_.activity.is_running())) {
    state_.activity.run(state_.mutex, state_.clock);
  }
}

Native Call::enter() {
  GpuModel::State& s = state_;
  ++s.sequence;
  const bool is_judging = s.is_judging();
  if (is_judging) {
    log_entry_ =
        s.hazards.log_call(CallEntry{s.sequence, kind_, device_, arguments_.addr, arguments_.bytes,
                                     arguments_.object, s.clock.now(), Native::kSuccess, ""});
  }
  if (s.is_shut_down) {
    if (is_judging) {
      base::FixedBuffer<256> text;
      text << name_of(kind_) << " on " << device_
           << " after the model was shut down (as by a destructor that runs too late)";
      s.file(s.new_hazard(JudgeRule::kNoCallAfterEnd), text);
    }
    return Native::kUnloading;
  }
  if (!s.has_device(device_)) return Native::kInvalidDevice;
  DeviceState& device = s.on(device_);
  ++device.calls[static_cast<std::size_t>(kind_)];
  s.clock.add(s.config.latency.call_cost(kind_, arguments_.bytes));
  if (device.lost != Native::kSuccess) return device.lost;
  if (!device.has_context) {
    device.has_context = true;
    DeviceMemory::Account& account = s.memory.account(device_);
    account.used += device.config.context_bytes;
    account.peak_used = std::max(account.peak_used, account.used);
  }
  if (is_judging && is_blocking(kind_) && pool_locks_of_this_thread() > 0) {
    base::FixedBuffer<256> text;
    text << name_of(kind_) << " on " << device_
         << " may wait for the device, and this thread holds " << pool_locks_of_this_thread()
         << " pool lock(s); release them first";
    s.file(s.new_hazard(JudgeRule::kNoBlockingUnderLock), text);
  }
  if (!s.captures.empty() && is_unsafe_in_capture(kind_)) {
    if (const Native native = s.check_capture(kind_); native != Native::kSuccess) return native;
  }
  const FaultCounter::Verdict verdict = s.faults.consult(kind_, device_);
  delay_ = verdict.delay;
  return verdict.status;
}

Status Call::fail(const Refusal& refusal) {
  if (refusal.rule != JudgeRule::kNone && state_.is_judging()) {
    Hazard hazard = state_.new_hazard(refusal.rule);
    hazard.device = device_;
    hazard.addr = arguments_.addr;
    hazard.bytes = arguments_.bytes;
    hazard.call = kind_;
    base::FixedBuffer<512> text;
    text << name_of(kind_) << "(";
    if (!arguments_.addr.is_null()) text << arguments_.addr << ", ";
    text << arguments_.bytes;
    if (arguments_.object != 0) text << ", " << base::Hex{arguments_.object};
    text << ") on " << device_ << ": " << refusal.why;
    state_.file(std::move(hazard), text);
  }
  return fail(refusal.native);
}

Status Call::fail_foreign(JudgeRule rule) {
  if (state_.is_judging()) {
    Hazard hazard = state_.new_hazard(rule);
    hazard.device = device_;
    hazard.call = kind_;
    base::FixedBuffer<256> text;
    text << name_of(kind_) << " on " << device_ << ": " << base::Hex{arguments_.object}
         << " is no live " << (rule == JudgeRule::kStreamExists ? "stream" : "event");
    state_.file(std::move(hazard), text);
  }
  return fail(Native::kInvalidHandle);
}

// ---- Life and end

GpuModel::State::State(ModelConfig the_config)
    : config(std::move(the_config)),
      clock(config.clock),
      devices(config.devices.size()),
      memory(config.devices, config.address_space),
      hazards(config.judge),
      uses(
          order, config.sees_all_work,
          [this](std::uint64_t number) {
            Capture* capture = find_capture(number);
            return capture == nullptr ? nullptr : &capture->order;
          },
          [this](const Use& use) {
            Mapping* mapping = memory.find_mapping(DeviceAddr{use.via});
            if (mapping == nullptr) return;
            for (Mapping::PastUse& past : mapping->past_uses) {
              if (past.stream != use.stream) continue;
              past.tick = std::max(past.tick, use.tick);
              return;
            }
            mapping->past_uses.push_back(Mapping::PastUse{use.stream, use.tick});
          }) {
  LEVEE_CHECK(!config.devices.empty() && config.devices.size() <= 64, config.devices.size(),
              " devices");
  memory.set_gone_hook([this](Physical& physical) {
    for (Frame& frame : physical.frames) uses.forget(frame, 0, kFrameBytes);
    if (memory_gone) memory_gone(physical.serial);
  });
  for (std::size_t i = 0; i < devices.size(); ++i) {
    devices[i].config = config.devices[i];
    Stream& legacy = add_stream(DeviceId{static_cast<std::int32_t>(i)}, StreamOptions{});
    legacy.is_legacy = true;
    devices[i].legacy = &legacy;
    devices[i].blocking.clear();  // the legacy stream is what these are ordered with
  }
}

GpuModel::GpuModel(ModelConfig config) : state_(std::make_unique<State>(std::move(config))) {}

GpuModel::~GpuModel() {
  shut_down();
}

void GpuModel::shut_down() {
  const base::MutexLock lock(state_->mutex);
  if (state_->is_shut_down) return;
  if (state_->is_judging() && state_->config.report_leaks) state_->report_leaks();
  state_->is_shut_down = true;
}

// ---- Devices, clock, counters

int GpuModel::device_count() const {
  return static_cast<int>(state_->devices.size());
}

const DeviceConfig& GpuModel::device(DeviceId device) const {
  return state_->on(device).config;
}

Result<MemoryInfo> GpuModel::memory_info(DeviceId device) {
  Call call(*state_, CallKind::kMemoryInfo, device);
  if (!call.ok()) return call.status();
  const DeviceMemory::Account& account = state_->memory.account(device);
  return MemoryInfo{account.free(), account.total};
}

void GpuModel::set_used_by_others(DeviceId device, Bytes bytes) {
  const base::MutexLock lock(state_->mutex);
  state_->memory.account(device).used_by_others = bytes;
}

MemoryUse GpuModel::memory_use(DeviceId device) const {
  const base::MutexLock lock(state_->mutex);
  const DeviceMemory::Account& account = state_->memory.account(device);
  MemoryUse use;
  use.total = account.total;
  use.used = account.used;
  use.peak_used = account.peak_used;
  use.used_by_others = account.used_by_others;
  use.free = account.free();
  use.mapped = account.mapped;
  use.handles = account.handles;
  use.mappings = account.mappings;
  use.ranges = account.ranges;
  use.allocations = account.allocations;
  return use;
}

void GpuModel::lose_device(DeviceId device, Native error) {
  const base::MutexLock lock(state_->mutex);
  state_->on(device).lost = error;
}

const std::int64_t* GpuModel::clock_ahead() const {
  return state_->clock.ahead();
}
Nanos GpuModel::now() const {
  return state_->clock.now();
}

void GpuModel::advance(Nanos by) {
  {
    const base::MutexLock lock(state_->mutex);
    state_->clock.add(by);
  }
  run_due();
}

void GpuModel::set_paced(bool paced) {
  if (state_->config.clock == ClockMode::kHost) state_->clock.set_paced(paced);
}

void GpuModel::advance_past_all_work() {
  {
    const base::MutexLock lock(state_->mutex);
    for (const DeviceState& device : state_->devices) state_->clock.move_to(device.finite_tail);
  }
  run_due();
}

Status GpuModel::note_call(CallKind kind, DeviceId device, Bytes bytes) {
  const Call call(*state_, kind, device, CallArguments{{}, bytes, 0});
  return call.status();
}

void GpuModel::set_faults(FaultPlan plan) {
  const base::MutexLock lock(state_->mutex);
  state_->faults.install(std::move(plan));
}

std::uint64_t GpuModel::calls(CallKind kind) const {
  const base::MutexLock lock(state_->mutex);
  std::uint64_t sum = 0;
  for (const DeviceState& device : state_->devices)
    sum += device.calls[static_cast<std::size_t>(kind)];
  return sum;
}

std::uint64_t GpuModel::calls(CallKind kind, DeviceId device) const {
  const base::MutexLock lock(state_->mutex);
  return state_->on(device).calls[static_cast<std::size_t>(kind)];
}

std::uint64_t GpuModel::total_calls() const {
  const base::MutexLock lock(state_->mutex);
  std::uint64_t sum = 0;
  for (const DeviceState& device : state_->devices) {
    for (const std::uint64_t count : device.calls) sum += count;
  }
  return sum;
}

void GpuModel::reset_call_counts() {
  const base::MutexLock lock(state_->mutex);
  for (DeviceState& device : state_->devices) device.calls.fill(0);
}

// ---- Completed work

void GpuModel::set_activity_hook(std::function<void(const ActivityRecord&)> hook) {
  const base::MutexLock lock(state_->mutex);
  state_->activity.set_hook(std::move(hook));
}

void GpuModel::run_due() {
  if (state_->activity.next_due() <= state_->clock.now() || state_->activity.is_running()) {
    state_->activity.run(state_->mutex, state_->clock);
  }
}

Nanos GpuModel::next_due() const {
  return state_->activity.next_due();
}

}  // namespace levee::device::sim
