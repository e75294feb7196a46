#include "allocator/record/event_block.h"

#include <gtest/gtest.h>

#include "tests/unit/record/event_programs.h"

namespace levee::record {
namespace {

using test::EventProgram;
using test::same;
using test::Shape;

Frame frame_of(const EventEncoder& encoder, std::size_t count) {
  Frame frame;
  frame.type = BlockType::kEvents;
  frame.first_time = encoder.first_time();
  frame.last_time = encoder.last_time();
  frame.event_count = static_cast<std::uint32_t>(count);
  return frame;
}

void expect_round_trip(const std::vector<StagedEvent>& events) {
  EventEncoder encoder;
  ByteWriter body;
  encoder.encode(events, body);
  EventDecoder decoder;
  std::vector<StagedEvent> back;
  ASSERT_TRUE(decoder.decode(frame_of(encoder, events.size()), body.bytes(), back));
  ASSERT_EQ(back.size(), events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    ASSERT_TRUE(same(back[i].event, events[i].event)) << "event " << i;
    ASSERT_EQ(back[i].sequence, events[i].sequence) << "event " << i;
    ASSERT_EQ(back[i].thread, events[i].thread) << "event " << i;
    ASSERT_EQ(back[i].key, events[i].key) << "event " << i;
  }
}

TEST(EventBlock, RandomProgramsComeBack) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    EventProgram program(seed, Shape{.threads = static_cast<std::uint32_t>(1 + seed % 5)});
    program.take(100);  // blocks that begin in the middle of a program
    expect_round_trip(program.take(1 + seed * 997 % kMaxBlockEvents));
  }
}

TEST(EventBlock, OneEventOfEachKindComesBack) {
  for (std::uint64_t kind = 0; kind < 256; ++kind) {
    Event event{};
    event.time_ns = 5;
    event.a = 0xFFFFFFFFFFFFFFFF;
    event.b = 0xFEDCBA9876543210;
    event.context_and_kind = kMaxContexts << 8 | static_cast<std::uint32_t>(kind);
    event.lane = LaneId{0xFFFF};
    event.aux = 0xFFFF;
    std::uint64_t sequence = 9;
    if (event.kind() == EventKind::kLost) sequence += event.a;
    expect_round_trip({StagedEvent{event, sequence, 5, 0xFFFFFFFF}});
  }
}

TEST(EventBlock, ExtremeTimesAndAddressesComeBack) {
  std::vector<StagedEvent> events;
  std::uint64_t sequence = 0;
  std::int64_t key = INT64_MIN;
  for (const std::int64_t time :
       {INT64_MIN, std::int64_t{-1}, std::int64_t{0}, INT64_MAX, std::int64_t{3}}) {
    key = std::max(key, time);
    for (const std::uint64_t addr :
         {std::uint64_t{0}, std::uint64_t{1}, UINT64_MAX, std::uint64_t{512}}) {
      events.push_back({make_event(EventKind::kAlloc, Nanos{time}, LaneId{1}, addr, UINT64_MAX),
                        sequence++, key, 0});
      events.push_back({make_event(EventKind::kFree, Nanos{time}, LaneId{1}, addr, UINT64_MAX),
                        sequence++, key, 0});
    }
  }
  expect_round_trip(events);
}

TEST(EventBlock, AFreeThatContradictsItsAllocationKeepsItsOwnSizes) {
  const auto at = [](EventKind kind, std::uint64_t b, std::uint64_t sequence) {
    return StagedEvent{make_event(kind, Nanos{1}, LaneId{1}, 0x1000, b), sequence, 1, 0};
  };
  expect_round_trip(
      {at(EventKind::kAlloc, 100, 0), at(EventKind::kFree, 200, 1), at(EventKind::kFree, 200, 2)});
}

TEST(EventBlock, ABlockOfFourEventsIsSmall) {
  EventProgram program(1, Shape{.other_kinds = false});
  EventEncoder encoder;
  ByteWriter body;
  encoder.encode(program.take(4), body);
  EXPECT_LT(body.size(), 90U);
}

TEST(EventBlock, EveryCutAndEveryFlippedByteIsHandledWithoutHarm) {
  EventProgram program(3, Shape{.threads = 3});
  const auto events = program.take(300);
  EventEncoder encoder;
  ByteWriter body;
  encoder.encode(events, body);
  const Frame frame = frame_of(encoder, events.size());
  EventDecoder decoder;
  std::vector<StagedEvent> back;
  for (std::size_t length = 0; length < body.size(); ++length) {
    EXPECT_FALSE(decoder.decode(frame, body.bytes().first(length), back)) << "cut at " << length;
    EXPECT_TRUE(back.empty());
  }
  std::vector<std::uint8_t> bytes(body.bytes().begin(), body.bytes().end());
  bytes.push_back(0);
  EXPECT_FALSE(decoder.decode(frame, bytes, back)) << "a byte too many";
  bytes.pop_back();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (const std::uint8_t flip : {std::uint8_t{0x01}, std::uint8_t{0x80}, std::uint8_t{0xFF}}) {
      bytes[i] ^= flip;
      decoder.decode(frame, bytes, back);  // may succeed with other events; must not harm
      EXPECT_TRUE(back.empty() || back.size() == events.size());
      bytes[i] ^= flip;
    }
  }
}

// The table of threads of a block of two events, put together by hand in front of what was encoded.
TEST(EventBlock, ThreadsThatNoBlockHasAreRefused) {
  std::vector<StagedEvent> events(2);
  events[0].key = events[1].key = 5;
  events[0].event.time_ns = events[1].event.time_ns = 5;
  events[1].sequence = 1;
  EventEncoder encoder;
  ByteWriter body;
  encoder.encode(events, body);
  const Frame frame = frame_of(encoder, events.size());
  ByteReader reader(body.bytes());
  ASSERT_EQ(reader.take_varint(), 1U);
  const std::uint64_t index = reader.take_varint();
  const std::uint64_t sequence = reader.take_varint();
  const std::uint64_t key = reader.take_varint();
  const auto columns = body.bytes().last(reader.left());
  const auto is_read = [&](std::uint64_t count, std::uint64_t first_index,
                           std::uint64_t first_key) {
    ByteWriter out;
    out.put_varint(count);
    for (std::uint64_t i = 0; i < count; ++i) {
      out.put_varint(i == 0 ? first_index : index + i);
      out.put_varint(sequence);
      out.put_varint(i == 0 ? first_key : key);
    }
    std::vector<std::uint8_t> bytes(out.bytes().begin(), out.bytes().end());
    bytes.insert(bytes.end(), columns.begin(), columns.end());
    EventDecoder decoder;
    std::vector<StagedEvent> back;
    return decoder.decode(frame, bytes, back);
  };
  EXPECT_TRUE(is_read(1, index, key));
  EXPECT_TRUE(is_read(2, index, key));
  EXPECT_FALSE(is_read(0, index, key));
  EXPECT_FALSE(is_read(3, index, key)) << "more threads than events";
  EXPECT_FALSE(is_read(1, index + (std::uint64_t{1} << 32), key));
  EXPECT_FALSE(is_read(1, index, std::uint64_t{1} << 63)) << "before the block's first time";
}

TEST(EventBlock, ASummaryWhoseExtremesContradictEachOtherIsRefused) {
  // One device with one bin; of each series the least, what the most lies above it, and the last.
  // The third of them as given: in the first two a reader could lose its place.
  const auto is_read = [](std::uint64_t above, std::uint64_t last) {
    ByteWriter out;
    for (const std::uint64_t one : {1UL, 0UL, 1UL, 9UL, 9UL, 9UL, 1UL, 0UL}) out.put_varint(one);
    for (int series = 0; series < 3; ++series) {
      out.put_zigzag(0);
      out.put_varint(series == 2 ? above : 5);
      out.put_varint(series == 2 ? last : 5);
    }
    std::vector<DeviceSummary> summaries;
    return decode_summary(Frame{}, out.bytes(), summaries);
  };
  EXPECT_TRUE(is_read(5, 5));
  EXPECT_FALSE(is_read(5, 6)) << "the last is above the most";
  EXPECT_FALSE(is_read(UINT64_MAX, 0)) << "the most runs over";
}

TEST(EventBlock, SummaryHoldsTheExtremesOfEveryBin) {
  EventProgram program(7, Shape{.threads = 2});
  StateTracker before;
  before.set_lane_device(LaneId{1}, DeviceId{0});
  before.set_lane_device(LaneId{2}, DeviceId{1});
  for (const StagedEvent& event : program.take(5000)) before.apply(event.event, event.thread);
  const auto events = program.take(3000);

  StateTracker tracker = before;
  ByteWriter summary;
  summarize(events, tracker, summary);
  Frame frame;
  frame.first_time = static_cast<std::int64_t>(events.front().event.time_ns);
  for (const StagedEvent& event : events) {
    frame.first_time = std::min(frame.first_time, static_cast<std::int64_t>(event.event.time_ns));
  }
  std::vector<DeviceSummary> devices;
  ASSERT_TRUE(decode_summary(frame, summary.bytes(), devices));
  ASSERT_EQ(devices.size(), 2U);

  StateTracker naive = before;
  std::vector<std::size_t> next(2, 0);
  std::vector<std::size_t> bins(2, 0);
  for (std::size_t d = 0; d < 2; ++d) {
    EXPECT_EQ(devices[d].allocated, before.devices()[d].allocated.value);
    EXPECT_EQ(devices[d].reserved, before.devices()[d].reserved.value);
  }
  for (std::size_t group = 0; group * kEventsPerBin < events.size(); ++group) {
    std::vector<std::uint64_t> min(2), max(2);
    std::vector<bool> touched(2, false);
    for (std::size_t d = 0; d < 2; ++d) min[d] = max[d] = naive.devices()[d].allocated.value;
    for (std::size_t i = group * kEventsPerBin;
         i < std::min(events.size(), (group + 1) * kEventsPerBin); ++i) {
      const auto slot = naive.apply(events[i].event, events[i].thread);
      if (slot < 0) continue;
      const auto d = static_cast<std::size_t>(slot);
      touched[d] = true;
      min[d] = std::min(min[d], naive.devices()[d].allocated.value);
      max[d] = std::max(max[d], naive.devices()[d].allocated.value);
    }
    for (std::size_t d = 0; d < 2; ++d) {
      if (!touched[d]) continue;
      ASSERT_LT(bins[d], devices[d].bins.size());
      const SummaryBin& bin = devices[d].bins[bins[d]++];
      EXPECT_EQ(bin.allocated.min, min[d]);
      EXPECT_EQ(bin.allocated.max, max[d]);
      EXPECT_EQ(bin.allocated.last, naive.devices()[d].allocated.value);
      EXPECT_EQ(bin.reserved.last, naive.devices()[d].reserved.value);
      EXPECT_EQ(bin.active.last, naive.devices()[d].active.value);
    }
  }
  for (std::size_t d = 0; d < 2; ++d) EXPECT_EQ(bins[d], devices[d].bins.size());
}

}  // namespace
}  // namespace levee::record
