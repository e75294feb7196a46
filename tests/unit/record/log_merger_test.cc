#include "allocator/record/log_merger.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include <gtest/gtest.h>

#include "allocator/record/trace_reader.h"

namespace levee::record {
namespace {

class LogMergerTest : public ::testing::Test {
 protected:
  LogMergerTest() : logs(4) {
    path = (std::filesystem::temp_directory_path() /
            ("levee_merger_test." + std::to_string(::getpid())))
               .string();
    std::string why;
    writer = TraceWriter::start(::open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600),
                                {}, &why);
  }
  ~LogMergerTest() override { std::filesystem::remove(path); }

  void put(std::size_t log, EventKind kind, std::int64_t time, std::uint64_t a = 0) {
    ThreadLog& to = logs[log];
    if (to.state.load() == LogState::kFree) {
      to.thread.store(static_cast<std::uint32_t>(log));
      to.state.store(LogState::kActive);
    }
    if (to.used >= to.limit && !to.extend(pool)) {
      to.unreported.fetch_add(1);
      return;
    }
    to.store(make_event(kind, Nanos{time}, {}, a, 0));
  }
  std::size_t pass(std::int64_t cut) {
    merger.collect(logs, [&](const ThreadLog& log) { met.push_back(log.thread.load()); });
    return merger.drain(Nanos{cut}, *writer, progress);
  }
  std::vector<TraceEvent> written() {
    EXPECT_TRUE(writer->finish(TraceEnding::kComplete, ""));
    std::string why;
    const auto reader = TraceReader::open(path, &why);
    std::vector<TraceEvent> events;
    const auto cursor = reader->events();
    for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
      events.insert(events.end(), batch.begin(), batch.end());
    }
    return events;
  }
  std::vector<std::int64_t> times() {
    std::vector<std::int64_t> all;
    for (const TraceEvent& event : written())
      all.push_back(static_cast<std::int64_t>(event.event.time_ns));
    return all;
  }

  std::string path;
  ChunkPool pool{Bytes{8 * Chunk::kBytes}};
  StampClock clock{false};
  std::vector<ThreadLog> logs;
  LogMerger merger{pool, clock};
  std::unique_ptr<TraceWriter> writer;
  std::vector<std::uint32_t> met;
  std::atomic<std::uint64_t> progress{0};
};

TEST_F(LogMergerTest, EventsOfAllThreadsComeByTimeUpToTheCut) {
  put(0, EventKind::kNote, 10);
  put(1, EventKind::kNote, 5);
  put(0, EventKind::kNote, 20);
  put(2, EventKind::kNote, 15);
  put(1, EventKind::kNote, 30);
  EXPECT_EQ(pass(20), 4U);
  EXPECT_EQ(met, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(pass(20), 0U);
  EXPECT_EQ(pass(100), 1U);
  EXPECT_EQ(met.size(), 3U) << "each thread is told once";
  EXPECT_EQ(times(), (std::vector<std::int64_t>{5, 10, 15, 20, 30}));
}

TEST_F(LogMergerTest, ATimeThatGoesBackStaysBehindItsThread) {
  put(0, EventKind::kNote, 50);
  put(0, EventKind::kDriverCall, 10, 40);
  put(1, EventKind::kNote, 30);
  pass(100);
  EXPECT_EQ(times(), (std::vector<std::int64_t>{30, 50, 10}));
}

TEST_F(LogMergerTest, AnAllocationIsPutBehindItsFree) {
  put(0, EventKind::kFree, 1500, 0x1000);
  put(1, EventKind::kAlloc, 1000, 0x1000);
  put(1, EventKind::kNote, 1200);
  put(2, EventKind::kAlloc, 1000, 0x2000);  // of another address: not moved
  pass(10'000);
  const auto events = written();
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].event.a, 0x2000U);
  EXPECT_EQ(events[1].event.kind(), EventKind::kFree);
  EXPECT_EQ(events[2].event.kind(), EventKind::kAlloc);
  EXPECT_EQ(events[2].event.time_ns, 1501U);
  EXPECT_EQ(events[3].event.kind(), EventKind::kNote) << "its thread keeps its order";
}

TEST_F(LogMergerTest, AnAllocationLongBeforeTheFreeIsLeftAlone) {
  put(0, EventKind::kFree, 5000, 0x1000);
  put(1, EventKind::kAlloc, 1000, 0x1000);
  pass(10'000);
  EXPECT_EQ(times(), (std::vector<std::int64_t>{1000, 5000}));
}

TEST_F(LogMergerTest, AnAllocationWaitsForAFreeBehindTheCut) {
  put(0, EventKind::kNote, 900);
  put(0, EventKind::kFree, 1500, 0x1000);
  put(1, EventKind::kAlloc, 1000, 0x1000);
  EXPECT_EQ(pass(1200), 1U);
  EXPECT_EQ(pass(3000), 2U);
  EXPECT_EQ(times(), (std::vector<std::int64_t>{900, 1500, 1501}));
}

TEST_F(LogMergerTest, TheFreeIsFoundInTheNextChunk) {
  for (std::uint32_t i = 0; i + 1 < Chunk::kEvents; ++i) put(0, EventKind::kNote, 100);
  put(0, EventKind::kNote, 1300);          // the last of the chunk
  put(0, EventKind::kFree, 1400, 0x1000);  // the first of the next
  put(1, EventKind::kAlloc, 1350, 0x1000);
  pass(10'000);
  const auto events = written();
  EXPECT_EQ(events[events.size() - 2].event.kind(), EventKind::kFree);
  EXPECT_EQ(events.back().event.kind(), EventKind::kAlloc);
}

TEST_F(LogMergerTest, TheFreeIsFoundBehindTheLastEventOfAChunk) {
  for (std::uint32_t i = 0; i + 1 < Chunk::kEvents; ++i) put(0, EventKind::kNote, 100);
  put(0, EventKind::kNote, 1390);  // the last of the chunk, read when the other is looked at
  put(0, EventKind::kFree, 1400, 0x1000);  // the first of the next
  put(1, EventKind::kAlloc, 1350, 0x1000);
  pass(10'000);
  const auto events = written();
  EXPECT_EQ(events[events.size() - 2].event.kind(), EventKind::kFree);
  EXPECT_EQ(events.back().event.kind(), EventKind::kAlloc);
}

TEST_F(LogMergerTest, AThreadThatEndedGivesItsLogBackWithItsLosses) {
  for (std::size_t i = 0; i < std::size_t{9} * Chunk::kEvents; ++i) put(0, EventKind::kNote, 100);
  logs[0].state.store(LogState::kExited);
  EXPECT_EQ(pass(1000), std::size_t{8} * Chunk::kEvents);
  EXPECT_EQ(logs[0].state.load(), LogState::kFree);
  EXPECT_EQ(logs[0].chunk, nullptr);
  std::size_t free_chunks = 0;
  while (pool.take() != nullptr) ++free_chunks;
  EXPECT_EQ(free_chunks, pool.capacity()) << "all memory is back";
  const auto events = written();
  EXPECT_EQ(events.back().event.kind(), EventKind::kLost);
  EXPECT_EQ(events.back().event.a, Chunk::kEvents);
}

TEST_F(LogMergerTest, EarlyEventsComeFirst) {
  {
    const base::MutexLock lock(logs[0].early_mutex);
    logs[0].early.add(make_event(EventKind::kPhasePush, Nanos{1}, {}, 0, 0));
  }
  put(0, EventKind::kAlloc, 2, 0x1000);
  EXPECT_EQ(pass(10), 2U);
  EXPECT_EQ(written().front().event.kind(), EventKind::kPhasePush);
}

}  // namespace
}  // namespace levee::record
