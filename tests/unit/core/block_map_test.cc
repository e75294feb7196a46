#include "allocator/core/block_map.h"

#include <gtest/gtest.h>

#include <vector>

#include "allocator/core/chunk.h"

namespace levee::core {
namespace {

BlockRecord block_of(DeviceAddr addr, Bytes span, BlockKind kind = BlockKind::kLarge) {
  BlockRecord block;
  block.addr = addr;
  block.span = block.bytes = span;
  block.kind = kind;
  block.zone = ZoneIndex{0};
  return block;
}

TEST(BlockMap, FindsBlocksByStartAndByAnyByte) {
  BlockMap map;
  const DeviceAddr base{7ULL << 32};
  map.mark(base, 64_MiB, ZoneIndex{0});
  BlockRecord large = block_of(base + 3_MiB, 20_MiB);
  BlockRecord fragment = block_of(base + 23_MiB, 512_KiB, BlockKind::kFragment);
  map.set_block(&large);
  map.set_block(&fragment);
  EXPECT_EQ(map.block_at(base + 3_MiB), &large);
  EXPECT_EQ(map.block_at(base + 4_MiB), nullptr);
  EXPECT_EQ(map.block_containing(base + 22_MiB), &large);
  EXPECT_EQ(map.block_containing(base + 23_MiB + 100_KiB), &fragment);
  EXPECT_EQ(map.block_containing(base + 24_MiB), nullptr);
  EXPECT_EQ(map.block_containing(base + 2_MiB), nullptr);
  map.clear_block(&large);
  EXPECT_EQ(map.block_containing(base + 22_MiB), nullptr);
}

// In the same granule of 1 MiB, and in the next one.
TEST(BlockMap, ABlockBehindAFragmentIsFound) {
  for (Bytes start : {600_KiB, 1_MiB}) {
    BlockMap map;
    const DeviceAddr base{7ULL << 32};
    map.mark(base, 8_MiB, ZoneIndex{0});
    BlockRecord fragment = block_of(base, 512_KiB, BlockKind::kFragment);
    BlockRecord large = block_of(base + start, 3_MiB);
    map.set_block(&fragment);
    map.set_block(&large);
    EXPECT_EQ(map.block_containing(base + start), &large);
    EXPECT_EQ(map.block_containing(base + start + 300_KiB), &large);
    EXPECT_EQ(map.block_containing(base + 100_KiB), &fragment);
    EXPECT_EQ(map.block_containing(base + 550_KiB), nullptr);
  }
}

TEST(BlockMap, OwnsWhatWasMarked) {
  BlockMap map;
  const DeviceAddr base{0x7f00'0000'0000};
  EXPECT_TRUE(map.zone_of(base).is_none());
  map.mark(base, 4_MiB, ZoneIndex{3});
  EXPECT_EQ(map.zone_of(base + 3_MiB), ZoneIndex{3});
  EXPECT_TRUE(map.zone_of(base + 4_MiB).is_none());
  map.unmark_zone(base, 1_GiB, ZoneIndex{3});
  EXPECT_TRUE(map.zone_of(base).is_none());
  EXPECT_TRUE(map.zone_of(DeviceAddr{~0ULL}).is_none()) << "an address of nobody is no error";
}

TEST(BlockMap, WalksInOrderOfAddress) {
  BlockMap map;
  const DeviceAddr base{7ULL << 32};
  Chunk chunk;
  chunk.reset(base + 4_MiB, ZoneIndex{0}, 4_MiB, kDefaultPool, StreamIndex{1});
  BlockRecord first = block_of(base, 3_MiB);
  BlockRecord fragment = block_of(base + 3_MiB + 512_B, 1_KiB, BlockKind::kFragment);
  BlockRecord last = block_of(base + 6_MiB, 9_MiB);
  map.set_block(&last);
  map.set_block(&fragment);
  map.set_block(&first);
  map.set_chunk(chunk.base, &chunk);
  std::vector<DeviceAddr> seen;
  map.for_each(
      base, 16_MiB, [&](const BlockRecord& block) { seen.push_back(block.addr); },
      [&](const Chunk& c) { seen.push_back(c.base); });
  EXPECT_EQ(seen, (std::vector<DeviceAddr>{first.addr, fragment.addr, chunk.base, last.addr}));
}

}  // namespace
}  // namespace levee::core
