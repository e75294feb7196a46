// What was wrong with a refused memory call, and that it changed nothing. Programs:
// gpu_model_fuzz_test.cc.
#include "allocator/device/sim/device_memory.h"

#include <gtest/gtest.h>

namespace levee::device::sim {
namespace {

constexpr DeviceId kGpu{0};

class DeviceMemoryTest : public ::testing::Test {
 protected:
  static std::vector<DeviceConfig> devices() {
    DeviceConfig device;
    device.total_memory = 16_MiB;
    return {device};
  }
  HandleId create(Bytes bytes) {
    HandleId handle;
    EXPECT_TRUE(memory.create(kGpu, bytes, handle).ok());
    return handle;
  }
  DeviceMemory memory{devices(), AddressSpaceMode::kNumbers};
};

TEST_F(DeviceMemoryTest, OutOfMemoryIsNoMistake) {
  HandleId handle;
  const Refusal refusal = memory.create(kGpu, 32_MiB, handle);
  EXPECT_EQ(refusal.native, Native::kOutOfMemory);
  EXPECT_EQ(refusal.rule, JudgeRule::kNone);
  EXPECT_EQ(memory.account(kGpu).used, Bytes{});
}

TEST_F(DeviceMemoryTest, PhysicalMemoryGoesWithItsLastHolderAndTheHookIsTold) {
  std::vector<std::uint64_t> gone;
  memory.set_gone_hook([&gone](Physical& physical) { gone.push_back(physical.serial); });
  DeviceAddr range;
  ASSERT_TRUE(memory.reserve(4_MiB, Bytes{}, kGpu, range).ok());
  const HandleId handle = create(2_MiB);
  ASSERT_TRUE(memory.map(range, 2_MiB, handle).ok());
  ASSERT_TRUE(memory.map(range + 2_MiB, 2_MiB, handle).ok());
  ASSERT_TRUE(memory.release(handle).ok());
  memory.unmap(*memory.find_mapping(range));
  EXPECT_TRUE(gone.empty());
  memory.unmap(*memory.find_mapping(range + 2_MiB));
  EXPECT_EQ(gone.size(), 1U);
  EXPECT_EQ(memory.account(kGpu).used, Bytes{});
  EXPECT_TRUE(memory.free_range(range, 4_MiB).ok());
  memory.validate();
}

TEST_F(DeviceMemoryTest, WholeMappingsAreFoundOrNone) {
  DeviceAddr range;
  ASSERT_TRUE(memory.reserve(8_MiB, Bytes{}, kGpu, range).ok());
  ASSERT_TRUE(memory.map(range, 4_MiB, create(4_MiB)).ok());
  ASSERT_TRUE(memory.map(range + 4_MiB, 2_MiB, create(2_MiB)).ok());
  constexpr DeviceMemory::WholeRules kRules{JudgeRule::kUnmapSomething, JudgeRule::kUnmapMapped,
                                            JudgeRule::kUnmapWhole};
  std::vector<Mapping*> found;
  EXPECT_TRUE(memory.find_whole(range, 6_MiB, kRules, found).ok());
  EXPECT_EQ(found.size(), 2U);
  EXPECT_EQ(memory.find_whole(range, 8_MiB, kRules, found).rule, kRules.mapped);
  EXPECT_EQ(memory.find_whole(range + 2_MiB, 4_MiB, kRules, found).rule, kRules.whole);
  EXPECT_EQ(memory.find_whole(range, Bytes{}, kRules, found).rule, kRules.something);
  EXPECT_EQ(memory.find_whole(DeviceAddr{~0ULL}, 2_MiB, kRules, found).rule, kRules.something);
}

TEST_F(DeviceMemoryTest, PiecesOfARangeComeInOrderHolesIncluded) {
  DeviceAddr range;
  ASSERT_TRUE(memory.reserve(8_MiB, Bytes{}, kGpu, range).ok());
  ASSERT_TRUE(memory.map(range + 2_MiB, 4_MiB, create(4_MiB)).ok());
  std::vector<std::pair<bool, Bytes>> pieces;
  memory.for_each_piece(range + 1_MiB, 6_MiB,
                        [&pieces](const Mapping* mapping, DeviceAddr, Bytes count) {
                          pieces.emplace_back(mapping != nullptr, count);
                          return true;
                        });
  const std::vector<std::pair<bool, Bytes>> expected = {
      {false, 1_MiB}, {true, 4_MiB}, {false, 1_MiB}};
  EXPECT_EQ(pieces, expected);
}

}  // namespace
}  // namespace levee::device::sim
