// The C interface where it succeeds: what each call does, on two simulated devices and recorded,
// through liblevee.so. Calls that are wrong: c_api_breaker_test.cc.
#include "allocator/c_api/levee.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "allocator/record/trace_reader.h"

namespace {

using levee::EventKind;
using testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20;

std::string text_of(std::size_t (*call)(char*, std::size_t)) {
  char buffer[4096];
  call(buffer, sizeof(buffer));
  return buffer;
}

std::string stats_of(int device) {
  std::string text(levee_stats_json(device, nullptr, 0), '\0');
  levee_stats_json(device, text.data(), text.size() + 1);
  return text;
}

void* allocate(int device, std::size_t bytes, void* stream = nullptr) {
  void* out = nullptr;
  EXPECT_EQ(levee_allocate(device, bytes, stream, &out), LEVEE_OK) << levee_last_error();
  EXPECT_NE(out, nullptr);
  return out;
}

// One program, one process, one recording: GoogleTest runs the tests in the order in which they
// stand, and each reads what it did itself.
class CApiCalls : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    char folder[] = "/tmp/levee-c-api-XXXXXX";
    ASSERT_NE(::mkdtemp(folder), nullptr);
    folder_ = folder;
    ASSERT_EQ(levee_set_option("record", "1"), LEVEE_OK);
    ASSERT_EQ(levee_set_option("trace", (folder_ + "/run.levee").c_str()), LEVEE_OK)
        << levee_last_error();
    ASSERT_EQ(levee_set_option("backing", "segments"), LEVEE_OK) << levee_last_error();
    ASSERT_EQ(levee_set_option("stacks", "1"), LEVEE_OK) << levee_last_error();
    ASSERT_EQ(levee_start(), LEVEE_OK) << levee_last_error();
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder_); }

  /// Events of a kind, of everything so far.
  static std::vector<levee::Event> recorded(EventKind kind) {
    EXPECT_EQ(levee_flush(), LEVEE_OK) << levee_last_error();
    std::string why;
    reader_ = levee::record::TraceReader::open(text_of(levee_trace_path), &why);
    EXPECT_NE(reader_, nullptr) << why;
    std::vector<levee::Event> all;
    if (reader_ == nullptr) return all;
    levee::record::EventQuery query;
    query.kinds = levee::record::KindSet::none().with(kind);
    const auto cursor = reader_->events(query);
    for (auto events = cursor->next(); !events.empty(); events = cursor->next()) {
      for (const levee::record::TraceEvent& one : events) all.push_back(one.event);
    }
    return all;
  }
  static std::string name_of(levee::ContextId id) { return std::string(reader_->context(id).text); }

  static std::string folder_;
  static std::unique_ptr<levee::record::TraceReader> reader_;  // of `recorded`
};
std::string CApiCalls::folder_;
std::unique_ptr<levee::record::TraceReader> CApiCalls::reader_;

TEST_F(CApiCalls, ADeviceThatNobodyUsedIsAskedWithoutBeingStarted) {
  EXPECT_EQ(levee_is_recording(), 1) << "it will be";
  EXPECT_EQ(levee_intern_stack("a.py:1 f", 8), 0U) << "and is not yet";
  levee_push_phase("set-up");
  levee_pop_phase();
  int count = 0;
  ASSERT_EQ(levee_device_count(&count), LEVEE_OK);
  EXPECT_EQ(count, 2);
  std::size_t given_back = 7;
  EXPECT_EQ(levee_trim(1, 0, &given_back), LEVEE_OK);
  EXPECT_EQ(given_back, 0U);
  EXPECT_EQ(levee_trim(1, 0, nullptr), LEVEE_OK);
  EXPECT_THAT(stats_of(1), HasSubstr("\"num_ooms\""));
  EXPECT_EQ(levee_reset_peak_stats(1), LEVEE_OK);
  EXPECT_EQ(levee_pool_end(1, 5, 5), LEVEE_INVALID_ARGUMENT);
  EXPECT_THAT(levee_last_error(), HasSubstr("which was not used"));
}

TEST_F(CApiCalls, TheLegacyStreamOfADeviceThatNobodyUsedIsNoUse) {
  ASSERT_EQ(levee_set_context_hook(nullptr), LEVEE_OK);
  void* block = allocate(0, 3 * kMiB);
  EXPECT_EQ(levee_record_use(block, nullptr), LEVEE_OK);
  EXPECT_EQ(recorded(EventKind::kRecordUse).size(), 0U);
  EXPECT_EQ(levee_free(block), LEVEE_OK);
}

TEST_F(CApiCalls, AHookNamesTheRequestsOfTheAllocatorsThatAreMadeWhileItIsSet) {
  static std::uint32_t stack = 0;
  stack = levee_intern_stack("a.py:1 f", 8);
  EXPECT_NE(stack, 0U);
  EXPECT_EQ(levee_intern_stack(nullptr, 8), 0U);
  ASSERT_EQ(levee_set_context_hook([] { return stack; }), LEVEE_OK);
  EXPECT_EQ(levee_free(allocate(1, 3 * kMiB)), LEVEE_OK);
  ASSERT_EQ(levee_set_context_hook(nullptr), LEVEE_OK);
  const auto allocs = recorded(EventKind::kAlloc);
  ASSERT_EQ(allocs.size(), 2U);
  EXPECT_EQ(allocs[0].context().value, 0U) << "of the test before";
  EXPECT_EQ(name_of(allocs[1].context()), "a.py:1 f");
}

TEST_F(CApiCalls, MemoryComesAndGoesAtTheTimesOfTheSimulation) {
  using Now = std::int64_t (*)();
  const auto now = reinterpret_cast<Now>(dlsym(RTLD_DEFAULT, "simgpu_now_ns"));
  ASSERT_NE(now, nullptr) << "this test is about a simulated GPU";
  // A simulated driver takes its time: the simulation's clock is ahead of the machine's.
  EXPECT_EQ(levee_free(allocate(0, 1024 * kMiB)), LEVEE_OK);
  EXPECT_EQ(levee_trim(0, 0, nullptr), LEVEE_OK);
  const std::size_t frees = recorded(EventKind::kFree).size();
  ::timespec machine{};
  ::clock_gettime(CLOCK_MONOTONIC, &machine);
  const std::int64_t before = now();
  EXPECT_GT(before, machine.tv_sec * 1'000'000'000 + machine.tv_nsec + 300'000);
  void* block = allocate(0, 3 * kMiB);
  const std::int64_t after = now();
  const auto allocs = recorded(EventKind::kAlloc);
  ASSERT_FALSE(allocs.empty());
  EXPECT_EQ(allocs.back().a, reinterpret_cast<std::uintptr_t>(block));
  EXPECT_GE(allocs.back().time_ns, before);
  EXPECT_LE(allocs.back().time_ns, after);
  EXPECT_EQ(levee_free(block), LEVEE_OK);
  EXPECT_EQ(levee_free(nullptr), LEVEE_OK);
  EXPECT_EQ(recorded(EventKind::kFree).size(), frees + 1);
}

TEST_F(CApiCalls, AnOutOfMemoryIsExplained) {
  void* out = nullptr;
  EXPECT_EQ(levee_allocate(0, 6 * 1024 * kMiB + 1, nullptr, &out), LEVEE_OK);
  void* more = &more;
  EXPECT_EQ(levee_allocate(0, 6 * 1024 * kMiB, nullptr, &more), LEVEE_OUT_OF_MEMORY);
  EXPECT_EQ(more, nullptr);
  EXPECT_THAT(levee_last_error(), HasSubstr("CUDA out of memory"));
  EXPECT_THAT(levee_last_error(), HasSubstr("Verdict"));
  EXPECT_EQ(levee_free(out), LEVEE_OK);
}

TEST_F(CApiCalls, TheLegacyStreamIsThatOfEveryDeviceInUse) {
  void* block = allocate(0, 3 * kMiB);
  const std::size_t before = recorded(EventKind::kRecordUse).size();
  // Its own device's default stream is where it was asked for: no use to note.
  EXPECT_EQ(levee_record_use(block, nullptr), LEVEE_OK);
  EXPECT_EQ(recorded(EventKind::kRecordUse).size(), before + 1) << "by device 1, which is in use";
  void* there = allocate(1, 3 * kMiB);
  EXPECT_EQ(levee_record_use_on(there, 0, nullptr), LEVEE_OK);
  EXPECT_EQ(recorded(EventKind::kRecordUse).size(), before + 2);
  EXPECT_EQ(levee_record_use_on(there, 2, nullptr), LEVEE_INVALID_ARGUMENT);
  EXPECT_EQ(levee_record_use_on(there, -1, nullptr), LEVEE_INVALID_ARGUMENT);
  EXPECT_EQ(recorded(EventKind::kRecordUse).size(), before + 2);
  EXPECT_EQ(levee_free(block), LEVEE_OK);
  EXPECT_EQ(levee_free(there), LEVEE_OK);
}

TEST_F(CApiCalls, ABlockOfASegmentHasTheSegmentsBase) {
  void* first = allocate(0, 3 * kMiB);
  void* second = allocate(0, 3 * kMiB);
  void* base = nullptr;
  std::size_t bytes = 0;
  ASSERT_EQ(levee_base_allocation(second, &base, &bytes), LEVEE_OK) << levee_last_error();
  EXPECT_LE(base, second);
  EXPECT_GE(static_cast<char*>(base) + bytes, static_cast<char*>(second) + 3 * kMiB);
  void* same = nullptr;
  EXPECT_EQ(levee_base_allocation(second, &same, nullptr), LEVEE_OK);
  EXPECT_EQ(same, base);
  std::size_t again = 0;
  EXPECT_EQ(levee_base_allocation(second, nullptr, &again), LEVEE_OK);
  EXPECT_EQ(again, bytes);
  EXPECT_EQ(levee_free(first), LEVEE_OK);
  EXPECT_EQ(levee_free(second), LEVEE_OK);
}

TEST_F(CApiCalls, WhatIsCachedIsGivenBackAndCounted) {
  EXPECT_EQ(levee_free(allocate(0, 64 * kMiB)), LEVEE_OK);
  std::size_t given_back = 0;
  ASSERT_EQ(levee_trim(0, 0, &given_back), LEVEE_OK);
  EXPECT_GE(given_back, 64 * kMiB);
  EXPECT_EQ(levee_free(allocate(0, 64 * kMiB)), LEVEE_OK);
  EXPECT_EQ(levee_trim(0, 0, nullptr), LEVEE_OK);
  given_back = 7;
  EXPECT_EQ(levee_trim(0, 0, &given_back), LEVEE_OK);
  EXPECT_EQ(given_back, 0U) << "nothing is left";
  EXPECT_EQ(levee_reset_peak_stats(0), LEVEE_OK);
  EXPECT_THAT(stats_of(0), HasSubstr("\"reserved_bytes.all.peak\": 0"));
  EXPECT_THAT(stats_of(0), testing::Ne(stats_of(1)));
}

TEST_F(CApiCalls, AFractionHoldsTheDeviceDown) {
  EXPECT_EQ(levee_set_memory_fraction(0, 0.01), LEVEE_OK);
  void* out = nullptr;
  EXPECT_EQ(levee_allocate(0, 512 * kMiB, nullptr, &out), LEVEE_OUT_OF_MEMORY);
  EXPECT_EQ(levee_set_memory_fraction(0, 1), LEVEE_OK);
  EXPECT_EQ(levee_free(allocate(0, 512 * kMiB)), LEVEE_OK);
}

TEST_F(CApiCalls, AFilterIsReleasedWithItsPool) {
  int released = 0;
  const auto none = [](void*, void*) { return 0; };
  const auto release = [](void* user) { ++*static_cast<int*>(user); };
  ASSERT_EQ(levee_pool_begin(0, 3, 3, none, &released, release), LEVEE_OK);
  ASSERT_EQ(levee_pool_end(0, 3, 3), LEVEE_OK);
  ASSERT_EQ(levee_pool_release(0, 3, 3), LEVEE_OK);
  EXPECT_EQ(released, 1);
  // No filter, and nobody to tell: every stream's requests go there.
  ASSERT_EQ(levee_pool_begin(0, 3, 4, nullptr, &released, nullptr), LEVEE_OK);
  ASSERT_EQ(levee_pool_end(0, 3, 4), LEVEE_OK);
  ASSERT_EQ(levee_pool_release(0, 3, 4), LEVEE_OK);
  EXPECT_EQ(released, 1);
}

TEST_F(CApiCalls, PhasesStepsAndStacksAreRecorded) {
  EXPECT_EQ(levee_is_recording(), 1);
  levee_push_phase("forward");
  levee_pop_phase();
  levee_mark_step();
  levee_end_step();
  const auto pushes = recorded(EventKind::kPhasePush);
  // What had ended before there was any memory is left out.
  ASSERT_EQ(pushes.size(), 1U);
  EXPECT_EQ(name_of(pushes[0].context()), "forward");
  EXPECT_EQ(recorded(EventKind::kPhasePop).size(), 1U);
  EXPECT_EQ(recorded(EventKind::kStepMark).size(), 2U);
}

TEST_F(CApiCalls, KernelsAreTimedWhileTheyAreAskedFor) {
  using Memset = int (*)(void*, int, std::size_t);
  const auto memset = reinterpret_cast<Memset>(dlsym(RTLD_DEFAULT, "cudaMemset"));
  ASSERT_NE(memset, nullptr);
  void* block = allocate(0, 3 * kMiB);
  levee_stop_kernels();  // none were started
  EXPECT_EQ(memset(block, 0, kMiB), 0);
  EXPECT_EQ(recorded(EventKind::kMemset).size(), 0U);
  const std::string sentence = levee_last_error();
  for (std::size_t times = 1; times <= 2; ++times) {
    ASSERT_EQ(levee_start_kernels(), LEVEE_OK) << levee_last_error();
    EXPECT_EQ(levee_start_kernels(), LEVEE_OK) << "they are on already";
    EXPECT_EQ(levee_last_error(), sentence) << "nothing failed";
    EXPECT_EQ(memset(block, 0, kMiB), 0);
    EXPECT_EQ(recorded(EventKind::kMemset).size(), times) << "a flush brings what was timed";
    levee_stop_kernels();
    levee_stop_kernels();
    EXPECT_EQ(memset(block, 0, kMiB), 0);
    EXPECT_EQ(recorded(EventKind::kMemset).size(), times);
  }
  EXPECT_EQ(levee_free(block), LEVEE_OK);
}

TEST_F(CApiCalls, AForkedChildIsToldWhatItIs) {
  void* block = allocate(0, 3 * kMiB);
  EXPECT_EQ(levee_is_forked_child(), 0);
  const ::pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int step = 0;
    const auto is_refused = [&](int code) {
      ++step;
      if (code != LEVEE_UNSUPPORTED ||
          std::string(levee_last_error()).find("forked") == std::string::npos) {
        ::_exit(step);
      }
    };
    void* out = nullptr;
    if (levee_is_forked_child() != 1 || levee_is_recording() != 0) ::_exit(100);
    is_refused(levee_allocate(0, 1024, nullptr, &out));
    is_refused(levee_free(block));
    is_refused(levee_record_use(block, nullptr));
    is_refused(levee_base_allocation(block, nullptr, nullptr));
    is_refused(levee_trim(0, 0, nullptr));
    is_refused(levee_reset_peak_stats(0));
    is_refused(levee_set_memory_fraction(0, 0.5));
    is_refused(levee_pool_begin(0, 9, 9, nullptr, nullptr, nullptr));
    is_refused(levee_pool_end(0, 9, 9));
    is_refused(levee_flush());
    if (levee_stats_json(0, nullptr, 0) != 0 || levee_trace_path(nullptr, 0) != 0) ::_exit(101);
    levee_stop_kernels();
    levee_push_phase("x");
    levee_pop_phase();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the call with that number in this test";
  EXPECT_EQ(levee_free(block), LEVEE_OK) << "the parent goes on";
}

}  // namespace
