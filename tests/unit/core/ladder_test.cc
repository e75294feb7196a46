// The recovery ladder, rung by rung: what each gives, what it must not do, and what is told.
#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

using device::sim::CallKind;

LadderRung last_that_freed(const OomReport& report) {
  LadderRung last = LadderRung::kOutOfMemory;
  for (std::uint32_t i = 0; i < report.rung_count; ++i) {
    if (report.rungs[i].freed > 0_B) last = report.rungs[i].rung;
  }
  return last;
}

void use_elsewhere(StateRig& rig, DeviceAddr block, StreamId stream) {
  PoolGuard guard(rig.state);
  ASSERT_TRUE(rig.placer.record_use(block, rig.state.stream_index(stream)).ok());
}

TEST(Ladder, WaitsForBlocksThatWaitForOurStreams) {
  StateRig rig(64_MiB);
  const StreamId side = rig.stream();
  const DeviceAddr small = rig.alloc(700_B);
  use_elsewhere(rig, small, side);
  rig.work(side, 5_ms);
  rig.free(small);
  const Nanos before = rig.model.now();
  rig.alloc(64_MiB);
  EXPECT_GE(rig.model.now() - before, 4_ms);
  EXPECT_EQ(rig.state.counters.stats().num_emergencies, 1);
  EXPECT_EQ(rig.state.counters.stats().num_alloc_retries, 1);
}

TEST(Ladder, CallbacksFreeBlocksAndWhatTheyFreedIsWaitedFor) {
  StateRig rig(64_MiB);
  const StreamId side = rig.stream();
  const DeviceAddr small = rig.alloc(700_B);
  use_elsewhere(rig, small, side);
  rig.work(side, 5_ms);
  auto hooks = std::make_shared<AllocatorHooks>();
  int asked = 0;
  hooks->free_memory = [&] {
    if (asked++ > 0) return false;
    rig.free(small);
    return true;
  };
  rig.state.hooks = hooks;
  rig.alloc(64_MiB);
  EXPECT_EQ(asked, 1);
}

// What another thread gives back while the ladder is climbed, and no rung can know of.
TEST(Ladder, IsNoReasonToRefuseWhatFitsInTheEnd) {
  StateRig rig(64_MiB);
  const DeviceAddr first = rig.alloc(1_MiB + 512_KiB);
  rig.alloc(62_MiB + 512_KiB);
  auto hooks = std::make_shared<AllocatorHooks>();
  hooks->free_memory = [&] {
    rig.free(first);  // of a page that is in use: no rung gives it back
    return false;
  };
  rig.state.hooks = hooks;
  rig.alloc(1_MiB + 512_KiB);
  EXPECT_EQ(rig.state.counters.stats().num_ooms, 0);
  EXPECT_EQ(rig.state.counters.stats().num_alloc_retries, 1);
}

TEST(Ladder, PoolsThatServeOthersDoAndCapturedOnesNever) {
  for (bool is_captured : {false, true}) {
    StateRig rig(64_MiB);
    PoolIndex index;
    {
      PoolGuard guard(rig.state);
      Pool& pool = rig.state.pools.find_or_add(PoolId{0, 9}, Backing::kPages);
      pool.serves_others_on_oom = true;
      index = pool.index;
      if (is_captured) rig.placer.capture(pool);
    }
    // A hole that only the pool's own addresses reach: a live byte lies on its last page.
    const DeviceAddr hole = rig.alloc(63_MiB, StreamId{0}, index);
    const DeviceAddr pin = rig.alloc(600_KiB, StreamId{0}, index);
    rig.free(hole);
    OomReport report;
    const Result<Block> served = rig.slow_path.serve(rig.request(63_MiB), &report);
    EXPECT_EQ(served.ok(), !is_captured);
    rig.free(pin);
  }
}

TEST(Ladder, ACapturingRequestBorrowsFromNoPool) {
  StateRig rig(64_MiB);
  PoolIndex lender;
  {
    PoolGuard guard(rig.state);
    Pool& pool = rig.state.pools.find_or_add(PoolId{0, 9}, Backing::kPages);
    pool.serves_others_on_oom = true;
    lender = pool.index;
  }
  const DeviceAddr hole = rig.alloc(63_MiB, StreamId{0}, lender);
  rig.alloc(600_KiB, StreamId{0}, lender);
  rig.free(hole);
  Request request = rig.request(63_MiB);
  request.is_capturing = true;
  EXPECT_EQ(rig.slow_path.serve(request, nullptr).code(), StatusCode::kOutOfMemory);
}

TEST(Ladder, CachedHandlesOfTheOtherKindGoBack) {
  StateRig rig(64_MiB);
  PoolIndex segments;
  {
    PoolGuard guard(rig.state);
    segments = rig.state.pools.find_or_add(PoolId{0, 9}, Backing::kSegments).index;
  }
  rig.free(rig.alloc(50_MiB));
  rig.free(rig.alloc(40_MiB, StreamId{0}, segments));
  rig.alloc(60_MiB);
  EXPECT_EQ(rig.state.counters.stats().num_alloc_retries, 2);
  rig.validate();
}

TEST(Ladder, NothingWaitsOrGoesBackWhileAStreamCaptures) {
  StateRig rig(64_MiB);
  const StreamId side = rig.stream();
  rig.state.stream_index(side);
  PoolIndex segments;
  {
    PoolGuard guard(rig.state);
    segments = rig.state.pools.find_or_add(PoolId{0, 9}, Backing::kSegments).index;
  }
  rig.free(rig.alloc(50_MiB));
  ASSERT_TRUE(rig.model.begin_capture(DeviceId{0}, side, device::sim::CaptureMode::kGlobal).ok());
  EXPECT_EQ(rig.slow_path.serve(rig.request(40_MiB, StreamId{0}, segments), nullptr).code(),
            StatusCode::kOutOfMemory);
  EXPECT_EQ(rig.calls(CallKind::kUnmap), 0U);
  const auto graph = rig.model.end_capture(DeviceId{0}, side);
  ASSERT_TRUE(graph.ok()) << "the ladder broke the capture";
  ASSERT_TRUE(rig.model.destroy_graph(*graph).ok());
}

TEST(Ladder, ARefusalTellsEachRungAndIsCounted) {
  StateRig rig(64_MiB);
  rig.alloc(40_MiB);
  rig.free(rig.alloc(10_MiB));
  OomReport report;
  bool told = false;
  auto hooks = std::make_shared<AllocatorHooks>();
  hooks->out_of_memory = [&](const OomReport& of) { told = of.requested_bytes == 30_MiB; };
  rig.state.hooks = hooks;
  EXPECT_EQ(rig.slow_path.serve(rig.request(30_MiB), &report).code(), StatusCode::kOutOfMemory);
  EXPECT_TRUE(told);
  ASSERT_EQ(report.rung_count, 6U);
  EXPECT_EQ(report.rungs[0].rung, LadderRung::kOwnEvents);
  EXPECT_EQ(report.rungs[5].rung, LadderRung::kOutOfMemory);
  EXPECT_EQ(last_that_freed(report), LadderRung::kCachedHandles);
  EXPECT_EQ(report.allocated_bytes, 40_MiB);
  EXPECT_EQ(report.device_total_bytes, 64_MiB);
  EXPECT_EQ(rig.state.counters.stats().num_ooms, 1);
}

}  // namespace
}  // namespace levee::core
