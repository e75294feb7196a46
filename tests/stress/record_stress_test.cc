// The recorder under real threads, forks and kills. More rounds: --gtest_repeat=N.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <filesystem>
#include <map>
#include <new>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "allocator/base/clock.h"
#include "allocator/record/trace_reader.h"
#include "allocator/record/trace_recorder.h"

namespace levee::record {
namespace {

namespace fs = std::filesystem;
using base::Clock;

constexpr std::uint64_t kSizes = pack_sizes(1000_B, 1024_B);

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t kScale = 1;
#else
constexpr std::uint64_t kScale = 10;
#endif

class RecordStress : public ::testing::Test {
 protected:
  RecordStress() : random(static_cast<std::uint64_t>(Clock::monotonic().value)) {
    folder = fs::temp_directory_path() /
             ("levee_record_stress." + std::to_string(::getpid()) + "." +
              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(folder);
    fs::create_directories(folder);
    options.path = (folder / "run.levee").string();
    options.on_message = [](std::string_view text) { ADD_FAILURE() << text; };
  }
  ~RecordStress() override { fs::remove_all(folder); }

  std::unique_ptr<TraceReader> read() const {
    std::string why;
    auto reader = TraceReader::open(options.path, &why);
    EXPECT_NE(reader, nullptr) << why;
    return reader;
  }

  std::mt19937_64 random;
  fs::path folder;
  TraceRecorder::Options options;
};

template <typename Visitor>
void for_each_event(const TraceReader& reader, Visitor visit) {
  const auto cursor = reader.events();
  for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
    for (const TraceEvent& event : batch) {
      if (::testing::Test::HasFatalFailure()) return;  // one is enough
      visit(event);
    }
  }
}

TEST_F(RecordStress, ThreadsThatComeGoFlushInternAndForkLoseNothing) {
  constexpr std::uint64_t kWorkers = 6;
  const std::uint64_t generations = 8 * kScale;
  const std::uint64_t events = 500 * kScale;
  options.ring_memory = 256_MiB;  // all of them, since the threads pause for nothing
  {
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    std::atomic<bool> is_over{false};
    std::thread flusher([&] {
      while (!is_over.load()) {
        EXPECT_TRUE(recorder->flush().ok());
        static_cast<void>(recorder->path());
        std::this_thread::yield();
      }
    });
    std::thread forker([&] {
      for (int i = 0; i < 5 && !is_over.load(); ++i) {
        const pid_t child = ::fork();
        if (child == 0) {
          // What a child may find itself in the middle of: all of it is refused.
          const bool is_off = !recorder->enabled() && recorder->intern("x") == ContextId{} &&
                              recorder->flush().code == StatusCode::kUnsupported;
          ::_exit(is_off ? 0 : 1);
        }
        int status = 0;
        EXPECT_EQ(::waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
      }
    });
    std::thread cupti([&] {
      for (std::uint64_t i = 0; i < 100; ++i) {
        const std::vector<Event> kernels(50,
                                         make_event(EventKind::kKernel, Clock::now(), lane, 10, i));
        recorder->emit_activity(kernels);
      }
    });
    std::vector<std::thread> workers;
    for (std::uint64_t w = 0; w < kWorkers; ++w) {
      workers.emplace_back([&, w] {
        for (std::uint64_t g = 0; g < generations; ++g) {
          std::thread([&, g] {  // a thread for each generation: logs are passed on
            const std::uint64_t who = w << 20 | g;
            const ContextId name =
                recorder->intern("phase " + std::to_string(who % 50), ContextKind::kPhase);
            recorder->record(EventKind::kPhasePush, {}, 0, 0, 0, name);
            for (std::uint64_t i = 0; i < events; ++i)
              recorder->record(EventKind::kAlloc, lane, who << 32 | i << 9, kSizes);
            recorder->record(EventKind::kPhasePop, {}, 0, 0, 0, name);
          })
              .join();
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
    cupti.join();
    is_over.store(true);
    forker.join();
    flusher.join();
  }
  const auto reader = read();
  EXPECT_TRUE(reader->coverage().is_whole());
  EXPECT_EQ(reader->coverage().activity_events, 5000U);
  std::map<std::uint64_t, std::uint64_t> next;
  std::map<std::uint32_t, std::uint64_t> sequences;
  for_each_event(*reader, [&](const TraceEvent& event) {
    if (event.event.kind() != EventKind::kKernel) {
      ASSERT_EQ(event.sequence, sequences[event.thread]++);
    }
    if (event.event.kind() == EventKind::kPhasePush) {
      ASSERT_TRUE(reader->context(event.event.context()).text.starts_with("phase "));
    }
    if (event.event.kind() != EventKind::kAlloc) return;
    ASSERT_EQ((event.event.a & UINT32_MAX) >> 9, next[event.event.a >> 32]++);
  });
  EXPECT_EQ(next.size(), kWorkers * generations);
  for (const auto& [who, count] : next) ASSERT_EQ(count, events);
}

TEST_F(RecordStress, ALogThatIsFullLosesAndCountsWhateverTheWriterDoes) {
  options.ring_memory = Bytes{6 * Chunk::kBytes};
  options.drain_interval = 1_ms;
  std::atomic<std::uint64_t> emitted{0};
  {
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (std::uint64_t i = 0; i < 100'000 * kScale; ++i)
          recorder->record(EventKind::kAlloc, lane, i << 9, kSizes);
        emitted.fetch_add(100'000 * kScale);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::uint64_t seen = 0, lost = 0;
  std::map<std::uint32_t, std::uint64_t> sequences;
  for_each_event(*read(), [&](const TraceEvent& event) {
    if (event.event.kind() == EventKind::kLost) {
      lost += event.event.a;
      sequences[event.thread] += event.event.a;
    } else {
      ++seen;
    }
    ASSERT_EQ(event.sequence, sequences[event.thread]++);
  });
  EXPECT_EQ(seen + lost, emitted.load());
  EXPECT_GT(lost, 0U) << "the test is too gentle";
}

/// What a child shares with the parent that kills it.
struct Progress {
  std::atomic<std::uint64_t> emitted{0};
  std::atomic<bool> is_running{false};
};

/// Records in a child until it is killed. Returns how many events it had emitted a second before
/// the kill.
std::uint64_t record_until_killed(const TraceRecorder::Options& options,
                                  std::uint64_t events_per_ms, Nanos life) {
  void* shared =
      ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto* progress = new (shared) Progress;
  const pid_t child = ::fork();
  if (child == 0) {
    const auto recorder = TraceRecorder::create(options);
    const LaneId lane = recorder->intern_lane(DeviceId{0}, StreamId{0});
    for (std::uint64_t i = 0;; ++i) {
      recorder->record(EventKind::kAlloc, lane, i << 9, kSizes);
      progress->emitted.store(i + 1);
      progress->is_running.store(true);
      if (i % events_per_ms == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  while (!progress->is_running.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Nanos begin = Clock::monotonic();
  std::deque<std::pair<Nanos, std::uint64_t>> samples;
  while (Clock::monotonic() < begin + life) {
    samples.emplace_back(Clock::monotonic(), progress->emitted.load());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ::kill(child, SIGKILL);
  const Nanos killed = Clock::monotonic();
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  std::uint64_t a_second_before = 0;
  for (const auto& [time, emitted] : samples) {
    if (time + 1000_ms <= killed) a_second_before = emitted;
  }
  ::munmap(shared, sizeof(Progress));
  return a_second_before;
}

TEST_F(RecordStress, AKilledProcessLeavesEverythingButItsLastSecond) {
  for (int round = 0; round < 4; ++round) {
    fs::remove(options.path);
    const Nanos life{static_cast<std::int64_t>(1'000'000'000 + random() % 700'000'000)};
    const std::uint64_t at_least = record_until_killed(options, 20, life);
    const auto reader = read();
    ASSERT_NE(reader, nullptr);
    EXPECT_EQ(reader->coverage().ending, TraceEnding::kCut);
    EXPECT_EQ(reader->coverage().damaged_blocks, 0U);
    EXPECT_GE(reader->coverage().events, at_least);
    std::uint64_t next = 0;
    for_each_event(*reader,
                   [&](const TraceEvent& event) { ASSERT_EQ(event.event.a >> 9, next++); });
    EXPECT_EQ(next, reader->coverage().events);
  }
}

TEST_F(RecordStress, AKilledProcessLeavesAReadableRing) {
  options.cap = 1_MiB;
  options.drain_interval = 1_ms;
  options.flush_interval = 1_ms;  // small blocks, many chapters
  for (int round = 0; round < 6; ++round) {
    fs::remove(options.path);
    const Nanos life{static_cast<std::int64_t>(300'000'000 + random() % 400'000'000)};
    record_until_killed(options, 300, life);
    EXPECT_LE(fs::file_size(options.path), options.cap.value + kFileHeadAlignment);
    const auto reader = read();
    ASSERT_NE(reader, nullptr);
    EXPECT_LE(reader->coverage().damaged_blocks, 1U);  // the one that was being written
    std::uint64_t next = reader->coverage().dropped_events;
    for_each_event(*reader,
                   [&](const TraceEvent& event) { ASSERT_EQ(event.event.a >> 9, next++); });
    EXPECT_EQ(next - reader->coverage().dropped_events, reader->coverage().events);
    EXPECT_GT(next, 0U);
  }
}

}  // namespace
}  // namespace levee::record
