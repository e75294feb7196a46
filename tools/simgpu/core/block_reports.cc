#include "tools/simgpu/core/block_reports.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>

#include "allocator/base/mutex.h"
#include "tools/simgpu/core/process.h"
#include "tools/simgpu/core/work.h"

namespace {

/// c10::Device: passed by value, in one register.
struct TorchDevice {
  std::int8_t type;  ///< 1: CUDA
  std::int8_t index;
};
constexpr std::int8_t kCuda = 1;

using Report = void (*)(void*, std::int64_t, std::size_t, std::size_t, TorchDevice);

Report next_report() {
  constexpr const char* kName = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE";
  if (void* next = dlsym(RTLD_NEXT, kName)) return reinterpret_cast<Report>(next);
  // Loaded for its users alone, as Python loads extension modules: it is found by its name.
  void* library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  void* found = dlsym(library, kName);
  dlclose(library);  // only the count of it: it stays loaded
  return reinterpret_cast<Report>(found);
}

struct Blocks {
  levee::base::Mutex mutex;
  std::map<std::uint64_t, std::uint64_t> bytes_by_address LEVEE_GUARDED_BY(mutex);
};
Blocks& blocks() {
  static auto* value = new Blocks;
  return *value;
}

}  // namespace

namespace levee::simgpu {

void block_handed_out(Process& process, DeviceAddr block, Bytes bytes) {
  forget_bytes(process, reinterpret_cast<const void*>(block.value),
               static_cast<std::size_t>(bytes.value));
  Blocks& known = blocks();
  const base::MutexLock lock(known.mutex);
  known.bytes_by_address[block.value] = bytes.value;
}

void block_given_back(DeviceAddr block) {
  Blocks& known = blocks();
  const base::MutexLock lock(known.mutex);
  known.bytes_by_address.erase(block.value);
}

Bytes within_block(DeviceAddr at, Bytes bytes) {
  Blocks& known = blocks();
  const base::MutexLock lock(known.mutex);
  auto next = known.bytes_by_address.upper_bound(at.value);
  if (next == known.bytes_by_address.begin()) return bytes;
  const auto& [begin, size] = *--next;
  const std::uint64_t inside = at.value - begin;
  return inside < size ? std::min(bytes, Bytes{size - inside}) : bytes;
}

}  // namespace levee::simgpu

extern "C" SIMGPU_CORE void simgpu_block_report(
    void* block, std::int64_t bytes, std::size_t allocated, std::size_t reserved,
    TorchDevice device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");

void simgpu_block_report(void* block, std::int64_t bytes, std::size_t allocated,
                         std::size_t reserved, TorchDevice device) {
  if (device.type == kCuda) {
    const levee::DeviceAddr at = levee::simgpu::to_addr(block);
    levee::simgpu::Process* process = levee::simgpu::Process::running();
    if (process != nullptr && bytes > 0)
      levee::simgpu::block_handed_out(*process, at,
                                      levee::Bytes{static_cast<std::uint64_t>(bytes)});
    if (process != nullptr && bytes < 0) levee::simgpu::block_given_back(at);
  }
  static const Report next = next_report();
  if (next != nullptr) next(block, bytes, allocated, reserved, device);
}
