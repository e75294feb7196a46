#include "allocator/device/sim/device_memory.h"

#include <iterator>

#include "allocator/base/check.h"

namespace levee::device::sim {

namespace {

constexpr bool is_power_of_two(std::uint64_t n) {
  return n != 0 && (n & (n - 1)) == 0;
}

Refusal refuse(Native native, const char* why, JudgeRule rule = JudgeRule::kNone) {
  return Refusal{native, rule, why};
}

}  // namespace

DeviceMemory::DeviceMemory(const std::vector<DeviceConfig>& devices, AddressSpaceMode mode)
    : space_(mode), table_(space_.base(), space_.size()), chunks_(devices.size()) {
  for (const DeviceConfig& device : devices) {
    LEVEE_CHECK(device.vmm_granularity >= kPage && device.vmm_granularity % kPage == Bytes{},
                "granularity ", device.vmm_granularity);
    Account account;
    account.total = device.total_memory;
    account.used_by_others = device.used_by_others;
    accounts_.push_back(account);
    granularities_.push_back(device.vmm_granularity);
  }
}

bool DeviceMemory::take(DeviceId device, Bytes bytes) {
  Account& a = account(device);
  if (bytes > a.free()) return false;
  a.used += bytes;
  a.peak_used = std::max(a.peak_used, a.used);
  return true;
}

// ---- Address ranges

Refusal DeviceMemory::reserve(Bytes bytes, Bytes alignment, DeviceId device, DeviceAddr& addr) {
  if (bytes.value == 0 || bytes % granularity(device) != Bytes{}) {
    return refuse(Native::kInvalidValue,
                  "the size of a range must be a multiple of the granularity");
  }
  if (alignment.value != 0 && !is_power_of_two(alignment.value)) {
    return refuse(Native::kInvalidValue, "the alignment of a range must be 0 or a power of two");
  }
  addr = space_.take(bytes, std::max(alignment, granularity(device)));
  if (addr.is_null()) return refuse(Native::kOutOfMemory, "no address range is long enough");
  ranges_.emplace(addr.value, AddressRange{addr, bytes, device, 0});
  ++account(device).ranges;
  return {};
}

Refusal DeviceMemory::free_range(DeviceAddr addr, Bytes bytes) {
  const auto it = ranges_.find(addr.value);
  if (it == ranges_.end()) {
    return refuse(Native::kInvalidValue, "no reserved range begins there",
                  JudgeRule::kRangeBeginsThere);
  }
  const AddressRange& range = it->second;
  if (range.bytes != bytes) {
    return refuse(Native::kInvalidValue, "the range was reserved with another size",
                  JudgeRule::kRangeSize);
  }
  if (range.mappings != 0) {
    return refuse(Native::kInvalidValue, "something is still mapped in the range",
                  JudgeRule::kRangeIsEmpty);
  }
  --account(range.device).ranges;
  ranges_.erase(it);
  space_.give_back(addr, bytes);
  return {};
}

AddressRange* DeviceMemory::find_range(DeviceAddr addr) const {
  auto it = ranges_.upper_bound(addr.value);
  if (it == ranges_.begin()) return nullptr;
  --it;
  if (addr.value - it->first >= it->second.bytes.value) return nullptr;
  return const_cast<AddressRange*>(&it->second);
}

// ---- Physical memory and handles

Physical& DeviceMemory::add_physical(DeviceId device, Bytes bytes, MemoryKind kind) {
  auto physical = std::make_unique<Physical>();
  physical->serial = next_serial_++;
  physical->device = device;
  physical->bytes = bytes;
  physical->kind = kind;
  physical->place = physical_.size();
  physical_.push_back(std::move(physical));
  return *physical_.back();
}

void DeviceMemory::erase_physical(Physical& physical) {
  if (gone_) gone_(physical);
  Account& a = account(physical.device);
  if (!physical.is_imported) a.used -= physical.bytes;
  if (physical.kind == MemoryKind::kMapped) --a.handles;
  const std::size_t place = physical.place;
  if (place + 1 != physical_.size()) {
    std::swap(physical_[place], physical_.back());
    physical_[place]->place = place;
  }
  physical_.pop_back();
}

void DeviceMemory::drop_if_unused(Physical& physical) {
  if (physical.references == 0 && physical.mappings == 0) erase_physical(physical);
}

Refusal DeviceMemory::create(DeviceId device, Bytes bytes, HandleId& handle) {
  if (bytes.value == 0 || bytes % granularity(device) != Bytes{}) {
    return refuse(Native::kInvalidValue,
                  "the size of a handle must be a multiple of the granularity");
  }
  if (!take(device, bytes)) return refuse(Native::kOutOfMemory, "the device has no room");
  handle = give_id(add_physical(device, bytes, MemoryKind::kMapped));
  return {};
}

Refusal DeviceMemory::import(DeviceId device, Bytes bytes, HandleId& handle) {
  if (bytes.value == 0 || bytes % granularity(device) != Bytes{}) {
    return refuse(Native::kInvalidValue,
                  "the size of a handle must be a multiple of the granularity");
  }
  Physical& physical = add_physical(device, bytes, MemoryKind::kMapped);
  physical.is_imported = true;
  handle = give_id(physical);
  return {};
}

HandleId DeviceMemory::give_id(Physical& physical) {
  physical.references = 1;
  physical.handle = HandleId{handles_.insert(std::make_unique<Physical*>(&physical))};
  ++account(physical.device).handles;
  return physical.handle;
}

Refusal DeviceMemory::release(HandleId handle) {
  Physical* physical = find_handle(handle);
  if (physical == nullptr) {
    return refuse(Native::kInvalidValue, "no such handle; it may have been released before",
                  JudgeRule::kHandleIsHeld);
  }
  // With the last reference the id dies; the memory stays as long as it is mapped.
  if (--physical->references == 0) {
    handles_.erase(handle.value);
    physical->handle = HandleId{};
    drop_if_unused(*physical);
  }
  return {};
}

Refusal DeviceMemory::retain(DeviceAddr addr, HandleId& handle) {
  const Mapping* mapping = find_mapping(addr);
  if (mapping == nullptr || mapping->physical->kind != MemoryKind::kMapped) {
    return refuse(Native::kInvalidValue, "no handle is mapped there");
  }
  Physical& physical = *mapping->physical;
  if (physical.references == 0) {
    // Released while mapped: the memory lives on, and gets an id again.
    physical.handle = HandleId{handles_.insert(std::make_unique<Physical*>(&physical))};
  }
  ++physical.references;
  handle = physical.handle;
  return {};
}

// ---- Mappings

Mapping& DeviceMemory::add_mapping(DeviceAddr addr, Bytes bytes, Physical& physical) {
  auto mapping = std::make_unique<Mapping>();
  mapping->base = addr;
  mapping->bytes = bytes;
  mapping->requested_bytes = bytes;
  mapping->physical = &physical;
  mapping->place = mappings_.size();
  mappings_.push_back(std::move(mapping));
  Mapping& added = *mappings_.back();
  table_.set(addr, bytes, &added);
  ++physical.mappings;
  Account& a = account(physical.device);
  a.mapped += bytes;
  ++a.mappings;
  return added;
}

void DeviceMemory::erase_mapping(Mapping& mapping) {
  table_.set(mapping.base, mapping.bytes, nullptr);
  Physical& physical = *mapping.physical;
  Account& a = account(physical.device);
  a.mapped -= mapping.bytes;
  --a.mappings;
  --physical.mappings;
  const std::size_t place = mapping.place;
  if (place + 1 != mappings_.size()) {
    std::swap(mappings_[place], mappings_.back());
    mappings_[place]->place = place;
  }
  mappings_.pop_back();
  drop_if_unused(physical);
}

Refusal DeviceMemory::map(DeviceAddr addr, Bytes bytes, HandleId handle) {
  Physical* physical = find_handle(handle);
  if (physical == nullptr)
    return refuse(Native::kInvalidValue, "no such handle", JudgeRule::kMapLiveHandle);
  if (bytes != physical->bytes) {
    return refuse(Native::kInvalidValue, "a handle is mapped as a whole", JudgeRule::kMapWhole);
  }
  if (addr.value % granularity(physical->device).value != 0) {
    return refuse(Native::kInvalidValue, "the address is not a multiple of the granularity",
                  JudgeRule::kMapAligned);
  }
  AddressRange* range = find_range(addr);
  if (range == nullptr || range->base + range->bytes < addr + bytes) {
    return refuse(Native::kInvalidValue, "the addresses are not reserved", JudgeRule::kMapInRange);
  }
  bool is_taken = false;
  for_each_piece(addr, bytes, [&is_taken](const Mapping* mapping, DeviceAddr, Bytes) {
    is_taken = mapping != nullptr;
    return !is_taken;
  });
  if (is_taken)
    return refuse(Native::kInvalidValue, "something is mapped there already",
                  JudgeRule::kMapOverNothing);
  Mapping& mapping = add_mapping(addr, bytes, *physical);
  mapping.range = range;
  ++range->mappings;
  return {};
}

Refusal DeviceMemory::find_whole(DeviceAddr addr, Bytes bytes, const WholeRules& rules,
                                 std::vector<Mapping*>& found) const {
  if (bytes.value == 0 || addr.value + bytes.value < addr.value) {
    return refuse(Native::kInvalidValue, "the range is empty, or ends behind the last address",
                  rules.something);
  }
  const DeviceAddr end = addr + bytes;
  for (DeviceAddr at = addr; at < end;) {
    Mapping* mapping = find_mapping(at);
    if (mapping == nullptr || mapping->range == nullptr)
      return refuse(Native::kInvalidValue, "nothing is mapped in a part of the range",
                    rules.mapped);
    if (mapping->base != at || mapping->base + mapping->bytes > end) {
      return refuse(Native::kInvalidValue, "the range holds only a part of a mapping", rules.whole);
    }
    found.push_back(mapping);
    at = at + mapping->bytes;
  }
  return {};
}

void DeviceMemory::unmap(Mapping& mapping) {
  --mapping.range->mappings;
  erase_mapping(mapping);
}

// ---- Allocations

Refusal DeviceMemory::allocate_small(DeviceId device, Bytes bytes, DeviceAddr& addr) {
  const auto piece_bytes = static_cast<std::uint32_t>(round_up(bytes, kSmallUnit).value);
  SmallChunks& chunks = chunks_[static_cast<std::size_t>(device.value)];
  SmallChunk* chunk = chunks.choose(piece_bytes);
  if (chunk == nullptr) {
    if (!take(device, kPage)) return refuse(Native::kOutOfMemory, "the device has no room");
    const DeviceAddr base = space_.take(kPage, kPage);
    LEVEE_CHECK(!base.is_null(), "the address space of the model is full");
    Mapping& mapping =
        add_mapping(base, kPage, add_physical(device, kPage, MemoryKind::kAllocation));
    mapping.readable = mapping.writable = ~std::uint64_t{0};
    mapping.chunk = std::make_unique<SmallChunk>(base);
    chunk = mapping.chunk.get();
  } else {
    chunks.remove(chunk);
  }
  addr = chunk->take(piece_bytes, static_cast<std::uint32_t>(bytes.value));
  chunks.add(chunk);
  ++account(device).allocations;
  return {};
}

Refusal DeviceMemory::allocate(DeviceId device, Bytes bytes, MemoryKind kind, DeviceAddr& addr) {
  if (bytes > account(device).total)
    return refuse(Native::kOutOfMemory, "the device is smaller than that");
  if (bytes < kSmallLimit) return allocate_small(device, bytes, addr);
  const Bytes whole = round_up(bytes, kPage);
  if (!take(device, whole)) return refuse(Native::kOutOfMemory, "the device has no room");
  addr = space_.take(whole, kPage);
  LEVEE_CHECK(!addr.is_null(), "the address space of the model is full");
  Mapping& mapping = add_mapping(addr, whole, add_physical(device, whole, kind));
  mapping.requested_bytes = bytes;
  mapping.readable = mapping.writable = ~std::uint64_t{0};
  ++account(device).allocations;
  return {};
}

Refusal DeviceMemory::import_allocation(DeviceId device, Bytes bytes, DeviceAddr& addr) {
  if (bytes.value == 0 || bytes % kPage != Bytes{}) {
    return refuse(Native::kInvalidValue, "shared memory comes in multiples of 2 MiB");
  }
  addr = space_.take(bytes, kPage);
  if (addr.is_null()) return refuse(Native::kOutOfMemory, "no address range is long enough");
  Physical& physical = add_physical(device, bytes, MemoryKind::kImported);
  physical.is_imported = true;
  Mapping& mapping = add_mapping(addr, bytes, physical);
  mapping.readable = mapping.writable = ~std::uint64_t{0};
  ++account(device).allocations;
  return {};
}

Mapping* DeviceMemory::find_allocation(DeviceAddr addr) const {
  Mapping* mapping = find_mapping(addr);
  if (mapping == nullptr || mapping->range != nullptr) return nullptr;
  if (mapping->chunk != nullptr) {
    const SmallChunk::Piece piece = mapping->chunk->find(addr);
    return piece.bytes.value != 0 && piece.addr == addr ? mapping : nullptr;
  }
  return mapping->base == addr ? mapping : nullptr;
}

void DeviceMemory::release_allocation(DeviceAddr addr) {
  Mapping& mapping = *find_allocation(addr);
  --account(mapping.physical->device).allocations;
  if (mapping.chunk != nullptr) {
    SmallChunks& chunks = chunks_[static_cast<std::size_t>(mapping.physical->device.value)];
    chunks.remove(mapping.chunk.get());
    mapping.chunk->give_back(addr);
    if (!mapping.chunk->is_empty()) {
      chunks.add(mapping.chunk.get());
      return;
    }
  }
  const DeviceAddr base = mapping.base;
  const Bytes bytes = mapping.bytes;
  erase_mapping(mapping);
  space_.give_back(base, bytes);
}

// ---- Questions

AddressInfo DeviceMemory::find(DeviceAddr addr) const {
  AddressInfo info;
  if (!space_.contains(addr)) return info;
  if (const Mapping* mapping = table_.find(addr); mapping != nullptr) {
    const Physical& physical = *mapping->physical;
    info.device = physical.device;
    info.accessible = (mapping->readable >> physical.device.value & 1) != 0;
    if (mapping->chunk != nullptr) {
      const SmallChunk::Piece piece = mapping->chunk->find(addr);
      if (piece.bytes.value == 0) return AddressInfo{};
      info.kind = MemoryKind::kAllocation;
      info.base = piece.addr;
      info.bytes = piece.bytes;
      return info;
    }
    info.kind = physical.kind;
    info.base = mapping->base;
    info.bytes = mapping->requested_bytes;
    if (mapping->range != nullptr) {
      info.handle = physical.handle;
      info.range_base = mapping->range->base;
      info.range_bytes = mapping->range->bytes;
    } else if (addr >= mapping->base + mapping->requested_bytes) {
      return AddressInfo{};  // the rounding behind an allocation is nobody's
    }
    return info;
  }
  if (const AddressRange* range = find_range(addr); range != nullptr) {
    info.kind = MemoryKind::kReserved;
    info.device = range->device;
    info.base = range->base;
    info.bytes = range->bytes;
    info.range_base = range->base;
    info.range_bytes = range->bytes;
  }
  return info;
}

bool DeviceMemory::is_backed(DeviceAddr addr, Bytes bytes) const {
  // Any number may be asked about; outside of the model's space there is nothing to add to.
  if (!space_.contains(addr) || bytes > space_.size()) return false;
  bool backed = bytes.value != 0 || find_mapping(addr) != nullptr;
  for_each_piece(addr, bytes, [&backed](const Mapping* mapping, DeviceAddr begin, Bytes count) {
    if (mapping == nullptr) {
      backed = false;
    } else if (mapping->chunk != nullptr) {
      const SmallChunk::Piece piece = mapping->chunk->find(begin);
      backed = piece.bytes.value != 0 && begin + count <= piece.addr + piece.bytes;
    } else {
      backed = begin + count <= mapping->base + mapping->requested_bytes;
    }
    return backed;
  });
  return backed;
}

void DeviceMemory::validate() const {
  std::vector<Bytes> used(accounts_.size());
  std::vector<std::uint64_t> handles(accounts_.size(), 0);
  for (std::size_t i = 0; i < physical_.size(); ++i) {
    const Physical& physical = *physical_[i];
    LEVEE_CHECK_EQ(physical.place, i);
    LEVEE_CHECK(physical.mappings + physical.references > 0, "memory that nobody holds");
    const auto device = static_cast<std::size_t>(physical.device.value);
    if (!physical.is_imported) used[device] += physical.bytes;
    if (physical.kind == MemoryKind::kMapped) ++handles[device];
  }
  std::vector<Bytes> mapped(accounts_.size());
  for (std::size_t i = 0; i < mappings_.size(); ++i) {
    const Mapping& mapping = *mappings_[i];
    LEVEE_CHECK_EQ(mapping.place, i);
    mapped[static_cast<std::size_t>(mapping.physical->device.value)] += mapping.bytes;
    for_each_piece(mapping.base, mapping.bytes,
                   [&mapping](const Mapping* found, DeviceAddr at, Bytes) {
                     LEVEE_CHECK(found == &mapping, "the page table at ", at, " is wrong");
                     return true;
                   });
  }
  for (std::size_t i = 0; i < accounts_.size(); ++i) {
    LEVEE_CHECK_GE(accounts_[i].used, used[i]);  // the rest is the context
    LEVEE_CHECK_EQ(accounts_[i].mapped, mapped[i]);
    LEVEE_CHECK_EQ(accounts_[i].handles, handles[i]);
  }
}

}  // namespace levee::device::sim
