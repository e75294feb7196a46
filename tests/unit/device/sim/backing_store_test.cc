// The bytes behind device addresses.
#include "allocator/device/sim/backing_store.h"

#include <cstring>
#include <numeric>

#include "tests/unit/device/sim/model_fixture.h"

namespace levee::device::sim {
namespace {

using ::testing::Each;

std::vector<std::uint8_t> pattern(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{1});
  return bytes;
}

class Backing : public ModelTest {
 protected:
  std::vector<std::uint8_t> read(DeviceAddr from, std::size_t count,
                                 BackingStore* from_store = nullptr) {
    std::vector<std::uint8_t> bytes(count, 0xEE);
    EXPECT_TRUE(
        (from_store == nullptr ? store : *from_store).read(bytes.data(), from, Bytes{count}));
    return bytes;
  }
  BackingStore store{model};
};

TEST_F(Backing, WhatWasWrittenIsReadAndTheRestIsZero) {
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  const auto bytes = pattern(10'000);
  ASSERT_TRUE(store.write(block + 100_B, bytes.data(), Bytes{bytes.size()}));
  EXPECT_EQ(read(block + 100_B, bytes.size()), bytes);
  EXPECT_THAT(read(block, 100), Each(0));
  EXPECT_THAT(read(block + 2_MiB, 100), Each(0));
  EXPECT_EQ(store.held(), Bytes{3 * 4096});
}

TEST_F(Backing, OfALargeWriteTheFirst64KiBAreKept) {
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  const auto old_bytes = pattern(200'000);
  const std::vector<std::uint8_t> ones(50'000, 1);
  ASSERT_TRUE(store.write(block + 100'000_B, ones.data(), Bytes{ones.size()}));
  ASSERT_TRUE(store.write(block, old_bytes.data(), Bytes{old_bytes.size()}));
  const auto now = read(block, 200'000);
  EXPECT_TRUE(std::equal(now.begin(), now.begin() + 65'536, old_bytes.begin()));
  // What is not kept reads as zero, not as what was there before.
  EXPECT_THAT(std::vector<std::uint8_t>(now.begin() + 65'536, now.end()), Each(0));
  EXPECT_EQ(store.lost(), Bytes{200'000 - 65'536});
}

TEST_F(Backing, OnRequestItIsComplete) {
  BackingStore complete(
      model, BackingStoreConfig{.complete = true, .kept_per_access = {}, .most_bytes = 4_GiB});
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  const auto bytes = pattern(3'000'000);
  ASSERT_TRUE(complete.write(block, bytes.data(), Bytes{bytes.size()}));
  EXPECT_EQ(read(block, bytes.size(), &complete), bytes);
  EXPECT_EQ(complete.lost(), Bytes{});
}

TEST_F(Backing, ItsHostMemoryIsBounded) {
  BackingStore tiny(
      model, BackingStoreConfig{.complete = true, .kept_per_access = {}, .most_bytes = 8_KiB});
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  const auto bytes = pattern(20'000);
  ASSERT_TRUE(tiny.write(block, bytes.data(), Bytes{bytes.size()}));
  EXPECT_EQ(tiny.held(), 8_KiB);
  EXPECT_EQ(tiny.lost(), Bytes{20'000 - 8'192});
}

TEST_F(Backing, SmallAccessesAreNotCrowdedOutByLargeOnes) {
  BackingStore tight(model, BackingStoreConfig{.complete = true, .most_bytes = 1_MiB});
  const DeviceAddr large = model.allocate(kGpu, 4_MiB).value();
  const DeviceAddr other = model.allocate(kGpu, 4_MiB).value();
  const auto bytes = pattern(4 << 20);
  ASSERT_TRUE(tight.write(large, bytes.data(), 4_MiB));
  ASSERT_TRUE(tight.fill(other + 2_MiB, 7, 1_MiB));
  ASSERT_TRUE(tight.copy(other + 3_MiB, large, 65_KiB));
  EXPECT_EQ(tight.held(), 896_KiB);
  EXPECT_EQ(tight.lost(), 4_MiB - 896_KiB + 1_MiB + 65_KiB);
  // Counts, 64 KiB in one go, and their copies.
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(tight.write(other + Bytes{i * 4096}, bytes.data() + i, 8_B));
  }
  ASSERT_TRUE(tight.write(other + 1_MiB, bytes.data(), 64_KiB));
  ASSERT_TRUE(tight.copy(other + 100_KiB, other + 4_KiB, 8_B));
  EXPECT_EQ(read(other + 28_KiB, 8, &tight),
            (std::vector<std::uint8_t>{8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(read(other + 100_KiB, 2, &tight), (std::vector<std::uint8_t>{2, 3}));
  EXPECT_EQ(read(other + 1_MiB, 64 << 10, &tight), pattern(64 << 10));
  // They too are bounded.
  ASSERT_TRUE(tight.write(other + 2_MiB, bytes.data(), 64_KiB));
  EXPECT_EQ(tight.held(), 1_MiB);
}

TEST_F(Backing, ItTellsOnceThatItHasRunOut) {
  int told = 0;
  BackingStore tight(
      model, BackingStoreConfig{
                 .complete = true, .most_bytes = 1_MiB, .on_first_loss = [&told] { ++told; }});
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  const auto bytes = pattern(4 << 20);
  ASSERT_TRUE(tight.write(block, bytes.data(), 896_KiB));
  ASSERT_TRUE(tight.fill(block, 0, 4_MiB));
  ASSERT_TRUE(tight.write(block, bytes.data(), 896_KiB));
  EXPECT_EQ(told, 0);
  ASSERT_TRUE(tight.copy(block + 2_MiB, block, 512_KiB));
  EXPECT_EQ(told, 1);
  ASSERT_TRUE(tight.write(block, bytes.data(), 4_MiB));
  EXPECT_EQ(told, 1);
}

TEST_F(Backing, WhatAFullStoreCouldNotKeepIsNotThere) {
  BackingStore tiny(
      model, BackingStoreConfig{.complete = true, .kept_per_access = {}, .most_bytes = 8_KiB});
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  const auto bytes = pattern(20'000);
  ASSERT_TRUE(tiny.write(block, bytes.data(), Bytes{bytes.size()}));
  EXPECT_FALSE(tiny.holds(block + 8_KiB, 1_MiB));
  EXPECT_THAT(read(block + 8_KiB, 4'096, &tiny), Each(0));
  ASSERT_TRUE(tiny.fill(block, 0, 4_MiB));
  EXPECT_EQ(tiny.held(), Bytes{});
}

TEST_F(Backing, FillsRepeatTheirPatternAndZeroCostsNothing) {
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  ASSERT_TRUE(store.fill(block, 7, 1000_B));
  EXPECT_THAT(read(block, 1000), Each(7));
  ASSERT_TRUE(store.fill_pattern(block + 2_B, 0x04030201, 4, 8_B));
  EXPECT_EQ(read(block, 12), (std::vector<std::uint8_t>{7, 7, 1, 2, 3, 4, 1, 2, 3, 4, 7, 7}));
  ASSERT_TRUE(store.fill_pattern(block, 0xBBAA, 2, 4_B));
  EXPECT_EQ(read(block, 4), (std::vector<std::uint8_t>{0xAA, 0xBB, 0xAA, 0xBB}));
  EXPECT_FALSE(store.fill_pattern(block, 1, 4, 6_B));
  EXPECT_FALSE(store.fill_pattern(block, 1, 3, 6_B));
  ASSERT_TRUE(store.fill(block, 0, 4_MiB));
  EXPECT_EQ(store.held(), Bytes{});
  EXPECT_THAT(read(block, 1000), Each(0));
}

TEST_F(Backing, AZeroedSpanForgetsItsBytesAndNoOthers) {
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  const auto bytes = pattern(20'000);
  // Every way in which a span can begin and end inside pieces of 4 KiB.
  for (const std::size_t begin : {0UL, 1UL, 4095UL, 4096UL, 5000UL}) {
    for (const std::size_t end : {5001UL, 8191UL, 8192UL, 12'288UL, 20'000UL}) {
      ASSERT_TRUE(store.write(block, bytes.data(), Bytes{bytes.size()}));
      ASSERT_TRUE(store.fill(block + Bytes{begin}, 0, Bytes{end - begin}));
      auto expected = bytes;
      std::fill(expected.begin() + static_cast<std::ptrdiff_t>(begin),
                expected.begin() + static_cast<std::ptrdiff_t>(end), std::uint8_t{0});
      EXPECT_EQ(read(block, bytes.size()), expected) << begin << " to " << end;
    }
  }
  ASSERT_TRUE(store.fill(block, 0, 4_MiB));
  EXPECT_EQ(store.held(), Bytes{});
}

TEST_F(Backing, CopiesMoveAllThatIsHeld) {
  const DeviceAddr a = model.allocate(kGpu, 4_MiB).value();
  const DeviceAddr b = model.allocate(kGpu, 4_MiB).value();
  const auto bytes = pattern(5'000);
  ASSERT_TRUE(store.write(a + 1_MiB, bytes.data(), Bytes{bytes.size()}));
  ASSERT_TRUE(store.fill(b, 9, 64_KiB));
  ASSERT_TRUE(store.copy(b + 3_B, a + 512_KiB, 3_MiB));  // another alignment inside the pieces
  EXPECT_EQ(read(b + 512_KiB + 3_B, bytes.size()), bytes);
  EXPECT_EQ(read(b, 4), (std::vector<std::uint8_t>{9, 9, 9, 0}));
}

TEST_F(Backing, OverlappingCopiesKeepTheirBytes) {
  const DeviceAddr a = model.allocate(kGpu, 4_MiB).value();
  const auto bytes = pattern(10'000);
  ASSERT_TRUE(store.write(a, bytes.data(), Bytes{bytes.size()}));
  ASSERT_TRUE(store.copy(a + 100_B, a, Bytes{bytes.size()}));
  EXPECT_EQ(read(a + 100_B, bytes.size()), bytes);
  ASSERT_TRUE(store.copy(a + 50_B, a + 100_B, Bytes{bytes.size()}));
  EXPECT_EQ(read(a + 50_B, bytes.size()), bytes);
}

TEST_F(Backing, TwoAddressesOfOneHandleShowTheSameBytes) {
  const auto pages = new_pages(2);
  const DeviceAddr first = map_run(pages);
  const DeviceAddr second = map_run({pages[1], pages[0]});
  const auto bytes = pattern(4'000);
  ASSERT_TRUE(store.write(first + 2_MiB - 2'000_B, bytes.data(),
                          Bytes{bytes.size()}));  // across both pages
  const std::vector<std::uint8_t> head(bytes.begin(), bytes.begin() + 2'000);
  const std::vector<std::uint8_t> tail(bytes.begin() + 2'000, bytes.end());
  EXPECT_EQ(read(second + 4_MiB - 2'000_B, 2'000), head);
  EXPECT_EQ(read(second, 2'000), tail);
}

TEST_F(Backing, FreedMemoryIsForgotten) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  const auto bytes = pattern(100);
  ASSERT_TRUE(store.write(block, bytes.data(), 100_B));
  ASSERT_TRUE(model.release(block).ok());
  EXPECT_EQ(store.held(), Bytes{});
  ASSERT_EQ(model.allocate(kGpu, 2_MiB).value(), block);
  EXPECT_THAT(read(block, 100), Each(0));
}

TEST_F(Backing, WhatIsNoDeviceMemoryIsRefused) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  std::uint8_t byte = 5;
  EXPECT_FALSE(store.write(block + 2_MiB, &byte, 1_B));
  EXPECT_FALSE(store.read(&byte, DeviceAddr{4096}, 1_B));
  EXPECT_FALSE(store.copy(block, block + 1_MiB, 2_MiB));
  EXPECT_FALSE(store.fill(block, 1, 4_MiB));
  EXPECT_EQ(byte, 5);
  EXPECT_TRUE(store.write(block, &byte, Bytes{}));
}

TEST_F(Backing, KnowsWhetherARangeHoldsAnything) {
  const DeviceAddr block = model.allocate(kGpu, 64_MiB).value();
  EXPECT_FALSE(store.holds(block, 64_MiB));
  const auto bytes = pattern(100);
  ASSERT_TRUE(store.write(block + 20_MiB, bytes.data(), Bytes{bytes.size()}));
  EXPECT_TRUE(store.holds(block, 64_MiB));
  EXPECT_FALSE(store.holds(block, 20_MiB));
  EXPECT_FALSE(store.holds(block + 21_MiB, 43_MiB));
  ASSERT_TRUE(store.fill(block + 19_MiB, 0, 2_MiB));
  EXPECT_FALSE(store.holds(block, 64_MiB));
}

TEST_F(Backing, ACopyAcrossPiecesAndMappingsMovesWhatIsHeld) {
  const DeviceAddr from = model.allocate(kGpu, 8_MiB).value();
  const DeviceAddr range = model.reserve_range(kGpu, 8_MiB, {}).value();
  for (std::uint64_t i = 0; i < 4; ++i) {
    const HandleId handle = model.create_handle(kGpu, 2_MiB).value();
    ASSERT_TRUE(model.map(range + Bytes{(std::uint64_t{2} << 20) * i}, 2_MiB, handle).ok());
  }
  ASSERT_TRUE(model.set_access(range, 8_MiB, kGpu).ok());
  const auto bytes = pattern(10'000);
  // Lands across the border of two mappings, at another offset in its 4 KiB than it came from.
  ASSERT_TRUE(store.write(from + 3_MiB, bytes.data(), Bytes{bytes.size()}));
  ASSERT_TRUE(store.copy(range + 5'000_B, from + 2_MiB - 1'234_B, 4_MiB));
  const std::uint64_t at = 5'000 + 1'234 + (1 << 20);
  EXPECT_EQ(read(range + Bytes{at}, bytes.size()), bytes);
  EXPECT_THAT(read(range + Bytes{at - 4'096}, 4'096), Each(0));
  EXPECT_THAT(read(range + Bytes{at + bytes.size()}, 4'096), Each(0));
}

TEST_F(Backing, SharedMemoryLivesWhereOthersSeeIt) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  const auto bytes = pattern(5'000);
  ASSERT_TRUE(store.write(block + 100_B, bytes.data(), Bytes{bytes.size()}));
  const std::shared_ptr<std::uint8_t[]> contents(new std::uint8_t[std::size_t{2} << 20]());
  store.share(model.physical_spans(block, 2_MiB).front().serial, contents, 2_MiB, true);
  EXPECT_EQ(store.held(), Bytes{});
  EXPECT_EQ(contents[100], 1);
  EXPECT_EQ(read(block + 100_B, bytes.size()), bytes);
  contents[7] = 42;
  EXPECT_EQ(read(block + 7_B, 1).front(), 42);
  ASSERT_TRUE(store.fill(block, 0, 2_MiB));
  EXPECT_EQ(contents[100], 0);
  ASSERT_TRUE(store.write(block, bytes.data(), Bytes{bytes.size()}));
  const DeviceAddr other = model.allocate(kGpu, 2_MiB).value();
  ASSERT_TRUE(store.copy(other, block, 2_MiB));
  EXPECT_EQ(read(other, bytes.size()), bytes);
  const std::weak_ptr<std::uint8_t[]> gone = contents;
  ASSERT_TRUE(model.release(block).ok());
  EXPECT_EQ(gone.use_count(), 1);
}

}  // namespace
}  // namespace levee::device::sim
