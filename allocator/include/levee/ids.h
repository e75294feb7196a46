// Names of things that are not numbers to compute with. Each is its own type, so that a device
// cannot be passed where a stream is meant. All are trivially copyable, comparable and usable as
// keys of hash tables.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace levee {

/// Index of a device in this process, as CUDA counts them.
struct DeviceId {
  std::int32_t value = 0;
  friend constexpr auto operator<=>(DeviceId, DeviceId) = default;
};

/// A stream as the allocator of one device knows it: the bits of a cudaStream_t. 0 and 1 are the
/// legacy default stream of that device, 2 is the calling thread's default stream on it. A stream
/// of another device carries that device's number, since each device has streams 0 to 2 of its own,
/// and since an event can be recorded only on streams of the device that it was made on.
struct StreamId {
  std::uint64_t value = 0;

  /// The name under which another device's allocator knows `handle`. Pre: `device` is below 127.
  static constexpr StreamId on_device(DeviceId device, StreamId handle) {
    return {(static_cast<std::uint64_t>(device.value) + 1) << kDeviceShift | handle.handle().value};
  }
  constexpr bool is_foreign() const { return value >> kDeviceShift != 0; }
  /// Pre: is_foreign().
  constexpr DeviceId device() const {
    return {static_cast<std::int32_t>(value >> kDeviceShift) - 1};
  }
  /// The bits of the cudaStream_t alone.
  constexpr StreamId handle() const { return {value & ((1ULL << kDeviceShift) - 1)}; }

  static constexpr int kDeviceShift = 57;  ///< addresses of user space have 57 bits at most
  friend constexpr auto operator<=>(StreamId, StreamId) = default;
};

/// An event of a device: the bits of a cudaEvent_t. 0 names none.
struct EventId {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(EventId, EventId) = default;
};

/// A physical allocation of a device: the bits of a CUmemGenericAllocationHandle. 0 names none.
struct HandleId {
  std::uint64_t value = 0;
  friend constexpr auto operator<=>(HandleId, HandleId) = default;
};

/// A pool: the two numbers of torch's MempoolId_t. {0, 0} is the default pool.
struct PoolId {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend constexpr auto operator<=>(PoolId, PoolId) = default;
  constexpr bool is_default() const { return first == 0 && second == 0; }
};

/// A context interned by the recorder (Python stack, phase); 0 is "none".
struct ContextId {
  std::uint32_t value = 0;
  friend constexpr auto operator<=>(ContextId, ContextId) = default;
};

}  // namespace levee

template <>
struct std::hash<levee::StreamId> {
  std::size_t operator()(levee::StreamId id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value);
  }
};
template <>
struct std::hash<levee::EventId> {
  std::size_t operator()(levee::EventId id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value);
  }
};
template <>
struct std::hash<levee::HandleId> {
  std::size_t operator()(levee::HandleId id) const noexcept {
    return std::hash<std::uint64_t>{}(id.value);
  }
};
template <>
struct std::hash<levee::PoolId> {
  std::size_t operator()(levee::PoolId id) const noexcept {
    return std::hash<std::uint64_t>{}(id.first * 0x9E3779B97F4A7C15ULL ^ id.second);
  }
};
