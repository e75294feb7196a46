// The registry of host memory that CUDA knows.
#include "tools/simgpu/core/host_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace levee::simgpu {
namespace {

TEST(HostMemory, AllocationsAreRealAndFoundByAnyAddressInThem) {
  HostMemory memory;
  auto* block = static_cast<char*>(memory.allocate(10'000_B, HostKind::kPinned, 4, 1));
  ASSERT_NE(block, nullptr);
  std::memset(block, 7, 10'000);
  for (const char* at : {block, block + 9'999}) {
    const auto found = memory.find(at);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->kind, HostKind::kPinned);
    EXPECT_EQ(found->base, reinterpret_cast<std::uintptr_t>(block));
    EXPECT_EQ(found->flags, 4U);
    EXPECT_EQ(found->device, 1);
  }
  EXPECT_FALSE(memory.find(block + 10'000).has_value());
  EXPECT_FALSE(memory.free(block + 8));
  EXPECT_TRUE(memory.free(block));
  EXPECT_FALSE(memory.find(block).has_value());
  EXPECT_FALSE(memory.free(block));
}

TEST(HostMemory, RegisteredRangesMayTouchButNotOverlap) {
  HostMemory memory;
  std::vector<char> bytes(300);
  char* at = bytes.data();
  EXPECT_TRUE(memory.add(at + 100, 100_B, 0, 0));
  EXPECT_TRUE(memory.add(at, 100_B, 0, 0));
  EXPECT_TRUE(memory.add(at + 200, 100_B, 0, 0));
  EXPECT_FALSE(memory.add(at + 100, 100_B, 0, 0));
  EXPECT_TRUE(memory.remove(at + 100));
  EXPECT_FALSE(memory.remove(at + 100));
  EXPECT_FALSE(memory.add(at + 50, 100_B, 0, 0));
  EXPECT_FALSE(memory.add(at + 150, 100_B, 0, 0));
  EXPECT_FALSE(memory.find(at + 150).has_value());
}

TEST(HostMemory, AllocationsAndRegistrationsAreGivenBackByTheirOwnCalls) {
  HostMemory memory;
  void* block = memory.allocate(100_B, HostKind::kManaged, 0, 0);
  EXPECT_FALSE(memory.remove(block));
  EXPECT_TRUE(memory.free(block));
  char byte = 0;
  EXPECT_TRUE(memory.add(&byte, 1_B, 0, 0));
  EXPECT_FALSE(memory.free(&byte));
  EXPECT_TRUE(memory.remove(&byte));
}

TEST(HostMemory, MoreThanTheHostHasIsRefused) {
  HostMemory memory;
  EXPECT_EQ(memory.allocate(2048_GiB, HostKind::kPinned, 0, 0), nullptr);
}

}  // namespace
}  // namespace levee::simgpu
