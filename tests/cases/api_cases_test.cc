// Public reports that are about a call rather than about an order of requests: statistics, routing,
// sizes at the edges, limits, other owners of memory. The comment above each names its label in
// README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "tests/unit/core/rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;
using device::sim::CaptureMode;
const PoolId kPool{0, 21};
const PoolId kInnerPool{0, 22};

bool accept_all(StreamId) {
  return true;
}

// C043
TEST(CasesOfStatistics, PeaksFollowLiveBytesAndTheirReset) {
  Rig rig;
  const DeviceAddr a = rig.alloc(100_MiB);
  rig.alloc(50_MiB);
  rig.free(a);
  EXPECT_EQ(rig->stats().allocated_bytes[0].current, 52428800);
  EXPECT_EQ(rig->stats().allocated_bytes[0].peak, 157286400);
  rig->reset_peak_stats();
  EXPECT_EQ(rig->stats().allocated_bytes[0].peak, 52428800);
}

// C141
TEST(CasesOfStatistics, AResetOfPeaksLeavesWhatIsLiveAndWhatWasEverAllocated) {
  Rig rig;
  const DeviceAddr live = rig.alloc(4_MiB);
  rig->reset_peak_stats();
  EXPECT_EQ(rig->stats().allocated_bytes[0].current, 4194304);
  EXPECT_EQ(rig->stats().allocated_bytes[0].allocated, 4194304);
  const DeviceAddr more = rig.alloc(2_MiB);
  EXPECT_EQ(rig->stats().allocated_bytes[0].current, 6291456);
  EXPECT_EQ(rig->stats().allocated_bytes[0].peak, 6291456);
  EXPECT_EQ(rig->stats().allocated_bytes[0].allocated, 6291456);
  rig.free(live);
  rig.free(more);
  EXPECT_EQ(rig->stats().allocated_bytes[0].current, 0);
}

// C045
TEST(CasesOfStatistics, WhatCacheInfoNamesCanBeHad) {
  Rig rig;
  const DeviceAddr a = rig.alloc(300_MiB);
  rig.alloc(300_MiB);
  rig.free(a);
  // In one piece and without growth; a request of more than that grows by the rest alone.
  EXPECT_GE(rig->cache_info().largest_free_block, 300_MiB);
  EXPECT_TRUE(rig->allocate(400_MiB, StreamId{0}, nullptr).ok());
  EXPECT_LE(rig.reserved(), 702_MiB);
}

// C153: what is free after eight blocks made way for smaller ones is one piece.
TEST(CasesOfStatistics, FreeBytesAreOnePieceAndTheNumbersSaySo) {
  Rig rig;
  std::vector<DeviceAddr> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(rig.alloc(128_MiB));
  for (DeviceAddr block : blocks) rig.free(block);
  for (int i = 0; i < 8; ++i) rig.alloc(80_MiB);
  const Stats stats = rig->stats();
  EXPECT_EQ(stats.reserved_bytes[0].current - stats.active_bytes[0].current, 402653184);
  EXPECT_EQ(rig->cache_info().largest_free_block, 384_MiB);
  EXPECT_EQ(stats.slack_partial_page_bytes, 0);
}

// C159
TEST(CasesOfStatistics, ARefusalsNumbersAddUpToTheCapacity) {
  Rig rig;
  const StreamId captured = rig.stream();
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, [=](StreamId s) { return s == captured; }).ok());
  ASSERT_TRUE(rig.model().begin_capture(DeviceId{0}, captured, CaptureMode::kGlobal).ok());
  rig.free(rig.alloc(300_MiB, captured));
  const auto graph = rig.model().end_capture(DeviceId{0}, captured);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
  rig.alloc(400_MiB);
  OomReport report;
  ASSERT_EQ(rig->allocate(500_MiB, StreamId{0}, &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(report.private_pool_bytes, 300_MiB);
  EXPECT_EQ(report.reserved_bytes,
            report.allocated_bytes + report.waiting_bytes + report.free_bytes);
  EXPECT_EQ(report.reserved_bytes + report.device_free_bytes, report.device_total_bytes);
  EXPECT_TRUE(rig.model().destroy_graph(*graph).ok());
}

// C109
TEST(CasesOfStatistics, MemoryOfOtherOwnersIsWhatIsMissingInTheReport) {
  Rig rig;
  ASSERT_TRUE(rig.model().allocate(DeviceId{0}, 600_MiB).ok());
  rig.alloc(200_MiB);
  OomReport report;
  ASSERT_EQ(rig->allocate(300_MiB, StreamId{0}, &report).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(report.device_total_bytes - report.device_free_bytes - report.reserved_bytes, 600_MiB);
  rig.model().set_judge(device::sim::JudgeMode::kCount);  // the other owner keeps its memory
}

// C157: a counter of the moments in which the host waited for the device.
TEST(CasesOfStatistics, EmergenciesAndWaitsAreCounted) {
  Rig rig(64_MiB);
  const StreamId side = rig.stream();
  const DeviceAddr lent = rig.alloc(60_MiB);
  ASSERT_TRUE(rig->record_use(lent, side).ok());
  rig.work(side, 1_ms);
  rig.free(lent);
  EXPECT_TRUE(rig->allocate(62_MiB, StreamId{0}, nullptr).ok());
  EXPECT_EQ(rig->allocate(62_MiB, StreamId{0}, nullptr).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(rig->stats().num_ooms, 1);
  EXPECT_GE(rig->stats().num_emergencies, 1);
}

// C046
TEST(CasesOfPools, ThePoolKnowsWhichBlocksLive) {
  Rig rig;
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, accept_all).ok());
  const DeviceAddr x = rig.alloc(20_MiB);
  const DeviceAddr y = rig.alloc(30_MiB);
  rig.free(x);
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
  EXPECT_TRUE(rig->pool_has_exactly(kPool, std::vector<DeviceAddr>{y}));
  EXPECT_FALSE(rig->pool_has_exactly(kPool, std::vector<DeviceAddr>{x, y}));
  EXPECT_FALSE(rig->pool_has_exactly(kPool, {}));
}

// C051
TEST(CasesOfPools, TheInnerRegionWins) {
  Rig rig;
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, accept_all).ok());
  EXPECT_EQ(rig->allocate(10_MiB, StreamId{0}, nullptr)->pool, kPool);
  ASSERT_TRUE(rig->begin_allocate_to_pool(kInnerPool, accept_all).ok());
  EXPECT_EQ(rig->allocate(10_MiB, StreamId{0}, nullptr)->pool, kInnerPool);
  ASSERT_TRUE(rig->end_allocate_to_pool(kInnerPool).ok());
  EXPECT_EQ(rig->allocate(10_MiB, StreamId{0}, nullptr)->pool, kPool);
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
}

// C052
TEST(CasesOfPools, ARegionThatIsAThreadsOwnLeavesOtherThreadsAlone) {
  Rig rig;
  const std::thread::id mine = std::this_thread::get_id();
  ASSERT_TRUE(rig->begin_allocate_to_pool(
                     kPool, [=](StreamId) { return std::this_thread::get_id() == mine; })
                  .ok());
  PoolId elsewhere = kPool;
  std::thread([&] { elsewhere = rig->allocate(10_MiB, StreamId{0}, nullptr)->pool; }).join();
  EXPECT_EQ(elsewhere, PoolId{});
  EXPECT_EQ(rig->allocate(10_MiB, StreamId{0}, nullptr)->pool, kPool);
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
}

// C049, C048
TEST(CasesOfPools, ABlockOutlivesItsPool) {
  Rig rig;
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, accept_all).ok());
  const DeviceAddr block = rig.alloc(60_MiB);
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
  ASSERT_TRUE(rig->release_pool(kPool).ok());
  EXPECT_EQ(rig->find(block)->addr, block);
  rig.free(block);
  EXPECT_EQ(*rig->trim(0_B), 60_MiB);
  EXPECT_EQ(rig.calls(CallKind::kCreateHandle), rig.calls(CallKind::kReleaseHandle));
  rig->validate();
}

// C064
TEST(CasesOfPools, ACaptureThatBreaksLeavesNothingBehind) {
  Rig rig;
  const StreamId captured = rig.stream();
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, [=](StreamId s) { return s == captured; }).ok());
  ASSERT_TRUE(rig.model().begin_capture(DeviceId{0}, captured, CaptureMode::kRelaxed).ok());
  const DeviceAddr block = rig.alloc(50_MiB, captured);
  // The program's error: nothing of the capture is kept.
  const auto graph = rig.model().end_capture(DeviceId{0}, captured);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(rig.model().destroy_graph(*graph).ok());
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
  rig.free(block);
  ASSERT_TRUE(rig->release_pool(kPool).ok());
  ASSERT_TRUE(rig->trim(0_B).ok());
  EXPECT_EQ(rig.reserved(), 0_B);
  EXPECT_EQ(rig->pool_use_count(kPool), 0);
  EXPECT_EQ(rig->allocate(1_MiB, captured, nullptr)->pool, PoolId{});
}

// C066, C067: the flush is refused as not ready, and works once the capture is over.
TEST(CasesOfPools, AFlushInACaptureIsPutOff) {
  Rig rig;
  rig.free(rig.alloc(40_MiB));
  const StreamId captured = rig.stream();
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, [=](StreamId s) { return s == captured; }).ok());
  ASSERT_TRUE(rig.model().begin_capture(DeviceId{0}, captured, CaptureMode::kGlobal).ok());
  const DeviceAddr inside = rig.alloc(10_MiB, captured);
  EXPECT_EQ(rig->trim(0_B).code(), StatusCode::kNotReady);
  const auto graph = rig.model().end_capture(DeviceId{0}, captured);
  ASSERT_TRUE(graph.ok()) << "the flush broke the capture";
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
  EXPECT_EQ(*rig->trim(0_B), 40_MiB);
  rig.free(inside);
  ASSERT_TRUE(rig.model().destroy_graph(*graph).ok());
}

// C091: nothing of a graph's memory is mapped or unmapped between its capture and its end.
TEST(CasesOfPools, AGraphsMappingsStayUnderPressure) {
  Rig rig;
  const StreamId captured = rig.stream();
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, [=](StreamId s) { return s == captured; }).ok());
  ASSERT_TRUE(rig.model().begin_capture(DeviceId{0}, captured, CaptureMode::kGlobal).ok());
  const DeviceAddr inside = rig.alloc(40_MiB, captured);
  const auto graph = rig.model().end_capture(DeviceId{0}, captured);
  ASSERT_TRUE(graph.ok());
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
  const HandleId first = rig.model().find(inside).handle;
  rig.free(rig.alloc(900_MiB));
  rig.free(rig.alloc(940_MiB));
  ASSERT_TRUE(rig->trim(0_B).ok());
  for (Bytes at = 0_B; at < 40_MiB; at += 2_MiB) {
    EXPECT_EQ(rig.model().find(inside + at).kind, device::sim::MemoryKind::kMapped);
  }
  EXPECT_EQ(rig.model().find(inside).handle, first);
  rig.free(inside);
  ASSERT_TRUE(rig.model().destroy_graph(*graph).ok());
}

// C160
TEST(CasesOfPools, ASnapshotTellsStreamsOfOnePoolApart) {
  Rig rig;
  const StreamId side = rig.stream();
  ASSERT_TRUE(rig->begin_allocate_to_pool(kPool, accept_all).ok());
  rig.alloc(30_MiB);
  rig.alloc(20_MiB, side);
  ASSERT_TRUE(rig->end_allocate_to_pool(kPool).ok());
  std::vector<StreamId> streams;
  for (const SnapshotSegment& segment : rig->snapshot(kPool).segments) {
    EXPECT_EQ(segment.pool, kPool);
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state == BlockState::kLive) streams.push_back(block.stream);
    }
  }
  EXPECT_EQ(streams, (std::vector<StreamId>{StreamId{0}, side}));
}

// C130, C132
TEST(CasesOfSizes, SizesNearTheEndOfTheirTypeAreRefusedAndHarmNothing) {
  Rig rig;
  for (std::uint64_t bytes : {~0ULL, ~0ULL - 199, ~0ULL - 510, ~0ULL - 511, 1ULL << 63}) {
    OomReport report;
    EXPECT_EQ(rig->allocate(Bytes{bytes}, StreamId{0}, &report).code(), StatusCode::kOutOfMemory);
    EXPECT_EQ(report.requested_bytes.value, bytes);
    rig->validate();
  }
  const DeviceAddr first = rig.alloc(1_KiB);
  const DeviceAddr second = rig.alloc(1_KiB);
  EXPECT_NE(first, second);
  EXPECT_EQ(rig->stats().allocation[0].current, 2);
}

// C133, C135: the doors answer zero themselves; here it is an argument that makes no sense.
TEST(CasesOfSizes, ZeroBytesAreNoBlockAndCostNothing) {
  Rig rig;
  const std::uint64_t calls = rig.model().total_calls();
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(rig->allocate(0_B, StreamId{0}, nullptr).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(rig->free(DeviceAddr{}).code(), StatusCode::kNotOwned);
  EXPECT_EQ(rig.model().total_calls(), calls);
  EXPECT_EQ(rig->stats().allocation[0].current, 0);
}

// C138
TEST(CasesOfSizes, SmallBlocksAreAlignedForTextures) {
  Rig rig;
  for (std::uint64_t bytes : {300U, 337U, 374U, 411U, 448U, 485U, 700U, 5000U, 17000U, 300000U}) {
    EXPECT_EQ(rig.alloc(Bytes{bytes}).value % 512, 0U) << bytes;
  }
}

// C142, C057
TEST(CasesOfBooks, ASecondFreeIsRefusedAndTheNextOwnerIsSafe) {
  Rig rig;
  const DeviceAddr x = rig.alloc(4_MiB);
  rig.free(x);
  EXPECT_EQ(rig->free(x).code(), StatusCode::kNotOwned);
  const DeviceAddr y = rig.alloc(4_MiB);
  EXPECT_EQ(y, x);
  const DeviceAddr z = rig.alloc(4_MiB);
  EXPECT_GE(std::max(y, z) - std::min(y, z), 4_MiB);
  // A free says what the block was, whatever the caller believes.
  EXPECT_EQ(rig->free(y)->requested_bytes, 4_MiB);
  EXPECT_EQ(rig->stats().allocation[0].current, 1);
  rig->validate();
}

// C150, C105: addresses change hands between threads; no record and no count is lost.
TEST(CasesOfBooks, ThreadsThatTakeOverAddressesLoseNoRecord) {
  Rig rig(64_MiB);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const Bytes bytes = i % 3 == 0 ? 4_MiB : Bytes{static_cast<std::uint64_t>(512 * (t + 1))};
        const Result<Block> block = rig->allocate(bytes, StreamId{0}, nullptr);
        if (!block.ok()) continue;
        EXPECT_EQ(rig->find(block->addr)->requested_bytes, bytes);
        EXPECT_TRUE(rig->free(block->addr).ok());
        EXPECT_GE(rig->stats().allocated_bytes[0].current, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(rig->stats().allocated_bytes[0].current, 0);
  EXPECT_EQ(rig->stats().allocation[0].current, 0);
  rig->validate();
}

// C061
TEST(CasesOfDevices, EachDeviceHasItsOwnMemory) {
  device::sim::ModelConfig config;
  config.devices = {device::sim::DeviceConfig{}, device::sim::DeviceConfig{}};
  device::sim::GpuModel model(config);
  device::sim::SimDevice other(model, DeviceId{1});
  const auto allocator = std::move(make_allocator(other, Config{}, nullptr).value());
  const Result<Block> block = allocator->allocate(10_MiB, StreamId{0}, nullptr);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(model.memory_use(DeviceId{1}).used, 10_MiB);
  EXPECT_EQ(model.memory_use(DeviceId{0}).used, 0_B);
  EXPECT_EQ(allocator->device(), DeviceId{1});
  EXPECT_TRUE(allocator->free(block->addr).ok());
}

// C097: the flush waits for the block's own device, whichever is current.
TEST(CasesOfDevices, AFlushWaitsForTheDeviceThatOwnsTheMemory) {
  device::sim::ModelConfig config;
  config.devices = {device::sim::DeviceConfig{}, device::sim::DeviceConfig{}};
  device::sim::GpuModel model(config);
  device::sim::SimDevice other(model, DeviceId{1});
  const auto allocator = std::move(make_allocator(other, Config{}, nullptr).value());
  const Result<Block> block = allocator->allocate(60_MiB, StreamId{0}, nullptr);
  device::sim::Work work;
  work.duration = 10_ms;
  ASSERT_TRUE(model.enqueue(DeviceId{1}, StreamId{0}, CallKind::kLaunchKernel, work).ok());
  ASSERT_TRUE(allocator->free(block->addr).ok());
  const Nanos before = model.now();
  EXPECT_EQ(*allocator->trim(0_B), 60_MiB);
  EXPECT_GE(model.now() - before, 9_ms) << "unmapped before the kernel was done";
}

// C063: a stream of another device reads the block, as the program says with record_use.
TEST(CasesOfDevices, AFlushWaitsForAPeerThatReads) {
  device::sim::ModelConfig config;
  config.devices = {device::sim::DeviceConfig{}, device::sim::DeviceConfig{}};
  config.judge = device::sim::JudgeMode::kCount;  // access for peers is the program's to set up
  device::sim::GpuModel model(config);
  device::sim::SimDevice own(model, DeviceId{0});
  const auto allocator = std::move(make_allocator(own, Config{}, nullptr).value());
  const Result<Block> block = allocator->allocate(100_MiB, StreamId{0}, nullptr);
  const StreamId peer = *model.create_stream(DeviceId{1}, {.non_blocking = true, .priority = 0});
  device::sim::Work work;
  work.duration = 10_ms;
  ASSERT_TRUE(model.enqueue(DeviceId{1}, peer, CallKind::kMemcpyAsync, work).ok());
  const Status used = allocator->record_use(block->addr, peer);
  EXPECT_TRUE(used.ok());
  ASSERT_TRUE(allocator->free(block->addr).ok());
  const Nanos before = model.now();
  const Result<Bytes> freed = allocator->trim(0_B);
  if (freed.ok() && *freed > 0_B) {
    EXPECT_GE(model.now() - before, 9_ms) << "unmapped before the peer was done";
  }
}

// C106: what lies idle goes back when asked for, and another owner can have it.
TEST(CasesOfOtherOwners, IdleMemoryCanBeHandedToAnotherLibrary) {
  Rig rig;
  rig.free(rig.alloc(800_MiB));
  EXPECT_FALSE(rig.model().allocate(DeviceId{0}, 700_MiB).ok());
  ASSERT_TRUE(rig->trim(0_B).ok());
  const Result<DeviceAddr> foreign = rig.model().allocate(DeviceId{0}, 700_MiB);
  ASSERT_TRUE(foreign.ok());
  EXPECT_TRUE(rig->allocate(300_MiB, StreamId{0}, nullptr).ok());
  EXPECT_EQ(rig->allocate(300_MiB, StreamId{0}, nullptr).code(), StatusCode::kOutOfMemory);
  ASSERT_TRUE(rig.model().release(*foreign).ok());
}

// C139: the limit is one of bytes that levee reserves; what others hold counts by being gone.
TEST(CasesOfOtherOwners, ALimitHoldsBesideForeignMemory) {
  Rig rig(512_MiB);
  const Result<DeviceAddr> context = rig.model().allocate(DeviceId{0}, 120_MiB);
  ASSERT_TRUE(context.ok());
  EXPECT_TRUE(rig->allocate(380_MiB, StreamId{0}, nullptr).ok());
  EXPECT_EQ(rig->allocate(30_MiB, StreamId{0}, nullptr).code(), StatusCode::kOutOfMemory);
  EXPECT_LE(rig.reserved(), 392_MiB);
  ASSERT_TRUE(rig.model().release(*context).ok());
}

// C006: conversion at load time, shard by shard; what stays is dense.
TEST(CasesOfLoading, ManyIntermediatesBetweenTensorsThatStay) {
  Rig rig(2_GiB);
  std::uint64_t live = 0;
  for (std::uint64_t layer = 0; layer < 24; ++layer) {
    std::vector<DeviceAddr> shards;
    for (std::uint64_t s = 0; s < 5; ++s)
      shards.push_back(rig.alloc(Bytes{(3 + s + layer % 4) << 20}));
    const Bytes kept{(20 + layer % 7) << 20};
    rig.alloc(kept);
    live += kept.value;
    for (DeviceAddr shard : shards) rig.free(shard);
  }
  const double over = static_cast<double>(rig.reserved().value) / static_cast<double>(live);
  // The intermediates of one layer, 31 to 46 MiB, are the only memory beyond what stays.
  EXPECT_LT(over, 1.10);
  ASSERT_TRUE(rig->trim(0_B).ok());
  EXPECT_LT(static_cast<double>(rig.reserved().value) / static_cast<double>(live), 1.05);
  EXPECT_TRUE(rig->allocate(1_GiB, StreamId{0}, nullptr).ok());
}

// C087: every driver call of a growth fails once; the request after it works and nothing leaks.
TEST(CasesOfHalfDoneSteps, EachCallOfAGrowthCanFail) {
  for (CallKind kind : {CallKind::kCreateHandle, CallKind::kMap, CallKind::kSetAccess}) {
    for (std::uint64_t nth = 1; nth <= 4; ++nth) {
      Rig rig;
      rig.model().set_faults({device::sim::Fault::fail_nth(kind, nth)});
      const Result<Block> first = rig->allocate(8_MiB, StreamId{0}, nullptr);
      rig.model().set_faults({});
      rig->validate();
      const DeviceAddr second = rig.alloc(8_MiB);
      rig.free(second);
      if (first.ok()) rig.free(first->addr);
      ASSERT_TRUE(rig->trim(0_B).ok());
      EXPECT_EQ(rig.model().memory_use(DeviceId{0}).handles, 0U);
    }
  }
}

}  // namespace
}  // namespace levee::core
