#include "tools/simgpu/core/host_memory.h"

#include <sys/mman.h>

#include <iterator>

namespace levee::simgpu {
namespace {

constexpr Bytes kPage = 4_KiB;

Bytes mapped_bytes(Bytes bytes) {
  return round_up(bytes.value == 0 ? 1_B : bytes, kPage);
}

}  // namespace

void* HostMemory::allocate(Bytes bytes, HostKind kind, unsigned flags, int device) {
  if (bytes > 1024_GiB) return nullptr;
  void* pointer = mmap(nullptr, mapped_bytes(bytes).value, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pointer == MAP_FAILED) return nullptr;
  const auto base = reinterpret_cast<std::uintptr_t>(pointer);
  base::MutexLock lock(mutex_);
  ranges_[base] = HostRange{kind, base, bytes, flags, device};
  return pointer;
}

bool HostMemory::free(void* pointer) {
  Bytes bytes;
  {
    base::MutexLock lock(mutex_);
    const auto at = ranges_.find(reinterpret_cast<std::uintptr_t>(pointer));
    if (at == ranges_.end() || at->second.kind == HostKind::kRegistered) return false;
    bytes = at->second.bytes;
    ranges_.erase(at);
  }
  munmap(pointer, mapped_bytes(bytes).value);
  return true;
}

bool HostMemory::add(const void* pointer, Bytes bytes, unsigned flags, int device) {
  const auto base = reinterpret_cast<std::uintptr_t>(pointer);
  base::MutexLock lock(mutex_);
  const auto next = ranges_.lower_bound(base);
  if (next != ranges_.end() && next->first < base + bytes.value) return false;
  if (next != ranges_.begin()) {
    const HostRange& before = std::prev(next)->second;
    if (base < before.base + before.bytes.value) return false;
  }
  ranges_[base] = HostRange{HostKind::kRegistered, base, bytes, flags, device};
  return true;
}

bool HostMemory::remove(const void* pointer) {
  base::MutexLock lock(mutex_);
  const auto at = ranges_.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (at == ranges_.end() || at->second.kind != HostKind::kRegistered) return false;
  ranges_.erase(at);
  return true;
}

std::optional<HostRange> HostMemory::find(const void* pointer) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  base::MutexLock lock(mutex_);
  auto at = ranges_.upper_bound(address);
  if (at == ranges_.begin()) return std::nullopt;
  const HostRange& range = std::prev(at)->second;
  if (address - range.base >= (range.bytes.value == 0 ? 1 : range.bytes.value)) return std::nullopt;
  return range;
}

}  // namespace levee::simgpu
