#include "allocator/export/column_chunk.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include <zlib.h>

#include "allocator/export/sinks.h"

namespace levee::exporting {
namespace {

using Column = std::span<const std::uint64_t>;

// Largest of these that divides every difference: sizes are mostly multiples of 512, times of
// nothing.
constexpr std::array<std::uint64_t, 3> kUnits = {std::uint64_t{1} << 21, 512, 1};

// Differences as signed numbers. Values lie far below 2^63, so that the subtraction cannot
// overflow; wrap-around is well defined for the unsigned type and comes back as the sign.
std::int64_t difference(Column column, std::size_t row) {
  return static_cast<std::int64_t>(column[row] - column[row - 1]);
}

std::uint64_t unit_of(Column column, std::size_t first, std::size_t last) {
  std::uint64_t low_bits = 0;
  for (std::size_t i = first + 1; i < last; ++i) low_bits |= column[i] - column[i - 1];
  for (const std::uint64_t unit : kUnits) {
    if ((low_bits & (unit - 1)) == 0) return unit;
  }
  return 1;
}

bool fits(Column column, std::size_t first, std::size_t last, std::uint64_t unit) {
  for (std::size_t i = first + 1; i < last; ++i) {
    const std::int64_t scaled = difference(column, i) / static_cast<std::int64_t>(unit);
    if (scaled < std::numeric_limits<std::int32_t>::min() ||
        scaled > std::numeric_limits<std::int32_t>::max()) {
      return false;
    }
  }
  return true;
}

}  // namespace

ColumnChunk encode_chunk(const std::vector<Column>& columns, std::size_t first, std::size_t last) {
  ColumnChunk out;
  out.count = last - first;
  for (const Column& column : columns) {
    const std::uint64_t unit = unit_of(column, first, last);
    out.bases.push_back(column[first]);
    out.units.push_back(unit);
    if (!fits(column, first, last, unit)) out.is_plain = true;
  }
  std::string raw;
  if (out.is_plain) {
    raw.resize(columns.size() * out.count * 8);
    std::size_t at = 0;
    for (const Column& column : columns) {
      for (std::size_t i = first; i < last; ++i, at += 8) {
        const double number = static_cast<double>(column[i]);
        std::memcpy(raw.data() + at, &number, 8);
      }
    }
  } else {
    raw.resize(columns.size() * out.count * 4);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      char* plane = raw.data() + c * out.count * 4;
      const auto unit = static_cast<std::int64_t>(out.units[c]);
      for (std::size_t i = first; i < last; ++i) {
        const std::int64_t scaled = i == first ? 0 : difference(columns[c], i) / unit;
        // Zigzag: small negative numbers must have zero high bytes too.
        const auto zigzag = static_cast<std::uint32_t>((scaled << 1) ^ (scaled >> 63));
        for (std::size_t b = 0; b < 4; ++b) {
          plane[b * out.count + (i - first)] = static_cast<char>(zigzag >> (8 * b) & 0xFFU);
        }
      }
    }
  }
  out.bytes = deflate(raw);
  return out;
}

std::vector<std::vector<std::uint64_t>> decode_chunk(const ColumnChunk& chunk) {
  const std::size_t columns = chunk.bases.size();
  const std::size_t size = columns * chunk.count * (chunk.is_plain ? 8 : 4);
  std::string raw(size, '\0');
  uLongf length = size;
  if (::uncompress(reinterpret_cast<Bytef*>(raw.data()), &length,
                   reinterpret_cast<const Bytef*>(chunk.bytes.data()),
                   static_cast<uLong>(chunk.bytes.size())) != Z_OK ||
      length != size) {
    return {};
  }
  std::vector<std::vector<std::uint64_t>> out(columns);
  for (std::size_t c = 0; c < columns; ++c) {
    out[c].resize(chunk.count);
    std::uint64_t value = chunk.bases[c];
    for (std::size_t i = 0; i < chunk.count; ++i) {
      if (chunk.is_plain) {
        double number = 0;
        std::memcpy(&number, raw.data() + (c * chunk.count + i) * 8, 8);
        out[c][i] = static_cast<std::uint64_t>(number);
        continue;
      }
      const char* plane = raw.data() + c * chunk.count * 4;
      std::uint32_t zigzag = 0;
      for (std::size_t b = 0; b < 4; ++b) {
        zigzag |= std::uint32_t{static_cast<unsigned char>(plane[b * chunk.count + i])} << (8 * b);
      }
      const auto scaled = static_cast<std::int32_t>((zigzag >> 1) ^ (~(zigzag & 1) + 1));
      value += static_cast<std::uint64_t>(std::int64_t{scaled}) * chunk.units[c];
      out[c][i] = value;
    }
  }
  return out;
}

}  // namespace levee::exporting
