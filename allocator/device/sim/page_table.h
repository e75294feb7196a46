// From an address to the mapping there: two levels, one pointer for each 2 MiB of address space.
//
// Owns no mapping. Not thread-safe. Costs: find is two loads; a block of 1,024 entries (2 GiB of
// addresses, 8 KiB) is made when the first of them is set and kept.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <levee/units.h>

#include "allocator/device/sim/address_space.h"

namespace levee::device::sim {

struct Mapping;

class PageTable {
 public:
  PageTable(DeviceAddr base, Bytes size)
      : base_(base.value),
        pages_(size.value >> kPageShift),
        blocks_((pages_ + kPerBlock - 1) / kPerBlock) {}

  Mapping* find(DeviceAddr addr) const {
    const std::uint64_t page = (addr.value - base_) >> kPageShift;
    if (page >= pages_) return nullptr;
    const Block* block = blocks_[page / kPerBlock].get();
    return block == nullptr ? nullptr : (*block)[page % kPerBlock];
  }

  /// Sets every page of the range, which lies inside the region.
  void set(DeviceAddr addr, Bytes bytes, Mapping* mapping) {
    const std::uint64_t first = (addr.value - base_) >> kPageShift;
    const std::uint64_t end = first + (bytes.value >> kPageShift);
    for (std::uint64_t page = first; page < end; ++page) {
      std::unique_ptr<Block>& block = blocks_[page / kPerBlock];
      if (block == nullptr) block = std::make_unique<Block>();
      (*block)[page % kPerBlock] = mapping;
    }
  }

 private:
  static constexpr std::uint64_t kPerBlock = 1024;
  using Block = std::array<Mapping*, kPerBlock>;

  std::uint64_t base_;
  std::uint64_t pages_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace levee::device::sim
