// The C interface of libsimgpu.so, function by function. What each promises stands in simgpu_abi.h.
#include "tools/simgpu/simgpu_abi.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "allocator/base/check.h"
#include "allocator/base/clock.h"
#include "tools/simgpu/core/activity.h"
#include "tools/simgpu/core/block_reports.h"
#include "tools/simgpu/core/call.h"
#include "tools/simgpu/core/faults.h"
#include "tools/simgpu/core/host_functions.h"
#include "tools/simgpu/core/process.h"
#include "tools/simgpu/core/report.h"
#include "tools/simgpu/core/settings.h"
#include "tools/simgpu/core/work.h"

namespace simgpu = levee::simgpu;
using levee::Bytes;
using levee::DeviceAddr;
using levee::DeviceId;
using levee::Nanos;
using levee::StreamId;
using levee::device::UseKind;
using levee::device::sim::CallKind;
using levee::device::sim::GpuModel;
using levee::device::sim::Work;
using levee::device::sim::WorkKind;
using simgpu::Process;
using simgpu::to_addr;
using simgpu::to_stream;

namespace {

constexpr int kInvalidValue = 1;

// What NVIDIA's libraries call for each of their kernels, and what a profiler ties the kernel to.
// The number is CUPTI's.
simgpu::ApiFunction launch_api{"cudaLaunchKernel", simgpu::ApiDomain::kRuntime, 211};

int enqueue_kernel(simgpu_stream stream, const char* name, Nanos duration) {
  simgpu::Call call(launch_api);
  Process* process = Process::get();
  if (process == nullptr) return Process::why_not();
  process->activate(simgpu::this_thread().device);
  Work work;
  work.kind = WorkKind::kKernel;
  work.name = name != nullptr ? name : "kernel";
  work.duration = duration;
  work.correlation = simgpu::this_thread().correlation;
  return simgpu::native_code(process->model().enqueue(simgpu::current_device(), to_stream(stream),
                                                      CallKind::kLaunchKernel, work));
}

}  // namespace

extern "C" {

int simgpu_is_simulated(void) {
  return 1;
}
int simgpu_abi_version(void) {
  return SIMGPU_ABI_VERSION;
}

const char* simgpu_settings_problem(void) {
  static std::string problem;
  problem = simgpu::settings_problem();
  return problem.c_str();
}

int simgpu_device_count(void) {
  Process* process = Process::get();
  return process != nullptr ? process->device_count() : 0;
}

int simgpu_current_device(void) {
  return simgpu::this_thread().device;
}

int64_t simgpu_now_ns(void) {
  Process* process = Process::running();
  return process != nullptr ? process->model().now().value : levee::base::Clock::monotonic().value;
}

const int64_t* simgpu_clock_ahead(void) {
  Process* process = Process::running();
  return process != nullptr ? process->model().clock_ahead() : nullptr;
}

uint64_t simgpu_setting(const char* name, uint64_t otherwise) {
  // A name that is not in the list could not be set.
  LEVEE_CHECK(std::find(simgpu::kNamedSettings.begin(), simgpu::kNamedSettings.end(),
                        std::string_view(name)) != simgpu::kNamedSettings.end(),
              "setting ", name);
  const auto& named = simgpu::settings().named;
  const auto at = named.find(std::string_view(name));
  return at != named.end() ? at->second : otherwise;
}

int simgpu_launch(simgpu_stream stream, const char* name, double flops, double bytes) {
  Process* process = Process::get();
  if (process == nullptr) return Process::why_not();
  return enqueue_kernel(stream, name, process->latency().kernel_duration(flops, bytes));
}

int simgpu_launch_for(simgpu_stream stream, const char* name, int64_t duration_ns) {
  return enqueue_kernel(stream, name, Nanos{std::max<int64_t>(duration_ns, 0)});
}

int simgpu_launch_together(const simgpu_stream* streams, const int* devices, int count,
                           const char* name, double bytes) {
  return simgpu_launch_meeting(streams, devices, count, name, bytes, 0);
}

int simgpu_launch_meeting(const simgpu_stream* streams, const int* devices, int count,
                          const char* name, double bytes, int64_t others_ready_ns) {
  Process* process = Process::get();
  if (process == nullptr) return Process::why_not();
  simgpu::Call call(launch_api);
  if (count <= 0 || streams == nullptr || devices == nullptr) return kInvalidValue;
  std::vector<GpuModel::StreamOn> members;
  for (int i = 0; i < count; ++i) {
    if (devices[i] < 0 || devices[i] >= process->device_count()) return kInvalidValue;
    process->activate(devices[i]);
    members.push_back({DeviceId{devices[i]}, to_stream(streams[i])});
  }
  Work work;
  work.kind = WorkKind::kKernel;
  work.name = name != nullptr ? name : "collective";
  work.bytes = Bytes{static_cast<std::uint64_t>(std::max(bytes, 0.0))};
  work.duration =
      process->latency().copy_duration(work.bytes, levee::device::sim::CopyDirection::kPeer, false);
  work.meets_at = Nanos{std::max<int64_t>(others_ready_ns, 0)};
  work.correlation = simgpu::this_thread().correlation;
  return simgpu::native_code(
      process->model().enqueue_together(members, CallKind::kLaunchKernel, work));
}

int64_t simgpu_ready_ns(int device, simgpu_stream stream) {
  Process* process = Process::get();
  if (process == nullptr) return levee::base::Clock::monotonic().value;
  const auto ready = process->model().ready_at(DeviceId{device}, to_stream(stream));
  return ready.ok() ? ready->value : process->model().now().value;
}

int simgpu_is_capturing(simgpu_stream stream) {
  Process* process = Process::get();
  if (process == nullptr) return 0;
  const auto info = process->model().capture_details(simgpu::current_device(), to_stream(stream));
  return info.ok() && info->status != levee::device::CaptureStatus::kNone ? 1 : 0;
}

int simgpu_enqueue_host(simgpu_stream stream, void (*function)(void*), void* argument) {
  Process* process = Process::get();
  if (process == nullptr) return Process::why_not();
  if (function == nullptr) return kInvalidValue;
  Work work;
  work.kind = WorkKind::kEmpty;
  work.name = "bytes of a library call";
  work.effect = [function, argument] { function(argument); };
  return simgpu::native_code(process->model().enqueue(simgpu::current_device(), to_stream(stream),
                                                      CallKind::kLaunchHostFunction, work));
}

int simgpu_synchronize(simgpu_stream stream) {
  Process* process = Process::get();
  if (process == nullptr) return Process::why_not();
  const int code = simgpu::native_code(
      process->model().synchronize_stream(simgpu::current_device(), to_stream(stream)));
  process->host_functions().drain();
  return code;
}

int simgpu_copy(void* to, const void* from, size_t bytes, simgpu_stream stream) {
  Process* process = Process::get();
  if (process == nullptr) return Process::why_not();
  simgpu::Copy copy;
  copy.to = to;
  copy.from = from;
  copy.width = bytes;
  copy.stream = stream;
  return simgpu::copy(*process, copy);
}

int simgpu_fill(void* to, int value, size_t bytes, simgpu_stream stream) {
  Process* process = Process::get();
  if (process == nullptr) return Process::why_not();
  simgpu::Fill fill;
  fill.to = to;
  fill.pattern = static_cast<std::uint8_t>(value);
  fill.width = bytes;
  fill.stream = stream;
  return simgpu::fill(*process, fill);
}

int simgpu_read(void* host_to, const void* device_from, size_t bytes) {
  Process* process = Process::get();
  if (process == nullptr) return Process::why_not();
  return simgpu::move_bytes(*process, host_to, device_from, bytes) ? 0 : kInvalidValue;
}

int simgpu_write(void* device_to, const void* host_from, size_t bytes) {
  return simgpu_read(device_to, host_from, bytes);
}

void simgpu_forget(const void* device_address, size_t bytes) {
  if (Process* process = Process::get()) simgpu::forget_bytes(*process, device_address, bytes);
}

int simgpu_device_of(const void* address) {
  Process* process = Process::get();
  if (process == nullptr) return -1;
  const auto info = process->model().find(to_addr(address));
  return info.kind == levee::device::sim::MemoryKind::kNone ? -1 : info.device.value;
}

void simgpu_note_use(uint64_t address, uint64_t bytes, simgpu_stream stream, int kind) {
  Process* process = Process::get();
  if (process == nullptr || kind < 0 || kind > static_cast<int>(UseKind::kRestore)) return;
  const auto use = static_cast<UseKind>(kind);
  // The stream of a block may belong to another device than the thread's; numbers 0 to 2 belong to
  // the memory's own, unless they say whose they are.
  DeviceId device = simgpu::current_device();
  const StreamId on = to_stream(stream);
  if (on.is_foreign()) {
    device = on.device();
  } else if (on.value <= 2) {
    const auto info = process->model().find(DeviceAddr{address});
    if (info.kind != levee::device::sim::MemoryKind::kNone) device = info.device;
  }
  // What a former owner copied there is nothing that the new one may see.
  if (use == UseKind::kHandOut)
    simgpu::block_handed_out(*process, DeviceAddr{address}, Bytes{bytes});
  if (use == UseKind::kGiveBack) simgpu::block_given_back(DeviceAddr{address});
  process->model().note_use(device, DeviceAddr{address}, Bytes{bytes}, on.handle(), use);
}

void simgpu_note_pool_lock(int held) {
  GpuModel::note_pool_lock(held != 0);
}

int simgpu_is_judging(void) {
  Process* process = Process::get();
  return process != nullptr && process->model().judge_mode() != levee::device::sim::JudgeMode::kOff
             ? 1
             : 0;
}

uint64_t simgpu_violation_count(void) {
  Process* process = Process::running();
  return process != nullptr ? process->model().hazard_count() : 0;
}

const char* simgpu_violation_text(uint64_t index) {
  Process* process = Process::running();
  if (process == nullptr) return "";
  const auto hazards = process->model().hazards();
  if (index >= hazards.size()) return "";
  static auto* kept = new std::vector<std::string*>;  // texts stay valid until the process ends
  static levee::base::Mutex mutex;
  levee::base::MutexLock lock(mutex);
  kept->push_back(new std::string(hazards[index].text));
  return kept->back()->c_str();
}

int simgpu_set_faults(const char* plan) {
  Process* process = Process::get();
  if (process == nullptr || plan == nullptr) return kInvalidValue;
  std::string problem;
  auto faults = simgpu::parse_faults(plan, &problem);
  if (!problem.empty()) return kInvalidValue;
  process->model().set_faults(std::move(faults));
  return 0;
}

uint64_t simgpu_counter(const char* name) {
  return name != nullptr ? simgpu::call_count(name) : 0;
}

size_t simgpu_counters_json(char* buffer, size_t capacity) {
  std::string out = "{";
  for (const auto& [name, count] : simgpu::call_counts()) {
    if (out.size() > 1) out += ", ";
    out += "\"" + std::string(name) + "\": " + std::to_string(count);
  }
  out += "}";
  if (buffer != nullptr && capacity > 0) {
    const size_t written = std::min(out.size(), capacity - 1);
    std::memcpy(buffer, out.data(), written);
    buffer[written] = '\0';
  }
  return out.size();
}

uint64_t simgpu_memory_capacity(int device) {
  Process* process = Process::get();
  if (process == nullptr || device < 0 || device >= process->device_count()) return 0;
  return process->model().memory_use(DeviceId{device}).total.value;
}

uint64_t simgpu_memory_used(int device) {
  Process* process = Process::get();
  if (process == nullptr || device < 0 || device >= process->device_count()) return 0;
  return process->model().memory_use(DeviceId{device}).used.value;
}

uint64_t simgpu_memory_peak(int device) {
  Process* process = Process::get();
  if (process == nullptr || device < 0 || device >= process->device_count()) return 0;
  return process->model().memory_use(DeviceId{device}).peak_used.value;
}

void simgpu_trace_call(const char* library, const char* function, int* once) {
  if (__atomic_load_n(once, __ATOMIC_RELAXED) != 0) return;
  if (__atomic_exchange_n(once, 1, __ATOMIC_RELAXED) == 0)
    simgpu::trace_first_use(library, function);
}

void simgpu_not_modelled(const char* library, const char* function) {
  simgpu::say_not_modelled(library, function);
}

}  // extern "C"
