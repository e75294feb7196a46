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

/// A stream: the bits of a cudaStream_t. 0 is the legacy default stream.
struct StreamId {
  std::uint64_t value = 0;
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
