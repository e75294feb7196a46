// CRC-32C (Castagnoli), the checksum of every part of a trace file.
//
// Promises: `crc32c("123456789")` is 0xE3069283, on any CPU; uses the CPU's instruction where there
// is one. Costs: about 5 bytes/ns with it (SSE 4.2), 1 byte in 2 ns without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace levee::record {

std::uint32_t crc32c(std::span<const std::uint8_t> bytes);

namespace detail {
/// The same without the CPU's instruction; for tests.
std::uint32_t crc32c_by_table(std::span<const std::uint8_t> bytes);
}  // namespace detail

}  // namespace levee::record
