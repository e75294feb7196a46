#include "allocator/record/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#  include <nmmintrin.h>
#endif

namespace levee::record {
namespace {

constexpr std::uint32_t kPolynomial = 0x82F63B78;  // reversed

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? kPolynomial : 0U);
    table[i] = crc;
  }
  return table;
}
constexpr auto kTable = make_table();

#if defined(__x86_64__)
[[gnu::target("sse4.2")]] std::uint32_t crc32c_by_instruction(std::span<const std::uint8_t> bytes) {
  std::uint64_t crc = 0xFFFFFFFFU;
  const std::uint8_t* p = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, p += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, 8);
    crc = _mm_crc32_u64(crc, word);
  }
  auto tail = static_cast<std::uint32_t>(crc);
  for (; left > 0; --left, ++p) tail = _mm_crc32_u8(tail, *p);
  return ~tail;
}
#endif

}  // namespace

namespace detail {
std::uint32_t crc32c_by_table(std::span<const std::uint8_t> bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const std::uint8_t byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ byte) & 0xFFU];
  return ~crc;
}
}  // namespace detail

std::uint32_t crc32c(std::span<const std::uint8_t> bytes) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return crc32c_by_instruction(bytes);
#endif
  return detail::crc32c_by_table(bytes);
}

}  // namespace levee::record
