#include "allocator/record/trace_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

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

// What lies behind the bytes that were given is not part of them, whatever it holds.
TEST(FileHead, OneThatIsCutOffOrDamagedIsToldApart) {
  TraceHeader header;
  header.program = "train.py";
  const auto whole = encode_file_head(header, SlotLayout{});
  const auto refusal_of = [](std::span<const std::uint8_t> bytes) {
    std::string why;
    EXPECT_FALSE(decode_file_head(bytes, &why)) << bytes.size();
    return why;
  };
  for (const auto behind : {std::uint8_t{0x00}, std::uint8_t{0xAA}}) {
    for (const std::size_t length : {8UL, kFileHeadBytes - 1, kFileHeadBytes, kFileHeadBytes + 5}) {
      auto cut = whole;
      std::fill(cut.begin() + static_cast<std::ptrdiff_t>(length), cut.end(), behind);
      EXPECT_EQ(refusal_of(std::span(cut).first(length)),
                "is cut off within its header, so that nothing of it can be read");
    }
  }
  for (const std::size_t at : {20UL, kFileHeadBytes + 2}) {
    auto damaged = whole;
    damaged[at] ^= 1;
    EXPECT_EQ(refusal_of(damaged), "has a damaged header, so that nothing of it can be read");
  }
}

/// An entry of the definitions with the tag of `like` and other fields.
template <typename Definition>
bool reads(const Definition& like, const ByteWriter& fields) {
  ByteWriter out;
  put_definition(like, out);
  ByteWriter entry;
  entry.put_varint(out.bytes()[0]);
  entry.put_text({reinterpret_cast<const char*>(fields.bytes().data()), fields.size()});
  Ignore told;
  const bool read = visit_definitions(entry.bytes(), told);
  EXPECT_EQ(told.count, read ? 1 : 0);
  return read;
}

TEST(Definitions, NumbersThatNobodyWritesAreRefused) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  const auto fields = [](std::uint64_t first, std::uint64_t second, std::uint64_t third) {
    ByteWriter out;
    out.put_varint(first);
    out.put_varint(second);
    out.put_varint(third);
    return out;
  };
  const auto named = [](std::uint64_t first, std::uint64_t second) {
    ByteWriter out;
    out.put_varint(first);
    out.put_varint(second);
    out.put_text("name");
    return out;
  };
  EXPECT_TRUE(reads(TraceContext{}, named(1, 2)));
  EXPECT_FALSE(reads(TraceContext{}, named(kHuge + 1, 2)));
  EXPECT_FALSE(reads(TraceContext{}, named(1, 256)));
  EXPECT_TRUE(reads(TraceThread{}, named(1, 2)));
  EXPECT_FALSE(reads(TraceThread{}, named(kHuge, 2)));
  EXPECT_TRUE(reads(TraceDevice{}, named(1, 2)));
  EXPECT_FALSE(reads(TraceDevice{}, named(kHuge, 2)));
  EXPECT_TRUE(reads(TracePool{}, fields(1, 2, 3)));
  EXPECT_FALSE(reads(TracePool{}, fields(kHuge, 2, 3)));
}

TEST(Keyframe, NumbersThatNobodyWritesAreRefused) {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  struct Numbers {
    std::uint64_t device = 2;  // zigzag: 1
    std::uint64_t thread = 1;
    std::uint64_t phase = 1;
    std::uint64_t requested = 512;
    std::uint64_t rounding = 0;
    std::uint64_t lane = 1;
    std::uint64_t pool = 1;
    std::uint64_t context = 1;
  };
  const auto is_read = [](const Numbers& n) {
    ByteWriter out;
    for (const std::uint64_t one : {0UL, 0UL, 2UL, 3UL, 1UL}) out.put_varint(one);
    out.put_varint(n.device);
    for (const std::uint64_t one : {9UL, 8UL, 8UL, 8UL, 0UL, 1UL, 1UL}) out.put_varint(one);
    for (const std::uint64_t one : {n.thread, n.phase, std::uint64_t{0}}) out.put_varint(one);
    for (const std::uint64_t one : {1UL, 1UL, 4096UL}) out.put_varint(one);
    for (const std::uint64_t one : {n.requested, n.rounding, n.lane, n.pool, n.context}) {
      out.put_varint(one);
    }
    for (const std::uint64_t one : {0UL, 0UL}) out.put_varint(one);
    Keyframe keyframe;
    return take_keyframe(out.bytes(), keyframe);
  };
  EXPECT_TRUE(is_read({}));
  EXPECT_FALSE(is_read({.device = kHuge}));
  EXPECT_FALSE(is_read({.thread = kHuge}));
  EXPECT_FALSE(is_read({.phase = kHuge}));
  EXPECT_FALSE(is_read({.requested = kHuge}));
  EXPECT_FALSE(is_read({.rounding = kHuge}));
  EXPECT_FALSE(is_read({.lane = kHuge}));
  EXPECT_FALSE(is_read({.pool = kHuge}));
  EXPECT_FALSE(is_read({.context = kHuge}));
}

TEST(EndRecord, AnEndThatNobodyWritesIsRefused) {
  const auto is_read = [](std::uint64_t ending) {
    ByteWriter out;
    out.put_varint(ending);
    out.put_text("why");
    out.put_varint(1);
    out.put_varint(2);
    EndRecord end;
    return take_end(out.bytes(), end);
  };
  EXPECT_TRUE(is_read(0));
  EXPECT_FALSE(is_read(256));
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
