// Host memory that CUDA knows: pinned by cudaHostAlloc, registered by cudaHostRegister, or managed.
//
// Owns the allocations themselves (they are ordinary host memory) and the table of their ranges.
// Promises: an address is found in O(log n); memory that was never announced is not found, which is
// what tells pageable memory apart. One mutex.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include <levee/units.h>

#include "allocator/base/mutex.h"
#include "tools/simgpu/core/export.h"

namespace levee::simgpu {

enum class HostKind : std::uint8_t { kPinned, kRegistered, kManaged };

struct HostRange {
  HostKind kind = HostKind::kPinned;
  std::uintptr_t base = 0;
  Bytes bytes;
  unsigned flags = 0;
  int device = 0;  ///< current when it was made
};

class SIMGPU_CORE HostMemory {
 public:
  /// Page-aligned memory, or null when the host has none left.
  void* allocate(Bytes bytes, HostKind kind, unsigned flags, int device);
  /// False if `pointer` is not the start of an allocation.
  bool free(void* pointer);
  /// False if the range overlaps one that is known.
  bool add(const void* pointer, Bytes bytes, unsigned flags, int device);
  /// False if `pointer` is not the start of a registered range.
  bool remove(const void* pointer);
  std::optional<HostRange> find(const void* pointer) const;

 private:
  mutable base::Mutex mutex_;
  std::map<std::uintptr_t, HostRange> ranges_ LEVEE_GUARDED_BY(mutex_);
};

}  // namespace levee::simgpu
