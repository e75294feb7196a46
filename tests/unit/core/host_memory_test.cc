// The host runs out of memory for the allocator's own records (base/record_arena.h): the request
// that needed one is refused as an internal error, nothing of it stays, and the next one is served.
//
// Records alone are made with a `new` that may answer null and is aligned: this program replaces
// that one, and counts it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "allocator/core/make_allocator.h"
#include "tests/unit/core/state_rig.h"

namespace {
std::uint64_t g_asked = 0;    // how often records needed memory
bool g_is_exhausted = false;  // then there is none
}  // namespace

void* operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  ++g_asked;
  if (g_is_exhausted) return nullptr;
  const auto unit = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace levee::core {
namespace {

class HostMemory : public testing::Test {
 protected:
  void TearDown() override { g_is_exhausted = false; }

  static Placer::Served serve(StateRig& rig, const Request& request) {
    PoolGuard guard(rig.state);
    return rig.placer.serve(request);
  }
  // A request that needs a record while there is no memory for one, and then again.
  static void expect_refused_once(StateRig& rig, Bytes bytes) {
    const Bytes before = rig.state.counters.active();
    g_is_exhausted = true;
    const Placer::Served refused = serve(rig, rig.request(bytes));
    g_is_exhausted = false;
    EXPECT_EQ(refused.outcome, Placer::Outcome::kFailed);
    EXPECT_EQ(refused.status.code, StatusCode::kInternal);
    EXPECT_EQ(rig.state.counters.active(), before);
    rig.validate();
    EXPECT_EQ(serve(rig, rig.request(bytes)).outcome, Placer::Outcome::kServed);
    rig.validate();
  }
  // No record of a block is left without asking for memory.
  static void use_up_block_records(StateRig& rig) {
    PoolGuard guard(rig.state);
    while (rig.state.block_records.live_count() < rig.state.block_records.capacity()) {
      spare_.push_back(rig.state.block_records.make());
    }
  }
  static void give_back_block_records(StateRig& rig) {
    PoolGuard guard(rig.state);
    for (BlockRecord* record : spare_) rig.state.block_records.destroy(record);
    spare_.clear();
  }
  static std::vector<BlockRecord*> spare_;
};
std::vector<BlockRecord*> HostMemory::spare_;

TEST_F(HostMemory, ALargeBlockNeedsARecord) {
  StateRig rig;
  rig.free(rig.alloc(8_MiB));
  use_up_block_records(rig);
  expect_refused_once(rig, 4_MiB);
  give_back_block_records(rig);
}

TEST_F(HostMemory, ARangeNeedsARecord) {
  StateRig rig;
  rig.alloc(100_KiB);
  use_up_block_records(rig);
  expect_refused_once(rig, 100_KiB);
  give_back_block_records(rig);
}

TEST_F(HostMemory, AChunkNeedsARecord) {
  StateRig rig;
  rig.free(rig.alloc(8_MiB));
  rig.state.pools.default_pool().small_refused_at = 1_B;  // a page among large blocks will do
  expect_refused_once(rig, 100_KiB);
}

TEST_F(HostMemory, ASlabNeedsARecord) {
  StateRig rig;
  rig.alloc(100_KiB);  // a chunk that has no slab yet
  expect_refused_once(rig, 1_KiB);
}

TEST_F(HostMemory, WhatARestoreNeedsMayBeRefusedToo) {
  for (BlockKind kind : {BlockKind::kObject, BlockKind::kRange}) {
    for (bool is_chunk_there : {false, true}) {
      StateRig rig;
      const Bytes bytes = kind == BlockKind::kObject ? Bytes{1_KiB} : Bytes{100_KiB};
      if (is_chunk_there) rig.alloc(200_KiB);
      const DeviceAddr block = rig.alloc(bytes);
      Placer::Exact exact;
      exact.addr = block;
      exact.bytes = exact.requested = bytes;
      exact.span = bytes;
      exact.kind = kind;
      exact.stream = rig.state.stream_index(StreamId{0});
      exact.zone = rig.state.blocks.zone_of(block);
      rig.free(block);
      PoolGuard guard(rig.state);
      rig.placer.release_idle_chunks();
      std::vector<Chunk*> chunks;
      if (kind == BlockKind::kRange && is_chunk_there) {
        while (rig.state.block_records.live_count() < rig.state.block_records.capacity()) {
          spare_.push_back(rig.state.block_records.make());
        }
      } else {
        // The arena keeps what it has; a chunk or slab of it is to be missing.
        while (rig.state.small_records.chunks.live_count() <
               rig.state.small_records.chunks.capacity()) {
          chunks.push_back(rig.state.small_records.chunks.make());
        }
        while (rig.state.small_records.slabs.live_count() <
               rig.state.small_records.slabs.capacity()) {
          rig.state.small_records.slabs.make();
        }
      }
      g_is_exhausted = true;
      EXPECT_FALSE(rig.placer.place_exactly(exact, kDefaultPool));
      g_is_exhausted = false;
      EXPECT_TRUE(rig.placer.place_exactly(exact, kDefaultPool));
      for (BlockRecord* record : spare_) rig.state.block_records.destroy(record);
      spare_.clear();
      for (Chunk* chunk : chunks) rig.state.small_records.chunks.destroy(chunk);
    }
  }
}

TEST_F(HostMemory, ACacheWithoutStacksIsLeftEmpty) {
  StateRig rig;
  rig.alloc(1_KiB);
  ThreadCache cache;
  const StreamIndex stream = rig.state.stream_index(StreamId{0});
  PoolGuard guard(rig.state);
  g_is_exhausted = true;
  rig.placer.fill_cache(cache, class_of(1_KiB), stream);
  rig.placer.relieve_cache(cache, class_of(1_KiB), stream);
  g_is_exhausted = false;
  EXPECT_EQ(cache.shelf_of(stream), nullptr);
  rig.placer.fill_cache(cache, class_of(1_KiB), stream);
  ASSERT_NE(cache.shelf_of(stream), nullptr);
  EXPECT_GT(cache.shelf_of(stream)->count[class_of(1_KiB).value], 0);
}

TEST_F(HostMemory, WithoutATicketThereIsNoGuess) {
  Predictor predictor;
  predictor.begin_step();
  g_is_exhausted = true;
  std::vector<Predictor::Ticket*> tickets;
  do {
    tickets.push_back(predictor.on_request(4_MiB).ticket);
  } while (tickets.back() != nullptr && tickets.size() < 100'000);
  EXPECT_EQ(tickets.back(), nullptr);
  g_is_exhausted = false;
  tickets.back() = predictor.on_request(4_MiB).ticket;
  EXPECT_NE(tickets.back(), nullptr);
  for (Predictor::Ticket* ticket : tickets) predictor.on_free(ticket);
}

TEST_F(HostMemory, TicketsOfBlocksThatCameAndWentAreUsedAgain) {
  Predictor predictor;
  predictor.begin_step();
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      predictor.on_free(predictor.on_request(4_MiB).ticket);
      predictor.drop(predictor.on_request(4_MiB).ticket);
    }
  };
  rounds(1000);
  const std::uint64_t before = g_asked;
  rounds(20'000);
  EXPECT_EQ(g_asked, before);
}

TEST_F(HostMemory, RefusedRequestsLeaveNoTicketBehind) {
  device::sim::GpuModel model(StateRig::model_config(64_MiB));
  device::sim::SimDevice device(model, DeviceId{0});
  auto made = make_allocator(device, Config{}, nullptr);
  Allocator& allocator = **made;
  allocator.mark_step();
  const auto refuse = [&](int count) {
    for (int i = 0; i < count; ++i) {
      EXPECT_FALSE(allocator.allocate(80_MiB, StreamId{0}, nullptr).ok());
    }
  };
  refuse(600);
  const std::uint64_t before = g_asked;
  refuse(2000);
  EXPECT_EQ(g_asked, before);
}

}  // namespace
}  // namespace levee::core
