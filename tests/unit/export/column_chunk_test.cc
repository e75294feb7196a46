#include "allocator/export/column_chunk.h"

#include <random>

#include <gtest/gtest.h>

namespace levee::exporting {
namespace {

using Column = std::vector<std::uint64_t>;

TEST(ColumnChunk, RandomColumnsComeBackExactly) {
  std::mt19937_64 rng(5);
  for (int round = 0; round < 50; ++round) {
    const std::size_t rows = 1 + rng() % 3000;
    Column time, bytes, steep;
    std::uint64_t now = rng() % (std::uint64_t{1} << 45);
    for (std::size_t i = 0; i < rows; ++i) {
      now += rng() % 100'000;
      time.push_back(now);
      bytes.push_back((rng() % 1'000'000) * 512);
      steep.push_back(rng() % (std::uint64_t{1} << 31));
    }
    const ColumnChunk chunk = encode_chunk({time, bytes, steep}, 0, rows);
    EXPECT_FALSE(chunk.is_plain);
    EXPECT_EQ(chunk.units[1] % 512, rows == 1 ? chunk.units[1] % 512 : 0U);
    const auto decoded = decode_chunk(chunk);
    ASSERT_EQ(decoded.size(), 3U);
    EXPECT_EQ(decoded[0], time);
    EXPECT_EQ(decoded[1], bytes);
    EXPECT_EQ(decoded[2], steep);
  }
}

TEST(ColumnChunk, AWindowOfRowsStartsFromItsOwnBase) {
  const Column time = {10, 20, 35, 70, 71};
  const ColumnChunk chunk = encode_chunk({time}, 2, 5);
  EXPECT_EQ(chunk.bases[0], 35U);
  EXPECT_EQ(decode_chunk(chunk)[0], (Column{35, 70, 71}));
}

TEST(ColumnChunk, JumpsBeyond32BitsTakeThePlainCoding) {
  const Column time = {1, 1 + (std::uint64_t{1} << 40), 2 + (std::uint64_t{1} << 41)};
  const ColumnChunk chunk = encode_chunk({time}, 0, 3);
  EXPECT_TRUE(chunk.is_plain);
  EXPECT_EQ(decode_chunk(chunk)[0], time);
}

TEST(ColumnChunk, ADamagedChunkDecodesToNothing) {
  const Column time = {1, 2, 3};
  ColumnChunk chunk = encode_chunk({time}, 0, 3);
  chunk.bytes.resize(chunk.bytes.size() / 2);
  EXPECT_TRUE(decode_chunk(chunk).empty());
}

}  // namespace
}  // namespace levee::exporting
