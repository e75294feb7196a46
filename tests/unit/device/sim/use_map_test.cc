// The judge's memory of one 2 MiB frame: how intervals split, merge and are forgotten. What is a
// conflict: see gpu_model_judge_test.cc and the fuzz test beside it.
#include "allocator/device/sim/use_map.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/private_member.h"

namespace levee::device::sim {
namespace {

class UseMapTest : public ::testing::Test {
 protected:
  void note(UseKind kind, Order::Index stream, std::uint32_t begin, std::uint32_t end,
            std::uint64_t via = 0x1000) {
    NewUse use;
    use.kind = kind;
    use.stream = stream;
    use.via = via;
    map.note(frame, begin, end, use, [this](const Conflict&) { ++conflicts; });
    map.validate(frame);
  }
  std::size_t intervals() const { return frame.intervals.size(); }

  Order order;
  const Order::Index a = order.add_stream();
  const Order::Index b = order.add_stream();
  int conflicts = 0;
  int replaced = 0;
  UseMap map{order, /*sees_all_work=*/false, [](std::uint64_t) -> Order* { return nullptr; },
             [this](const Use&) { ++replaced; }};
  Frame frame;
};

TEST_F(UseMapTest, NeighboursWithTheSameUseBecomeOne) {
  for (std::uint32_t at = 0; at < 8; ++at) note(UseKind::kHandOut, a, at * 512, (at + 1) * 512);
  EXPECT_EQ(intervals(), 8U);
  for (std::uint32_t at = 0; at < 8; ++at) note(UseKind::kGiveBack, a, at * 512, (at + 1) * 512);
  EXPECT_EQ(intervals(), 1U);
}

TEST_F(UseMapTest, AHandOutInTheMiddleCutsAnIntervalInThree) {
  note(UseKind::kHandOut, a, 0, 4096);
  note(UseKind::kGiveBack, a, 0, 4096);
  note(UseKind::kHandOut, a, 1024, 2048);
  ASSERT_EQ(intervals(), 3U);
  EXPECT_EQ(frame.intervals[1].begin, 1024U);
  EXPECT_TRUE(frame.intervals[1].use.is_open());
  EXPECT_EQ(frame.intervals[2].end, 4096U);
  EXPECT_EQ(conflicts, 0);
}

TEST_F(UseMapTest, SharesOfSeveralStreamsAreKeptForEachPiece) {
  note(UseKind::kHandOut, a, 0, 4096);
  note(UseKind::kShare, b, 0, 4096);
  note(UseKind::kGiveBack, a, 0, 4096);
  order.host_learn_stream(a);
  note(UseKind::kHandOut, a, 0, 512);  // b's use is not ordered before it
  EXPECT_EQ(conflicts, 1);
  note(UseKind::kHandOut, a, 1024, 4096);  // nor here, in the other half of what was one interval
  EXPECT_EQ(conflicts, 2);
}

TEST_F(UseMapTest, UsesThatTheHostKnowsToBeCompleteAreDropped) {
  note(UseKind::kWrite, a, 0, 512);
  note(UseKind::kWrite, b, 512, 1024);
  order.host_learn_stream(a);
  order.host_learn_stream(b);
  note(UseKind::kGiveBack, a, 0, 1024);
  ASSERT_EQ(intervals(), 1U);
  EXPECT_EQ(frame.intervals[0].extra, 0U);
}

TEST_F(UseMapTest, ReplacingAnUnfinishedUseThroughAnotherAddressIsTold) {
  note(UseKind::kHandOut, a, 0, 512, 0x1000);
  note(UseKind::kGiveBack, a, 0, 512, 0x1000);
  note(UseKind::kHandOut, a, 0, 512, 0x2000);
  EXPECT_EQ(replaced, 1);
  note(UseKind::kGiveBack, a, 0, 512, 0x2000);
  note(UseKind::kHandOut, a, 0, 512, 0x2000);
  EXPECT_EQ(replaced, 1);
}

TEST_F(UseMapTest, UnfinishedUsesAreFoundByAddressAndBytes) {
  note(UseKind::kHandOut, a, 512, 1024, 0x1000);
  EXPECT_NE(map.find_unfinished(frame, 0, 4096, 0x1000), nullptr);
  EXPECT_EQ(map.find_unfinished(frame, 0, 4096, 0x2000), nullptr);
  EXPECT_EQ(map.find_unfinished(frame, 0, 512, 0x1000), nullptr);
  EXPECT_EQ(map.find_unfinished(frame, 1024, 4096, 0x1000), nullptr);
  note(UseKind::kGiveBack, a, 512, 1024, 0x1000);
  EXPECT_NE(map.find_unfinished(frame, 0, 4096, 0x1000), nullptr);
  order.host_learn_stream(a);
  EXPECT_EQ(map.find_unfinished(frame, 0, 4096, 0x1000), nullptr);
}

TEST_F(UseMapTest, ForgettingAPartLeavesTheRest) {
  note(UseKind::kHandOut, a, 0, 4096);
  map.forget(frame, 1024, 2048);
  map.validate(frame);
  EXPECT_EQ(intervals(), 2U);
  note(UseKind::kHandOut, b, 1024, 2048);
  EXPECT_EQ(conflicts, 0);
  map.forget(frame, 0, kFrameBytes);
  EXPECT_EQ(intervals(), 0U);
}

TEST_F(UseMapTest, AnOutputThatWasGivenBackIsNoLongerOfItsCapture) {
  Order in_capture;
  NewUse output;
  output.kind = UseKind::kHandOut;
  output.stream = in_capture.add_stream();
  output.via = 0x1000;
  output.capture = CaptureOrder{7, &in_capture};
  const auto count = [this](const Conflict&) { ++conflicts; };
  map.note(frame, 0, 512, output, count);
  map.validate(frame);
  NewUse launch;
  launch.stream = b;
  launch.via = 0x1000;
  map.note_launch(frame, 0, 512, launch, count);
  note(UseKind::kGiveBack, a, 0,
       512);  // validates: a number of a capture is left on none but its own
  EXPECT_EQ(frame.intervals[0].use.op, 0U);
  EXPECT_FALSE(frame.intervals[0].use.is_captured());
  EXPECT_EQ(conflicts, 0);
}

// Who reads an output is not told, and the stream of the launch may: also where the launch is over,
// and the bytes were given back and restored since.
TEST_F(UseMapTest, ALaunchCountsForEveryOwnerUntilTheBytesAreHandedOutAnew) {
  note(UseKind::kRestore, b, 0, 512);
  NewUse launch;
  launch.stream = a;
  launch.via = 0x1000;
  map.note_launch(frame, 0, 512, launch, [this](const Conflict&) { ++conflicts; });
  order.host_learn_stream(a);
  note(UseKind::kGiveBack, b, 0, 512);
  note(UseKind::kRestore, b, 0, 512);
  note(UseKind::kGiveBack, b, 0, 512);
  note(UseKind::kHandOut, a, 0, 512);
  EXPECT_EQ(conflicts, 0);
}

// What is kept is what somebody else would have to be ordered after, and no more.
TEST_F(UseMapTest, TheEndOfAnOwnershipStandsForTheOwnersTouches) {
  note(UseKind::kHandOut, a, 0, 512);
  note(UseKind::kWrite, a, 0, 512);
  EXPECT_NE(frame.intervals[0].extra, 0U);
  note(UseKind::kGiveBack, a, 0, 512);
  EXPECT_EQ(frame.intervals[0].extra, 0U);
  EXPECT_FALSE(frame.intervals[0].use.is_touch());
}

TEST_F(UseMapTest, AWriteStandsForWhatItsStreamDidBefore) {
  note(UseKind::kRead, a, 0, 512);
  note(UseKind::kWrite, a, 0, 512);
  EXPECT_EQ(frame.intervals[0].extra, 0U);
  note(UseKind::kRead, a, 0, 512);
  EXPECT_NE(frame.intervals[0].extra, 0U) << "a read for no write";
  EXPECT_TRUE(frame.intervals[0].use.writes());
}

TEST_F(UseMapTest, WhatIsCapturedDoesNotRunAndIsNotUnfinished) {
  Order in_capture;
  UseMap capturing{order, /*sees_all_work=*/false, [&](std::uint64_t) { return &in_capture; },
                   [](const Use&) {}};
  NewUse touch;
  touch.stream = in_capture.add_stream();
  touch.via = 0x1000;
  touch.op = 1;
  touch.capture = CaptureOrder{7, &in_capture};
  capturing.note(frame, 0, 512, touch, [this](const Conflict&) { ++conflicts; });
  ASSERT_EQ(intervals(), 1U);
  EXPECT_EQ(capturing.find_unfinished(frame, 0, 512, 0x1000), nullptr);
  touch.stream = a;
  touch.capture = CaptureOrder{};
  capturing.note(frame, 0, 512, touch, [this](const Conflict&) { ++conflicts; });
  const Use* found = capturing.find_unfinished(frame, 0, 512, 0x1000);
  ASSERT_NE(found, nullptr);
  EXPECT_FALSE(found->is_captured());
  EXPECT_EQ(conflicts, 0);
}

// ---- Each line of `validate`, on a frame that is broken by hand.

LEVEE_PRIVATE_MEMBER(extra_of, UseMap, extra_)

struct Damage {
  const char* name;
  const char* words;
  void (*break_it)(Frame& frame, UseMap& map);
};

class UseMapLines : public UseMapTest, public ::testing::WithParamInterface<Damage> {};

TEST_P(UseMapLines, NoticeWhatIsBroken) {
  note(UseKind::kHandOut, a, 0, 4096);
  note(UseKind::kHandOut, b, 4096, 8192);
  ASSERT_EQ(intervals(), 2U);
  EXPECT_DEATH(
      {
        GetParam().break_it(frame, map);
        map.validate(frame);
      },
      GetParam().words);
}

INSTANTIATE_TEST_SUITE_P(
    Each, UseMapLines,
    ::testing::Values(Damage{"order", "interval.begin >= end.*interval at 4095",
                             [](Frame& frame, UseMap&) { frame.intervals[1].begin = 4095; }},
                      Damage{"length", "interval.begin < interval.end.*interval at 4096",
                             [](Frame& frame, UseMap&) { frame.intervals[1].end = 4096; }},
                      Damage{"an_interval_without_a_use", "is_empty.*interval at 4096",
                             [](Frame& frame, UseMap&) { frame.intervals[1].use = Use{}; }},
                      Damage{"further_uses_that_are_none", "interval.extra == 0",
                             [](Frame& frame, UseMap& map) {
                               extra_of(map).emplace_back();
                               frame.intervals[1].extra = 1;
                             }},
                      Damage{"the_work_of_an_owner", "use.op == 0",
                             [](Frame& frame, UseMap&) { frame.intervals[1].use.op = 5; }},
                      Damage{
                          "the_end_of_a_frame", "end <= kFrameBytes",
                          [](Frame& frame, UseMap&) { frame.intervals[1].end = (2 << 20) + 1; }}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace levee::device::sim
