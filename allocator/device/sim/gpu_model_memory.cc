// Memory calls of GpuModel.
#include <algorithm>
#include <utility>

#include "allocator/device/sim/gpu_model_state.h"

namespace levee::device::sim {

// ---- Whole allocations

Result<DeviceAddr> GpuModel::allocate(DeviceId device, Bytes bytes) {
  Call call(*state_, CallKind::kMalloc, device, CallArguments{{}, bytes, 0});
  if (!call.ok()) return call.status();
  if (bytes.value == 0) return DeviceAddr{};  // cudaMalloc(0) succeeds and gives null
  DeviceAddr addr;
  Refusal refusal = state_->memory.allocate(device, bytes, MemoryKind::kAllocation, addr);
  if (refusal.native == Native::kOutOfMemory && state_->on(device).async_pool.has_free_blocks()) {
    state_->give_back_async(device);
    refusal = state_->memory.allocate(device, bytes, MemoryKind::kAllocation, addr);
  }
  if (!refusal.ok()) return call.fail(refusal);
  return addr;
}

Status GpuModel::release(DeviceAddr addr) {
  State& s = *state_;
  Call call(s, CallKind::kFree, CallArguments{addr, {}, 0},
            [&](CallArguments&) { return s.device_of(addr); });
  if (!call.ok()) return call.status();
  if (addr.is_null()) return Status{};
  Mapping* mapping = s.memory.find_allocation(addr);
  if (mapping == nullptr) {
    return call.fail(Refusal{Native::kInvalidValue, JudgeRule::kAllocationIsHeld,
                             "no allocation begins there; it may have been freed before"});
  }
  if (mapping->physical->is_imported) {
    return call.fail(Refusal{Native::kInvalidValue, JudgeRule::kImportIsNotFreed,
                             "the memory is another process's; it is closed, not freed"});
  }
  const DeviceId device = mapping->physical->device;
  if (const Native native = s.synchronize_device_locked(device); native != Native::kSuccess)
    return call.fail(native);
  const AddressInfo info = s.memory.find(addr);
  if (s.is_judging()) {
    s.check_done(*mapping, addr, info.bytes, "cudaFree");
    s.forget_uses(*mapping, addr, info.bytes);
  }
  AsyncPool& pool = s.on(device).async_pool;
  if (pool.owns(addr)) pool.drop(addr);
  s.memory.release_allocation(addr);
  return Status{};
}

Result<DeviceAddr> GpuModel::import_allocation(DeviceId device, Bytes bytes) {
  Call call(*state_, CallKind::kOther, device, CallArguments{{}, bytes, 0});
  if (!call.ok()) return call.status();
  DeviceAddr addr;
  if (const Refusal refusal = state_->memory.import_allocation(device, bytes, addr); !refusal.ok())
    return call.fail(refusal);
  return addr;
}

Status GpuModel::close_import(DeviceAddr addr) {
  State& s = *state_;
  Call call(s, CallKind::kOther, CallArguments{addr, {}, 0},
            [&](CallArguments&) { return s.device_of(addr); });
  if (!call.ok()) return call.status();
  Mapping* mapping = s.memory.find_allocation(addr);
  if (mapping == nullptr || !mapping->physical->is_imported) {
    return call.fail(Refusal{Native::kInvalidValue, JudgeRule::kImportIsHeld,
                             "no memory of another process was opened there"});
  }
  if (const Native native = s.synchronize_device_locked(mapping->physical->device);
      native != Native::kSuccess)
    return call.fail(native);
  if (s.is_judging()) {
    s.check_done(*mapping, addr, mapping->bytes, "cudaIpcCloseMemHandle");
    s.forget_uses(*mapping, addr, mapping->bytes);
  }
  s.memory.release_allocation(addr);
  return Status{};
}

Result<DeviceAddr> GpuModel::allocate_async(DeviceId device, Bytes bytes, StreamId stream) {
  State& s = *state_;
  Call call(s, CallKind::kMallocAsync, device, CallArguments{{}, bytes, stream.value});
  if (!call.ok()) return call.status();
  Stream* on = s.resolve(device, stream);
  if (on == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
  if (on->capture != nullptr)
    return call.fail(Native::kNotSupported);  // memory nodes of graphs are not modelled
  if (bytes.value == 0) return call.fail(Native::kInvalidValue);
  s.queue_behind_legacy(*on);
  AsyncPool& pool = s.on(device).async_pool;
  const Bytes rounded = AsyncPool::round(bytes);
  if (const DeviceAddr addr = pool.reuse(rounded, on->index, s.order); !addr.is_null()) return addr;
  DeviceAddr addr;
  Refusal refusal = s.memory.allocate(device, rounded, MemoryKind::kAsync, addr);
  if (refusal.native == Native::kOutOfMemory && pool.has_free_blocks()) {
    s.give_back_async(device);
    refusal = s.memory.allocate(device, rounded, MemoryKind::kAsync, addr);
  }
  if (!refusal.ok()) return call.fail(refusal);
  pool.add_new(addr, rounded);
  return addr;
}

Status GpuModel::release_async(DeviceAddr addr, StreamId stream) {
  State& s = *state_;
  DeviceId device;
  Call call(s, CallKind::kFreeAsync, CallArguments{addr, {}, stream.value},
            [&](CallArguments&) { return device = s.device_of(addr); });
  if (!call.ok()) return call.status();
  if (addr.is_null()) return Status{};
  Stream* on = s.resolve(device, stream);
  if (on == nullptr) return call.fail_foreign(JudgeRule::kStreamExists);
  AsyncPool& pool = s.on(device).async_pool;
  if (!pool.owns(addr)) {
    return call.fail(Refusal{Native::kInvalidValue, JudgeRule::kAsyncBlockIsHeld,
                             "the stream-ordered pool gave out no such block"});
  }
  s.queue_behind_legacy(*on);
  s.order.stamp(on->index);  // the free is a point in the stream that others can be ordered after
  pool.give_back(addr, on->index, s.order.release(on->index));
  return Status{};
}

void GpuModel::State::give_back_async(DeviceId device) {
  for (const DeviceAddr addr : on(device).async_pool.trim(Bytes{}, order))
    memory.release_allocation(addr);
}

Status GpuModel::trim_async_pool(DeviceId device, Bytes keep) {
  State& s = *state_;
  const Call call(s, CallKind::kPoolTrim, device, CallArguments{{}, keep, 0});
  if (!call.ok()) return call.status();
  for (const DeviceAddr addr : s.on(device).async_pool.trim(keep, s.order))
    s.memory.release_allocation(addr);
  return Status{};
}

AsyncPoolUse GpuModel::async_pool_use(DeviceId device) const {
  const base::MutexLock lock(state_->mutex);
  return state_->on(device).async_pool.use();
}

Status GpuModel::set_async_pool_threshold(DeviceId device, Bytes bytes) {
  const Call call(*state_, CallKind::kOther, device);
  if (!call.ok()) return call.status();
  state_->on(device).async_pool.set_threshold(bytes);
  return Status{};
}

Status GpuModel::reset_async_pool_peaks(DeviceId device) {
  const Call call(*state_, CallKind::kOther, device);
  if (!call.ok()) return call.status();
  state_->on(device).async_pool.reset_peaks();
  return Status{};
}

// ---- Virtual memory

Result<DeviceAddr> GpuModel::reserve_range(DeviceId device, Bytes bytes, Bytes alignment) {
  Call call(*state_, CallKind::kReserveRange, device, CallArguments{{}, bytes, 0});
  if (!call.ok()) return call.status();
  if (!state_->on(device).config.has_vmm) return call.fail(Native::kNotSupported);
  DeviceAddr addr;
  if (const Refusal refusal = state_->memory.reserve(bytes, alignment, device, addr);
      !refusal.ok()) {
    return call.fail(refusal);
  }
  return addr;
}

Status GpuModel::free_range(DeviceAddr addr, Bytes bytes) {
  State& s = *state_;
  Call call(s, CallKind::kFreeRange, CallArguments{addr, bytes, 0},
            [&](CallArguments&) { return s.device_of(addr); });
  if (!call.ok()) return call.status();
  return call.fail(s.memory.free_range(addr, bytes));
}

Result<HandleId> GpuModel::create_handle(DeviceId device, Bytes bytes) {
  State& s = *state_;
  Call call(s, CallKind::kCreateHandle, device, CallArguments{{}, bytes, 0});
  if (!call.ok()) return call.status();
  if (!s.on(device).config.has_vmm) return call.fail(Native::kNotSupported);
  HandleId handle;
  Refusal refusal = s.memory.create(device, bytes, handle);
  if (refusal.native == Native::kOutOfMemory && s.on(device).async_pool.has_free_blocks()) {
    s.give_back_async(device);
    refusal = s.memory.create(device, bytes, handle);
  }
  if (!refusal.ok()) return call.fail(refusal);
  return handle;
}

Result<HandleId> GpuModel::import_handle(DeviceId device, Bytes bytes) {
  State& s = *state_;
  Call call(s, CallKind::kOther, device, CallArguments{{}, bytes, 0});
  if (!call.ok()) return call.status();
  if (!s.on(device).config.has_vmm) return call.fail(Native::kNotSupported);
  HandleId handle;
  if (const Refusal refusal = s.memory.import(device, bytes, handle); !refusal.ok())
    return call.fail(refusal);
  return handle;
}

Status GpuModel::release_handle(HandleId handle) {
  State& s = *state_;
  Call call(s, CallKind::kReleaseHandle, CallArguments{{}, {}, handle.value},
            [&](CallArguments& arguments) {
              if (const Physical* physical = s.memory.find_handle(handle); physical != nullptr)
                arguments.bytes = physical->bytes;
              return s.device_of(handle);
            });
  if (!call.ok()) return call.status();
  return call.fail(s.memory.release(handle));
}

Result<HandleId> GpuModel::retain_handle(DeviceAddr addr) {
  State& s = *state_;
  Call call(s, CallKind::kRetainHandle, CallArguments{addr, {}, 0},
            [&](CallArguments&) { return s.device_of(addr); });
  if (!call.ok()) return call.status();
  HandleId handle;
  if (const Refusal refusal = s.memory.retain(addr, handle); !refusal.ok())
    return call.fail(refusal);
  return handle;
}

Result<Bytes> GpuModel::handle_bytes(HandleId handle) const {
  const base::MutexLock lock(state_->mutex);
  const Physical* physical = state_->memory.find_handle(handle);
  if (physical == nullptr) return to_status(Native::kInvalidValue);
  return physical->bytes;
}

Result<DeviceId> GpuModel::handle_device(HandleId handle) const {
  const base::MutexLock lock(state_->mutex);
  const Physical* physical = state_->memory.find_handle(handle);
  if (physical == nullptr) return to_status(Native::kInvalidValue);
  return physical->device;
}

Status GpuModel::map(DeviceAddr addr, Bytes bytes, HandleId handle) {
  State& s = *state_;
  Call call(s, CallKind::kMap, CallArguments{addr, bytes, handle.value},
            [&](CallArguments&) { return s.device_of(handle); });
  if (!call.ok()) return call.status();
  return call.fail(s.memory.map(addr, bytes, handle));
}

Status GpuModel::unmap(DeviceAddr addr, Bytes bytes) {
  State& s = *state_;
  Call call(s, CallKind::kUnmap, CallArguments{addr, bytes, 0},
            [&](CallArguments&) { return s.device_of(addr); });
  if (!call.ok()) return call.status();
  std::vector<Mapping*> found;
  constexpr DeviceMemory::WholeRules kRules{JudgeRule::kUnmapSomething, JudgeRule::kUnmapMapped,
                                            JudgeRule::kUnmapWhole};
  if (const Refusal refusal = s.memory.find_whole(addr, bytes, kRules, found); !refusal.ok()) {
    return call.fail(refusal);
  }
  for (Mapping* mapping : found) {
    if (s.is_judging()) s.check_done(*mapping, mapping->base, mapping->bytes, "cuMemUnmap");
    s.memory.unmap(*mapping);
  }
  return Status{};
}

Status GpuModel::set_access(DeviceAddr addr, Bytes bytes, DeviceId device, Access access) {
  State& s = *state_;
  Call call(s, CallKind::kSetAccess, device, CallArguments{addr, bytes, 0});
  if (!call.ok()) return call.status();
  std::vector<Mapping*> found;
  constexpr DeviceMemory::WholeRules kRules{JudgeRule::kAccessSomething, JudgeRule::kAccessMapped,
                                            JudgeRule::kAccessWhole};
  if (const Refusal refusal = s.memory.find_whole(addr, bytes, kRules, found); !refusal.ok()) {
    return call.fail(refusal);
  }
  const std::uint64_t bit = std::uint64_t{1} << device.value;
  for (Mapping* mapping : found) {
    mapping->readable =
        access == Access::kNone ? mapping->readable & ~bit : mapping->readable | bit;
    mapping->writable =
        access == Access::kReadWrite ? mapping->writable | bit : mapping->writable & ~bit;
  }
  return Status{};
}

// ---- Questions

Access GpuModel::access_of(DeviceAddr addr, DeviceId device) const {
  const base::MutexLock lock(state_->mutex);
  const Mapping* mapping = state_->memory.find_mapping(addr);
  if (mapping == nullptr) return Access::kNone;
  if ((mapping->writable >> device.value & 1) != 0) return Access::kReadWrite;
  return (mapping->readable >> device.value & 1) != 0 ? Access::kRead : Access::kNone;
}

AddressInfo GpuModel::find(DeviceAddr addr) const {
  const base::MutexLock lock(state_->mutex);
  return state_->memory.find(addr);
}

bool GpuModel::is_device_memory(DeviceAddr addr, Bytes bytes) const {
  const base::MutexLock lock(state_->mutex);
  return state_->memory.is_backed(addr, bytes);
}

std::vector<GpuModel::PhysicalSpan> GpuModel::physical_spans(DeviceAddr addr, Bytes bytes) const {
  const base::MutexLock lock(state_->mutex);
  std::vector<PhysicalSpan> spans;
  if (!state_->memory.is_backed(addr, bytes)) return spans;
  state_->memory.for_each_piece(
      addr, bytes, [&spans](const Mapping* mapping, DeviceAddr begin, Bytes count) {
        spans.push_back(PhysicalSpan{mapping->physical->serial, begin - mapping->base, count});
        return true;
      });
  return spans;
}

std::optional<Bytes> GpuModel::physical_bytes(DeviceAddr addr) const {
  const base::MutexLock lock(state_->mutex);
  const Mapping* mapping = state_->memory.find_mapping(addr);
  if (mapping == nullptr) return std::nullopt;
  return mapping->physical->bytes;
}

std::optional<GpuModel::PhysicalSpan> GpuModel::physical_of(HandleId handle) const {
  const base::MutexLock lock(state_->mutex);
  const Physical* physical = state_->memory.find_handle(handle);
  if (physical == nullptr) return std::nullopt;
  return PhysicalSpan{physical->serial, Bytes{}, physical->bytes};
}

void GpuModel::set_memory_gone_hook(std::function<void(std::uint64_t)> hook) {
  const base::MutexLock lock(state_->mutex);
  state_->memory_gone = std::move(hook);
}

}  // namespace levee::device::sim
