#include "allocator/core/thread_caches.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/core/rig.h"

namespace levee::core {
namespace {

TEST(ThreadCaches, AnotherThreadsCacheGivesWayBeforeAMiss) {
  Rig rig(8_MiB);
  std::thread([&] {
    std::vector<DeviceAddr> blocks;
    for (int i = 0; i < 64; ++i) blocks.push_back(rig.alloc(1_KiB));
    for (DeviceAddr addr : blocks) rig.free(addr);
    // Everything, while this thread and its cache live.
    std::thread([&] { rig.free(rig.alloc(8_MiB)); }).join();
  }).join();
  EXPECT_EQ(rig->stats().num_ooms, 0);
  EXPECT_EQ(rig->stats().num_emergencies, 0);
}

TEST(ThreadCaches, AnExitingThreadGivesItsCacheToTheNext) {
  Rig rig;
  for (std::size_t i = 0; i < 2 * ThreadCaches::kMost; ++i) {
    std::thread([&] { rig.free(rig.alloc(1_KiB)); }).join();
  }
  rig->validate();
  EXPECT_TRUE(rig->trim(0_B).ok());
  EXPECT_EQ(rig.reserved(), 0_B);
}

TEST(ThreadCaches, SeveralAllocatorsOfOneThreadKeepApart) {
  std::vector<std::unique_ptr<Rig>> rigs;
  for (int i = 0; i < 9; ++i) rigs.push_back(std::make_unique<Rig>());
  for (int round = 0; round < 3; ++round) {
    for (auto& rig : rigs) rig->free(rig->alloc(1_KiB));
  }
  rigs.erase(rigs.begin() + 3);
  for (auto& rig : rigs) {
    rig->free(rig->alloc(1_KiB));
    EXPECT_EQ((*rig)->stats().allocation[0].allocated, 4);
    (*rig)->validate();
  }
}

TEST(ThreadCaches, AThreadWithoutACacheIsServedLikeAnyOther) {
  Rig rig;
  std::atomic<std::size_t> ready{0};
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  // More threads than there are caches, all alive at once.
  for (std::size_t i = 0; i <= ThreadCaches::kMost; ++i) {
    threads.emplace_back([&] {
      const DeviceAddr block = rig.alloc(1_KiB);
      rig.free(block);
      rig.free(rig.alloc(1_KiB));
      ready.fetch_add(1);
      ready.notify_all();
      done.wait(false);
    });
  }
  for (std::size_t n = ready.load(); n <= ThreadCaches::kMost; n = ready.load()) ready.wait(n);
  EXPECT_EQ(rig->stats().allocation[0].freed, static_cast<std::int64_t>(2 * threads.size()));
  done.store(true);
  done.notify_all();
  for (std::thread& thread : threads) thread.join();
  rig->validate();
}

TEST(ThreadCaches, TheCacheOfAThreadThatIsGoneServesTheNextOne) {
  ThreadCaches caches;
  caches.open([](std::uint64_t) {});
  ThreadCache* own = caches.claim_locked();
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(caches.claim_locked(), own);
  EXPECT_EQ(caches.mine(), own);
  ThreadCache* other = nullptr;
  std::thread([&] { other = caches.claim_locked(); }).join();
  ASSERT_NE(other, nullptr);
  EXPECT_NE(other, own);
  // Nobody owns it any more.
  other->owner = 0;
  ThreadCache* next = nullptr;
  std::thread([&] { next = caches.claim_locked(); }).join();
  EXPECT_EQ(next, other);
  caches.close();
}

// A value that a thread keeps under a key is the key's owner's alone.
TEST(ThreadCaches, ClaimingBeforeAnyAllocatorIsOpenTouchesNoOtherLibrarysKey) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process of its own
  EXPECT_EXIT(
      {
        // In a process that had no allocator yet; the first key that it makes is the lowest.
        pthread_key_t first{};
        ::pthread_key_create(&first, nullptr);
        const int mine = 0;
        for (pthread_key_t key = 0; key <= first; ++key) ::pthread_setspecific(key, &mine);
        ThreadCaches caches;
        const bool claimed = caches.claim_locked() != nullptr;
        bool kept = true;
        for (pthread_key_t key = 0; key <= first; ++key) {
          kept = kept && ::pthread_getspecific(key) == &mine;
        }
        ::_exit(claimed && kept ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace levee::core
