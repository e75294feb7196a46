// Which addresses are in use: gives out ranges of one large region and takes them back.
//
// Owns the region. In kReal mode it is host address space reserved without access, so that no
// address given out is ever a host pointer too; in kNumbers mode it is numbers. Promises: ranges
// are multiples of 2 MiB and aligned to at least that; the best fitting free range is used, the
// lowest first, so that addresses given back come again, as they do with a driver. Not thread-safe.
// Costs: O(log ranges).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include <levee/units.h>

#include "allocator/device/sim/gpu_model.h"

namespace levee::device::sim {

inline constexpr std::uint64_t kPageShift = 21;
inline constexpr Bytes kPage{
    std::uint64_t{1} << kPageShift};  ///< the model's unit of mapping; granularities are multiples

class AddressSpace {
 public:
  explicit AddressSpace(AddressSpaceMode mode);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  /// Null if no range is long enough. `bytes` is a multiple of 2 MiB; `alignment` a power of two,
  /// or 0.
  DeviceAddr take(Bytes bytes, Bytes alignment);
  void give_back(DeviceAddr addr, Bytes bytes);

  DeviceAddr base() const { return base_; }
  Bytes size() const { return size_; }
  bool contains(DeviceAddr addr) const { return addr.value - base_.value < size_.value; }
  Bytes free_bytes() const { return free_bytes_; }

 private:
  void add_free(std::uint64_t addr, std::uint64_t bytes);
  void remove_free(std::map<std::uint64_t, std::uint64_t>::iterator at);

  AddressSpaceMode mode_;
  DeviceAddr base_;
  Bytes size_;
  Bytes free_bytes_;
  std::map<std::uint64_t, std::uint64_t> free_by_addr_;  // address -> bytes; no two adjacent
  std::set<std::pair<std::uint64_t, std::uint64_t>> free_by_size_;  // (bytes, address)
};

}  // namespace levee::device::sim
