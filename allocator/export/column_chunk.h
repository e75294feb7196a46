// Columns of numbers as small compressed pieces that a view fetches when it needs them.
//
// A chunk holds `count` rows of one or more columns. Coding "d4": each column as 32-bit differences
// to the row before (the first row's values are the bases), divided by the column's unit, stored as
// four planes of one byte each so that the high bytes, nearly all zero, compress to nothing; where
// a difference does not fit, coding "f8": plain 64-bit doubles. Both are then one zlib stream.
// Values above 2^53 lose their low bits in "f8", which no size or time of a trace reaches.
// README.md gives the layout for readers in other languages. Pure. Cost: about 100 MB/s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace levee::exporting {

struct ColumnChunk {
  std::size_t count = 0;
  bool is_plain = false;  ///< coding "f8"
  std::vector<std::uint64_t> bases;
  std::vector<std::uint64_t> units;
  std::string bytes;  ///< compressed
};

/// Encodes rows [first, last) of each column. Columns have equal length.
ColumnChunk encode_chunk(const std::vector<std::span<const std::uint64_t>>& columns,
                         std::size_t first, std::size_t last);

/// The inverse, for tests and for readers of bundles: one vector per column; empty if `chunk` is
/// damaged.
std::vector<std::vector<std::uint64_t>> decode_chunk(const ColumnChunk& chunk);

}  // namespace levee::exporting
