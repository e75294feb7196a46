// Search in short arrays of 16-bit numbers, eight at a time.
//
// Promises: what a plain loop finds. Pure. Cost: about eight instructions for each eight numbers
// and one branch that is hard to foresee, where a plain loop has one for each number.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace levee::core {

/// How many numbers behind the last one may be read; they do not matter.
inline constexpr std::uint32_t kSearchPadding = 7;

/// Index of the first of `count` numbers that is at least `least`; `count` if none is. Pre: all
/// are below 32,768, `least` is at most that, and `kSearchPadding` more can be read.
inline std::uint32_t first_at_least(const std::uint16_t* numbers, std::uint32_t count,
                                    std::uint32_t least) {
  static_assert(std::endian::native == std::endian::little, "the lowest lane is the first number");
  constexpr std::uint64_t kLanes = 0x0001'0001'0001'0001;
  constexpr std::uint64_t kTops = 0x8000 * kLanes;
  // A lane's top bit is set once this is added if and only if its number is large enough; nothing
  // is carried into the next one.
  const std::uint64_t missing = (0x8000 - least) * kLanes;
  for (std::uint32_t i = 0; i < count; i += 8) {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::memcpy(&low, numbers + i, sizeof(low));
    std::memcpy(&high, numbers + i + 4, sizeof(high));
    low = (low + missing) & kTops;
    high = (high + missing) & kTops;
    if ((low | high) == 0) continue;
    const auto lane = static_cast<std::uint32_t>(low != 0 ? std::countr_zero(low) / 16
                                                          : 4 + std::countr_zero(high) / 16);
    return i + lane < count ? i + lane : count;
  }
  return count;
}

}  // namespace levee::core
