#include "allocator/c_api/process_runtime.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "allocator/analysis/oom_text.h"

namespace levee::c_api {
namespace {

/// Open phases of the running thread: what a pop has to name.
std::vector<ContextId>& open_phases() {
  static thread_local std::vector<ContextId> phases;
  return phases;
}

void limit_to(Allocator& allocator, const device::Device& device, double fraction) {
  const auto total = static_cast<double>(device.capabilities().total_memory.value);
  // A limit of 0 bytes means none.
  const auto bytes = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(total * fraction));
  allocator.set_limit(fraction < 1 ? Bytes{bytes} : Bytes{});
}

}  // namespace

ProcessRuntime::ProcessRuntime(const Config& config, Parts parts)
    : config_(config), parts_(std::move(parts)) {}

// ---- Devices
// --------------------------------------------------------------------------------------

Allocator* ProcessRuntime::existing_allocator(DeviceId device) const {
  if (device.value < 0 || device.value >= kMaxDevices) return nullptr;
  return allocators_[static_cast<std::size_t>(device.value)].load(std::memory_order_acquire);
}

Result<Allocator*> ProcessRuntime::allocator(DeviceId device) {
  if (is_forked_child()) return StatusCode::kUnsupported;
  if (Allocator* existing = existing_allocator(device)) return existing;
  return make_allocator_slow(device);
}

bool ProcessRuntime::exists(DeviceId device) const {
  return device.value >= 0 && device.value < std::min(device_count(), kMaxDevices);
}

Result<Allocator*> ProcessRuntime::make_allocator_slow(DeviceId device) {
  if (!exists(device)) return StatusCode::kInvalidArgument;
  Recording* recording = this->recording();
  const base::MutexLock lock(mutex_);
  if (Allocator* existing = existing_allocator(device)) return existing;
  Result<std::unique_ptr<device::Device>> opened = parts_.open_device(device);
  if (!opened.ok()) return opened.status();
  const device::Capabilities& capabilities = (*opened)->capabilities();
  record::Recorder* recorder = recording == nullptr ? nullptr : &recording->recorder();
  if (recorder != nullptr) {
    recorder->describe_device(device, capabilities.name, capabilities.total_memory);
  }
  Result<std::unique_ptr<Allocator>> made = parts_.make_allocator(**opened, config_, recorder);
  if (!made.ok()) return made.status();
  (*made)->set_hooks(hooks_);
  if (const auto it = fractions_.find(device.value); it != fractions_.end()) {
    limit_to(**made, **opened, it->second);
  }
  const auto index = static_cast<std::size_t>(device.value);
  Allocator* allocator = (*made).release();
  devices_[index].store((*opened).release(), std::memory_order_release);
  allocators_[index].store(allocator, std::memory_order_release);
  allocators_end_.store(std::max(allocators_end_.load(), device.value + 1));
  return allocator;
}

Allocator* ProcessRuntime::owner_of(DeviceAddr addr) const {
  const int end = allocators_end_.load(std::memory_order_acquire);
  for (int i = 0; i < end; ++i) {
    Allocator* allocator = allocators_[static_cast<std::size_t>(i)].load(std::memory_order_acquire);
    if (allocator != nullptr && allocator->owns(addr)) return allocator;
  }
  return nullptr;
}

Status ProcessRuntime::set_memory_fraction(DeviceId device, double fraction) {
  if (is_forked_child()) return {StatusCode::kUnsupported, 0};
  if (!(fraction > 0 && fraction <= 1) || !exists(device)) {
    return {StatusCode::kInvalidArgument, 0};
  }
  const base::MutexLock lock(mutex_);
  fractions_[device.value] = fraction;  // of a device that has not come to life: for when it does
  if (Allocator* existing = existing_allocator(device)) {
    limit_to(*existing, *devices_[static_cast<std::size_t>(device.value)].load(), fraction);
  }
  return {};
}

Status ProcessRuntime::allow_peer(DeviceId owner, DeviceId peer) {
  if (const Result<Allocator*> found = allocator(owner); !found.ok()) return found.status();
  return parts_.allow_peer(*devices_[static_cast<std::size_t>(owner.value)].load(), peer);
}

void ProcessRuntime::set_hooks(AllocatorHooks hooks) {
  const base::MutexLock lock(mutex_);
  hooks_ = std::move(hooks);
}

std::string ProcessRuntime::explain(const OomReport& report, DeviceId device) const {
  return analysis::oom_text(report, device);
}

// ---- Recording
// ------------------------------------------------------------------------------------

Recording* ProcessRuntime::recording() {
  if (Recording* existing = existing_recording()) return existing;
  if (!config_.record || is_forked_child()) return nullptr;
  const base::MutexLock lock(mutex_);
  if (Recording* existing = existing_recording()) return existing;
  if (recording_failed_) return nullptr;
  Recording* opened = parts_.open_recording ? parts_.open_recording(config_).release() : nullptr;
  recording_failed_ = opened == nullptr;
  recording_.store(opened, std::memory_order_release);
  return opened;
}

bool ProcessRuntime::is_recording() const {
  if (is_forked_child()) return false;
  Recording* existing = existing_recording();
  return existing == nullptr ? config_.record : existing->recorder().enabled();
}

void ProcessRuntime::push_phase(std::string_view name) {
  ContextId id;
  if (Recording* open = recording(); open != nullptr && open->recorder().enabled()) {
    record::Recorder& recorder = open->recorder();
    id = recorder.intern(name, record::ContextKind::kPhase);
    recorder.record(EventKind::kPhasePush, {}, 0, 0, 0, id);
  }
  open_phases().push_back(id);
}

void ProcessRuntime::pop_phase() {
  std::vector<ContextId>& phases = open_phases();
  if (phases.empty()) return;
  const ContextId id = phases.back();
  phases.pop_back();
  Recording* open = existing_recording();
  // A phase that was pushed while nothing was recorded has no beginning to end.
  if (id.value == 0 || is_forked_child() || open == nullptr || !open->recorder().enabled()) return;
  open->recorder().record(EventKind::kPhasePop, {}, 0, 0, 0, id);
}

void ProcessRuntime::mark(std::uint64_t is_end) {
  if (is_forked_child()) return;
  const std::uint64_t step = steps_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (Recording* open = recording(); open != nullptr && open->recorder().enabled()) {
    open->recorder().record(EventKind::kStepMark, {}, step, is_end);
  }
  for (const auto& slot : allocators_) {
    if (Allocator* allocator = slot.load(std::memory_order_acquire)) allocator->mark_step();
  }
}

ContextId ProcessRuntime::intern_stack(std::string_view frames) {
  Recording* open = existing_recording();
  if (open == nullptr || is_forked_child() || !open->recorder().enabled()) return {};
  return open->recorder().intern(frames, record::ContextKind::kStack);
}

std::string ProcessRuntime::trace_path() const {
  const Recording* open = existing_recording();
  return open == nullptr || is_forked_child() ? std::string{} : open->path();
}

Status ProcessRuntime::flush() {
  Recording* open = existing_recording();
  if (is_forked_child()) return {StatusCode::kUnsupported, 0};
  return open == nullptr ? Status{} : open->flush();
}

Status ProcessRuntime::start_kernels(std::string* why) {
  Recording* open = recording();
  if (open == nullptr) {
    *why = "Kernels are not timed: recording is off.";
    return {StatusCode::kUnsupported, 0};
  }
  return open->start_kernels(why);
}

void ProcessRuntime::stop_kernels() {
  if (Recording* open = existing_recording(); open != nullptr && !is_forked_child()) {
    open->stop_kernels();
  }
}

// ---- Fork
// -----------------------------------------------------------------------------------------

void ProcessRuntime::after_fork_in_child() {
  // The recording belongs to the parent: its threads are not here, its file must be left alone.
  // The object stays, since threads of the parent may have been inside it.
  recording_.store(nullptr, std::memory_order_release);
  if (allocators_end_.load() != 0) is_forked_.store(true);
  mutex_.unlock();
}

}  // namespace levee::c_api
