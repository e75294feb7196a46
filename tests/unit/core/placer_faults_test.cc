// What the placer does where the order between streams cannot be had as it first tried, and what it
// tells the device and the record.
#include "allocator/core/placer.h"
#include "tests/unit/core/notebook.h"
#include "tests/unit/core/state_rig.h"

namespace levee::core {
namespace {

using device::Native;
using device::sim::CallKind;
using device::sim::CaptureMode;
using device::sim::Fault;
using Outcome = Placer::Outcome;

Placer::Served serve(StateRig& rig, const Request& request) {
  PoolGuard guard(rig.state);
  return rig.placer.serve(request);
}

// A small request that takes a page among large blocks.
Request small_request(StateRig& rig, Bytes bytes, StreamId stream) {
  Request request = rig.request(bytes, stream);
  request.takes_any_page = true;
  return request;
}

// Two free pages between live ones: the lower one last used by a stream that captures, which the
// request does not know, the upper one by a stream that is busy.
class TwoPages : public testing::Test {
 protected:
  void SetUp() override {
    capturing_ = rig_.stream();
    busy_ = rig_.stream();
    asking_ = rig_.stream();
    rig_.state.stream_index(asking_);
    lower_ = rig_.alloc(2_MiB, capturing_);
    rig_.alloc(2_MiB);
    upper_ = rig_.alloc(2_MiB, busy_);
    rig_.alloc(2_MiB);
    rig_.work(busy_, 5_ms);
    rig_.free(lower_);
    rig_.free(upper_);
    ASSERT_LT(lower_, upper_);
  }
  void begin_capture() {
    ASSERT_TRUE(rig_.model.begin_capture(DeviceId{0}, capturing_, CaptureMode::kRelaxed).ok());
    is_capturing_ = true;
  }
  void TearDown() override {
    rig_.device.answer_capture_info = {};
    if (!is_capturing_) return;
    const auto graph = rig_.model.end_capture(DeviceId{0}, capturing_);
    ASSERT_TRUE(graph.ok());
    ASSERT_TRUE(rig_.model.destroy_graph(*graph).ok());
  }
  // From now on the upper page's stream captures as well, but not yet when the placer looks for a
  // page that can be waited for: it begins between two questions.
  void let_the_busy_one_begin_late() {
    rig_.device.answer_capture_info = [this](StreamId stream) -> Result<device::CaptureInfo> {
      device::CaptureInfo info;
      if (stream == capturing_) info.status = device::CaptureStatus::kActive;
      if (stream == busy_ && ++asked_ > 1) info.status = device::CaptureStatus::kActive;
      return info;
    };
  }

  StateRig rig_;
  StreamId capturing_, busy_, asking_;
  DeviceAddr lower_, upper_;
  bool is_capturing_ = false;
  int asked_ = 0;
};

TEST_F(TwoPages, SmallBlocksGoWhereSomebodyCanBeWaitedFor) {
  begin_capture();
  const Placer::Served served = serve(rig_, small_request(rig_, 700_B, asking_));
  ASSERT_EQ(served.outcome, Outcome::kServed);
  EXPECT_EQ(served.block.addr, upper_);
  EXPECT_TRUE(rig_.state.blocks.lookup(upper_).is_chunk()) << "the page as a whole";
  EXPECT_EQ(rig_.calls(CallKind::kWaitEvent), 1U);
}

TEST_F(TwoPages, FragmentsGoWhereSomebodyCanBeWaitedFor) {
  // Half of each page is in use, so that no page for small blocks is to be had.
  begin_capture();
  const auto is_on = [](DeviceAddr page, const Placer::Served& served) {
    return served.outcome == Outcome::kServed && served.block.addr >= page &&
           served.block.addr < page + 2_MiB;
  };
  ASSERT_TRUE(is_on(upper_, serve(rig_, rig_.request(1_MiB + 512_KiB, busy_))));
  Request own = rig_.request(1_MiB + 512_KiB, capturing_);
  own.is_capturing = true;
  ASSERT_TRUE(is_on(lower_, serve(rig_, own)));
  EXPECT_TRUE(is_on(upper_, serve(rig_, small_request(rig_, 300_KiB, asking_))));
}

// As above, and then nobody can be waited for any more.
TEST_F(TwoPages, AFragmentThatNobodyCanBeWaitedForIsAMiss) {
  ASSERT_EQ(serve(rig_, rig_.request(1_MiB + 512_KiB, busy_)).outcome, Outcome::kServed);
  ASSERT_EQ(serve(rig_, rig_.request(1_MiB + 512_KiB, capturing_)).outcome, Outcome::kServed);
  let_the_busy_one_begin_late();
  EXPECT_EQ(serve(rig_, small_request(rig_, 300_KiB, asking_)).outcome, Outcome::kMiss);
  EXPECT_GE(asked_, 2);
}

TEST_F(TwoPages, ACaptureThatBeginsBetweenTwoQuestionsIsAMiss) {
  let_the_busy_one_begin_late();
  EXPECT_EQ(serve(rig_, small_request(rig_, 700_B, asking_)).outcome, Outcome::kMiss);
  EXPECT_GE(asked_, 2) << "the page was chosen before";
  EXPECT_EQ(rig_.state.counters.active(), 4_MiB);
}

TEST_F(TwoPages, AnEventThatIsRefusedOnceIsAFailureAndNotAskedForAgain) {
  rig_.model.set_faults({Fault::fail_nth(CallKind::kRecordEvent, 1, Native::kInvalidHandle)});
  EXPECT_EQ(serve(rig_, small_request(rig_, 700_B, asking_)).outcome, Outcome::kFailed);
  EXPECT_EQ(rig_.calls(CallKind::kRecordEvent), 1U);
}

TEST(PlacerFaults, AChunkOfAnotherStreamServesBeforeAnythingIsCalledAMiss) {
  for (bool is_busy : {false, true}) {
    StateRig rig;
    const StreamId side = rig.stream();
    const DeviceAddr first = rig.alloc(100_KiB, side);
    const DeviceAddr second = rig.alloc(100_KiB, side);
    if (is_busy) {
      rig.work(side, 5_ms);
      rig.free(second);
    }
    const Placer::Served served = serve(rig, small_request(rig, 100_KiB, StreamId{0}));
    ASSERT_EQ(served.outcome, Outcome::kServed);
    EXPECT_LT(served.block.addr - first, 2_MiB);
    EXPECT_EQ(rig.calls(CallKind::kWaitEvent), is_busy ? 1U : 0U);
    rig.validate();
  }
}

// A side stream asks how far the main one is where that alone stands in its way.
TEST(PlacerFaults, WhatTheMainStreamIsDoneWithIsASideStreamsWithoutAWait) {
  for (bool is_of_main : {true, false}) {
    StateRig rig;
    const StreamId main{0};
    const StreamId other = is_of_main ? main : rig.stream();
    const StreamId side = rig.stream();
    rig.state.stream_index(other);
    rig.state.stream_index(side);
    for (int i = 0; i < 50; ++i) rig.free(rig.alloc(2_MiB));  // or a look would be too early
    rig.alloc(2_MiB);
    const DeviceAddr block = rig.alloc(8_MiB, other);
    rig.free(block);
    {
      PoolGuard guard(rig.state);
      StreamTable& streams = rig.state.streams;
      ASSERT_EQ(streams.main(), rig.state.stream_index(main));
      ASSERT_TRUE(streams.ensure_closed(streams.stamp_now(streams.main())).ok());
    }
    rig.model.advance_past_all_work();
    const std::uint64_t asked = rig.calls(CallKind::kQueryEvent);
    const Placer::Served served = serve(rig, rig.request(8_MiB, side));
    ASSERT_EQ(served.outcome, Outcome::kServed);
    EXPECT_EQ(served.block.addr, block);
    EXPECT_EQ(rig.calls(CallKind::kQueryEvent) - asked, is_of_main ? 1U : 0U);
    EXPECT_EQ(rig.calls(CallKind::kWaitEvent), is_of_main ? 0U : 1U);
  }
}

TEST(PlacerFaults, TheSpareChunkIsWorthAPage) {
  StateRig rig;
  const DeviceAddr small = rig.alloc(100_KiB);
  rig.free(small);
  EXPECT_EQ(rig.state.space.reserved(), 2_MiB);
  EXPECT_EQ(serve(rig, rig.request(2_MiB)).outcome, Outcome::kServed);
  EXPECT_EQ(rig.state.space.reserved(), 2_MiB);
  rig.validate();
}

// ---- What is told

TEST(PlacerFaults, AWaitIsRecordedOnceWithBothStreamsAndNoneThatFailed) {
  Notebook notebook;
  StateRig rig(256_MiB, {}, &notebook);
  const StreamId side = rig.stream();
  rig.state.stream_index(side);
  ASSERT_EQ(notebook.streams.back(), side);
  rig.free(rig.alloc(8_MiB, side));
  rig.free(rig.alloc(4_MiB, side));
  rig.model.set_faults({Fault::fail_nth(CallKind::kWaitEvent, 1, Native::kInvalidHandle)});
  EXPECT_EQ(serve(rig, rig.request(8_MiB)).outcome, Outcome::kFailed);
  EXPECT_TRUE(notebook.of(EventKind::kWaitInserted).empty());
  EXPECT_EQ(serve(rig, rig.request(8_MiB)).outcome, Outcome::kServed);
  const std::vector<Event> waits = notebook.of(EventKind::kWaitInserted);
  ASSERT_EQ(waits.size(), 1U);
  EXPECT_EQ(waits[0].lane, rig.state.streams.lane(rig.state.stream_index(StreamId{0})));
  EXPECT_EQ(waits[0].a, rig.state.streams.lane(rig.state.stream_index(side)).value);
  EXPECT_EQ(waits[0].b, Bytes{8_MiB}.value);
}

TEST(PlacerFaults, AUseOnItsOwnStreamIsNoneAndOthersAreToldWithTheirBytes) {
  StateRig rig;
  const StreamId side = rig.stream();
  std::vector<Bytes> told;
  rig.device.hear_use = [&](Bytes bytes, StreamId, device::UseKind kind) {
    if (kind == device::UseKind::kShare) told.push_back(bytes);
  };
  for (Bytes bytes : {Bytes{4_MiB}, Bytes{100_KiB}, Bytes{1_KiB}}) {
    const DeviceAddr block = rig.alloc(bytes, side);
    PoolGuard guard(rig.state);
    told.clear();
    ASSERT_TRUE(rig.placer.record_use(block, rig.state.stream_index(side)).ok());
    EXPECT_TRUE(told.empty());
    ASSERT_TRUE(rig.placer.record_use(block, rig.state.stream_index(StreamId{0})).ok());
    EXPECT_EQ(told, std::vector<Bytes>{bytes});
    ASSERT_TRUE(rig.placer.take_back(block).ok());
    EXPECT_EQ(rig.state.waiting.count(), 1U);
    rig.placer.release_done(/*ask=*/true);
    ASSERT_TRUE(rig.state.waiting.empty());
  }
  for (Bytes bytes : {Bytes{4_MiB}, Bytes{1_KiB}}) {
    const DeviceAddr block = rig.alloc(bytes, side);
    rig.work(side, 5_ms);
    PoolGuard guard(rig.state);
    ASSERT_TRUE(rig.placer.record_use(block, rig.state.stream_index(side)).ok());
    ASSERT_TRUE(rig.placer.take_back(block).ok());
    EXPECT_TRUE(rig.state.waiting.empty()) << "it waits for nobody but itself";
  }
}

TEST(PlacerFaults, ObjectsOfTheDefaultPoolAloneMayBeCached) {
  StateRig rig;
  const StreamId side = rig.stream();
  PoolIndex index;
  {
    PoolGuard guard(rig.state);
    index = rig.state.pools.find_or_add(PoolId{0, 9}, Backing::kPages).index;
  }
  const DeviceAddr shared = rig.alloc(1_KiB, side);
  const DeviceAddr apart = rig.alloc(1_KiB, side, index);
  PoolGuard guard(rig.state);
  Placer::FreedObject kind;
  ASSERT_TRUE(rig.placer.take_back(apart, &kind).ok());
  EXPECT_FALSE(kind.is_cacheable);
  ASSERT_TRUE(rig.placer.take_back(shared, &kind).ok());
  EXPECT_TRUE(kind.is_cacheable);
  EXPECT_EQ(kind.size_class, class_of(1_KiB));
  EXPECT_EQ(kind.stream, rig.state.stream_index(side));
}

TEST(PlacerFaults, AFullStackOfACacheIsRelievedOfItsLowerHalf) {
  StateRig rig;
  rig.free(rig.alloc(1_KiB));
  const DeviceAddr live = rig.alloc(1_KiB);
  const StreamIndex stream = rig.state.stream_index(StreamId{0});
  const SizeClass c = class_of(1_KiB);
  ThreadCache cache;
  PoolGuard guard(rig.state);
  rig.placer.fill_cache(cache, c, stream);
  ThreadCache::Shelf* shelf = cache.shelf_of(stream);
  ASSERT_NE(shelf, nullptr);
  const std::uint32_t half = ThreadCache::capacity(c) / 2;
  ASSERT_EQ(shelf->count[c.value], half);
  rig.placer.relieve_cache(cache, c, stream);
  EXPECT_EQ(shelf->count[c.value], half) << "there is room";
  Slab* slab = rig.state.blocks.lookup(live).chunk()->slab_at(live);
  while (shelf->count[c.value] < ThreadCache::capacity(c)) {
    const auto object = rig.state.pools.default_pool().small.take_object(c, stream, Bytes{0});
    ASSERT_TRUE(object.has_value());
    EXPECT_EQ(object->slab, slab);
    shelf->objects[c.value][shelf->count[c.value]++] = {object->addr(),
                                                        &slab->requested[object->index]};
  }
  rig.placer.relieve_cache(cache, c, stream);
  EXPECT_EQ(shelf->count[c.value], half);
  while (shelf->count[c.value] > 0)
    rig.placer.relieve_cache(cache, c, stream), --shelf->count[c.value];
}

// Every thread has a stream of that name.
TEST(PlacerFaults, ACacheHoldsNothingOfAThreadsDefaultStream) {
  StateRig rig;
  const StreamId of_this_thread{2};
  const DeviceAddr live = rig.alloc(1_KiB, of_this_thread);
  const StreamIndex stream = rig.state.stream_index(of_this_thread);
  const Slab* slab = rig.state.blocks.lookup(live).chunk()->slab_at(live);
  ThreadCache cache;
  PoolGuard guard(rig.state);
  rig.placer.fill_cache(cache, class_of(1_KiB), stream);
  EXPECT_EQ(cache.shelf_of(stream), nullptr);
  EXPECT_EQ(slab->live_count, 1);
}

// ---- Restoring

TEST(PlacerFaults, ObjectsComeBackIntoASlabThatStayed) {
  StateRig rig;
  const DeviceAddr stays = rig.alloc(1_KiB);
  const DeviceAddr gone = rig.alloc(1_KiB);
  Placer::Exact exact;
  exact.addr = gone;
  exact.bytes = exact.requested = 1_KiB;
  exact.span = class_bytes(class_of(1_KiB));
  exact.kind = BlockKind::kObject;
  exact.stream = rig.state.stream_index(StreamId{0});
  exact.zone = rig.state.blocks.zone_of(gone);
  rig.free(gone);
  {
    PoolGuard guard(rig.state);
    EXPECT_TRUE(rig.placer.place_exactly(exact, kDefaultPool));
    EXPECT_FALSE(rig.placer.place_exactly(exact, kDefaultPool)) << "it is live again";
  }
  rig.validate();
  rig.free(gone);
  rig.free(stays);
}

}  // namespace
}  // namespace levee::core
