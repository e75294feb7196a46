#include "allocator/core/thread_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace levee::core {
namespace {

constexpr SizeClass kOneKiB = class_of(1_KiB);

base::RecordArena<ThreadCache::Shelf> arena{4};

ThreadCache::Shelf& shelf_with(ThreadCache& cache, std::vector<std::atomic<std::uint16_t>>& notes) {
  ThreadCache::Shelf& shelf = *cache.add_shelf(arena, StreamId{7}, StreamIndex{1}, LaneId{3});
  for (std::size_t i = 0; i < notes.size(); ++i) {
    shelf.objects[kOneKiB.value][shelf.count[kOneKiB.value]++] = {DeviceAddr{(i + 1) << 10},
                                                                  &notes[i]};
  }
  return shelf;
}

TEST(ThreadCache, LastInFirstOutAndTheSlabKnowsWhoHasIt) {
  ThreadCache cache;
  std::vector<std::atomic<std::uint16_t>> notes(2);
  ThreadCache::Shelf& shelf = shelf_with(cache, notes);
  DeviceAddr addr;
  ASSERT_TRUE(cache.enter());
  cache.hand_out(shelf, kOneKiB, 700_B, 1_KiB, &addr);
  EXPECT_EQ(addr, DeviceAddr{2 << 10});
  EXPECT_EQ(notes[1], 700);
  cache.put_back(shelf, kOneKiB, {addr, &notes[1]}, 700_B, 1_KiB);
  cache.leave();
  EXPECT_EQ(notes[1], 0);
  EXPECT_EQ(shelf.count[kOneKiB.value], 2);
  EXPECT_EQ(cache.counts().net(1), 0);
  EXPECT_EQ(cache.counts().given[2].get(), 700);
  EXPECT_EQ(cache.counts().most[1].get(), 1024);
}

TEST(ThreadCache, AStoppedCacheSendsItsOwnerAway) {
  ThreadCache cache;
  cache.stop();
  EXPECT_FALSE(cache.enter());
  cache.wait_until_idle();  // the owner left at once
  cache.resume();
  EXPECT_TRUE(cache.enter());
  cache.leave();
}

TEST(ThreadCache, WithoutATurnItsOwnerGoesToTheLock) {
  ThreadCache cache;
  EXPECT_TRUE(cache.has_turn());
  cache.end_turn();
  EXPECT_FALSE(cache.has_turn());
  EXPECT_FALSE(cache.enter());
  cache.wait_until_idle();
  cache.forget_peaks_soon();
  EXPECT_FALSE(cache.enter());
  cache.begin_turn();
  EXPECT_TRUE(cache.enter());
  cache.leave();
}

// Another thread may tell of a block at a moment when its bytes are not counted yet; once the owner
// is stopped they must not be taken for told.
TEST(ThreadCache, WhatWasToldInPartIsStillUntold) {
  ThreadCache cache;
  std::vector<std::atomic<std::uint16_t>> notes(1);
  ThreadCache::Shelf& shelf = shelf_with(cache, notes);
  DeviceAddr addr;
  ASSERT_TRUE(cache.enter());
  cache.hand_out(shelf, kOneKiB, 1000_B, 1_KiB, &addr);
  cache.leave();
  EXPECT_TRUE(cache.is_untold());
  cache.folded().given[0] = 1;
  EXPECT_FALSE(cache.is_untold());
  EXPECT_TRUE(cache.is_untold_in_part());
  cache.folded().given[1] = 1024;
  EXPECT_TRUE(cache.is_untold_in_part());
  cache.folded().given[2] = 1000;
  EXPECT_FALSE(cache.is_untold_in_part());
}

TEST(ThreadCache, ForgettingPeaksWaitsForTheOwner) {
  ThreadCache cache;
  std::vector<std::atomic<std::uint16_t>> notes(1);
  ThreadCache::Shelf& shelf = shelf_with(cache, notes);
  DeviceAddr addr;
  ASSERT_TRUE(cache.enter());
  cache.hand_out(shelf, kOneKiB, 1_KiB, 1_KiB, &addr);
  cache.put_back(shelf, kOneKiB, {addr, notes.data()}, 1_KiB, 1_KiB);
  cache.leave();
  cache.forget_peaks_soon();
  EXPECT_EQ(cache.counts().most[1].get(), 1024);
  ASSERT_TRUE(cache.enter());
  EXPECT_EQ(cache.counts().most[1].get(), 0);
  cache.leave();
}

TEST(ThreadCache, TellsWhenMoreIsOutThanTheCreditAllows) {
  ThreadCache cache;
  cache.set_credit(1500);
  std::vector<std::atomic<std::uint16_t>> notes(3);
  ThreadCache::Shelf& shelf = shelf_with(cache, notes);
  DeviceAddr addr;
  ASSERT_TRUE(cache.enter());
  EXPECT_FALSE(cache.hand_out(shelf, kOneKiB, 1_KiB, 1_KiB, &addr));
  EXPECT_TRUE(cache.hand_out(shelf, kOneKiB, 1_KiB, 1_KiB, &addr));
  cache.forget_peaks();
  EXPECT_FALSE(cache.hand_out(shelf, kOneKiB, 1_KiB, 1_KiB, &addr));
  cache.leave();
}

TEST(ThreadCache, TheLogKeepsTheLatestRequestsInOrder) {
  ThreadCache cache;
  cache.set_listens(true);
  std::vector<std::atomic<std::uint16_t>> notes(1);
  ThreadCache::Shelf& shelf = shelf_with(cache, notes);
  DeviceAddr addr;
  constexpr int kRequests = 200;
  ASSERT_TRUE(cache.enter());
  for (int i = 0; i < kRequests; ++i) {
    const Bytes bytes = 512_B * (1 + static_cast<std::uint64_t>(i) % 2);
    cache.hand_out(shelf, kOneKiB, bytes, bytes, &addr);
    cache.put_back(shelf, kOneKiB, {addr, notes.data()}, bytes, bytes);
  }
  cache.leave();
  int i = kRequests - static_cast<int>(ThreadCache::kLogSize);
  cache.take_log(
      [&](Bytes bytes, std::uint32_t frees) {
        EXPECT_EQ(bytes, 512_B * (1 + static_cast<std::uint64_t>(i) % 2));
        EXPECT_EQ(frees, 1U);
        ++i;
      },
      [&](std::uint32_t frees, std::uint64_t forgotten) {
        EXPECT_EQ(frees, 1U);
        EXPECT_EQ(forgotten, kRequests - ThreadCache::kLogSize);
      });
  EXPECT_EQ(i, kRequests);
}

TEST(ThreadCache, TheLogIsToldOnceAlsoWhileItsOwnerGoesOn) {
  ThreadCache cache;
  cache.set_listens(true);
  std::vector<std::atomic<std::uint16_t>> notes(1);
  ThreadCache::Shelf& shelf = shelf_with(cache, notes);
  constexpr std::uint64_t kRequests = 200'000;
  std::atomic<bool> is_done{false};
  std::thread owner([&] {
    DeviceAddr addr;
    for (std::uint64_t i = 0; i < kRequests; ++i) {
      while (!cache.enter()) {
      }
      cache.hand_out(shelf, kOneKiB, 1_KiB, 1_KiB, &addr);
      cache.put_back(shelf, kOneKiB, {addr, notes.data()}, 1_KiB, 1_KiB);
      cache.leave();
    }
    is_done = true;
  });
  std::uint64_t told = 0;
  std::uint64_t frees = 0;  // those before forgotten requests are forgotten
  const auto take = [&] {
    cache.take_log(
        [&](Bytes bytes, std::uint32_t before) {
          EXPECT_EQ(bytes, 1_KiB);
          frees += before;
          ++told;
        },
        [&](std::uint32_t after, std::uint64_t forgotten) {
          frees += after;
          told += forgotten;
        });
  };
  while (!is_done) take();
  owner.join();
  take();
  EXPECT_FALSE(cache.has_log());
  EXPECT_EQ(told, kRequests);
  EXPECT_LE(frees, kRequests);
  EXPECT_GT(frees, 0U);
}

TEST(ThreadCache, NoStackHoldsMoreThanItsShare) {
  for (std::uint8_t c = 0; c < kClassCount; ++c) {
    const std::uint32_t most = ThreadCache::capacity(SizeClass{c});
    EXPECT_GE(most, 4U);
    EXPECT_LE(class_bytes(SizeClass{c}) * most, ThreadCache::kMostStackBytes);
  }
}

}  // namespace
}  // namespace levee::core
