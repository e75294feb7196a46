#include "allocator/record/thread_log.h"

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace levee::record {
namespace {

Event note(std::uint64_t a) {
  return make_event(EventKind::kNote, Nanos{1}, {}, a, 0);
}
Event phase(EventKind kind, std::uint32_t context) {
  return make_event(kind, Nanos{1}, {}, 0, 0, 0, ContextId{context});
}

TEST(ChunkPool, HandsOutEveryChunkOnceAndTakesThemBack) {
  ChunkPool pool(Bytes{5 * Chunk::kBytes});
  ASSERT_TRUE(pool.has_memory());
  EXPECT_EQ(pool.capacity(), 5U);
  std::set<Chunk*> chunks;
  for (int i = 0; i < 5; ++i) chunks.insert(pool.take());
  EXPECT_EQ(chunks.size(), 5U);
  EXPECT_EQ(chunks.count(nullptr), 0U);
  EXPECT_EQ(pool.take(), nullptr);
  Chunk* last = *chunks.begin();
  pool.give(last);
  EXPECT_EQ(pool.take(), last) << "the one used last is the one in the cache";
  EXPECT_EQ(pool.take(), nullptr);
}

TEST(ChunkPool, WithoutMemoryItSaysSo) {
  EXPECT_FALSE(ChunkPool(0_B).has_memory());
  EXPECT_FALSE(ChunkPool(Bytes{1ULL << 62}).has_memory());
}

TEST(ChunkPool, ManyThreadsNeverHoldTheSameChunk) {
  ChunkPool pool(Bytes{16 * Chunk::kBytes});
  std::vector<std::thread> threads;
  std::atomic<int> clashes{0};
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5000; ++i) {
        Chunk* chunk = pool.take();
        if (chunk == nullptr) continue;
        chunk->events()[0] = note(t);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        if (chunk->events()[0].a != t) clashes.fetch_add(1);
        pool.give(chunk);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clashes.load(), 0);
}

TEST(EarlyEvents, KeepsOpenPhasesAndTheLatestOfTheRest) {
  EarlyEvents early;
  early.add(phase(EventKind::kPhasePop, 9));  // ends nothing
  early.add(phase(EventKind::kPhasePush, 1));
  early.add(phase(EventKind::kPhasePush, 2));
  early.add(phase(EventKind::kPhasePop, 2));
  for (std::uint64_t i = 0; i < 1000; ++i) early.add(note(i));
  ASSERT_EQ(early.size(), EarlyEvents::kCapacity);
  EXPECT_EQ(early[0].context(), ContextId{1});
  EXPECT_EQ(early[1].a, 1000 - (EarlyEvents::kCapacity - 1));
  EXPECT_EQ(early[early.size() - 1].a, 999U);
}

TEST(EarlyEvents, PhasesAloneMayFillIt) {
  EarlyEvents early;
  for (std::uint32_t i = 1; i <= 100; ++i) early.add(phase(EventKind::kPhasePush, i));
  ASSERT_EQ(early.size(), EarlyEvents::kCapacity);
  EXPECT_EQ(early[0].context(), ContextId{1}) << "the outermost stays";
  EXPECT_EQ(early[early.size() - 1].context(), ContextId{100});
}

TEST(ThreadLog, GrowsByChunksAndKeepsAFullOneUntilThereIsANext) {
  ChunkPool pool(Bytes{2 * Chunk::kBytes});
  ThreadLog log;
  EXPECT_EQ(log.limit, 0U);
  ASSERT_TRUE(log.extend(pool));
  for (std::uint32_t i = 0; i < Chunk::kEvents; ++i) log.store(note(i));
  EXPECT_EQ(log.used, log.limit);
  Chunk* first = log.chunk;
  ASSERT_TRUE(log.extend(pool));
  EXPECT_EQ(first->next.load(), log.chunk);
  EXPECT_EQ(log.first.load(), first);
  EXPECT_FALSE(log.extend(pool));
  EXPECT_EQ(log.limit, 0U) << "every event asks again";
}

TEST(ThreadLog, AResetGivesBackWhatWasNeverRead) {
  ChunkPool pool(Bytes{4 * Chunk::kBytes});
  ThreadLog log;
  log.reset(pool);  // nothing was ever written
  EXPECT_EQ(log.state.load(), LogState::kFree);
  ASSERT_TRUE(log.extend(pool));
  log.store(note(1));
  log.reset(pool);
  EXPECT_EQ(log.first.load(), nullptr);
  std::size_t free_chunks = 0;
  while (pool.take() != nullptr) ++free_chunks;
  EXPECT_EQ(free_chunks, pool.capacity());
}

}  // namespace
}  // namespace levee::record
