#include "allocator/record/trace_tables.h"

#include <gtest/gtest.h>

namespace levee::record {
namespace {

class Ignore final : public DefinitionVisitor {
 public:
  void on(TraceDevice) override { ++count; }
  void on(TraceLane) override { ++count; }
  void on(TraceThread) override { ++count; }
  void on(TracePool) override { ++count; }
  void on(const TraceContext&) override { ++count; }
  int count = 0;
};

TEST(FileHead, ComesBackWhateverItsTextsHold) {
  TraceHeader header;
  header.levee_version = "1.2.3";
  header.pid = 4'000'000'000;
  header.rank = 5;
  header.start = Nanos{-1};
  header.start_unix_ns = INT64_MAX;
  header.clock = "modelled";
  header.host = "a=b";
  header.program = "line\nbreak \\n backslash\\";
  header.config = std::string(500'000, 'x');
  header.cap = 5_GiB;
  const auto bytes = encode_file_head(header, SlotLayout::for_cap(header.cap));
  EXPECT_EQ(bytes.size() % kFileHeadAlignment, 0U);
  std::string why;
  const auto back = decode_file_head(bytes, &why);
  ASSERT_TRUE(back.has_value()) << why;
  EXPECT_EQ(back->bytes, bytes.size());
  EXPECT_EQ(back->header.pid, header.pid);
  EXPECT_EQ(back->header.start, header.start);
  EXPECT_EQ(back->header.start_unix_ns, header.start_unix_ns);
  EXPECT_EQ(back->header.host, header.host);
  EXPECT_EQ(back->header.program, header.program);
  EXPECT_TRUE(back->header.is_modelled());
  EXPECT_GT(back->header.config.size(), 100'000U) << "cut, since no setting is that long";
  EXPECT_EQ(back->layout.slot_count, SlotLayout::for_cap(5_GiB).slot_count);
}

TEST(Definitions, AnUnknownEntryIsSkippedAndAMalformedOneEndsReading) {
  ByteWriter out;
  put_definition(TracePool{1, PoolId{1, 2}}, out);
  out.put_varint(99);  // a kind of the future
  out.put_text("whatever it holds");
  put_definition(TraceThread{1, 2, "name"}, out);
  Ignore told;
  EXPECT_TRUE(visit_definitions(out.bytes(), told));
  EXPECT_EQ(told.count, 2);
  for (std::size_t length = 1; length < out.size(); ++length) {
    Ignore ignored;
    visit_definitions(out.bytes().first(length), ignored);  // ends in time
    EXPECT_LE(ignored.count, 2);
  }
  ByteWriter lane;
  put_definition(TraceLane{LaneId{1}, DeviceId{0}, {}, false, false}, lane);
  std::vector<std::uint8_t> bytes(lane.bytes().begin(), lane.bytes().end());
  bytes[2] = 0xFF;  // the id becomes a varint that takes the rest
  EXPECT_FALSE(visit_definitions(bytes, told));
}

TEST(Keyframe, ComesBack) {
  Keyframe keyframe;
  keyframe.events_before = 123;
  keyframe.lost_before = 4;
  keyframe.state.time = Nanos{1'000'000};
  keyframe.state.step = 77;
  DeviceCounters counters;
  counters.device = DeviceId{3};
  counters.reserved = 7_GiB;
  counters.limit = 8_GiB;
  counters.is_exact = false;
  keyframe.state.devices = {counters};
  keyframe.state.phases = {{1, ContextId{2}, Nanos{5}}};
  keyframe.state.live_is_complete = false;
  LiveBlock block;
  block.addr = DeviceAddr{0x7F0000000200};
  block.bytes = 1024_B;
  block.requested_bytes = 1000_B;
  block.lane = LaneId{1};
  block.pool = 2;
  block.context = ContextId{3};
  block.allocated_at = Nanos{-5};
  block.has_uses = true;
  keyframe.state.live = {block};
  ByteWriter out;
  put_keyframe(keyframe, out);
  Keyframe back;
  ASSERT_TRUE(take_keyframe(out.bytes(), back));
  EXPECT_EQ(back.events_before, 123U);
  EXPECT_EQ(back.state.step, 77U);
  EXPECT_TRUE(back.state.devices == keyframe.state.devices);
  EXPECT_TRUE(back.state.phases == keyframe.state.phases);
  EXPECT_TRUE(back.state.live == keyframe.state.live);
  EXPECT_FALSE(back.state.live_is_complete);
  for (std::size_t length = 0; length < out.size(); ++length) {
    EXPECT_FALSE(take_keyframe(out.bytes().first(length), back)) << length;
  }
}

TEST(Definitions, TextsThatEndTooLateAndNamesOfNothingAreRefused) {
  const auto bytes_of = [](const auto& definition) {
    ByteWriter out;
    put_definition(definition, out);
    return std::vector<std::uint8_t>(out.bytes().begin(), out.bytes().end());
  };
  const auto is_good = [](const std::vector<std::uint8_t>& bytes) {
    Ignore told;
    return visit_definitions(bytes, told);
  };
  TraceContext context;
  context.id = ContextId{7};
  context.text = "abc";
  std::vector<std::uint8_t> entries[] = {bytes_of(TraceThread{1, 2, "abc"}),
                                         bytes_of(TraceDevice{DeviceId{0}, "abc", 1_GiB}),
                                         bytes_of(context)};
  for (std::vector<std::uint8_t>& bytes : entries) {
    ASSERT_TRUE(is_good(bytes));
    std::uint8_t& length = bytes[bytes.size() - 4];
    ASSERT_EQ(length, 3);
    length = 9;
    EXPECT_FALSE(is_good(bytes));
  }
  context.id = ContextId{0};
  EXPECT_FALSE(is_good(bytes_of(context)));
  ByteWriter out;
  out.put_varint(99);  // a kind of the future
  out.put_text("whatever it holds");
  std::vector<std::uint8_t> cut(out.bytes().begin(), out.bytes().end());
  ASSERT_TRUE(is_good(cut));
  cut.pop_back();
  EXPECT_FALSE(is_good(cut));
}

}  // namespace
}  // namespace levee::record
