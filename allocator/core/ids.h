// Small indices with which core's structures name each other. Each is its own type; none leaves
// core.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <levee/units.h>

namespace levee::core {

inline constexpr std::uint32_t kNoIndex = std::numeric_limits<std::uint32_t>::max();

/// A physical page in the page table.
struct PageIndex {
  std::uint32_t value = kNoIndex;
  friend constexpr auto operator<=>(PageIndex, PageIndex) = default;
  constexpr bool is_none() const { return value == kNoIndex; }
};

/// A zone in the space.
struct ZoneIndex {
  std::uint32_t value = kNoIndex;
  friend constexpr auto operator<=>(ZoneIndex, ZoneIndex) = default;
  constexpr bool is_none() const { return value == kNoIndex; }
};

/// A pool in the pool table. 0 is the default pool.
struct PoolIndex {
  std::uint32_t value = kNoIndex;
  friend constexpr auto operator<=>(PoolIndex, PoolIndex) = default;
  constexpr bool is_none() const { return value == kNoIndex; }
};
inline constexpr PoolIndex kDefaultPool{0};

/// A stream in the stream table.
struct StreamIndex {
  std::uint32_t value = kNoIndex;
  friend constexpr auto operator<=>(StreamIndex, StreamIndex) = default;
  constexpr bool is_none() const { return value == kNoIndex; }
};

/// A unit-sized piece of a zone's address range.
struct Slot {
  ZoneIndex zone;
  std::uint32_t unit = 0;
  friend constexpr auto operator<=>(Slot, Slot) = default;
};

struct DeviceAddrHash {
  std::size_t operator()(DeviceAddr addr) const noexcept {
    return static_cast<std::size_t>((addr.value >> 9) * 0x9E3779B97F4A7C15ULL);
  }
};

}  // namespace levee::core
