#include "allocator/core/thread_caches.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace levee::core
