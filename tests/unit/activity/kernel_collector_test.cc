#include "allocator/activity/kernel_collector.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cupti.h>

#include "allocator/base/clock.h"
#include "allocator/record/trace_reader.h"
#include "tests/support/wait_until.h"
#include "tests/unit/activity/fake_cupti.h"

namespace levee::activity {
namespace {

namespace fs = std::filesystem;
using base::Clock;
using ::testing::HasSubstr;

class KernelCollectorTest : public ::testing::Test {
 protected:
  KernelCollectorTest() {
    fake_cupti_reset();
    folder = fs::temp_directory_path() /
             ("levee_kernels_test." + std::to_string(::getpid()) + "." +
              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder);
    record::TraceRecorder::Options recording;
    recording.path = (folder / "run.levee").string();
    recorder = record::TraceRecorder::create(recording);
    options.cupti_library = LEVEE_FAKE_CUPTI;
    options.flush_interval = 3'600'000_ms;  // by hand
  }
  ~KernelCollectorTest() override {
    recorder.reset();
    fs::remove_all(folder);
  }

  std::unique_ptr<KernelCollector> start() {
    std::string why;
    auto collector = KernelCollector::start(*recorder, options, &why);
    EXPECT_NE(collector, nullptr) << why;
    return collector;
  }
  std::string refusal() {
    std::string why;
    EXPECT_EQ(KernelCollector::start(*recorder, options, &why), nullptr);
    return why;
  }
  void begin_recording() {
    recorder->record(EventKind::kAlloc, recorder->intern_lane(DeviceId{0}, StreamId{0}), 512,
                     pack_sizes(512_B, 512_B));
  }
  std::unique_ptr<record::TraceReader> finish_and_read() {
    recorder->finish();
    std::string why;
    auto reader = record::TraceReader::open((folder / "run.levee").string(), &why);
    EXPECT_NE(reader, nullptr) << why;
    return reader;
  }
  static std::vector<Event> events(const record::TraceReader& reader, record::KindSet kinds) {
    std::vector<Event> all;
    record::EventQuery query;
    query.kinds = kinds;
    const auto cursor = reader.events(query);
    for (auto batch = cursor->next(); !batch.empty(); batch = cursor->next()) {
      for (const record::TraceEvent& event : batch) all.push_back(event.event);
    }
    return all;
  }

  fs::path folder;
  std::unique_ptr<record::TraceRecorder> recorder;
  KernelCollector::Options options;
};

TEST_F(KernelCollectorTest, KernelsCopiesAndMemsetsGoIntoTheFileOnLeveesClock) {
  begin_recording();
  const auto collector = start();
  EXPECT_TRUE(collector->is_on());
  EXPECT_EQ(collector->library(), LEVEE_FAKE_CUPTI);
  const std::int64_t start = Clock::now().value;
  fake_cupti_add_kernel("_Z4gemmIfEvPT_", 0, 7, start, start + 5000, 41);
  fake_cupti_add_kernel("not_mangled", 0, 7, start + 6000, start + 6500, 42);
  fake_cupti_add_copy(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 4096, start + 7000, start + 8000);
  fake_cupti_add_copy(CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, 100, start + 8000, start + 8100);
  fake_cupti_add_peer_copy(77, start + 8200, start + 8300);
  fake_cupti_add_unknown();
  fake_cupti_add_memset(512, start + 9000, start + 9100);
  collector->flush();
  EXPECT_EQ(collector->totals().kernels, 2U);
  EXPECT_EQ(collector->totals().copies, 3U);
  EXPECT_EQ(collector->totals().memsets, 1U);

  const auto reader = finish_and_read();
  const auto all = events(*reader, record::KindSet::activity());
  ASSERT_EQ(all.size(), 6U);
  EXPECT_EQ(all[0].kind(), EventKind::kKernel);
  EXPECT_EQ(reader->context(all[0].context()).text, "void gemm<float>(float*)");
  EXPECT_EQ(reader->context(all[0].context()).kind, record::ContextKind::kKernel);
  EXPECT_EQ(reader->context(all[1].context()).text, "not_mangled");
  EXPECT_EQ(all[0].a, 5000U);
  EXPECT_EQ(all[0].b, 41U);
  const std::int64_t offsets[] = {0, 6000, 7000, 8000, 8200, 9000};
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(static_cast<std::int64_t>(all[i].time_ns) - start - offsets[i]),
                0, 1000)
        << i;
    EXPECT_EQ(reader->lane(all[i].lane).stream, StreamId{0})
        << "CUPTI's stream 7 is the default stream";
    EXPECT_FALSE(reader->lane(all[i].lane).is_cupti_number);
  }
  EXPECT_EQ(all[2].aux, 1);  // cudaMemcpyHostToDevice
  EXPECT_EQ(all[3].aux, 2);
  EXPECT_EQ(all[4].aux, 3);
  EXPECT_EQ(all[4].b, 77U);
  EXPECT_EQ(all[5].b, 512U);
}

TEST_F(KernelCollectorTest, AStreamHasTheAllocatorsLaneIfItKnowsIt) {
  begin_recording();
  const LaneId known = recorder->intern_lane(DeviceId{1}, StreamId{0xABC0});
  fake_cupti_set_stream(0xABC0, 13);
  const auto collector = start();
  const std::int64_t now = Clock::now().value;
  fake_cupti_add_kernel("k", 1, 13, now, now + 1, 1);
  fake_cupti_add_kernel("k", 1, 14, now + 10, now + 11, 2);
  fake_cupti_add_kernel("k", 0, 13, now + 20, now + 21, 3);
  collector->flush();
  // A stream that the allocator meets later.
  const LaneId later = recorder->intern_lane(DeviceId{1}, StreamId{0xDEF0});
  fake_cupti_set_stream(0xDEF0, 15);
  fake_cupti_add_kernel("k", 1, 15, now + 30, now + 31, 4);
  collector->flush();
  const auto reader = finish_and_read();
  const auto all = events(*reader, record::KindSet::activity());
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].lane, known);
  EXPECT_TRUE(reader->lane(all[1].lane).is_cupti_number);
  EXPECT_EQ(reader->lane(all[1].lane).stream, StreamId{14});
  EXPECT_EQ(reader->lane(all[1].lane).device, DeviceId{1});
  EXPECT_EQ(reader->lane(all[2].lane).device, DeviceId{0});
  EXPECT_EQ(all[3].lane, later);
}

TEST_F(KernelCollectorTest, ManyRecordsFillManyBuffers) {
  begin_recording();
  const auto collector = start();
  const std::int64_t now = Clock::now().value;
  for (std::uint32_t i = 0; i < 30'000; ++i) {
    fake_cupti_add_kernel(i % 2 == 0 ? "even" : "odd", 0, 7, now + i * 10, now + i * 10 + 5, i);
  }
  collector->flush();
  const auto reader = finish_and_read();
  const auto all = events(*reader, record::KindSet::activity());
  ASSERT_EQ(all.size(), 30'000U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(all[i].b, i);
    ASSERT_EQ(reader->context(all[i].context()).text, i % 2 == 0 ? "even" : "odd");
  }
}

TEST_F(KernelCollectorTest, RecordsWithoutTimesAndThoseThatCuptiDroppedAreCounted) {
  begin_recording();
  const auto collector = start();
  const std::int64_t now = Clock::now().value;
  fake_cupti_add_kernel("k", 0, 7, 0, 0, 1);
  fake_cupti_add_kernel(nullptr, 0, 7, now, now + 1, 2);
  fake_cupti_set_dropped(17);
  collector->flush();
  EXPECT_EQ(collector->totals().dropped, 18U);
  const auto reader = finish_and_read();
  EXPECT_EQ(reader->coverage().lost_events, 17U);
  EXPECT_EQ(events(*reader, record::KindSet::activity()).size(), 1U);
}

TEST_F(KernelCollectorTest, AStepOfTheCalendarClockDoesNotBendTimes) {
  begin_recording();
  const auto collector = start();
  std::int64_t now = Clock::now().value;
  fake_cupti_add_kernel("k", 0, 7, now, now + 1, 1);
  collector->flush();
  fake_cupti_move_clock(-3'600'000'000'000);  // an hour back
  now = Clock::now().value;
  fake_cupti_add_kernel("k", 0, 7, now, now + 1, 2);
  collector->flush();
  const auto all = events(*finish_and_read(), record::KindSet::activity());
  ASSERT_EQ(all.size(), 2U);
  EXPECT_NEAR(static_cast<double>(static_cast<std::int64_t>(all[1].time_ns) - now), 0, 50'000);
}

TEST_F(KernelCollectorTest, WhereAnotherClientIsActiveItDoesNotStart) {
  fake_cupti_set_taken(1);
  EXPECT_EQ(refusal(),
            "Kernels are not timed: another profiler (torch.profiler, Nsight or the like) uses "
            "CUPTI in this process, and "
            "CUPTI serves one at a time; stop it, or leave out --kernels.");
  EXPECT_EQ(fake_cupti_enabled_kinds(), 0);
}

TEST_F(KernelCollectorTest, AClientThatStartsLaterGetsCuptiToItself) {
  begin_recording();
  options.flush_interval = 1_ms;
  const auto collector = start();
  const int kinds = fake_cupti_enabled_kinds();
  // As torch.profiler does: it subscribes, then registers callbacks of its own; kinds are on
  // already.
  fake_cupti_set_taken(1);
  EXPECT_TRUE(test::wait_until([&] { return !collector->is_on(); }));
  collector->flush();
  collector->stop();
  EXPECT_EQ(fake_cupti_enabled_kinds(), kinds) << "the other client's records must go on";
  const auto reader = finish_and_read();
  const auto notes = events(*reader, record::KindSet::none().with(EventKind::kNote));
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(std::string(reader->context(notes[0].context()).text),
              HasSubstr("Kernel timings end here: another profiler"));
}

TEST_F(KernelCollectorTest, StoppingWhileAnotherClientIsActiveLeavesItsKindsOn) {
  begin_recording();
  const auto collector = start();
  const int kinds = fake_cupti_enabled_kinds();
  fake_cupti_set_taken(1);
  collector->stop();
  EXPECT_EQ(fake_cupti_enabled_kinds(), kinds);
}

TEST_F(KernelCollectorTest, FinishedKernelsArriveWithoutBeingAskedFor) {
  begin_recording();
  options.flush_interval = 1_ms;
  const auto collector = start();
  const std::int64_t now = Clock::now().value;
  fake_cupti_add_kernel("k", 0, 7, now, now + 1, 1);
  ASSERT_TRUE(test::wait_until([&] { return collector->totals().kernels > 0; }));
  EXPECT_EQ(collector->totals().kernels, 1U);
}

TEST_F(KernelCollectorTest, StoppingTurnsEverythingOffAndItCanStartAgain) {
  begin_recording();
  std::string why;
  {
    const auto collector = start();
    EXPECT_EQ(KernelCollector::start(*recorder, options, &why), nullptr);
    EXPECT_EQ(why, "Kernels are timed already.");
    const std::int64_t now = Clock::now().value;
    fake_cupti_add_kernel("k", 0, 7, now, now + 1, 1);
    collector->stop();
    EXPECT_EQ(fake_cupti_enabled_kinds(), 0);
    EXPECT_EQ(collector->totals().kernels, 1U) << "what was finished is flushed";
    EXPECT_FALSE(collector->is_on());
    collector->stop();
  }
  const auto again = start();
  EXPECT_GT(fake_cupti_enabled_kinds(), 0);
}

TEST_F(KernelCollectorTest, AKindThatIsRefusedUndoesTheOthers) {
  fake_cupti_set_enable_result(CUPTI_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(refusal(), "Kernels are not timed: CUPTI says CUPTI_ERROR_NOT_INITIALIZED.");
  EXPECT_EQ(fake_cupti_enabled_kinds(), 0);
  fake_cupti_set_enable_result(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  EXPECT_THAT(refusal(), HasSubstr("only administrators"));
}

TEST_F(KernelCollectorTest, ALibraryThatIsMissingOrNoCuptiIsSaidSo) {
  options.cupti_library = "/nowhere/libcupti.so.13";
  EXPECT_THAT(
      refusal(),
      HasSubstr("Kernels are not timed: CUPTI cannot be loaded from /nowhere/libcupti.so.13"));
  options.cupti_library = "libm.so.6";
  EXPECT_THAT(refusal(), HasSubstr("This CUPTI has no cuptiGetTimestamp"));
}

TEST_F(KernelCollectorTest, WithoutRecordingThereAreNoKernels) {
  recorder->finish();
  EXPECT_EQ(refusal(), "Kernels are not timed: recording is off.");
}

TEST_F(KernelCollectorTest, AForkedChildDoesNothing) {
  begin_recording();
  auto collector = start();
  const pid_t child = ::fork();
  if (child == 0) {
    const int kinds = fake_cupti_enabled_kinds();
    collector->flush();
    collector->stop();
    ::_exit(fake_cupti_enabled_kinds() == kinds ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace levee::activity
