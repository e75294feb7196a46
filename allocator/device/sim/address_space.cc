#include "allocator/device/sim/address_space.h"

#include <sys/mman.h>

#include <iterator>

#include "allocator/base/check.h"

namespace levee::device::sim {

namespace {

constexpr DeviceAddr kNumbersBase{0x7'0000'0000};
constexpr Bytes kNumbersSize = 65'536_GiB;
// Largest first: a process may be short of address space (a sanitizer's shadow, a limit set by the
// shell).
constexpr Bytes kRealSizes[] = {65'536_GiB, 16'384_GiB, 4'096_GiB, 1'024_GiB, 256_GiB, 64_GiB};

}  // namespace

AddressSpace::AddressSpace(AddressSpaceMode mode) : mode_(mode) {
  if (mode == AddressSpaceMode::kNumbers) {
    base_ = DeviceAddr{round_up(Bytes{kNumbersBase.value}, kPage).value};
    size_ = kNumbersSize;
  } else {
    for (const Bytes bytes : kRealSizes) {
      void* region = ::mmap(nullptr, bytes.value, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (region == MAP_FAILED) continue;
      ::madvise(region, bytes.value,
                MADV_DONTDUMP);  // best effort: a core file need not describe it
      const Bytes start{reinterpret_cast<std::uintptr_t>(region)};
      base_ = DeviceAddr{round_up(start, kPage).value};
      size_ = round_down(bytes - (Bytes{base_.value} - start), kPage);
      break;
    }
    LEVEE_CHECK(size_.value != 0, "the host has no 64 GiB of address space left to reserve");
  }
  add_free(base_.value, size_.value);
  free_bytes_ = size_;
}

AddressSpace::~AddressSpace() {
  // The reservation starts at most one page before base_, where nothing else can have been mapped
  // by us.
  if (mode_ == AddressSpaceMode::kReal) ::munmap(reinterpret_cast<void*>(base_.value), size_.value);
}

void AddressSpace::add_free(std::uint64_t addr, std::uint64_t bytes) {
  auto next = free_by_addr_.lower_bound(addr);
  if (next != free_by_addr_.end() && next->first == addr + bytes) {
    bytes += next->second;
    const auto merged = next++;
    remove_free(merged);
  }
  if (next != free_by_addr_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == addr) {
      addr = before->first;
      bytes += before->second;
      remove_free(before);
    }
  }
  free_by_addr_.emplace(addr, bytes);
  free_by_size_.emplace(bytes, addr);
}

void AddressSpace::remove_free(std::map<std::uint64_t, std::uint64_t>::iterator at) {
  free_by_size_.erase({at->second, at->first});
  free_by_addr_.erase(at);
}

DeviceAddr AddressSpace::take(Bytes bytes, Bytes alignment) {
  const Bytes align = alignment < kPage ? kPage : alignment;
  for (auto it = free_by_size_.lower_bound({bytes.value, 0}); it != free_by_size_.end(); ++it) {
    const auto [hole_bytes, hole] = *it;
    const std::uint64_t start = round_up(Bytes{hole}, align).value;
    if (start - hole > hole_bytes - bytes.value) continue;
    remove_free(free_by_addr_.find(hole));
    if (start > hole) add_free(hole, start - hole);
    const std::uint64_t end = start + bytes.value;
    if (hole + hole_bytes > end) add_free(end, hole + hole_bytes - end);
    free_bytes_ -= bytes;
    return DeviceAddr{start};
  }
  return DeviceAddr{};
}

void AddressSpace::give_back(DeviceAddr addr, Bytes bytes) {
  add_free(addr.value, bytes.value);
  free_bytes_ += bytes;
}

}  // namespace levee::device::sim
