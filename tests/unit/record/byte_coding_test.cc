#include "allocator/record/byte_coding.h"

#include <array>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "allocator/record/crc32c.h"
#include "allocator/record/trace_format.h"

namespace levee::record {
namespace {

TEST(ByteCoding, VarintsComeBack) {
  ByteWriter out;
  std::vector<std::uint64_t> values = {0,     1,          127,        128,           16383,
                                       16384, UINT32_MAX, UINT64_MAX, UINT64_MAX - 1};
  for (unsigned shift = 0; shift < 64; ++shift) values.push_back(std::uint64_t{1} << shift);
  for (const std::uint64_t value : values) out.put_varint(value);
  ByteReader in(out.bytes());
  for (const std::uint64_t value : values) EXPECT_EQ(in.take_varint(), value);
  EXPECT_TRUE(in.ok() && in.at_end());
}

TEST(ByteCoding, ZigzagComesBackAndKeepsSmallNumbersSmall) {
  for (const std::int64_t value :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    EXPECT_EQ(unzigzag(zigzag(value)), value);
  }
  EXPECT_EQ(zigzag(-1), 1U);
  EXPECT_EQ(zigzag(1), 2U);
  EXPECT_EQ(5U + static_cast<std::uint64_t>(unzigzag(zigzag_difference(UINT64_MAX, 5U))),
            UINT64_MAX);
}

TEST(ByteCoding, ShortInputFailsOnceAndForAll) {
  const std::array<std::uint8_t, 2> bytes = {0x80, 0x80};
  ByteReader in(bytes);
  EXPECT_EQ(in.take_varint(), 0U);
  EXPECT_FALSE(in.ok());
  EXPECT_EQ(in.take_byte(), 0U);
  EXPECT_TRUE(in.take_text().empty());
}

TEST(ByteCoding, AVarintOfMoreThan64BitsIsRefused) {
  const std::array<std::uint8_t, 10> bytes = {0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
                                              0xFF, 0xFF, 0xFF, 0xFF, 0x02};
  ByteReader in(bytes);
  in.take_varint();
  EXPECT_FALSE(in.ok());
}

TEST(ByteCoding, ATextLongerThanTheInputIsRefused) {
  ByteWriter out;
  out.put_varint(UINT64_MAX);
  ByteReader in(out.bytes());
  EXPECT_TRUE(in.take_text().empty());
  EXPECT_FALSE(in.ok());
}

TEST(Crc32c, KnownAnswer) {
  const std::string text = "123456789";
  const std::span<const std::uint8_t> bytes{reinterpret_cast<const std::uint8_t*>(text.data()),
                                            text.size()};
  EXPECT_EQ(crc32c(bytes), 0xE3069283U);
  EXPECT_EQ(detail::crc32c_by_table(bytes), 0xE3069283U);
}

TEST(Crc32c, InstructionAndTableAgreeOnEveryLengthAndAlignment) {
  std::mt19937 random(1);
  std::vector<std::uint8_t> bytes(300);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  for (std::size_t from = 0; from < 9; ++from) {
    for (std::size_t length = 0; length < 260; ++length) {
      const auto part = std::span<const std::uint8_t>(bytes).subspan(from, length);
      ASSERT_EQ(crc32c(part), detail::crc32c_by_table(part));
    }
  }
}

TEST(Frame, ComesBackAndAnyFlippedBitIsNoticed) {
  Frame frame;
  frame.type = BlockType::kEvents;
  frame.flags = kFlagCompressed;
  frame.chapter = 7;
  frame.number = 1234567890123;
  frame.first_time = -5;
  frame.last_time = INT64_MAX;
  frame.kinds = 0x8000000000000001;
  frame.event_count = kMaxBlockEvents;
  frame.summary_bytes = 17;
  frame.body_bytes = 4096;
  frame.raw_bytes = kMaxRawBytes;
  frame.body_crc = 1;
  frame.summary_crc = 2;
  std::array<std::uint8_t, kFrameBytes> bytes{};
  encode_frame(frame, bytes.data());
  const auto back = decode_frame(bytes);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(back->number, frame.number);
  EXPECT_EQ(back->last_time, frame.last_time);
  EXPECT_EQ(back->kinds, frame.kinds);
  EXPECT_EQ(back->bytes_on_disk() % 8, 0U);
  for (std::size_t bit = 0; bit < 76 * 8; ++bit) {
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
    EXPECT_FALSE(decode_frame(bytes).has_value()) << "bit " << bit;
    bytes[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
  }
}

TEST(SlotLayout, NeverExceedsTheCap) {
  for (const Bytes cap : {2_MiB, 3_MiB, 5_MiB + 17_B, 100_MiB, 1_GiB, 1_GiB * 1000}) {
    const SlotLayout layout = SlotLayout::for_cap(cap);
    EXPECT_LE(kFileHeadAlignment + layout.slot_bytes * layout.slot_count, cap.value);
    EXPECT_GE(layout.slot_count, kMinSlots);
    EXPECT_GT(layout.block_events(), 100U);
  }
  EXPECT_EQ(SlotLayout::for_cap(0_B).slot_count, 0U);
  EXPECT_EQ(SlotLayout::for_cap(1_B).slot_count, kMinSlots) << "raised to what works";
}

}  // namespace
}  // namespace levee::record
