#include "tools/simgpu/core/work.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tools/simgpu/core/block_reports.h"
#include "tools/simgpu/core/host_functions.h"

namespace levee::simgpu {
namespace {

using activity::MemoryPlace;
using device::sim::CallKind;
using device::sim::CopyDirection;
using device::sim::MemoryKind;
using device::sim::Touch;
using device::sim::Work;
using device::sim::WorkKind;

constexpr int kInvalidValue = 1;
constexpr int kInvalidConfiguration = 9;
constexpr int kInvalidDeviceFunction = 98;

constexpr std::size_t kMaxThreadsPerBlock = 1024;

/// Set once anything was written to device memory: until then launches need not look at what they
/// overwrite.
std::atomic<bool> has_bytes{false};

int check_dimensions(const KernelLaunch& launch) {
  const auto& [gx, gy, gz] = launch.grid;
  const auto& [bx, by, bz] = launch.block;
  if (gx == 0 || gy == 0 || gz == 0 || bx == 0 || by == 0 || bz == 0) return kInvalidConfiguration;
  if (gx > 0x7FFFFFFF || gy > 65535 || gz > 65535) return kInvalidConfiguration;
  if (bx > 1024 || by > 1024 || bz > 64 || std::size_t{bx} * by * bz > kMaxThreadsPerBlock)
    return kInvalidConfiguration;
  return 0;
}

/// Elements from the first to the last of a TensorInfo; 1 if that cannot be told.
std::size_t elements_of_view(const OutputArgument& output, const void* argument) {
  constexpr std::size_t kMostDimensions = 25;
  const auto* bytes = static_cast<const char*>(argument) + sizeof(void*);
  const auto at = [&](std::size_t i) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes + i * output.view_index_bytes, output.view_index_bytes);
    return value;
  };
  std::int32_t dimensions = 0;
  std::memcpy(&dimensions, bytes + 2 * kMostDimensions * output.view_index_bytes,
              sizeof dimensions);
  if (dimensions < 1 || dimensions > static_cast<std::int32_t>(kMostDimensions)) return 1;
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(dimensions); ++i) {
    if (at(i) == 0) return 1;
    last += (at(i) - 1) * at(kMostDimensions + i);
  }
  return static_cast<std::size_t>(last + 1);
}

/// What the kernel writes is not what a copy put there before.
void forget_outputs(Process& process, const KernelLaunch& launch) {
  for (const OutputArgument& output : launch.kernel->outputs()) {
    const void* argument = launch.arguments[output.index];
    if (output.is_strided) {
      const StridedOutput known = strided_output(process, launch.arguments[0], argument);
      forget_bytes(process, reinterpret_cast<const void*>(known.at.value),
                   static_cast<std::size_t>(known.bytes.value));
      continue;
    }
    const void* pointer = nullptr;
    std::memcpy(&pointer, argument, sizeof pointer);
    if (pointer == nullptr) continue;
    std::size_t elements = 1;
    if (output.count_index >= 0) {
      std::int32_t count = 0;
      std::memcpy(&count, launch.arguments[output.count_index], sizeof count);
      if (count > 0) elements = static_cast<std::size_t>(count);
    } else if (output.view_index_bytes != 0) {
      elements = elements_of_view(output, argument);
    }
    // The width of an element is a guess, and must not reach the neighbour.
    const Bytes guessed{elements * std::max<std::size_t>(output.element_bytes, 1)};
    forget_bytes(process, pointer,
                 static_cast<std::size_t>(within_block(to_addr(pointer), guessed).value));
  }
}

Nanos kernel_duration(const Process& process, const KernelLaunch& launch) {
  const double blocks = static_cast<double>(launch.grid.x) * launch.grid.y * launch.grid.z;
  const double threads = blocks * launch.block.x * launch.block.y * launch.block.z;
  // Nearly all kernels outside of the math libraries are bound by memory: four bytes in and four
  // out for each element.
  const double elements = threads * launch.kernel->elements_per_thread();
  return process.latency().kernel_duration(elements * 2, elements * 8);
}

bool moves(Process& process, void* to, const void* from, std::size_t bytes, bool to_device,
           bool from_device) {
  device::sim::BackingStore& backing = process.backing();
  if (to_device) has_bytes.store(true, std::memory_order_relaxed);
  if (to_device && from_device) return backing.copy(to_addr(to), to_addr(from), Bytes{bytes});
  if (to_device) return backing.write(to_addr(to), from, Bytes{bytes});
  if (from_device) return backing.read(to, to_addr(from), Bytes{bytes});
  std::memmove(to, from, bytes);
  return true;
}

WorkKind work_kind(const Place& to, const Place& from) {
  if (to.is_device() && from.is_device()) {
    return to.device == from.device ? WorkKind::kMemcpyDeviceToDevice : WorkKind::kMemcpyPeer;
  }
  if (to.is_device()) return WorkKind::kMemcpyHostToDevice;
  return from.is_device() ? WorkKind::kMemcpyDeviceToHost : WorkKind::kMemcpyHostToHost;
}

CopyDirection copy_direction(WorkKind kind) {
  switch (kind) {
    case WorkKind::kMemcpyHostToDevice:
      return CopyDirection::kHostToDevice;
    case WorkKind::kMemcpyDeviceToHost:
      return CopyDirection::kDeviceToHost;
    case WorkKind::kMemcpyDeviceToDevice:
      return CopyDirection::kDeviceToDevice;
    case WorkKind::kMemcpyPeer:
      return CopyDirection::kPeer;
    default:
      return CopyDirection::kHostToHost;
  }
}

/// CUDA refuses a direction that the addresses contradict; managed and pinned memory can be either
/// side.
bool contradicts(Direction direction, const Place& to, const Place& from) {
  const auto must_be_device = [](const Place& place) {
    return place.kind == MemoryPlace::kPageable;
  };
  switch (direction) {
    case Direction::kHostToHost:
      return to.is_device() || from.is_device();
    case Direction::kHostToDevice:
      return from.is_device() || must_be_device(to);
    case Direction::kDeviceToHost:
      return to.is_device() || must_be_device(from);
    case Direction::kDeviceToDevice:
      return must_be_device(to) || must_be_device(from);
    case Direction::kDefault:
      return false;
  }
  return false;
}

/// Whether all bytes of rows are allocated or mapped.
bool is_whole(Process& process, const void* at, std::size_t width, std::size_t rows,
              std::size_t pitch) {
  const std::size_t span = rows == 0 ? 0 : (rows - 1) * pitch + width;
  return process.model().is_device_memory(to_addr(at), Bytes{span});
}

void add_touches(std::vector<Touch>* touches, const void* at, std::size_t width, std::size_t rows,
                 std::size_t pitch, bool writes) {
  if (rows == 1 || pitch == width) {
    touches->push_back(Touch{to_addr(at), Bytes{width * rows}, writes});
    return;
  }
  for (std::size_t row = 0; row < rows; ++row) {
    touches->push_back(Touch{to_addr(at) + Bytes{row * pitch}, Bytes{width}, writes});
  }
}

void note(const Work& work, const activity::Details& details) {
  if (activity::is_on(activity::kAnyWork)) {
    activity::note_details(static_cast<std::uint32_t>(work.correlation), details);
  }
}

}  // namespace

int launch_kernel(Process& process, const KernelLaunch& launch) {
  if (launch.kernel == nullptr) return kInvalidDeviceFunction;
  if (const int error = check_dimensions(launch); error != 0) return error;
  ThreadState& thread = this_thread();
  process.activate(thread.device);
  Work work;
  work.kind = WorkKind::kKernel;
  work.name = launch.kernel->name();
  work.duration = kernel_duration(process, launch);
  work.correlation = thread.correlation;
  work.overlaps_predecessor = launch.overlaps_predecessor;
  if (activity::is_on(activity::kKernels)) [[unlikely]] {
    const auto& [gx, gy, gz] = launch.grid;
    const auto& [bx, by, bz] = launch.block;
    launch.kernel->last_grid.store(gx | std::uint64_t{gy} << 32 | std::uint64_t{gz} << 48,
                                   std::memory_order_relaxed);
    launch.kernel->last_block.store(bx | std::uint64_t{by} << 16 | std::uint64_t{bz} << 32,
                                    std::memory_order_relaxed);
    activity::Details details;
    details.kernel = launch.kernel;
    details.grid[0] = gx;
    details.grid[1] = gy;
    details.grid[2] = gz;
    details.block[0] = bx;
    details.block[1] = by;
    details.block[2] = bz;
    details.dynamic_shared = static_cast<std::uint32_t>(launch.dynamic_shared);
    note(work, details);
  }
  const bool may_change = launch.arguments != nullptr && has_bytes.load(std::memory_order_relaxed);
  if (may_change && launch.kernel->movement().kind != Movement::Kind::kNone) {
    work.effect =
        effect_of_movement(process, launch.kernel->movement(), launch.arguments, launch.grid.y);
  } else if (launch.arguments != nullptr &&
             launch.kernel->small().kind != SmallKernel::Kind::kNone) {
    work.effect = effect_of_small_kernel(process, launch.kernel->small(), launch.arguments);
    if (work.effect) has_bytes.store(true, std::memory_order_relaxed);
  }
  const bool has_effect = work.effect != nullptr;
  const Status status = process.model().enqueue(DeviceId{thread.device}, to_stream(launch.stream),
                                                CallKind::kLaunchKernel, work);
  if (status.ok() && may_change && !has_effect) forget_outputs(process, launch);
  return native_code(status);
}

Place place_of(Process& process, const void* address) {
  const device::sim::AddressInfo info = process.model().find(to_addr(address));
  if (info.kind != MemoryKind::kNone) return {MemoryPlace::kDevice, info.device.value};
  if (const auto host = process.host_memory().find(address)) {
    if (host->kind == HostKind::kManaged) return {MemoryPlace::kManaged, host->device};
    return {MemoryPlace::kPinned, host->device};
  }
  return {MemoryPlace::kPageable, -1};
}

int copy(Process& process, const Copy& what) {
  if (what.width == 0 || what.rows == 0) return 0;
  if (what.to == nullptr || what.from == nullptr) return kInvalidValue;
  if (what.rows > 1 && (what.to_pitch < what.width || what.from_pitch < what.width))
    return 12;  // cudaErrorInvalidPitchValue
  const Place to = place_of(process, what.to);
  const Place from = place_of(process, what.from);
  if (contradicts(what.direction, to, from)) return kInvalidValue;
  if (to.is_device() && !is_whole(process, what.to, what.width, what.rows, what.to_pitch))
    return kInvalidValue;
  if (from.is_device() && !is_whole(process, what.from, what.width, what.rows, what.from_pitch))
    return kInvalidValue;

  ThreadState& thread = this_thread();
  process.activate(thread.device);
  Work work;
  work.kind = work_kind(to, from);
  work.name = "memcpy";
  work.bytes = Bytes{what.width * what.rows};
  work.correlation = thread.correlation;
  const bool is_pageable = to.kind == MemoryPlace::kPageable || from.kind == MemoryPlace::kPageable;
  work.duration =
      process.latency().copy_duration(work.bytes, copy_direction(work.kind), is_pageable);
  std::vector<Touch> touches;
  if (process.is_judging()) {
    if (from.is_device())
      add_touches(&touches, what.from, what.width, what.rows, what.from_pitch, false);
    if (to.is_device()) add_touches(&touches, what.to, what.width, what.rows, what.to_pitch, true);
    work.touches = touches;
  }
  work.effect = [&process, what, to_device = to.is_device(), from_device = from.is_device()] {
    for (std::size_t row = 0; row < what.rows; ++row) {
      moves(process, static_cast<char*>(what.to) + row * what.to_pitch,
            static_cast<const char*>(what.from) + row * what.from_pitch, what.width, to_device,
            from_device);
    }
  };
  // A copy to memory that the driver cannot write in the background returns when it is done,
  // whatever the call's name says.
  const bool blocks = !what.is_async || (work.kind == WorkKind::kMemcpyDeviceToHost && is_pageable);
  activity::Details details;
  details.from = from.kind;
  details.to = to.kind;
  details.from_device = from.device < 0 ? 0 : from.device;
  details.to_device = to.device < 0 ? 0 : to.device;
  details.is_async = what.is_async;
  note(work, details);
  const int code = native_code(
      process.model().enqueue(DeviceId{thread.device}, to_stream(what.stream),
                              blocks ? CallKind::kMemcpy : CallKind::kMemcpyAsync, work));
  if (blocks && code == 0) process.host_functions().drain();
  return code;
}

int fill(Process& process, const Fill& what) {
  if (what.width == 0 || what.rows == 0) return 0;
  if (what.to == nullptr) return kInvalidValue;
  const Place to = place_of(process, what.to);
  if (to.kind == MemoryPlace::kPageable) return kInvalidValue;
  if (to.is_device() && !is_whole(process, what.to, what.width, what.rows, what.pitch))
    return kInvalidValue;
  ThreadState& thread = this_thread();
  process.activate(thread.device);
  Work work;
  work.kind = WorkKind::kMemset;
  work.name = "memset";
  work.bytes = Bytes{what.width * what.rows};
  work.correlation = thread.correlation;
  work.duration = process.latency().memset_duration(work.bytes);
  std::vector<Touch> touches;
  if (process.is_judging() && to.is_device()) {
    add_touches(&touches, what.to, what.width, what.rows, what.pitch, true);
    work.touches = touches;
  }
  work.effect = [&process, what, is_device = to.is_device()] {
    for (std::size_t row = 0; row < what.rows; ++row) {
      char* at = static_cast<char*>(what.to) + row * what.pitch;
      if (is_device) {
        if (what.pattern != 0) has_bytes.store(true, std::memory_order_relaxed);
        process.backing().fill_pattern(to_addr(at), what.pattern, what.pattern_bytes,
                                       Bytes{what.width});
      } else {
        for (std::size_t i = 0; i < what.width; i += what.pattern_bytes) {
          std::memcpy(at + i, &what.pattern, std::min(what.pattern_bytes, what.width - i));
        }
      }
    }
  };
  activity::Details details;
  details.to = to.kind;
  details.is_async = what.is_async;
  details.value = static_cast<std::uint8_t>(what.pattern);
  note(work, details);
  return native_code(
      process.model().enqueue(DeviceId{thread.device}, to_stream(what.stream),
                              what.is_async ? CallKind::kMemsetAsync : CallKind::kMemset, work));
}

bool move_bytes(Process& process, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return true;
  return moves(process, to, from, bytes, place_of(process, to).is_device(),
               place_of(process, from).is_device());
}

void forget_bytes(Process& process, const void* at, std::size_t bytes) {
  if (bytes == 0 || !has_bytes.load(std::memory_order_relaxed)) return;
  process.backing().fill(to_addr(at), 0, Bytes{bytes});
}

}  // namespace levee::simgpu
