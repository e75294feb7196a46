// Every rule of the judge: a program that keeps it, and the same program with one line missing that
// does not.
#include "tests/unit/device/sim/model_fixture.h"

namespace levee::device::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Judge : public ModelTest {
 protected:
  const StreamId s1 = new_stream();
  const StreamId s2 = new_stream();
};

// ---- Two streams on the same bytes

TEST_F(Judge, ReuseOnTheSameStreamNeedsNoOrder) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, ReuseOnAnotherStreamAfterAStreamSideWaitIsFine) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  order(s1, s2);
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, ReuseOnAnotherStreamWithoutAWaitIsFound) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  hand_out(s2, block + 512_KiB, 1_MiB);
  ASSERT_EQ(model.hazard_count(HazardKind::kUnorderedUse), 1U);
  const Hazard hazard = model.hazards().front();
  EXPECT_EQ(hazard.stream, s2);
  EXPECT_EQ(hazard.other_stream, s1);
  EXPECT_EQ(hazard.addr, block + 512_KiB);
  EXPECT_EQ(hazard.bytes, 512_KiB);
  EXPECT_THAT(hazard.text, HasSubstr("no event recorded on"));
  EXPECT_THAT(model.report(), HasSubstr("(note)  handed out"));
  take_hazards();
}

TEST_F(Judge, AWaitForAnEventRecordedBeforeTheLastUseIsNoOrder) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  const EventId early = new_event();
  hand_out(s1, block, 1_MiB);
  ASSERT_TRUE(model.record_event(early, kGpu, s1).ok());
  give_back(s1, block, 1_MiB);  // the use lasted until here
  ASSERT_TRUE(model.wait_event(kGpu, s2, early).ok());
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

TEST_F(Judge, AnEventQueriedAsCompleteOrdersEveryStream) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  const EventId done = new_event();
  hand_out(s1, block, 1_MiB);
  run(s1, 10_us);
  give_back(s1, block, 1_MiB);
  ASSERT_TRUE(model.record_event(done, kGpu, s1).ok());
  EXPECT_EQ(model.query_event(done).code, StatusCode::kNotReady);
  model.advance(10_us);
  ASSERT_TRUE(model.query_event(done).ok());
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, TimeAloneOrdersNothing) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  hand_out(s1, block, 1_MiB);
  run(s1, 10_us);
  give_back(s1, block, 1_MiB);
  model.advance(1_ms);  // it is over, but nobody knows
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

TEST_F(Judge, OrderIsTransitive) {
  const StreamId s3 = new_stream();
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  order(s1, s2);
  order(s2, s3);
  hand_out(s3, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, AnEventKnowsOnlyWhatItsStreamKnewWhenItWasRecorded) {
  const StreamId s3 = new_stream();
  const EventId middle = new_event();
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  ASSERT_TRUE(model.record_event(middle, kGpu, s2).ok());  // before s2 waits for s1
  order(s1, s2);
  ASSERT_TRUE(model.wait_event(kGpu, s3, middle).ok());
  hand_out(s3, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

TEST_F(Judge, ASynchronisedStreamIsKnownToTheHost) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  ASSERT_TRUE(model.synchronize_stream(kGpu, s1).ok());
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, TheLegacyStreamIsOrderedWithBlockingStreamsAndNotWithOthers) {
  const StreamId blocking = new_stream(false);
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  hand_out(blocking, block, 1_MiB);
  give_back(blocking, block, 1_MiB);
  run(kLegacy, 1_us);  // waits for the blocking stream
  hand_out(kLegacy, block, 1_MiB);
  give_back(kLegacy, block, 1_MiB);
  hand_out(blocking, block, 1_MiB);  // and back again
  give_back(blocking, block, 1_MiB);
  hand_out(kLegacy, block, 1_MiB);
  give_back(kLegacy, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  hand_out(s1, block, 1_MiB);  // s1 is non-blocking
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

TEST_F(Judge, WorkOfADestroyedStreamMustStillBeOrdered) {
  const StreamId gone = new_stream();
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  hand_out(gone, block, 1_MiB);
  hand_out(gone, block + 1_MiB, 1_MiB);
  give_back(gone, block, 1_MiB);
  give_back(gone, block + 1_MiB, 1_MiB);
  ASSERT_TRUE(model.destroy_stream(gone).ok());
  const StreamId successor = new_stream();  // must not inherit its place in the order
  hand_out(successor, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  ASSERT_TRUE(model.synchronize_device(kGpu).ok());
  hand_out(s1, block + 1_MiB, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, ASharedUseMustBeOrderedTooWhenTheBlockIsReused) {
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  hand_out(s1, block, 1_MiB);
  share(s2, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  hand_out(s1, block, 1_MiB);  // s2 may still read it
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  share(s2, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  order(s2, s1);
  hand_out(s1, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, OnlyTheBytesThatMeetConflict) {
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  hand_out(s1, block, 512_B);
  give_back(s1, block, 512_B);
  hand_out(s2, block + 512_B, 512_B);
  EXPECT_THAT(take_hazards(), IsEmpty());
  hand_out(s2, block + 511_B, 1_B);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

// ---- Touches by work

TEST_F(Judge, ReadsOnTwoStreamsNeedNoOrderButAWriteDoes) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  touch(s1, block, 4_KiB, false);
  touch(s2, block, 4_KiB, false);
  EXPECT_THAT(take_hazards(), IsEmpty());
  touch(s2, block, 4_KiB, true);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
}

TEST_F(Judge, ATouchOnAForeignStreamMustBeOrderedBeforeTheBlockIsReused) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  hand_out(s1, block, 1_MiB);
  touch(s2, block, 4_KiB);
  give_back(s1, block, 1_MiB);
  hand_out(s1, block, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnorderedUse));
  touch(s2, block, 4_KiB);
  order(s2, s1);
  give_back(s1, block, 1_MiB);
  hand_out(s1, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

// ---- Live twice

TEST_F(Judge, ABlockHandedOutTwiceIsLiveTwice) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  hand_out(s1, block, 1_MiB);
  hand_out(s1, block + 1023_KiB, 1_MiB);
  ASSERT_EQ(model.hazard_count(HazardKind::kLiveTwice), 1U);
  EXPECT_EQ(model.hazards().front().bytes, 1_KiB);
  EXPECT_THAT(model.hazards().front().text, HasSubstr("who has not given them back"));
  take_hazards();
}

TEST_F(Judge, TheSamePageLiveAtTwoAddressesIsLiveTwice) {
  const auto pages = new_pages(2);
  const DeviceAddr first = map_run(pages);
  const DeviceAddr second = map_run({pages[1], pages[0]});
  hand_out(s1, first, 4_MiB);
  give_back(s1, first, 4_MiB);
  hand_out(s1, second, 4_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  hand_out(s1, first + 2_MiB, 1_MiB);  // page 1, which lives at `second`
  ASSERT_EQ(model.hazard_count(HazardKind::kLiveTwice), 1U);
  EXPECT_EQ(model.hazards().front().other_addr, second);
  EXPECT_THAT(model.hazards().front().text, HasSubstr("the same physical bytes"));
  take_hazards();
}

// ---- The same bytes through two addresses

TEST_F(Judge, ReuseThroughAnotherAddressInStreamOrderIsFine) {
  const auto pages = new_pages(1);
  const DeviceAddr first = map_run(pages);
  const DeviceAddr second = map_run(pages);
  hand_out(s1, first, 1_MiB);
  give_back(s1, first, 1_MiB);
  hand_out(s1, second, 1_MiB);
  give_back(s1, second, 1_MiB);
  order(s1, s2);
  hand_out(s2, first, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, ReuseThroughAnotherAddressWithoutOrderIsAnAliasUse) {
  const auto pages = new_pages(1);
  const DeviceAddr first = map_run(pages);
  const DeviceAddr second = map_run(pages);
  hand_out(s1, first, 1_MiB);
  give_back(s1, first, 1_MiB);
  hand_out(s2, second, 1_MiB);
  ASSERT_EQ(model.hazard_count(HazardKind::kAliasUse), 1U);
  EXPECT_EQ(model.hazards().front().addr, second);
  EXPECT_EQ(model.hazards().front().other_addr, first);
  take_hazards();
}

TEST_F(Judge, OnePieceOfWorkMayNotTouchBytesAtTwoAddresses) {
  const auto pages = new_pages(1);
  const DeviceAddr first = map_run(pages);
  const DeviceAddr second = map_run(pages);
  const Touch both[] = {{first, 4_KiB, true}, {second, 4_KiB, false}};
  Work work;
  work.touches = both;
  ASSERT_TRUE(model.enqueue(kGpu, s1, CallKind::kLaunchKernel, work).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kAliasUse));
}

TEST_F(Judge, WorkThatMayOverlapItsPredecessorIsNotOrderedByTheStreamAlone) {
  const auto pages = new_pages(1);
  const DeviceAddr first = map_run(pages);
  const DeviceAddr second = map_run(pages);
  touch(s1, first, 4_KiB);
  touch(s1, second, 4_KiB);  // ordinary launch: the first has completed
  EXPECT_THAT(take_hazards(), IsEmpty());
  const Touch through_first{first, 4_KiB, true};
  Work work;
  work.touches = std::span<const Touch>(&through_first, 1);
  work.overlaps_predecessor = true;
  ASSERT_TRUE(model.enqueue(kGpu, s1, CallKind::kLaunchKernel, work).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kAliasUse));
  touch(s1, first, 4_KiB);  // ends the chain
  work.touches = {};
  ASSERT_TRUE(model.enqueue(kGpu, s1, CallKind::kLaunchKernel, work).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, ATouchThroughAnAddressThatIsNotTheOwnersIsAnAliasUse) {
  const auto pages = new_pages(1);
  const DeviceAddr first = map_run(pages);
  const DeviceAddr second = map_run(pages);
  hand_out(s1, first, 1_MiB);
  touch(s1, first, 4_KiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  touch(s1, second, 4_KiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kAliasUse));
}

// ---- Unmapped, inaccessible

TEST_F(Judge, UsingUnmappedBytesIsFound) {
  const DeviceAddr range = model.reserve_range(kGpu, 4_MiB, Bytes{}).value();
  const HandleId page = model.create_handle(kGpu, 2_MiB).value();
  ASSERT_TRUE(model.map(range, 2_MiB, page).ok());
  ASSERT_TRUE(model.set_access(range, 2_MiB, kGpu).ok());
  hand_out(s1, range, 2_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
  give_back(s1, range, 2_MiB);
  hand_out(s1, range + 1_MiB, 2_MiB);
  ASSERT_EQ(model.hazard_count(HazardKind::kTouchUnmapped), 1U);
  EXPECT_EQ(model.hazards().front().addr, range + 2_MiB);
  take_hazards();
}

TEST_F(Judge, UsingBytesBehindTheLastAddressIsFound) {
  hand_out(s1, DeviceAddr{~std::uint64_t{0} - 511}, 1_KiB);
  ASSERT_EQ(model.hazard_count(), 1U);
  EXPECT_EQ(model.hazards().front().rule, JudgeRule::kUseOfMemory);
  take_hazards();
}

TEST_F(Judge, UsingBytesOnAStreamThatIsNoneIsFound) {
  const StreamId gone = new_stream();
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  ASSERT_TRUE(model.destroy_stream(gone).ok());
  hand_out(gone, block, 1_MiB);
  ASSERT_EQ(model.hazard_count(), 1U);
  EXPECT_EQ(model.hazards().front().rule, JudgeRule::kUseOnStream);
  take_hazards();
  hand_out(s1, block, 1_MiB);  // the bytes got no owner
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, UsingBytesThatWereNeverGivenAccessIsFound) {
  const DeviceAddr range = model.reserve_range(kGpu, 2_MiB, Bytes{}).value();
  const HandleId page = model.create_handle(kGpu, 2_MiB).value();
  ASSERT_TRUE(model.map(range, 2_MiB, page).ok());
  hand_out(s1, range, 1_MiB);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kTouchWithoutAccess));
  ASSERT_TRUE(model.set_access(range, 2_MiB, kGpu, Access::kRead).ok());
  touch(s1, range, 4_KiB, false);
  EXPECT_THAT(take_hazards(), IsEmpty());
  touch(s1, range, 4_KiB, true);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kTouchWithoutAccess));
}

TEST_F(Judge, UsingAFreedAllocationIsFound) {
  const DeviceAddr small = model.allocate(kGpu, 1000_B).value();
  const DeviceAddr neighbour = model.allocate(kGpu, 1000_B).value();
  touch(s1, small, 1000_B);
  EXPECT_THAT(take_hazards(), IsEmpty());
  touch(s1, small, 1001_B);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kTouchUnmapped));
  ASSERT_TRUE(model.release(small).ok());
  touch(s1, small, 4_B);  // its 2 MiB page is still there, for the neighbour
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kTouchUnmapped));
  touch(s1, neighbour, 1000_B);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

// ---- Map, unmap, release, ranges

TEST_F(Judge, MappingOverAMappingIsFoundAndChangesNothing) {
  const auto pages = new_pages(2);
  const DeviceAddr range = model.reserve_range(kGpu, 4_MiB, Bytes{}).value();
  ASSERT_TRUE(model.map(range, 2_MiB, pages[0]).ok());
  EXPECT_EQ(native_of(model.map(range, 2_MiB, pages[1])), Native::kInvalidValue);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kMapOverMapping));
  EXPECT_EQ(model.find(range).handle, pages[0]);
  EXPECT_TRUE(model.map(range + 2_MiB, 2_MiB, pages[1]).ok());
}

TEST_F(Judge, UnmappingNothingOrAPartOfAMappingIsFound) {
  const DeviceAddr range = model.reserve_range(kGpu, 8_MiB, Bytes{}).value();
  const HandleId big = model.create_handle(kGpu, 4_MiB).value();
  ASSERT_TRUE(model.map(range, 4_MiB, big).ok());
  EXPECT_FALSE(model.unmap(range + 4_MiB, 2_MiB).ok());
  EXPECT_FALSE(model.unmap(range, 2_MiB).ok());
  EXPECT_FALSE(model.unmap(range, 6_MiB).ok());
  EXPECT_THAT(take_hazards(),
              ElementsAre(HazardKind::kBadUnmap, HazardKind::kBadUnmap, HazardKind::kBadUnmap));
  EXPECT_TRUE(model.unmap(range, 4_MiB).ok());
}

TEST_F(Judge, ReleasingAHandleOrAnAllocationTwiceIsFound) {
  const HandleId handle = model.create_handle(kGpu, 2_MiB).value();
  ASSERT_TRUE(model.release_handle(handle).ok());
  EXPECT_FALSE(model.release_handle(handle).ok());
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  ASSERT_TRUE(model.release(block).ok());
  EXPECT_FALSE(model.release(block).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kBadRelease, HazardKind::kBadRelease));
}

TEST_F(Judge, FreeingARangeThatIsInUseOrOfAnotherSizeIsFound) {
  const DeviceAddr range = model.reserve_range(kGpu, 4_MiB, Bytes{}).value();
  const HandleId page = model.create_handle(kGpu, 2_MiB).value();
  ASSERT_TRUE(model.map(range, 2_MiB, page).ok());
  EXPECT_FALSE(model.free_range(range, 4_MiB).ok());
  ASSERT_TRUE(model.unmap(range, 2_MiB).ok());
  EXPECT_FALSE(model.free_range(range, 2_MiB).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kBadRange, HazardKind::kBadRange));
  EXPECT_TRUE(model.free_range(range, 4_MiB).ok());
  EXPECT_FALSE(model.free_range(range, 4_MiB).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kBadRange));
}

TEST_F(Judge, MappingADeadHandleOrOutsideOfARangeIsFound) {
  const DeviceAddr range = model.reserve_range(kGpu, 2_MiB, Bytes{}).value();
  const HandleId dead = model.create_handle(kGpu, 2_MiB).value();
  ASSERT_TRUE(model.release_handle(dead).ok());
  EXPECT_FALSE(model.map(range, 2_MiB, dead).ok());
  const HandleId big = model.create_handle(kGpu, 4_MiB).value();
  EXPECT_FALSE(model.map(range, 4_MiB, big).ok());  // the range is too short
  EXPECT_FALSE(model.map(range, 2_MiB, big).ok());  // a part of the handle
  EXPECT_THAT(take_hazards(),
              ElementsAre(HazardKind::kBadMap, HazardKind::kBadMap, HazardKind::kBadMap));
}

TEST_F(Judge, MappingBesideTheGranularityIsFound) {
  const DeviceAddr range = model.reserve_range(kGpu, 6_MiB, Bytes{}).value();
  const HandleId page = model.create_handle(kGpu, 2_MiB).value();
  EXPECT_FALSE(model.map(range + 1_MiB, 2_MiB, page).ok());
  ASSERT_EQ(model.hazard_count(), 1U);
  EXPECT_EQ(model.hazards().front().rule, JudgeRule::kMapAligned);
  take_hazards();
}

TEST_F(Judge, GivingAccessToWhatIsNotMappedIsFound) {
  const DeviceAddr range = model.reserve_range(kGpu, 4_MiB, Bytes{}).value();
  const HandleId page = model.create_handle(kGpu, 2_MiB).value();
  ASSERT_TRUE(model.map(range, 2_MiB, page).ok());
  EXPECT_FALSE(model.set_access(range, 4_MiB, kGpu).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kBadAccess));
}

TEST_F(Judge, UnmappingNothingOrBehindTheLastAddressAndGivingItAccessIsFound) {
  for (const auto& [addr, bytes] :
       {std::pair{DeviceAddr{2 << 20}, Bytes{}}, std::pair{DeviceAddr{~0ULL - 1023}, 2_MiB}}) {
    EXPECT_FALSE(model.unmap(addr, bytes).ok());
    EXPECT_FALSE(model.set_access(addr, bytes, kGpu).ok());
    ASSERT_EQ(model.hazard_count(), 2U);
    EXPECT_EQ(model.hazards()[0].rule, JudgeRule::kUnmapSomething);
    EXPECT_EQ(model.hazards()[1].rule, JudgeRule::kAccessSomething);
    take_hazards();
  }
}

TEST_F(Judge, GivingAccessToAPartOfAMappingIsFound) {
  const DeviceAddr range = model.reserve_range(kGpu, 4_MiB, Bytes{}).value();
  const HandleId page = model.create_handle(kGpu, 4_MiB).value();
  ASSERT_TRUE(model.map(range, 4_MiB, page).ok());
  EXPECT_FALSE(model.set_access(range, 2_MiB, kGpu).ok());
  EXPECT_FALSE(model.set_access(range + 2_MiB, 2_MiB, kGpu).ok());
  ASSERT_EQ(model.hazard_count(), 2U);
  EXPECT_EQ(model.hazards()[0].rule, JudgeRule::kAccessWhole);
  EXPECT_EQ(model.hazards()[1].rule, JudgeRule::kAccessWhole);
  take_hazards();
  EXPECT_EQ(model.access_of(range, kGpu), Access::kNone);
}

// ---- Memory that goes while in use

TEST_F(Judge, UnmappingBeforeTheLastUserIsKnownToBeDoneIsFound) {
  const auto pages = new_pages(2);
  const DeviceAddr run_base = map_run(pages);
  hand_out(s1, run_base, 4_MiB);
  run(s1, 10_us);
  give_back(s1, run_base, 4_MiB);
  order(s1, s2);  // an order between streams tells the host nothing
  EXPECT_TRUE(model.unmap(run_base, 2_MiB).ok());
  ASSERT_EQ(model.hazard_count(HazardKind::kUnmapInUse), 1U);
  EXPECT_EQ(model.hazards().front().other_stream, s1);
  EXPECT_THAT(model.hazards().front().text, HasSubstr("cuMemUnmap"));
  take_hazards();
  ASSERT_TRUE(model.synchronize_stream(kGpu, s2).ok());  // s2 is after s1
  EXPECT_TRUE(model.unmap(run_base + 2_MiB, 2_MiB).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, AnAliasMayGoWhileItsPageIsInUseAtAnotherAddress) {
  const auto pages = new_pages(1);
  const DeviceAddr first = map_run(pages);
  const DeviceAddr second = map_run(pages);
  hand_out(s1, first, 1_MiB);
  EXPECT_TRUE(model.unmap(second, 2_MiB).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
  EXPECT_TRUE(model.unmap(first, 2_MiB).ok());
  ASSERT_EQ(model.hazard_count(HazardKind::kUnmapInUse), 1U);
  EXPECT_THAT(model.hazards().front().text, HasSubstr("have an owner"));
  take_hazards();
}

TEST_F(Judge, AnAliasMustStayUntilItsLastUserIsDoneAlsoWhenThePageHasANewOwner) {
  const auto pages = new_pages(1);
  const DeviceAddr first = map_run(pages);
  const DeviceAddr second = map_run(pages);
  hand_out(s1, first, 1_MiB);
  run(s1, 10_us);
  give_back(s1, first, 1_MiB);
  hand_out(s1, second, 1_MiB);  // legal; but work on `first` may still run
  give_back(s1, second, 1_MiB);
  EXPECT_TRUE(model.unmap(first, 2_MiB).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnmapInUse));
  ASSERT_TRUE(model.synchronize_stream(kGpu, s1).ok());
  EXPECT_TRUE(model.unmap(second, 2_MiB).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, ThePastUserOfAnAddressIsNamedWhileItsStreamIsThere) {
  const auto pages = new_pages(2);
  const DeviceAddr first = map_run(pages);
  const DeviceAddr second = map_run(pages);
  const StreamId gone = new_stream();
  for (const auto& [stream, offset] : {std::pair{s1, 0_MiB}, std::pair{gone, 2_MiB}}) {
    hand_out(stream, first + offset, 1_MiB);
    give_back(stream, first + offset, 1_MiB);
    hand_out(stream, second + offset, 1_MiB);
    give_back(stream, second + offset, 1_MiB);
  }
  ASSERT_TRUE(model.destroy_stream(gone).ok());
  EXPECT_TRUE(model.unmap(first, 4_MiB).ok());
  const std::vector<Hazard> hazards = model.hazards();
  ASSERT_EQ(hazards.size(), 2U);
  EXPECT_EQ(hazards[0].rule, JudgeRule::kGoneWhenAliasDone);
  EXPECT_EQ(hazards[0].other_stream, s1);
  EXPECT_EQ(hazards[1].rule, JudgeRule::kGoneWhenAliasDone);
  EXPECT_EQ(hazards[1].other_stream, StreamId{});
  take_hazards();
}

TEST_F(Judge, APageWhoseOldAddressIsGoneMayBeHandedOutAtAnother) {
  const auto pages = new_pages(1);
  const DeviceAddr first = map_run(pages);
  const DeviceAddr second = map_run(pages);
  hand_out(s1, first, 1_MiB);
  give_back(s1, first, 1_MiB);
  EXPECT_TRUE(model.unmap(first, 2_MiB).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnmapInUse));
  hand_out(s1, second, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, FreeingAnAllocationThatIsHandedOutIsFound) {
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  hand_out(s1, block, 1_MiB);
  EXPECT_TRUE(model.release(block).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kUnmapInUse));
  const DeviceAddr other = model.allocate(kGpu, 4_MiB).value();
  hand_out(s1, other, 1_MiB);
  run(s1, 10_us);
  give_back(s1, other, 1_MiB);
  EXPECT_TRUE(model.release(other).ok());  // cudaFree waits
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, MemoryThatComesAgainHasNoPast) {
  const DeviceAddr block = model.allocate(kGpu, 4_MiB).value();
  hand_out(s1, block, 1_MiB);
  give_back(s1, block, 1_MiB);
  ASSERT_TRUE(model.release(block).ok());
  ASSERT_EQ(model.allocate(kGpu, 4_MiB).value(), block);  // addresses are reused
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

// ---- Locks, waits, ends

TEST_F(Judge, ABlockingCallUnderAPoolLockIsFound) {
  GpuModel::note_pool_lock(true);
  const EventId event = new_event();
  EXPECT_TRUE(model.record_event(event, kGpu, s1).ok());
  EXPECT_TRUE(model.query_event(event).ok());
  const HandleId page = model.create_handle(kGpu, 2_MiB).value();
  EXPECT_THAT(take_hazards(), IsEmpty());
  EXPECT_TRUE(model.synchronize_event(event).ok());
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kBlockingUnderLock));
  GpuModel::note_pool_lock(false);
  EXPECT_TRUE(model.synchronize_event(event).ok());
  EXPECT_TRUE(model.release_handle(page).ok());
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, WaitingForWhatNeverCompletesIsFoundInsteadOfHanging) {
  const EventId event = new_event();
  model.set_faults({Fault::late_event(1)});
  ASSERT_TRUE(model.record_event(event, kGpu, s1).ok());
  EXPECT_EQ(model.query_event(event).code, StatusCode::kNotReady);
  EXPECT_TRUE(model.synchronize_stream(kGpu, s1).ok());  // the stream is not late, its event is
  EXPECT_EQ(native_of(model.synchronize_event(event)), Native::kTimeout);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kEndlessWait));
}

TEST_F(Judge, DestroyedStreamsAndEventsAreForeign) {
  const StreamId stream = new_stream();
  const EventId event = new_event();
  ASSERT_TRUE(model.destroy_stream(stream).ok());
  ASSERT_TRUE(model.destroy_event(event).ok());
  EXPECT_EQ(native_of(model.synchronize_stream(kGpu, stream)), Native::kInvalidHandle);
  EXPECT_EQ(native_of(model.query_event(event)), Native::kInvalidHandle);
  EXPECT_EQ(native_of(model.query_event(EventId{s1.value})),
            Native::kInvalidHandle);  // a stream is no event
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kForeignStream, HazardKind::kForeignStream,
                                          HazardKind::kForeignStream));
}

TEST_F(Judge, AHandleThatNobodyMappedIsALeakOfItsOwn) {
  ASSERT_TRUE(model.create_handle(kGpu, 2_MiB).ok());
  model.shut_down();
  ASSERT_EQ(model.hazard_count(), 1U);
  EXPECT_EQ(model.hazards().front().rule, JudgeRule::kNoHandleIsLeft);
  EXPECT_THAT(model.hazards().front().text, HasSubstr("1 memory handles"));
  take_hazards();
}

TEST_F(Judge, AnEventThatNobodyDestroyedIsALeak) {
  const EventId event = new_event();
  ASSERT_TRUE(model.destroy_event(new_event()).ok());
  static_cast<void>(event);
  model.shut_down();
  ASSERT_EQ(model.hazard_count(), 1U);
  EXPECT_EQ(model.hazards().front().rule, JudgeRule::kNoEventIsLeft);
  EXPECT_THAT(model.hazards().front().text, HasSubstr("1 events"));
  take_hazards();
}

TEST_F(Judge, WhatIsHeldAtTheEndIsALeak) {
  const HandleId handle = model.create_handle(kGpu, 2_MiB).value();
  const DeviceAddr range = model.reserve_range(kGpu, 2_MiB, Bytes{}).value();
  const DeviceAddr block = model.allocate(kGpu, 1_KiB).value();
  ASSERT_TRUE(model.map(range, 2_MiB, handle).ok());
  ASSERT_TRUE(model.release_handle(handle).ok());  // the mapping still holds it
  static_cast<void>(block);
  model.shut_down();
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kLeak, HazardKind::kLeak, HazardKind::kLeak));
}

TEST_F(Judge, NothingHeldIsNoLeakAndACallAfterTheEndIsFound) {
  const HandleId handle = model.create_handle(kGpu, 2_MiB).value();
  ASSERT_TRUE(model.release_handle(handle).ok());
  model.shut_down();
  EXPECT_THAT(take_hazards(), IsEmpty());
  EXPECT_EQ(model.release_handle(handle).code, StatusCode::kShuttingDown);
  EXPECT_THAT(take_hazards(), ElementsAre(HazardKind::kCallAfterShutdown));
}

// ---- The judge itself

TEST_F(Judge, TurnedOffItReportsNothingAndTurnedOnItStartsAnew) {
  const DeviceAddr block = model.allocate(kGpu, 2_MiB).value();
  hand_out(s1, block, 1_MiB);
  model.set_judge(JudgeMode::kOff);
  hand_out(s2, block, 1_MiB);
  model.set_judge(JudgeMode::kCount);
  hand_out(s2, block, 1_MiB);
  EXPECT_THAT(take_hazards(), IsEmpty());
}

TEST_F(Judge, CountsBeyondWhatItKeeps) {
  for (int i = 0; i < 1'100; ++i) static_cast<void>(model.release_handle(HandleId{16}));
  EXPECT_EQ(model.hazards().size(), 1'000U);
  EXPECT_EQ(model.hazard_count(), 1'100U);
  EXPECT_THAT(model.report(), HasSubstr("1100 hazards"));
  model.clear_hazards();
}

TEST(JudgeDeathTest, ByDefaultAFindingEndsTheProcessAndSaysWhichCallsCameBefore) {
  ModelConfig config = small_config();
  config.judge = JudgeMode::kAbort;
  EXPECT_DEATH(
      {
        GpuModel model(config);
        const HandleId handle = model.create_handle(kGpu, 2_MiB).value();
        static_cast<void>(model.release_handle(handle));
        static_cast<void>(model.release_handle(handle));
      },
      "bad release: .*released before(.|\n)*cuMemCreate(.|\n)*cuMemRelease");
}

TEST(JudgeOfTwoDevices, AUseOnNoStreamSaysWhere) {
  GpuModel model(small_config(2));
  const DeviceAddr block = model.allocate(kOtherGpu, 2_MiB).value();
  model.note_use(kOtherGpu, block, 2_MiB, StreamId{77'777}, UseKind::kHandOut);
  const std::vector<Hazard> hazards = model.hazards();
  ASSERT_EQ(hazards.size(), 1U);
  EXPECT_EQ(hazards[0].rule, JudgeRule::kUseOnStream);
  EXPECT_EQ(hazards[0].device, kOtherGpu);
  EXPECT_EQ(hazards[0].addr, block);
  EXPECT_EQ(hazards[0].bytes, 2_MiB);
  model.clear_hazards();
  EXPECT_TRUE(model.release(block).ok());
}

}  // namespace
}  // namespace levee::device::sim
