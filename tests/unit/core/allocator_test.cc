// The allocator as its users see it: sizes, errors, reuse, limits, trim, numbers.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "tests/unit/core/rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;

TEST(Allocator, SizesAtTheBorders) {
  Rig rig;
  EXPECT_EQ(rig->allocate(0_B, StreamId{0}, nullptr).code(), StatusCode::kInvalidArgument);
  for (std::uint64_t n : {1ULL, 511ULL, 512ULL, 513ULL, 1ULL << 20, (1ULL << 20) + 1, 1ULL << 30}) {
    const Result<Block> block = rig->allocate(Bytes{n}, StreamId{0}, nullptr);
    ASSERT_TRUE(block.ok()) << n;
    EXPECT_EQ(block->requested_bytes.value, n);
    EXPECT_EQ(block->bytes.value, (n + 511) / 512 * 512);
    EXPECT_EQ(block->addr.value % 512, 0U);
    rig.free(block->addr);
  }
  for (std::uint64_t n : {(1ULL << 30) + 1, 1ULL << 63, ~0ULL - 511, ~0ULL}) {
    OomReport report;
    EXPECT_EQ(rig->allocate(Bytes{n}, StreamId{0}, &report).code(), StatusCode::kOutOfMemory) << n;
    EXPECT_EQ(report.requested_bytes.value, n);
  }
}

TEST(Allocator, FreeOfWhatIsNoBlockDoesNothing) {
  Rig rig;
  const DeviceAddr small = rig.alloc(600_B);
  const DeviceAddr large = rig.alloc(5_MiB);
  for (DeviceAddr wrong : {DeviceAddr{}, DeviceAddr{12345}, small + 512_B, large + 512_B,
                           large + 6_MiB, DeviceAddr{~0ULL}}) {
    EXPECT_EQ(rig->free(wrong).code(), StatusCode::kNotOwned);
  }
  rig.free(small);
  EXPECT_EQ(rig->free(small).code(), StatusCode::kNotOwned);
  rig->validate();
  rig.free(large);
}

// On the way that takes no lock, which a thread's cache is for.
TEST(Allocator, FreeInsideOfACachedBlockDoesNothing) {
  Rig rig;
  constexpr Bytes kObject = 3_KiB;  // 21 of them and a rest in 64 KiB
  std::vector<DeviceAddr> all;
  for (int i = 0; i < 21; ++i) all.push_back(rig.alloc(kObject));
  for (int i = 0; i < 8; ++i) {
    rig.free(all.back());
    all.pop_back();
  }
  const DeviceAddr block = rig.alloc(kObject);
  rig.free(block);
  const DeviceAddr first = *std::min_element(all.begin(), all.end());
  for (const DeviceAddr wrong : {first + 512_B, first + 1_B, first + kObject * 21 + 512_B}) {
    EXPECT_EQ(rig->free(wrong).code(), StatusCode::kNotOwned);
    EXPECT_FALSE(wrong > first + kObject * 21 && rig->find(wrong).ok()) << "behind the last object";
  }
  rig->validate();
  for (const DeviceAddr addr : all) rig.free(addr);
}

TEST(Allocator, FindsTheBlockAroundAnAddress) {
  Rig rig;
  for (Bytes bytes : {700_B, 40_KiB, 1_MiB, 9_MiB}) {
    const DeviceAddr addr = rig.alloc(bytes);
    const Result<Block> found = rig->find(addr + (bytes - 1_B));
    ASSERT_TRUE(found.ok()) << bytes.value;
    EXPECT_EQ(found->addr, addr);
    EXPECT_EQ(found->requested_bytes, bytes);
    EXPECT_TRUE(rig->owns(addr));
  }
  EXPECT_FALSE(rig->owns(DeviceAddr{4096}));
}

TEST(Allocator, StitchesHolesInsteadOfGrowing) {
  Rig rig(1000_MiB);
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < 40; ++i) blocks.push_back(rig.alloc(20_MiB));
  for (std::size_t i = 0; i < blocks.size(); i += 2) rig.free(blocks[i]);
  const Bytes before = rig.reserved();
  const DeviceAddr wide = rig.alloc(390_MiB);
  EXPECT_EQ(rig.reserved(), before);
  EXPECT_EQ(rig->stats().num_stitches, 1);
  EXPECT_EQ(rig->stats().num_emergencies, 0);
  rig.free(wide);
  // The zone stays: the next such request needs no driver call.
  rig.model().reset_call_counts();
  rig.free(rig.alloc(385_MiB));
  EXPECT_EQ(rig.calls(CallKind::kMap), 0U);
  rig->validate();
}

TEST(Allocator, TailAndDeviceMemoryServeTogether) {
  // Nine tenths are taken and freed, then filled but for a tail; the last request needs the tail
  // and what the device still has.
  Rig rig(1000_MiB);
  rig.free(rig.alloc(900_MiB));
  std::vector<DeviceAddr> parameters;
  for (int i = 0; i < 8; ++i) parameters.push_back(rig.alloc(100_MiB));
  EXPECT_TRUE(rig->allocate(110_MiB, StreamId{0}, nullptr).ok());
}

TEST(Allocator, TrimGivesBackWhatNothingLivesOn) {
  Rig rig;
  const DeviceAddr kept = rig.alloc(10_MiB);
  rig.free(rig.alloc(300_MiB));
  EXPECT_GE(rig.reserved(), 300_MiB);
  EXPECT_TRUE(rig->trim(0_B).ok());
  EXPECT_EQ(rig.reserved(), 10_MiB);
  EXPECT_EQ(rig.model().memory_use(DeviceId{0}).used, 10_MiB);
  rig->validate();
  rig.free(kept);
  EXPECT_TRUE(rig->trim(4_MiB).ok());
  EXPECT_EQ(rig.reserved(), 4_MiB);
}

TEST(Allocator, HolesAreRefilledBeforeTheEndGrows) {
  Rig rig;
  const DeviceAddr low = rig.alloc(20_MiB);
  const DeviceAddr high = rig.alloc(20_MiB);
  rig.free(low);
  ASSERT_TRUE(rig->trim(0_B).ok());
  const DeviceAddr again = rig.alloc(20_MiB);
  EXPECT_EQ(again, low);
  rig.free(again);
  rig.free(high);
}

TEST(Allocator, ALimitStopsCreationAndSaysSo) {
  Rig rig;
  rig->set_limit(100_MiB);
  const DeviceAddr block = rig.alloc(90_MiB);
  OomReport report;
  EXPECT_EQ(rig->allocate(20_MiB, StreamId{0}, &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(report.cause, EmergencyCause::kLimitReached);
  EXPECT_EQ(report.limit_bytes, 100_MiB);
  EXPECT_EQ(report.allocated_bytes, 90_MiB);
  EXPECT_EQ(report.rungs[report.rung_count - 1].rung, LadderRung::kOutOfMemory);
  rig->set_limit(0_B);
  EXPECT_TRUE(rig->allocate(20_MiB, StreamId{0}, nullptr).ok());
  rig.free(block);
}

TEST(Allocator, CallbacksGiveMemoryBackAndAreToldOfTheEnd) {
  Rig rig(100_MiB);
  const DeviceAddr hostage = rig.alloc(60_MiB);
  int told = 0;
  AllocatorHooks hooks;
  bool released = false;
  hooks.free_memory = [&] {
    if (released) return false;
    released = true;
    return rig->free(hostage).ok();  // no lock may be held here
  };
  hooks.out_of_memory = [&](const OomReport& report) {
    ++told;
    EXPECT_EQ(report.requested_bytes, 200_MiB);
  };
  rig->set_hooks(hooks);
  EXPECT_TRUE(rig->allocate(80_MiB, StreamId{0}, nullptr).ok());
  EXPECT_EQ(rig->stats().num_alloc_retries, 1);
  EXPECT_EQ(told, 0);
  EXPECT_FALSE(rig->allocate(200_MiB, StreamId{0}, nullptr).ok());
  EXPECT_EQ(told, 1);
  EXPECT_EQ(rig->stats().num_ooms, 1);
}

TEST(Allocator, SmallBlocksUseFragmentsBeforeGrowth) {
  Rig rig(8_MiB);
  const DeviceAddr a = rig.alloc(3_MiB);
  const DeviceAddr b = rig.alloc(5_MiB - 512_KiB);
  const DeviceAddr piece = rig.alloc(400_KiB);
  rig->validate();
  for (DeviceAddr addr : {a, b, piece}) rig.free(addr);
  rig->validate();
}

TEST(Allocator, PeaksCanBeResetWithoutTouchingLiveNumbers) {
  Rig rig;
  const DeviceAddr a = rig.alloc(10_MiB);
  rig.free(rig.alloc(20_MiB));
  EXPECT_EQ(rig->stats().allocated_bytes[0].peak, static_cast<std::int64_t>((30_MiB).value));
  rig->reset_peak_stats();
  EXPECT_EQ(rig->stats().allocated_bytes[0].peak, static_cast<std::int64_t>((10_MiB).value));
  rig->reset_accumulated_stats();
  EXPECT_EQ(rig->stats().allocated_bytes[0].allocated, 0);
  EXPECT_EQ(rig->stats().allocated_bytes[0].current, static_cast<std::int64_t>((10_MiB).value));
  rig.free(a);
}

TEST(Allocator, ASettingThatContradictsTheDeviceIsRefused) {
  device::sim::GpuModel model(device::sim::ModelConfig{});
  device::sim::SimDevice device(model, DeviceId{0});
  Config odd;
  odd.page_size = 3_MiB;
  EXPECT_EQ(make_allocator(device, odd, nullptr).code(), StatusCode::kInvalidArgument);
  odd.page_size = 0_B;
  EXPECT_EQ(make_allocator(device, odd, nullptr).code(), StatusCode::kInvalidArgument);
  Config greedy;
  greedy.memory_fraction = 1.5;
  EXPECT_EQ(make_allocator(device, greedy, nullptr).code(), StatusCode::kInvalidArgument);
}

TEST(Allocator, ADeviceThatCannotDoWhatIsAskedIsRefused) {
  const auto made_on = [](const std::function<void(device::sim::DeviceConfig&)>& change,
                          const Config& config) {
    device::sim::ModelConfig model_config;
    change(model_config.devices[0]);
    device::sim::GpuModel model(model_config);
    device::sim::SimDevice device(model, DeviceId{0});
    return make_allocator(device, config, nullptr).code();
  };
  Config pages;
  pages.backing = Backing::kPages;
  const auto no_vmm = [](device::sim::DeviceConfig& device) { device.has_vmm = false; };
  EXPECT_EQ(made_on(no_vmm, pages), StatusCode::kUnsupported);
  EXPECT_EQ(made_on(no_vmm, Config{}), StatusCode::kOk) << "segments it can";
  const auto coarse = [](device::sim::DeviceConfig& device) { device.vmm_granularity = 8_MiB; };
  Config fine;
  fine.page_size = 4_MiB;
  EXPECT_EQ(made_on(coarse, fine), StatusCode::kInvalidArgument);
  fine.page_size = 8_MiB;
  EXPECT_EQ(made_on(coarse, fine), StatusCode::kOk);
}

TEST(Allocator, FreshLengthsNeverGrowItAfterWarmUp) {
  Rig rig(8_GiB, {}, device::sim::JudgeMode::kOff);
  std::uint64_t seed = 9;
  const auto step = [&] {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    const Bytes scale{(seed >> 40) % (40ULL << 20) + (8ULL << 20)};
    rig->mark_step();
    std::vector<DeviceAddr> saved;
    for (int layer = 0; layer < 12; ++layer) {
      saved.push_back(rig.alloc(scale * 2));
      rig.free(rig.alloc(scale * 3));
      saved.push_back(rig.alloc(scale));
    }
    while (!saved.empty()) {
      rig.free(rig.alloc(scale * 2));
      rig.free(saved.back());
      saved.pop_back();
    }
  };
  for (int i = 0; i < 40; ++i) step();
  const Stats before = rig->stats();
  for (int i = 0; i < 200; ++i) step();
  const Stats after = rig->stats();
  if (after.allocated_bytes[0].peak == before.allocated_bytes[0].peak) {
    EXPECT_EQ(after.reserved_bytes[0].peak, before.reserved_bytes[0].peak);
  }
  EXPECT_LE(static_cast<double>(after.reserved_bytes[0].peak),
            1.01 * static_cast<double>(after.allocated_bytes[0].peak));
}

// Ten steps in which a hole of 4 MiB opens between two blocks that stay, while scratch memory of
// that size comes and goes. Says whether the last scratch block lay in the hole.
bool scratch_lies_in_the_hole(Rig& rig) {
  bool lies_there = false;
  for (int step = 0; step < 10; ++step) {
    rig->mark_step();
    const DeviceAddr below = rig.alloc(8_MiB);
    const DeviceAddr hole = rig.alloc(4_MiB);
    const DeviceAddr above = rig.alloc(8_MiB);
    for (int i = 0; i < 60; ++i) rig.free(rig.alloc(4_MiB));
    rig.free(hole);
    for (int i = 0; i < 60; ++i) {
      const DeviceAddr scratch = rig.alloc(4_MiB);
      lies_there = scratch == hole;
      rig.free(scratch);
    }
    rig.free(below);
    rig.free(above);
  }
  return lies_there;
}

TEST(Allocator, WhatGoesAtOnceLeavesLongRunsWhole) {
  Rig one;
  one.free(one.alloc(100_MiB));
  EXPECT_TRUE(scratch_lies_in_the_hole(one));
}

TEST(Allocator, BesideSideStreamsWhatGoesAtOnceGoesToTheTop) {
  Rig several;
  several.free(several.alloc(100_MiB));
  several.free(several.alloc(2_MiB, several.stream()));
  EXPECT_FALSE(scratch_lies_in_the_hole(several));
}

// A range as large as the memory for each of them would be more than a driver has: 47 bits of
// addresses are 28 times the memory of this device.
TEST(Allocator, AliasZonesDoNotUseUpTheAddressesOfALargeDevice) {
  Config config;
  config.slack = 0;
  Rig rig(4096_GiB, config);
  std::vector<DeviceAddr> comb;
  for (int i = 0; i < 160; ++i) comb.push_back(rig.alloc(2_MiB));
  for (int i = 0; i < 160; i += 2) rig.free(comb[static_cast<std::size_t>(i)]);
  // Each stays live, so that the next one needs a zone of its own.
  for (int i = 0; i < 40; ++i) rig.alloc(4_MiB);
  EXPECT_EQ(rig.reserved(), 320_MiB);
  EXPECT_EQ(rig->stats().num_stitches, 40);
}

// A page of small blocks between large ones would cut up what the largest request needs: 200 pages
// here, with small blocks that outlive the large ones around them.
TEST(Allocator, SmallBlocksStayOutOfTheWayOfLargeOnes) {
  Rig rig;
  std::vector<DeviceAddr> large;
  for (int i = 0; i < 20; ++i) {
    large.push_back(rig.alloc(20_MiB));
    for (int k = 0; k < 3; ++k) rig.alloc(1_MiB);
  }
  for (const DeviceAddr addr : large) rig.free(addr);
  const Bytes before = rig.reserved();
  rig.alloc(400_MiB);
  EXPECT_EQ(rig.reserved(), before);
  EXPECT_EQ(rig->stats().num_stitches, 0);
}

// With no memory left to keep small blocks apart they go where there is room, without an emergency.
TEST(Allocator, SmallBlocksUsePagesOfLargeOnesWhenMemoryIsShort) {
  Rig rig(64_MiB);
  const DeviceAddr large = rig.alloc(64_MiB);
  rig.free(large);
  for (int i = 0; i < 64; ++i) rig.alloc(1_MiB);
  EXPECT_EQ(rig.reserved(), 64_MiB);
  EXPECT_EQ(rig->stats().num_emergencies, 0);
}

// Slack is bought while the program finds its shape: twenty steps later pages are mapped again
// instead, and memory stays as it is.
TEST(Allocator, ASettledProgramBuysNoMoreSlack) {
  const auto reserved_after = [](int steps) {
    Config config;
    config.slack = 0.5;
    Rig rig(1_GiB, config);
    const DeviceAddr first = rig.alloc(20_MiB);
    rig.alloc(20_MiB);
    rig.free(rig.alloc(20_MiB));
    const DeviceAddr last = rig.alloc(20_MiB);  // a maximum is seen by the next request
    for (int i = 0; i < steps; ++i) rig->mark_step();
    rig.free(first);
    rig.free(last);
    rig.alloc(24_MiB);
    EXPECT_EQ(rig->stats().num_stitches, steps < 20 ? 0 : 1);
    return rig.reserved();
  };
  EXPECT_EQ(reserved_after(19), 64_MiB);
  EXPECT_EQ(reserved_after(20), 60_MiB);
}

}  // namespace
}  // namespace levee::core
