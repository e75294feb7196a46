// Which sizes requests are rounded to, and which part of the allocator serves them.
//
// Promises: the size counted as allocated is the request rounded up to 512 B, as PyTorch's own
// allocator counts it; what a size class adds to that is free memory lost to rounding, not
// allocated memory. Up to 16 KiB there are eight classes of 512 B steps (to 4 KiB), then four steps
// per doubling. Pure and constexpr.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include <levee/event.h>
#include <levee/units.h>

namespace levee::core {

inline constexpr Bytes kMinBlock = 512_B;    ///< alignment and least size of a block
inline constexpr Bytes kSlabLimit = 16_KiB;  ///< largest block that comes from a slab
inline constexpr Bytes kSmallLimit =
    1_MiB;  ///< largest block that shares a page with small ones only
inline constexpr Bytes kSlabBytes = 64_KiB;
inline constexpr std::uint32_t kSlabUnits = static_cast<std::uint32_t>(kSlabBytes.value / 512);
inline constexpr Bytes kChunkBytes = 2_MiB;  ///< page that small blocks are packed into
/// Larger requests are refused before any arithmetic: no device has that much (and event.h cannot
/// record it).
inline constexpr Bytes kLargestRequest = kMaxRequest - kChunkBytes;

constexpr Bytes allocated_size(Bytes requested) {
  return round_up(requested, kMinBlock);
}
constexpr bool is_small(Bytes allocated) {
  return allocated <= kSmallLimit;
}
constexpr bool is_slab_size(Bytes allocated) {
  return allocated <= kSlabLimit;
}

/// Index of a slab size class.
struct SizeClass {
  std::uint8_t value = 0;
  friend constexpr bool operator==(SizeClass, SizeClass) = default;
};

namespace detail {
constexpr std::size_t kClassCount = 16;
constexpr std::array<std::uint32_t, kClassCount> kClassBytes = {
    512,  1024, 1536, 2048, 2560,  3072,  3584,  4096,
    5120, 6144, 7168, 8192, 10240, 12288, 14336, 16384};

// One entry for each multiple of 512 B.
constexpr std::array<std::uint8_t, 33> make_class_table() {
  std::array<std::uint8_t, 33> table{};
  for (std::size_t units = 1; units < table.size(); ++units) {
    std::uint8_t c = 0;
    while (kClassBytes[c] < units * 512) ++c;
    table[units] = c;
  }
  return table;
}
inline constexpr std::array<std::uint8_t, 33> kClassOfUnits = make_class_table();

// Division by a class size as a multiplication: exact for every offset inside a slab.
constexpr std::array<std::uint32_t, kClassCount> make_reciprocals() {
  std::array<std::uint32_t, kClassCount> r{};
  for (std::size_t c = 0; c < kClassCount; ++c) {
    const std::uint32_t units = kClassBytes[c] / 512;
    r[c] = (65536 + units - 1) / units;
  }
  return r;
}
inline constexpr std::array<std::uint32_t, kClassCount> kReciprocal = make_reciprocals();
}  // namespace detail

inline constexpr std::size_t kClassCount = detail::kClassCount;

constexpr SizeClass class_of(Bytes allocated) {
  return SizeClass{detail::kClassOfUnits[(allocated.value + 511) / 512]};
}
constexpr Bytes class_bytes(SizeClass c) {
  return Bytes{detail::kClassBytes[c.value]};
}
constexpr std::uint32_t objects_per_slab(SizeClass c) {
  return static_cast<std::uint32_t>(kSlabBytes / class_bytes(c));
}
/// Which object of a slab holds the byte at `offset`. May be `objects_per_slab` in the unused tail.
constexpr std::uint32_t object_at(SizeClass c, Bytes offset) {
  return static_cast<std::uint32_t>(offset.value / 512) * detail::kReciprocal[c.value] >> 16;
}

static_assert(class_bytes(class_of(kSlabLimit)) == kSlabLimit);
static_assert(class_bytes(SizeClass{kClassCount - 1}) == kSlabLimit);
static_assert(objects_per_slab(SizeClass{0}) == 128, "a slab's bitmap has 128 bits");

}  // namespace levee::core
