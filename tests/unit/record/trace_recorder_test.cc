#include "allocator/record/trace_recorder.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/base/clock.h"
#include "allocator/record/trace_reader.h"
#include "tests/support/heap_count.h"

namespace levee::record {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr std::uint64_t kSizes = pack_sizes(1000_B, 1024_B);

std::size_t thread_count() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/task"), {}));
}

class TraceRecorderTest : public ::testing::Test {
 protected:
  TraceRecorderTest() {
    folder = fs::temp_directory_path() /
             ("levee_recorder_test." + std::to_string(::getpid()) + "." +
              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder);
    fs::create_directories(folder);
    options.path = (folder / "run.levee").string();
    options.levee_version = "0.1.0";
    options.on_message = [this](std::string_view text) { messages.emplace_back(text); };
  }
  ~TraceRecorderTest() override { fs::remove_all(folder); }

  static std::unique_ptr<TraceReader> read(const std::string& path) {
    std::string why;
    auto reader = TraceReader::open(path, &why);
    EXPECT_NE(reader, nullptr) << why;
    return reader;
  }
  static std::vector<TraceEvent> all(const TraceReader& reader) {
    std::vector<TraceEvent> events;
    const auto cursor = reader.events();
    for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
      events.insert(events.end(), batch.begin(), batch.end());
    }
    return events;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::recursive_directory_iterator(folder), {}));
  }

  fs::path folder;
  TraceRecorder::Options options;
  std::vector<std::string> messages;
};

TEST_F(TraceRecorderTest, NoFileAndNoThreadBeforeTheFirstDeviceAllocation) {
  const std::size_t threads = thread_count();
  {
    const auto recorder = TraceRecorder::create(options);
    EXPECT_TRUE(recorder->enabled());
    recorder->record(EventKind::kPhasePush, {}, 0, 0, 0,
                     recorder->intern("epoch", ContextKind::kPhase));
    recorder->record(EventKind::kStepMark, {}, 1, 0);
    EXPECT_TRUE(recorder->flush().ok());
    EXPECT_EQ(thread_count(), threads);
    EXPECT_EQ(recorder->path(), "");
  }
  EXPECT_EQ(files(), 0U);
  EXPECT_TRUE(messages.empty());
}

TEST_F(TraceRecorderTest, WhatIsOpenWhenRecordingBeginsIsInTheFile) {
  const auto recorder = TraceRecorder::create(options);
  const ContextId epoch = recorder->intern("epoch", ContextKind::kPhase);
  const ContextId warm_up = recorder->intern("warm-up", ContextKind::kPhase);
  const LaneId lane = recorder->intern_lane(DeviceId{1}, StreamId{7});
  recorder->describe_device(DeviceId{1}, "a GPU", 16_GiB);
  recorder->record(EventKind::kPhasePush, {}, 0, 0, 0, epoch);
  for (int i = 0; i < 1000; ++i) {  // long gone when recording begins
    recorder->record(EventKind::kPhasePush, {}, 0, 0, 0, warm_up);
    recorder->record(EventKind::kPhasePop, {}, 0, 0, 0, warm_up);
  }
  recorder->emit(make_event(EventKind::kLimit, base::Clock::now(), lane, 123, 0));
  recorder->record(EventKind::kAlloc, lane, 0x1000, kSizes, recorder->intern_pool(PoolId{0, 5}));
  ASSERT_TRUE(recorder->flush().ok());
  EXPECT_EQ(recorder->path(), options.path);

  const auto reader = read(options.path);
  const auto events = all(*reader);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].event.kind(), EventKind::kPhasePush);
  EXPECT_EQ(reader->context(events[0].event.context()).text, "epoch");
  EXPECT_EQ(events[1].event.kind(), EventKind::kLimit);
  EXPECT_EQ(events[2].event.kind(), EventKind::kAlloc);
  EXPECT_EQ(reader->lane(events[2].event.lane).device, DeviceId{1});
  EXPECT_EQ(reader->lane(events[2].event.lane).stream, StreamId{7});
  EXPECT_EQ(reader->pool(events[2].event.aux).pool, (PoolId{0, 5}));
  EXPECT_EQ(reader->devices().at(0).total_memory, 16_GiB);
  EXPECT_EQ(reader->threads().at(events[2].thread).os_id, static_cast<std::uint64_t>(::gettid()));
  EXPECT_EQ(reader->coverage().ending, TraceEnding::kCut) << "still being written";
  recorder->finish();
  EXPECT_EQ(read(options.path)->coverage().ending, TraceEnding::kComplete);
}

// Who opens the file comes later: a start of then would put the first blocks before the beginning.
TEST_F(TraceRecorderTest, RecordingBeginsWithTheEventThatStartedIt) {
  for (StampSource stamps : {StampSource::kAuto, StampSource::kClock}) {
    options.stamps = stamps;
    options.path = (folder / (stamps == StampSource::kAuto ? "ticks" : "clock")).string();
    const Nanos before = base::Clock::now();
    {
      const auto recorder = TraceRecorder::create(options);
      recorder->record(EventKind::kAlloc, {}, 0x1000, kSizes);
      recorder->record(EventKind::kFree, {}, 0x1000, kSizes);
      recorder->finish();
    }
    const auto reader = read(options.path);
    ASSERT_NE(reader, nullptr);
    const std::vector<TraceEvent> events = all(*reader);
    ASSERT_FALSE(events.empty());
    const TraceHeader& header = reader->header();
    EXPECT_EQ(header.start.value, static_cast<std::int64_t>(events.front().event.time_ns));
    EXPECT_GE(header.start, before);
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count();
    EXPECT_NEAR(static_cast<double>(since - header.unix_ns(base::Clock::now())), 0, 50e6);
  }
}

TEST_F(TraceRecorderTest, EventsOfManyThreadsAreCompleteAndInOrder) {
  constexpr std::uint64_t kThreads = 8;
  constexpr std::uint64_t kEvents = 20'000;
  {
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (std::uint64_t i = 0; i < kEvents; ++i)
          recorder->record(EventKind::kAlloc, lane, t << 40 | (i + 1) << 9, kSizes);
      });
    }
    for (auto& thread : threads) thread.join();
  }
  const auto reader = read(options.path);
  EXPECT_EQ(reader->coverage().lost_events, 0U);
  const auto events = all(*reader);
  ASSERT_EQ(events.size(), kThreads * kEvents);
  std::map<std::uint64_t, std::uint64_t> next;
  std::map<std::uint64_t, std::uint32_t> thread_of;
  std::uint64_t time = 0;
  for (const TraceEvent& event : events) {
    const std::uint64_t t = event.event.a >> 40;
    ASSERT_EQ((event.event.a & ((1ULL << 40) - 1)) >> 9, ++next[t]);
    ASSERT_EQ(event.sequence, next[t] - 1);
    ASSERT_GE(event.event.time_ns, time);
    time = event.event.time_ns;
    const auto [known, is_new] = thread_of.emplace(t, event.thread);
    ASSERT_EQ(known->second, event.thread);
  }
}

TEST_F(TraceRecorderTest, ThreadsThatComeAndGoShareLogsAndKeepTheirNames) {
  {
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    recorder->record(EventKind::kAlloc, lane, 512, kSizes);
    for (std::uint64_t t = 0; t < 3000; ++t) {  // more than there are logs
      std::thread([&] {
        if (t == 0) {
          ::pthread_setname_np(::pthread_self(), "loader-0");
          recorder->record(EventKind::kAlloc, lane, 1024, kSizes);
          EXPECT_TRUE(recorder->flush().ok());
        }
        recorder->record(EventKind::kNote, {}, t, 0);
      }).join();
      if (t % 500 == 0) {
        EXPECT_TRUE(recorder->flush().ok());
      }
    }
  }
  const auto reader = read(options.path);
  EXPECT_EQ(all(*reader).size(), 3002U);
  EXPECT_EQ(reader->coverage().lost_events, 0U);
  EXPECT_EQ(std::count_if(reader->threads().begin(), reader->threads().end(),
                          [](const TraceThread& thread) { return thread.name == "loader-0"; }),
            1);
}

TEST_F(TraceRecorderTest, WhatDoesNotFitIsCountedWhereItIsMissing) {
  options.ring_memory = Bytes{4 * Chunk::kBytes};
  options.drain_interval = 10'000_ms;  // the writer looks once, at the start, and then not again
  std::uint64_t emitted = 0;
  {
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    recorder->record(EventKind::kAlloc, lane, 512, kSizes);
    ASSERT_TRUE(recorder->flush().ok());
    for (int round = 0; round < 3; ++round) {
      for (int i = 0; i < 10'000; ++i, ++emitted)
        recorder->record(EventKind::kNote, {}, emitted, 0);
      ASSERT_TRUE(recorder->flush().ok());
    }
    std::thread([&] {
      for (int i = 0; i < 10'000; ++i, ++emitted)
        recorder->record(EventKind::kNote, {}, emitted, 0);
    }).join();
  }
  const auto reader = read(options.path);
  std::uint64_t seen = 0, lost = 0;
  std::map<std::uint32_t, std::uint64_t> next;
  for (const TraceEvent& event : all(*reader)) {
    if (event.event.kind() == EventKind::kNote) ++seen;
    if (event.event.kind() == EventKind::kLost) lost += event.event.a;
    // Sequence numbers count what was lost, so that a gap is exactly as long as kLost says.
    std::uint64_t& expected = next[event.thread];
    if (event.event.kind() == EventKind::kLost) expected += event.event.a;
    ASSERT_EQ(event.sequence, expected++);
  }
  EXPECT_GT(lost, 20'000U);
  EXPECT_EQ(seen + lost, emitted);
  EXPECT_EQ(reader->coverage().lost_events, lost);
}

TEST_F(TraceRecorderTest, EventsOfMoreThreadsThanThereAreLogsAreCountedAsLost) {
  constexpr int kThreads = 1030;  // 1024 logs
  {
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    recorder->record(EventKind::kAlloc, lane, 512, kSizes);
    std::atomic<int> ready{0};
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        recorder->record(EventKind::kNote, {}, 1, 0);
        ready.fetch_add(1);
        ready.notify_one();
        done.wait(false);
      });
    }
    for (int n = ready.load(); n < kThreads; n = ready.load()) ready.wait(n);
    done.store(true);
    done.notify_all();
    for (std::thread& thread : threads) thread.join();
  }
  const auto reader = read(options.path);
  std::uint64_t seen = 0;
  for (const TraceEvent& event : all(*reader)) {
    if (event.event.kind() == EventKind::kNote) ++seen;
  }
  EXPECT_GE(reader->coverage().lost_events, 7U);
  EXPECT_EQ(seen + reader->coverage().lost_events, std::uint64_t{kThreads});
}

TEST_F(TraceRecorderTest, EmittingAllocatesNothing) {
  const auto recorder = TraceRecorder::create(options);
  const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
  recorder->record(EventKind::kAlloc, lane, 512, kSizes);
  const test::HeapCount count;
  for (std::uint64_t i = 0; i < 100'000; ++i) {  // many chunks
    recorder->record(EventKind::kAlloc, lane, 512, kSizes);
    recorder->emit(make_event(EventKind::kFree, base::Clock::now(), lane, 512, kSizes));
  }
  EXPECT_EQ(count.value(), 0U);
}

TEST_F(TraceRecorderTest, AnAllocationNeverComesBeforeTheFreeThatMadeRoomForIt) {
  // Two threads hand an address over; the stamps of the hand-over are out of order by less than a
  // microsecond.
  options.stamps = StampSource::kClock;
  {
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    const Nanos start = base::Clock::now();
    const auto at = [&](EventKind kind, std::int64_t time) {
      recorder->emit(make_event(kind, Nanos{start.value + time}, lane, 0x1000, kSizes));
    };
    at(EventKind::kAlloc, 0);
    std::thread other([&] {
      for (std::int64_t i = 1; i < 500; ++i) {
        at(EventKind::kFree, 10'000 * i + 900);  // told later than the allocation below
        at(EventKind::kAlloc, 10'000 * i + 5000);
      }
    });
    other.join();
    for (std::int64_t i = 1; i < 500; ++i) {
      at(EventKind::kAlloc, 10'000 * i + 100);
      at(EventKind::kFree, 10'000 * i + 4900);
    }
    at(EventKind::kFree, 10'000 * 500);
  }
  bool is_live = false;
  std::size_t count = 0;
  for (const TraceEvent& event : all(*read(options.path))) {
    ASSERT_EQ(event.event.kind() == EventKind::kAlloc, !is_live) << "event " << count;
    is_live = !is_live;
    ++count;
  }
  EXPECT_EQ(count, 2U + 4U * 499U);
}

TEST_F(TraceRecorderTest, StampsLieWithinAMicrosecondOfTheClock) {
  if (!ticks_are_usable())
    GTEST_SKIP() << "the processor's counter is not usable here: stamps are the Clock's";
  std::vector<Nanos> before, after;
  {
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    for (int i = 0; i < 20'000; ++i) {
      before.push_back(base::Clock::now());
      recorder->record(EventKind::kAlloc, lane, 512, kSizes);
      after.push_back(base::Clock::now());
      if (i % 2000 == 0) std::this_thread::yield();
    }
  }
  const auto events = all(*read(options.path));
  ASSERT_EQ(events.size(), before.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto time = static_cast<std::int64_t>(events[i].event.time_ns);
    ASSERT_GT(time, before[i].value - 1000) << i;
    ASSERT_LT(time, after[i].value + 1000) << i;
  }
}

std::int64_t g_ahead = 0;

TEST_F(TraceRecorderTest, StampsFollowAClockThatJumpsAhead) {
  if (!ticks_are_usable())
    GTEST_SKIP() << "the processor's counter is not usable here: stamps are the Clock's";
  g_ahead = 0;
  const base::ScopedClockForTest clock(
      +[] {
        return Nanos{base::Clock::monotonic().value + __atomic_load_n(&g_ahead, __ATOMIC_RELAXED)};
      },
      +[]() -> const std::int64_t* { return &g_ahead; });
  std::vector<Nanos> before, after;
  {
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    for (int i = 0; i < 20'000; ++i) {
      before.push_back(base::Clock::now());
      recorder->record(EventKind::kAlloc, lane, 512, kSizes);
      after.push_back(base::Clock::now());
      if (i % 500 == 0) __atomic_fetch_add(&g_ahead, 3'000'000, __ATOMIC_RELAXED);
      if (i % 5000 == 0) __atomic_fetch_add(&g_ahead, 7'000'000'000, __ATOMIC_RELAXED);
      if (i % 2000 == 0) std::this_thread::yield();
    }
  }
  const auto reader = read(options.path);
  EXPECT_TRUE(reader->header().is_modelled());
  const auto events = all(*reader);
  ASSERT_EQ(events.size(), before.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto time = static_cast<std::int64_t>(events[i].event.time_ns);
    // The rate was measured over two milliseconds and holds over 50: some microseconds.
    ASSERT_GT(time, before[i].value - 10'000) << i;
    ASSERT_LT(time, after[i].value + 10'000) << i;
  }
}

std::atomic<std::int64_t> g_modelled_time{1'000'000};

TEST_F(TraceRecorderTest, AModelledClockIsTheOnlyClock) {
  const base::ScopedClockForTest clock(+[] { return Nanos{g_modelled_time.fetch_add(10)}; });
  {
    const auto recorder = TraceRecorder::create(options);
    recorder->record(EventKind::kAlloc, recorder->intern_lane(DeviceId{0}, StreamId{0}), 512,
                     kSizes);
  }
  const auto reader = read(options.path);
  EXPECT_TRUE(reader->header().is_modelled());
  EXPECT_LT(all(*reader).at(0).event.time_ns, 2'000'000U);
}

TEST_F(TraceRecorderTest, KernelsGoIntoTheSameFile) {
  {
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    const ContextId name = recorder->intern("gemm", ContextKind::kKernel);
    const Nanos now = base::Clock::now();
    recorder->record(EventKind::kAlloc, lane, 512, kSizes);
    std::vector<Event> kernels;
    for (std::int64_t i = 10; i-- > 0;) {
      kernels.push_back(
          make_event(EventKind::kKernel, Nanos{now.value - i * 100}, lane, 50, 1000, 0, name));
    }
    recorder->emit_activity(kernels);
  }
  const auto reader = read(options.path);
  EXPECT_EQ(reader->coverage().activity_events, 10U);
  const auto events = all(*reader);
  ASSERT_EQ(events.size(), 11U);
  EXPECT_EQ(reader->context(events[0].event.context()).text, "gemm");
  EXPECT_EQ(events.back().event.kind(), EventKind::kAlloc);
  EXPECT_EQ(reader->threads().at(events[0].thread).name, "GPU activity");
}

TEST_F(TraceRecorderTest, AnUnwritablePlaceIsOneMessageAndTheProgramGoesOn) {
  options.path = "/proc/levee/run.levee";
  const auto recorder = TraceRecorder::create(options);
  const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
  recorder->record(EventKind::kAlloc, lane, 512, kSizes);
  EXPECT_FALSE(recorder->flush().ok());
  EXPECT_FALSE(recorder->enabled());
  for (int i = 0; i < 10'000; ++i) recorder->record(EventKind::kAlloc, lane, 512, kSizes);
  EXPECT_EQ(recorder->intern("x", ContextKind::kNote), ContextId{});
  recorder->finish();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_THAT(messages[0], HasSubstr("recording is off: /proc/levee cannot be made"));
  EXPECT_THAT(messages[0], HasSubstr("set LEVEE_TRACE"));
}

TEST_F(TraceRecorderTest, AFileThatTakesNotEvenItsHeadIsOneMessage) {
  const pid_t child = ::fork();
  if (child == 0) {
    int told = 0;
    options.on_message = [&](std::string_view text) {
      if (text.find("cannot be written") != std::string_view::npos) ++told;
    };
    const rlimit limit{16, 16};
    ::signal(SIGXFSZ, SIG_IGN);
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    recorder->record(EventKind::kAlloc, lane, 512, kSizes);
    const bool is_off = !recorder->flush().ok() && !recorder->enabled();
    recorder->finish();
    ::_exit(is_off && told == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(TraceRecorderTest, AFullDiskIsOneMessageAndWhatWasWrittenStays) {
  // In a child, since the limit holds for the whole process. A file size limit fails writes as a
  // full disk does.
  const pid_t child = ::fork();
  if (child == 0) {
    int told = 0;
    options.on_message = [&](std::string_view text) {
      if (text.find("cannot be written: File too large") != std::string_view::npos) ++told;
    };
    options.drain_interval = 5_ms;
    options.flush_interval = 5_ms;
    const rlimit limit{200'000, 200'000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    std::uint64_t random = 1;
    for (int i = 0; i < 2'000'000 && recorder->enabled(); ++i) {
      random = random * 6364136223846793005ULL + 1;
      recorder->record(EventKind::kNote, lane, random, random >> 7);
      if (i == 0) recorder->record(EventKind::kAlloc, lane, 512, kSizes);
      if (i % 10'000 == 0) static_cast<void>(recorder->flush());
    }
    const bool is_off = !recorder->enabled() && !recorder->flush().ok();
    recorder->finish();
    ::_exit(is_off && told == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const auto reader = read(options.path);
  EXPECT_GT(reader->coverage().events, 1000U);
  EXPECT_EQ(reader->coverage().ending, TraceEnding::kCut);
}

TEST_F(TraceRecorderTest, AForkedChildIsOffAndLeavesTheFileAlone) {
  const auto recorder = TraceRecorder::create(options);
  const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
  recorder->record(EventKind::kAlloc, lane, 512, kSizes);
  ASSERT_TRUE(recorder->flush().ok());
  const auto size = fs::file_size(options.path);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_off = !recorder->enabled() && recorder->path().empty() &&
                        recorder->flush().code == StatusCode::kUnsupported &&
                        recorder->intern("x", ContextKind::kNote) == ContextId{} &&
                        recorder->intern_lane(DeviceId{0}, StreamId{9}) == LaneId{};
    recorder->record(EventKind::kAlloc, lane, 512, kSizes);  // a race with the fork: harmless
    std::exit(is_off ? 0 : 1);  // with exit handlers: they must not write either
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(fs::file_size(options.path), size);
  recorder->record(EventKind::kFree, lane, 512, kSizes);
  recorder->finish();
  EXPECT_EQ(all(*read(options.path)).size(), 2U);
}

TEST_F(TraceRecorderTest, AChildMayHaveARecorderOfItsOwn) {
  const auto recorder = TraceRecorder::create(options);
  recorder->record(EventKind::kNote, {}, 0, 0);
  const pid_t child = ::fork();
  if (child == 0) {
    options.path = (folder / "child.levee").string();
    auto own = TraceRecorder::create(options);
    own->record(EventKind::kAlloc, own->intern_lane(DeviceId{0}, StreamId{0}), 512, kSizes);
    ::_exit(own->flush().ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(all(*read((folder / "child.levee").string())).size(), 1U);
}

TEST_F(TraceRecorderTest, ReturningFromMainCompletesTheFile) {
  const pid_t child = ::fork();
  if (child == 0) {
    TraceRecorder* recorder =
        TraceRecorder::create(options).release();  // as a process has it: for ever
    recorder->record(EventKind::kAlloc, recorder->intern_lane(DeviceId{0}, StreamId{0}), 512,
                     kSizes);
    std::exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const auto reader = read(options.path);
  EXPECT_EQ(reader->coverage().ending, TraceEnding::kComplete);
  EXPECT_EQ(reader->coverage().events, 1U);
}

TEST_F(TraceRecorderTest, StoppingSaysWhy) {
  const auto recorder = TraceRecorder::create(options);
  recorder->record(EventKind::kAlloc, recorder->intern_lane(DeviceId{0}, StreamId{0}), 512, kSizes);
  recorder->finish("the user asked for it");
  EXPECT_FALSE(recorder->enabled());
  EXPECT_TRUE(recorder->flush().ok());
  EXPECT_EQ(read(options.path)->coverage().stop_reason, "the user asked for it");
}

TEST_F(TraceRecorderTest, NamesAreStableAndRunOutWithoutHarm) {
  options.cap = 8_MiB;  // texts may take an eighth of it
  const auto recorder = TraceRecorder::create(options);
  const ContextId first = recorder->intern("forward", ContextKind::kPhase);
  EXPECT_EQ(recorder->intern("forward", ContextKind::kPhase), first);
  EXPECT_NE(recorder->intern("forward", ContextKind::kKernel), first);
  EXPECT_NE(recorder->intern("", ContextKind::kNote), first);
  EXPECT_EQ(recorder->intern_pool(PoolId{}), 0);
  EXPECT_EQ(recorder->intern_pool(PoolId{1, 0}), recorder->intern_pool(PoolId{1, 0}));
  LaneId last{};
  for (std::uint64_t s = 0; s < 70'000; ++s) last = recorder->intern_lane(DeviceId{0}, StreamId{s});
  EXPECT_EQ(recorder->intern_lane(DeviceId{0}, StreamId{1'000'000}), last) << "other streams";
  EXPECT_NE(recorder->intern_lane(DeviceId{1}, StreamId{1'000'000}), last) << "of another device";
  ContextId id = first;
  for (int i = 0; id.value != 0; ++i) {
    ASSERT_LT(i, 1000);
    id = recorder->intern(std::to_string(i) + std::string(10'000, 'x'), ContextKind::kStack);
  }
  EXPECT_EQ(recorder->intern("forward", ContextKind::kPhase), first) << "what is known stays known";
  recorder->record(EventKind::kAlloc, last, 512, kSizes);
  recorder->finish();
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_THAT(messages[0], HasSubstr("too many different stacks"));
  EXPECT_TRUE(read(options.path)->lane(last).is_other_streams);
}

}  // namespace
}  // namespace levee::record
