#include "allocator/device/sim/small_chunks.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace levee::device::sim {
namespace {

constexpr DeviceAddr kBase{2ULL << 30};

TEST(SmallChunk, PiecesAreFirstFitAndMergeWhenTheyComeBack) {
  SmallChunk chunk(kBase);
  const DeviceAddr a = chunk.take(1024, 700);
  const DeviceAddr b = chunk.take(512, 1);
  const DeviceAddr c = chunk.take(512, 512);
  EXPECT_EQ(a, kBase);
  EXPECT_EQ(b, kBase + 1_KiB);
  EXPECT_TRUE(chunk.give_back(a));
  EXPECT_TRUE(chunk.give_back(b));
  EXPECT_EQ(chunk.take(1536, 1536), kBase);
  EXPECT_FALSE(chunk.give_back(b)) << "no piece begins there any more";
  EXPECT_TRUE(chunk.give_back(kBase));
  EXPECT_TRUE(chunk.give_back(c));
  EXPECT_TRUE(chunk.is_empty());
  EXPECT_EQ(chunk.largest_free(), kPage.value);
}

TEST(SmallChunk, FindsThePieceByAnyOfItsRequestedBytes) {
  SmallChunk chunk(kBase);
  const DeviceAddr a = chunk.take(1024, 700);
  EXPECT_EQ(chunk.find(a + 699_B).addr, a);
  EXPECT_EQ(chunk.find(a + 699_B).bytes, 700_B);
  EXPECT_EQ(chunk.find(a + 700_B).bytes, Bytes{});
  EXPECT_EQ(chunk.find(a + 1_KiB).bytes, Bytes{});
}

TEST(SmallChunk, AgreesWithAMapOfPiecesUnderRandomUse) {
  std::mt19937 random(7);
  SmallChunk chunk(kBase);
  std::map<std::uint64_t, std::uint32_t> live;
  for (int step = 0; step < 5'000; ++step) {
    const std::uint32_t bytes = static_cast<std::uint32_t>(1 + random() % 200) * 512;
    if (random() % 2 == 0 && bytes <= chunk.largest_free()) {
      const DeviceAddr addr = chunk.take(bytes, bytes);
      const auto next = live.lower_bound(addr.value);
      ASSERT_TRUE(next == live.end() || next->first >= addr.value + bytes);
      if (next != live.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, addr.value);
      }
      live.emplace(addr.value, bytes);
    } else if (!live.empty()) {
      auto it = live.begin();
      std::advance(it, static_cast<std::ptrdiff_t>(random() % live.size()));
      ASSERT_TRUE(chunk.give_back(DeviceAddr{it->first}));
      live.erase(it);
    }
    ASSERT_EQ(chunk.live_count(), live.size());
  }
}

TEST(SmallChunks, TheFullestChunkThatHasRoomIsChosen) {
  SmallChunk roomy(kBase);
  SmallChunk full(kBase + 2_MiB);
  static_cast<void>(full.take(1U << 20, 1U << 20));
  SmallChunks chunks;
  chunks.add(&roomy);
  chunks.add(&full);
  EXPECT_EQ(chunks.choose(512), &full);
  EXPECT_EQ(chunks.choose((1U << 20) + 512), &roomy);
  chunks.remove(&roomy);
  EXPECT_EQ(chunks.choose((1U << 20) + 512), nullptr);
}

}  // namespace
}  // namespace levee::device::sim
