#include "allocator/base/process_fence.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace levee::base {
namespace {

// Dekker's question, with the fence on one side alone: never may both have missed the other.
TEST(ProcessFence, OrdersTheOtherThreadsStoreBeforeItsLoad) {
  if (!ProcessFence::is_available()) GTEST_SKIP() << "this kernel offers no membarrier";
  for (int round = 0; round < 300; ++round) {
    std::atomic<int> often{0};
    std::atomic<int> rarely{0};
    std::atomic<int> start{0};
    int seen_by_often = 0;
    std::thread other([&] {
      ++start;
      while (start.load() < 2) {
      }
      often.store(1, std::memory_order_relaxed);
      ProcessFence::compiler_fence();
      seen_by_often = rarely.load(std::memory_order_relaxed);
    });
    ++start;
    while (start.load() < 2) {
    }
    rarely.store(1, std::memory_order_relaxed);
    ProcessFence::run();
    const int seen_by_rarely = often.load(std::memory_order_relaxed);
    other.join();
    ASSERT_TRUE(seen_by_often == 1 || seen_by_rarely == 1) << round;
  }
}

}  // namespace
}  // namespace levee::base
