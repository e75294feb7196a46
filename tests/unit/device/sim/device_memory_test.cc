// What was wrong with a refused memory call, and that it changed nothing. Programs:
// gpu_model_fuzz_test.cc.
#include "allocator/device/sim/device_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "tests/support/private_member.h"

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

TEST_F(DeviceMemoryTest, WhatIsWrongWithARangeIsTold) {
  DeviceAddr range;
  ASSERT_TRUE(memory.reserve(4_MiB, Bytes{}, kGpu, range).ok());
  EXPECT_EQ(memory.free_range(range + 2_MiB, 2_MiB).rule, JudgeRule::kRangeBeginsThere);
  EXPECT_EQ(memory.free_range(range + 1_GiB, 4_MiB).rule, JudgeRule::kRangeBeginsThere);
  EXPECT_EQ(memory.free_range(range, 2_MiB).rule, JudgeRule::kRangeSize);
  EXPECT_NE(memory.find_range(range + 2_MiB), nullptr);
  EXPECT_EQ(memory.find_range(range + 4_MiB), nullptr);
  EXPECT_EQ(memory.find_range(range + 1_GiB), nullptr);
  EXPECT_TRUE(memory.free_range(range, 4_MiB).ok());
  memory.validate();
}

TEST_F(DeviceMemoryTest, AFullDeviceHasRoomForNoAllocation) {
  DeviceAddr first;
  DeviceAddr addr;
  ASSERT_TRUE(memory.allocate(kGpu, 10_MiB, MemoryKind::kAllocation, first).ok());
  for (const Bytes bytes : {8_MiB, 17_MiB, Bytes{UINT64_MAX}, Bytes{UINT64_MAX - 4096}}) {
    EXPECT_EQ(memory.allocate(kGpu, bytes, MemoryKind::kAllocation, addr).native,
              Native::kOutOfMemory);
    EXPECT_EQ(memory.account(kGpu).used, 10_MiB);
  }
  ASSERT_TRUE(memory.allocate(kGpu, 6_MiB, MemoryKind::kAllocation, addr).ok());
  DeviceAddr small;
  EXPECT_EQ(memory.allocate(kGpu, 512_B, MemoryKind::kAllocation, small).native,
            Native::kOutOfMemory);
  EXPECT_EQ(memory.account(kGpu).used, 16_MiB);
  EXPECT_EQ(memory.account(kGpu).allocations, 2U);
  memory.validate();
}

TEST_F(DeviceMemoryTest, ANothersMemoryNeedsRoomForItsAddresses) {
  DeviceAddr addr;
  EXPECT_EQ(memory.import_allocation(kGpu, Bytes{std::uint64_t{1} << 62}, addr).native,
            Native::kOutOfMemory);
  EXPECT_EQ(memory.account(kGpu).allocations, 0U);
  memory.validate();
}

// ---- Each line of `validate`, on memory that is broken by hand.

LEVEE_PRIVATE_MEMBER(physical_of, DeviceMemory, physical_)
LEVEE_PRIVATE_MEMBER(mappings_of, DeviceMemory, mappings_)

struct Damage {
  const char* name;
  const char* words;
  std::function<void(DeviceMemory&)> break_it;
};

class DeviceMemoryLines : public ::testing::TestWithParam<Damage> {};

TEST_P(DeviceMemoryLines, NoticeWhatIsBroken) {
  EXPECT_DEATH(
      {
        DeviceConfig device;
        device.total_memory = 16_MiB;
        DeviceMemory memory({device}, AddressSpaceMode::kNumbers);
        for (int i = 0; i < 2; ++i) {
          HandleId handle;
          DeviceAddr range;
          static_cast<void>(memory.create(kGpu, 2_MiB, handle));
          static_cast<void>(memory.reserve(2_MiB, Bytes{}, kGpu, range));
          static_cast<void>(memory.map(range, 2_MiB, handle));
        }
        memory.validate();
        GetParam().break_it(memory);
        memory.validate();
      },
      GetParam().words);
}

INSTANTIATE_TEST_SUITE_P(
    Each, DeviceMemoryLines,
    ::testing::Values(Damage{"place_of_memory", "physical.place == i",
                             [](DeviceMemory& m) { physical_of(m)[1]->place = 0; }},
                      Damage{"holders_of_memory", "memory that nobody holds",
                             [](DeviceMemory& m) {
                               physical_of(m)[1]->mappings = physical_of(m)[1]->references = 0;
                             }},
                      Damage{"place_of_a_mapping", "mapping.place == i",
                             [](DeviceMemory& m) { mappings_of(m)[1]->place = 0; }},
                      Damage{"page_table", "the page table at .* is wrong",
                             [](DeviceMemory& m) {
                               mappings_of(m)[1]->base = mappings_of(m)[0]->base;
                             }},
                      Damage{"used_bytes", "accounts_\\[i\\].used",
                             [](DeviceMemory& m) { m.account(kGpu).used -= 1_B; }},
                      Damage{"mapped_bytes", "accounts_\\[i\\].mapped",
                             [](DeviceMemory& m) { m.account(kGpu).mapped += 1_B; }},
                      Damage{"handles", "accounts_\\[i\\].handles",
                             [](DeviceMemory& m) { ++m.account(kGpu).handles; }}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace levee::device::sim
