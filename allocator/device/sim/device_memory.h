// Physical memory, address ranges and the mappings between them, for all devices of a model.
//
// Owns: reserved ranges, handles, allocations, mappings, the page table, and each device's account.
// Promises: every method checks everything before it changes anything; used = sum of the sizes of
// physical memory alive; an address has at most one mapping. Judges nothing: `Refusal` says what
// was wrong with a refused call, so that the model can report it. Does not: keep uses (it stores
// the frames for the judge). Not thread-safe; the model's mutex guards it. Costs: memory calls
// O(pages) for the page table and O(log) for ranges; find O(1) where something is mapped.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <levee/ids.h>
#include <levee/units.h>

#include "allocator/base/small_vector.h"
#include "allocator/device/native_status.h"
#include "allocator/device/sim/address_space.h"
#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/id_table.h"
#include "allocator/device/sim/page_table.h"
#include "allocator/device/sim/small_chunks.h"
#include "allocator/device/sim/use_map.h"

namespace levee::device::sim {

/// Memory of one device: a handle, a cudaMalloc allocation, or a chunk of small ones.
struct Physical {
  std::uint64_t serial = 0;  ///< never used twice
  DeviceId device;
  Bytes bytes;  ///< what it takes of the device
  MemoryKind kind = MemoryKind::kMapped;
  HandleId handle;               ///< null once released, and for allocations
  std::uint32_t references = 0;  ///< to the handle
  std::uint32_t mappings = 0;
  std::size_t place = 0;      ///< in the list of all
  bool is_imported = false;   ///< another process's: takes nothing of this account
  std::vector<Frame> frames;  ///< one for each 2 MiB, made by the judge; empty until then
};

struct AddressRange {
  DeviceAddr base;
  Bytes bytes;
  DeviceId device;             ///< for the account
  std::uint64_t mappings = 0;  ///< in it
};

struct Mapping {
  DeviceAddr base;
  Bytes bytes;            ///< multiple of 2 MiB
  Bytes requested_bytes;  ///< of a cudaMalloc; else as bytes
  Physical* physical = nullptr;
  AddressRange* range = nullptr;      ///< null for allocations
  std::unique_ptr<SmallChunk> chunk;  ///< of small allocations
  std::uint64_t readable = 0;         ///< bit for each device
  std::uint64_t writable = 0;
  /// Uses through this mapping that a later owner at another address replaced before the host knew
  /// them complete.
  struct PastUse {
    Order::Index stream = 0;
    Order::Tick tick = 0;
  };
  base::SmallVector<PastUse, 1> past_uses;
  std::size_t place = 0;  ///< in the list of all
};

/// Why a call was refused: CUDA's answer, and what the judge thinks of it (kCount: nothing; it may
/// be no mistake).
struct Refusal {
  Native native = Native::kSuccess;
  JudgeRule rule = JudgeRule::kNone;  ///< that was broken, if that is a finding
  const char* why = "";
  bool ok() const { return native == Native::kSuccess; }
};

class DeviceMemory {
 public:
  DeviceMemory(const std::vector<DeviceConfig>& devices, AddressSpaceMode mode);

  // ---- Address ranges
  Refusal reserve(Bytes bytes, Bytes alignment, DeviceId device, DeviceAddr& addr);
  Refusal free_range(DeviceAddr addr, Bytes bytes);
  AddressRange* find_range(DeviceAddr addr) const;  ///< that contains it; null if none does

  // ---- Handles
  Refusal create(DeviceId device, Bytes bytes, HandleId& handle);
  Refusal import(DeviceId device, Bytes bytes, HandleId& handle);
  Refusal release(HandleId handle);
  Refusal retain(DeviceAddr addr, HandleId& handle);
  Physical* find_handle(HandleId handle) const {
    Physical** entry = handles_.find(handle.value);
    return entry == nullptr ? nullptr : *entry;
  }

  // ---- Mappings
  Refusal map(DeviceAddr addr, Bytes bytes, HandleId handle);
  /// Finds the whole mappings that make up the range, without changing anything.
  /// What is broken when the range is none, when nothing is mapped in a part of it, and when it
  /// cuts a mapping.
  struct WholeRules {
    JudgeRule something;
    JudgeRule mapped;
    JudgeRule whole;
  };
  Refusal find_whole(DeviceAddr addr, Bytes bytes, const WholeRules& rules,
                     std::vector<Mapping*>& found) const;
  void unmap(Mapping& mapping);
  Mapping* find_mapping(DeviceAddr addr) const {
    return space_.contains(addr) ? table_.find(addr) : nullptr;
  }

  // ---- Allocations
  Refusal allocate(DeviceId device, Bytes bytes, MemoryKind kind, DeviceAddr& addr);
  Refusal import_allocation(DeviceId device, Bytes bytes, DeviceAddr& addr);
  /// `addr` is the base of a live allocation (find_allocation says so).
  void release_allocation(DeviceAddr addr);
  /// The mapping of the allocation that begins at `addr`; null if there is none.
  Mapping* find_allocation(DeviceAddr addr) const;

  // ---- Questions
  AddressInfo find(DeviceAddr addr) const;
  bool is_backed(DeviceAddr addr, Bytes bytes) const;
  /// Calls visit(Mapping*, DeviceAddr begin, Bytes count) for each piece of the range, in order; a
  /// null mapping where there is none. Stops when it returns false.
  template <typename Visit>
  void for_each_piece(DeviceAddr addr, Bytes bytes, Visit&& visit) const {
    while (bytes.value > 0) {
      Mapping* mapping = find_mapping(addr);
      const DeviceAddr end = mapping != nullptr
                                 ? mapping->base + mapping->bytes
                                 : DeviceAddr{(addr.value / kPage.value + 1) * kPage.value};
      const Bytes count = std::min(bytes, end - addr);
      if (!visit(mapping, addr, count)) return;
      addr = addr + count;
      bytes -= count;
    }
  }
  template <typename Visit>
  void for_each_physical(Visit&& visit) const {
    for (const auto& physical : physical_) visit(*physical);
  }

  struct Account {
    Bytes total;
    Bytes used;
    Bytes peak_used;
    Bytes used_by_others;
    Bytes mapped;
    std::uint64_t handles = 0;
    std::uint64_t mappings = 0;
    std::uint64_t ranges = 0;
    std::uint64_t allocations = 0;
    Bytes free() const {
      const Bytes taken = used + used_by_others;
      return taken < total ? total - taken : Bytes{};
    }
  };
  Account& account(DeviceId device) { return accounts_[static_cast<std::size_t>(device.value)]; }
  const Account& account(DeviceId device) const {
    return accounts_[static_cast<std::size_t>(device.value)];
  }
  bool has_device(DeviceId device) const {
    return device.value >= 0 && static_cast<std::size_t>(device.value) < accounts_.size();
  }
  Bytes granularity(DeviceId device) const {
    return granularities_[static_cast<std::size_t>(device.value)];
  }

  /// Told as physical memory goes, before its frames do.
  void set_gone_hook(std::function<void(Physical&)> hook) { gone_ = std::move(hook); }
  void validate() const;

 private:
  bool take(DeviceId device, Bytes bytes);  ///< of the account; false if there is no room
  Physical& add_physical(DeviceId device, Bytes bytes, MemoryKind kind);
  void drop_if_unused(Physical& physical);
  void erase_physical(Physical& physical);
  HandleId give_id(Physical& physical);
  Mapping& add_mapping(DeviceAddr addr, Bytes bytes, Physical& physical);
  void erase_mapping(Mapping& mapping);
  Refusal allocate_small(DeviceId device, Bytes bytes, DeviceAddr& addr);

  AddressSpace space_;
  PageTable table_;
  std::vector<Account> accounts_;
  std::vector<Bytes> granularities_;
  std::vector<SmallChunks> chunks_;
  std::map<std::uint64_t, AddressRange> ranges_;     // by base
  IdTable<Physical*> handles_{3};                    // what an id stands for; physical_ owns it
  std::vector<std::unique_ptr<Physical>> physical_;  // in no order; each knows its place
  std::vector<std::unique_ptr<Mapping>> mappings_;   // likewise
  std::uint64_t next_serial_ = 1;
  std::function<void(Physical&)> gone_;
};

}  // namespace levee::device::sim
