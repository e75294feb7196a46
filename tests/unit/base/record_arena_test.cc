#include "allocator/base/record_arena.h"

#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/heap_count.h"

namespace levee::base {
namespace {

struct Record {
  std::uint64_t key = 0;
  std::uint32_t value = 0;
};

TEST(RecordArena, MakesRecordsWithTheirArguments) {
  RecordArena<Record> arena;
  Record* record = arena.make(Record{5, 6});
  EXPECT_EQ(record->key, 5);
  EXPECT_EQ(record->value, 6);
  EXPECT_EQ(arena.live_count(), 1);
  arena.destroy(record);
  EXPECT_EQ(arena.live_count(), 0);
}

TEST(RecordArena, AddressesAreDistinctAlignedAndStable) {
  RecordArena<Record> arena{8};
  std::vector<Record*> records;
  for (std::uint64_t i = 0; i < 100; ++i) records.push_back(arena.make(Record{i, 0}));
  std::set<Record*> distinct(records.begin(), records.end());
  EXPECT_EQ(distinct.size(), records.size());
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(records[i]->key, i);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(records[i]) % alignof(Record), 0);
  }
}

TEST(RecordArena, TheRecordFreedLastIsReusedFirst) {
  RecordArena<Record> arena;
  Record* a = arena.make();
  Record* b = arena.make();
  arena.destroy(a);
  arena.destroy(b);
  EXPECT_EQ(arena.make(), b);
  EXPECT_EQ(arena.make(), a);
}

TEST(RecordArena, FreshRecordsComeInTheOrderOfTheirAddresses) {
  RecordArena<Record> arena{4};
  const Record* first = arena.make();
  EXPECT_EQ(arena.make(), first + 1);
  EXPECT_EQ(arena.make(), first + 2);
}

TEST(RecordArena, OnceWarmItAsksTheHeapForNothing) {
  RecordArena<Record> arena{16};
  ASSERT_TRUE(arena.reserve(100));
  EXPECT_GE(arena.capacity(), 100);
  std::vector<Record*> records(100);
  const test::HeapCount count;
  for (int round = 0; round < 3; ++round) {
    for (Record*& record : records) record = arena.make();
    for (Record* record : records) arena.destroy(record);
  }
  EXPECT_EQ(count.value(), 0);
}

TEST(RecordArena, GrowsByOneAllocationASlab) {
  RecordArena<Record> arena{10};
  const test::HeapCount count;
  for (int i = 0; i < 25; ++i) arena.make();
  EXPECT_EQ(count.value(), 3);
  EXPECT_EQ(arena.capacity(), 30);
}

TEST(RecordArena, KeepsStrictAlignment) {
  struct alignas(64) Line {
    char bytes[64] = {};
  };
  RecordArena<Line> arena{3};
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.make()) % 64, 0);
  }
}

struct Counted {
  explicit Counted(int* count) noexcept : count_(count) { ++*count_; }
  ~Counted() { --*count_; }
  int* count_;
};

TEST(RecordArena, DestroyRunsTheDestructor) {
  int count = 0;
  RecordArena<Counted> arena;
  Counted* record = arena.make(&count);
  EXPECT_EQ(count, 1);
  arena.destroy(record);
  EXPECT_EQ(count, 0);
}

TEST(RecordArenaDeathTest, RecordsWithDestructorsMustNotOutliveTheArena) {
  EXPECT_DEATH(
      {
        int count = 0;
        RecordArena<Counted> arena;
        arena.make(&count);
      },
      "live_count_ == 0 \\(1 vs 0\\): records outlive their arena");
}

TEST(RecordArenaDeathTest, DestroyWithoutALiveRecordEndsTheProcess) {
  RecordArena<Record> arena;
  Record* record = arena.make();
  arena.destroy(record);
  EXPECT_DEATH(arena.destroy(record), "destroy of a record that is not live|use-after-poison");
}

TEST(RecordArenaDeathTest, CheckedBuildsCatchADoubleDestroy) {
  if constexpr (kChecked) {
    RecordArena<Record> arena;
    Record* record = arena.make();
    arena.make();
    arena.destroy(record);
    EXPECT_DEATH(arena.destroy(record), "destroy of a record that is free already");
  }
}

}  // namespace
}  // namespace levee::base
