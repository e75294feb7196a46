#include "tools/simgpu/core/process.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <string>

#include "allocator/base/mutex.h"
#include "tools/simgpu/core/faults.h"
#include "tools/simgpu/core/host_functions.h"
#include "tools/simgpu/core/report.h"
#include "tools/simgpu/core/settings.h"

namespace levee::simgpu {
namespace {

using device::sim::DeviceConfig;
using device::sim::LatencyTable;
using device::sim::ModelConfig;

LatencyTable latency_of(const CardModel& card) {
  LatencyTable table = LatencyTable::published();
  // The published table is an A100's; work scales with the card, calls belong to the host.
  const double memory = card.bandwidth_gb_per_s / 2039.0;
  table.work.device_to_device_gbs *= memory;
  table.work.memset_gbs *= memory;
  table.work.bytes_per_second *= memory;
  table.work.flops *= card.dense_tflops / 312.0;
  return table;
}

ModelConfig model_config(const Settings& wanted, const LatencyTable& latency) {
  ModelConfig config;
  DeviceConfig device;
  device.name = wanted.name;
  device.total_memory = wanted.memory;
  device.used_by_others = wanted.used_by_others;
  device.context_bytes = wanted.context;
  device.compute_major = wanted.card.compute_major;
  device.compute_minor = wanted.card.compute_minor;
  config.devices.assign(visible_devices().size(), device);
  config.clock = device::sim::ClockMode::kHost;
  config.address_space = device::sim::AddressSpaceMode::kReal;
  config.judge = wanted.judge;
  config.sees_all_work = true;
  config.report_leaks =
      false;  // frameworks end without freeing; that is not what the judge looks for here
  config.latency = latency;
  return config;
}

base::Mutex start_mutex;

// Device addresses are taken from this process's own, so that nothing else can have them.
void need_address_space() {
  constexpr Bytes kLeast = 64_GiB;
  void* region =
      ::mmap(nullptr, kLeast.value, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region != MAP_FAILED) {
    ::munmap(region, kLeast.value);
    return;
  }
  std::fprintf(
      stderr,
      "simgpu: this process may not have the 64 GiB of address space that device addresses "
      "take (ulimit -v); none of it is memory: lift the limit.\n");
  _exit(2);
}

}  // namespace

std::atomic<Process*> Process::instance_{nullptr};
std::atomic<bool> Process::poisoned_{false};

Process::Process() : latency_(latency_of(settings().card)) {
  const Settings& wanted = settings();
  model_ = std::make_unique<device::sim::GpuModel>(model_config(wanted, latency_));
  device::sim::BackingStoreConfig backing;
  backing.complete = true;
  backing.most_bytes = wanted.backing_limit.value_or(Bytes{~0ULL >> 1});
  // With "off" nothing is missed.
  if (backing.most_bytes.value != 0) backing.on_first_loss = &say_store_full;
  backing_ = std::make_unique<device::sim::BackingStore>(*model_, backing);
  host_functions_ = new HostFunctions(*model_);
  const std::size_t count = visible_devices().size();
  primary_active_ = std::vector<std::atomic<bool>>(count);
  peers_ = std::vector<std::atomic<bool>>(count * count);
  is_judging_ = wanted.judge != device::sim::JudgeMode::kOff;
  model_->set_faults(parse_faults_or_exit(wanted.faults));
}

Process* Process::start() {
  base::MutexLock lock(start_mutex);
  if (Process* process = instance_.load(std::memory_order_relaxed)) return process;
  if (poisoned_.load(std::memory_order_relaxed) || visible_devices().empty()) return nullptr;
  need_address_space();
  auto* process = new Process;
  pthread_atfork(nullptr, nullptr, &Process::after_fork_in_child);
  print_notice();
  report_at_exit();
  instance_.store(process, std::memory_order_release);
  return process;
}

int Process::why_not() {
  return poisoned_.load() ? 3 : 100;
}

void Process::after_fork_in_child() {
  if (instance_.exchange(nullptr) != nullptr) poisoned_.store(true);
}

bool Process::is_active(int device) const {
  return primary_active_[static_cast<std::size_t>(device)].load(std::memory_order_relaxed);
}

void Process::activate(int device) {
  std::atomic<bool>& flag = primary_active_[static_cast<std::size_t>(device)];
  if (!flag.load(std::memory_order_relaxed)) flag.store(true, std::memory_order_relaxed);
}

bool Process::has_peer_access(int from, int to) const {
  return from == to || peers_[static_cast<std::size_t>(from * device_count() + to)].load();
}

bool Process::set_peer_access(int from, int to, bool enabled) {
  return peers_[static_cast<std::size_t>(from * device_count() + to)].exchange(enabled) != enabled;
}

ThreadState& this_thread() {
  thread_local ThreadState state;
  return state;
}

}  // namespace levee::simgpu
