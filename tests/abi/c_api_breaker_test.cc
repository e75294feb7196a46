// The C interface under callers who get everything wrong: each call answers with a code and a
// sentence, and the memory of others stays as it is. On a simulated GPU, through liblevee.so.
#include "allocator/c_api/levee.h"

#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using testing::HasSubstr;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class CApiBreaker : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(levee_set_option("record", "0"), LEVEE_OK);
    ASSERT_EQ(levee_start(), LEVEE_OK) << levee_last_error();
  }
  void SetUp() override { kept = allocate(3 * kMiB); }
  // Whatever a test did, what it did not touch is there, and the device serves.
  void TearDown() override {
    EXPECT_EQ(levee_free(kept), LEVEE_OK) << levee_last_error();
    void* again = allocate(3 * kMiB);
    EXPECT_EQ(levee_free(again), LEVEE_OK);
  }

  static void* allocate(std::size_t bytes) {
    void* out = nullptr;
    EXPECT_EQ(levee_allocate(0, bytes, nullptr, &out), LEVEE_OK) << levee_last_error();
    EXPECT_NE(out, nullptr);
    return out;
  }
  /// The call fails with this code, and the sentence is about it, not about an earlier failure.
  static void refused(int code, const std::function<int()>& call) {
    ASSERT_EQ(levee_free(reinterpret_cast<void*>(std::uintptr_t{0xBAD})), LEVEE_NOT_OWNED);
    const std::string before = levee_last_error();
    EXPECT_EQ(call(), code) << levee_last_error();
    EXPECT_NE(std::string{levee_last_error()}, "");
    EXPECT_NE(levee_last_error(), before);
  }
  static void* at(void* pointer, std::ptrdiff_t bytes) {
    return static_cast<char*>(pointer) + bytes;
  }

  void* kept = nullptr;
};

TEST_F(CApiBreaker, AddressesThatAreNoBlockAreNotFreed) {
  void* const wrong[] = {at(kept, 1),
                         at(kept, 512),
                         at(kept, -512),
                         at(kept, 64 * kMiB),
                         reinterpret_cast<void*>(std::uintptr_t{1}),
                         reinterpret_cast<void*>(std::numeric_limits<std::uintptr_t>::max())};
  for (void* pointer : wrong) {
    refused(LEVEE_NOT_OWNED, [&] { return levee_free(pointer); });
  }
}

TEST_F(CApiBreaker, ASecondFreeIsRefusedOnAnyThreadAndForEverySize) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4096}, kMiB, 40 * kMiB}) {
    void* block = allocate(bytes);
    std::thread([&] { EXPECT_EQ(levee_free(block), LEVEE_OK) << levee_last_error(); }).join();
    refused(LEVEE_NOT_OWNED, [&] { return levee_free(block); });
    std::thread([&] {
      EXPECT_EQ(levee_free(block), LEVEE_NOT_OWNED);
      EXPECT_STRNE(levee_last_error(), "");
    }).join();
  }
}

TEST_F(CApiBreaker, WhatWasGivenBackIsNotUsedAnyMore) {
  void* block = allocate(5 * kMiB);
  ASSERT_EQ(levee_free(block), LEVEE_OK);
  refused(LEVEE_NOT_OWNED, [&] { return levee_record_use(block, nullptr); });
  refused(LEVEE_NOT_OWNED, [&] { return levee_record_use_on(block, 0, nullptr); });
}

TEST_F(CApiBreaker, MappedPagesHaveNoBaseAndTheSentenceSaysWhatHas) {
  void* base = &base;
  refused(LEVEE_UNSUPPORTED, [&] { return levee_base_allocation(kept, &base, nullptr); });
  EXPECT_THAT(levee_last_error(), HasSubstr("LEVEE_BACKING=segments"));
  EXPECT_EQ(base, &base);
}

TEST_F(CApiBreaker, NullIsRefusedWhereverItIsNoAnswer) {
  refused(LEVEE_INVALID_ARGUMENT, [] { return levee_allocate(0, 1, nullptr, nullptr); });
  refused(LEVEE_INVALID_ARGUMENT, [] { return levee_device_count(nullptr); });
  refused(LEVEE_INVALID_ARGUMENT, [] { return levee_option_at(0, nullptr); });
  refused(LEVEE_NOT_OWNED, [] { return levee_record_use(nullptr, nullptr); });
  refused(LEVEE_NOT_OWNED, [] { return levee_base_allocation(nullptr, nullptr, nullptr); });
  char text[8] = "old";
  EXPECT_EQ(levee_get_option(nullptr, text, sizeof(text)), 0U);
  EXPECT_STREQ(text, "");
  EXPECT_EQ(levee_stats_json(0, nullptr, 1000), levee_stats_json(0, nullptr, 0));
  levee_push_phase(nullptr);
  levee_pop_phase();
  levee_pop_phase();  // one too many
  EXPECT_EQ(levee_intern_stack(nullptr, 100), 0U);
}

TEST_F(CApiBreaker, DevicesThatDoNotExistAreRefusedByEveryCall) {
  for (const int device :
       {-1, 1, 64, 65536, std::numeric_limits<int>::max(), std::numeric_limits<int>::min()}) {
    void* out = &out;
    refused(LEVEE_INVALID_ARGUMENT, [&] { return levee_allocate(device, 1, nullptr, &out); });
    EXPECT_EQ(out, nullptr) << device;
    refused(LEVEE_INVALID_ARGUMENT, [&] { return levee_record_use_on(kept, device, nullptr); });
    std::size_t given_back = 7;
    refused(LEVEE_INVALID_ARGUMENT, [&] { return levee_trim(device, 0, &given_back); });
    EXPECT_EQ(given_back, 0U);
    refused(LEVEE_INVALID_ARGUMENT, [&] { return levee_set_memory_fraction(device, 0.5); });
    refused(LEVEE_INVALID_ARGUMENT, [&] { return levee_reset_peak_stats(device); });
    char text[8] = "old";
    refused(0, [&] { return static_cast<int>(levee_stats_json(device, text, sizeof(text))); });
    EXPECT_STREQ(text, "");
    refused(LEVEE_INVALID_ARGUMENT,
            [&] { return levee_pool_begin(device, 1, 1, nullptr, nullptr, nullptr); });
    refused(LEVEE_INVALID_ARGUMENT, [&] { return levee_pool_end(device, 1, 1); });
    refused(LEVEE_INVALID_ARGUMENT, [&] { return levee_pool_release(device, 1, 1); });
  }
  refused(LEVEE_INVALID_ARGUMENT,
          [] { return levee_set_memory_fraction(0, std::numeric_limits<double>::quiet_NaN()); });
  refused(LEVEE_INVALID_ARGUMENT, [] { return levee_option_at(100'000, nullptr); });
}

TEST_F(CApiBreaker, SizesBeyondTheDeviceAreOutOfMemoryAndSayWhatWasAsked) {
  for (const std::size_t bytes : {std::size_t{1} << 40, std::numeric_limits<std::size_t>::max(),
                                  std::numeric_limits<std::size_t>::max() - 511}) {
    void* out = &out;
    EXPECT_EQ(levee_allocate(0, bytes, nullptr, &out), LEVEE_OUT_OF_MEMORY);
    EXPECT_EQ(out, nullptr);
    EXPECT_THAT(levee_last_error(), HasSubstr("out of memory"));
  }
}

TEST_F(CApiBreaker, PoolsEndAndGoOnceAndNeverBeforeTheyBegan) {
  refused(LEVEE_INVALID_ARGUMENT,
          [] { return levee_pool_begin(0, 0, 0, nullptr, nullptr, nullptr); });
  refused(LEVEE_INVALID_ARGUMENT, [] { return levee_pool_end(0, 5, 5); });
  refused(LEVEE_INVALID_ARGUMENT, [] { return levee_pool_release(0, 5, 5); });
  ASSERT_EQ(levee_pool_begin(0, 5, 5, nullptr, nullptr, nullptr), LEVEE_OK);
  void* inside = allocate(kMiB);
  ASSERT_EQ(levee_pool_end(0, 5, 5), LEVEE_OK);
  refused(LEVEE_INVALID_ARGUMENT, [] { return levee_pool_end(0, 5, 5); });
  ASSERT_EQ(levee_pool_release(0, 5, 5), LEVEE_OK);
  EXPECT_EQ(levee_free(inside), LEVEE_OK) << "a block may outlive its pool";
  refused(LEVEE_INVALID_ARGUMENT, [] { return levee_pool_release(0, 5, 5); });
}

// A C++ caller may throw out of a function that is called back; C knows no exceptions.
TEST_F(CApiBreaker, AFilterThatThrowsIsAFailedRequestAndNothingIsStuck) {
  const auto throwing = [](void*, void*) -> int { throw std::runtime_error("no"); };
  ASSERT_EQ(levee_pool_begin(0, 6, 6, throwing, nullptr, nullptr), LEVEE_OK);
  void* out = nullptr;
  const int code = levee_allocate(0, 3 * kMiB, nullptr, &out);
  EXPECT_EQ(code, LEVEE_INTERNAL);
  EXPECT_THAT(levee_last_error(), HasSubstr("no"));
  EXPECT_EQ(levee_pool_end(0, 6, 6), LEVEE_OK);
  EXPECT_EQ(levee_pool_release(0, 6, 6), LEVEE_OK);
}

}  // namespace
