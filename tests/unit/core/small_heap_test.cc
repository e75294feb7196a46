#include "allocator/core/small_heap.h"

#include <gtest/gtest.h>

#include "allocator/device/sim/gpu_model.h"
#include "allocator/device/sim/sim_device.h"

namespace levee::core {
namespace {

class SmallHeapTest : public testing::Test {
 protected:
  SmallHeapTest()
      : model_(device::sim::ModelConfig{}),
        device_(model_, DeviceId{0}),
        streams_(device_),
        heap_(records_) {
    mine_ = streams_.intern(StreamId{0});
  }
  Chunk* add_chunk(int i) {
    return heap_.add_chunk(DeviceAddr{(1ULL << 32) + (2_MiB).value * static_cast<unsigned>(i)},
                           ZoneIndex{0}, 2_MiB * static_cast<unsigned>(i), kDefaultPool, mine_);
  }
  SmallHeap::Object object(Bytes bytes) {
    const SizeClass c = class_of(bytes);
    if (const auto have = heap_.take_object(c, mine_, bytes)) return *have;
    const auto room = heap_.find_room(128, 128, mine_, ChunkReach::kHome, streams_);
    heap_.make_slab(*room, c, mine_);
    return *heap_.take_object(c, mine_, bytes);
  }

  device::sim::GpuModel model_;
  device::sim::SimDevice device_;
  StreamTable streams_;
  SmallRecords records_;
  SmallHeap heap_;
  StreamIndex mine_;
};

TEST_F(SmallHeapTest, ObjectsOfOneClassShareASlab) {
  add_chunk(0);
  const SmallHeap::Object a = object(1_KiB);
  const SmallHeap::Object b = object(1_KiB);
  EXPECT_EQ(a.slab, b.slab);
  EXPECT_EQ(b.addr() - a.addr(), 1_KiB);
  EXPECT_NE(object(2_KiB).slab, a.slab);
  heap_.validate();
}

TEST_F(SmallHeapTest, ASlabHandsOutEachObjectOnce) {
  add_chunk(0);
  std::vector<SmallHeap::Object> all;
  for (std::uint32_t i = 0; i < objects_per_slab(class_of(512_B)); ++i)
    all.push_back(object(512_B));
  for (const auto& one : all) EXPECT_EQ(one.slab, all[0].slab);
  EXPECT_NE(object(512_B).slab, all[0].slab);
  heap_.validate();
}

TEST_F(SmallHeapTest, AnEmptyChunkGoesBackOneSpareExcepted) {
  add_chunk(0);
  add_chunk(1);
  std::vector<SmallHeap::Object> all;
  while (heap_.find_room(128, 128, mine_, ChunkReach::kHome, streams_)) {
    for (std::uint32_t i = 0; i < 4; ++i) all.push_back(object(16_KiB));
  }
  int given_back = 0;
  for (const auto& one : all) {
    if (Chunk* chunk = heap_.free_object(one, streams_.stamp_now(mine_))) {
      ++given_back;
      heap_.destroy_chunk(chunk);
    }
  }
  EXPECT_EQ(given_back, 1);
  EXPECT_EQ(heap_.chunks().size(), 1U);
  const std::vector<Chunk*> idle = heap_.release_idle();
  ASSERT_EQ(idle.size(), 1U);
  EXPECT_EQ(idle[0]->stamps.size(), 1U) << "whoever takes the page is ordered after its last user";
  heap_.destroy_chunk(idle[0]);
}

TEST_F(SmallHeapTest, AnotherStreamsFreeBytesNeedAWait) {
  Chunk* chunk = add_chunk(0);
  const StreamIndex other = streams_.intern(*model_.create_stream(DeviceId{0}));
  chunk->stamps.add(streams_.stamp_now(other));
  EXPECT_FALSE(heap_.find_room(40, 1, mine_, ChunkReach::kHome, streams_).has_value());
  EXPECT_FALSE(heap_.find_room(40, 1, mine_, ChunkReach::kNoWait, streams_).has_value());
  EXPECT_TRUE(heap_.find_room(40, 1, mine_, ChunkReach::kAny, streams_).has_value());
}

TEST_F(SmallHeapTest, IdleSlabsOfAChunkInUseAreGivenUpToo) {
  add_chunk(0);
  const SmallHeap::Object gone = object(1_KiB);
  const SmallHeap::Object stays = object(2_KiB);
  heap_.free_object(gone, streams_.stamp_now(mine_));
  const auto room_for_slabs = [&] {
    std::uint32_t count = 0;
    for (const Slab* slab : heap_.chunks()[0]->slab_of_cell) count += slab == nullptr ? 1 : 0;
    return count;
  };
  const std::uint32_t before = room_for_slabs();
  EXPECT_TRUE(heap_.release_idle().empty());
  EXPECT_EQ(room_for_slabs(), before + 1);
  heap_.validate();
  heap_.free_object(stays, streams_.stamp_now(mine_));
}

// As a checkpoint is restored: exactly these bytes, or nothing.
TEST_F(SmallHeapTest, BytesThatAreTakenAreNotTakenAgain) {
  Chunk* chunk = add_chunk(0);
  BlockRecord range;
  range.addr = chunk->base + 16_KiB;
  range.bytes = range.span = range.requested = 32_KiB;
  ASSERT_TRUE(heap_.take_range_at(chunk, &range));
  BlockRecord overlapping = range;
  overlapping.addr = chunk->base + 32_KiB;
  EXPECT_FALSE(heap_.take_range_at(chunk, &overlapping));
  const SizeClass c = class_of(1_KiB);
  EXPECT_FALSE(heap_.take_object_at(chunk, chunk->base, c, mine_, 1_KiB)) << "no room for its slab";
  EXPECT_TRUE(heap_.take_object_at(chunk, chunk->base + 64_KiB, c, mine_, 1_KiB));
  EXPECT_FALSE(heap_.take_object_at(chunk, chunk->base + 64_KiB, c, mine_, 1_KiB)) << "again";
  heap_.validate();
}

}  // namespace
}  // namespace levee::core
