#include "allocator/base/fixed_buffer.h"

#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>

namespace levee::base {
namespace {

template <typename... Parts>
std::string written(const Parts&... parts) {
  FixedBuffer<256> text;
  (text << ... << parts);
  return text.c_str();
}

TEST(FixedBuffer, StartsEmptyAndTerminated) {
  FixedBuffer<16> text;
  EXPECT_EQ(text.view(), "");
  EXPECT_STREQ(text.c_str(), "");
  EXPECT_FALSE(text.is_truncated());
}

TEST(FixedBuffer, WritesTextNumbersAndPointers) {
  EXPECT_EQ(written("a", std::string_view{"bc"}, 'd'), "abcd");
  EXPECT_EQ(written(-7, " ", 8U, " ", std::numeric_limits<std::uint64_t>::max()),
            "-7 8 18446744073709551615");
  EXPECT_EQ(written(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(written(true, false), "truefalse");
  EXPECT_EQ(written(1.25, " ", 0.1, " ", 3.0F), "1.25 0.1 3");
  EXPECT_EQ(written(Hex{0xBEEF}), "0xbeef");
  EXPECT_EQ(written(reinterpret_cast<const void*>(0x20)), "0x20");
  EXPECT_EQ(written(nullptr), "nullptr");
  const char* none = nullptr;
  EXPECT_EQ(written(none), "(null)");
}

TEST(FixedBuffer, WritesTheVocabularyWithUnits) {
  EXPECT_EQ(written(2_KiB), "2048 B");
  EXPECT_EQ(written(5_us), "5000 ns");
  EXPECT_EQ(written(DeviceAddr{0x7f00}), "0x7f00");
  EXPECT_EQ(written(DeviceId{1}, ", ", StreamId{0x10}, ", ", EventId{2}, ", ", HandleId{3}),
            "device 1, stream 0x10, event 0x2, handle 0x3");
  EXPECT_EQ(written(PoolId{4, 5}), "pool (4, 5)");
  EXPECT_EQ(written(StatusCode::kNotOwned), "not owned");
  EXPECT_EQ(written(Status{StatusCode::kInternal, 719}), "internal error (native code 719)");
  EXPECT_EQ(written(Status{}), "ok");
}

TEST(FixedBuffer, TextThatFitsExactlyIsNotCut) {
  FixedBuffer<5> text;
  text << "1234";
  EXPECT_EQ(text.view(), "1234");
  EXPECT_FALSE(text.is_truncated());
}

TEST(FixedBuffer, TextThatDoesNotFitEndsInDotsAndStaysSo) {
  FixedBuffer<8> text;
  text << "12345"
       << "6789";
  EXPECT_EQ(text.view(), "1234...");
  EXPECT_TRUE(text.is_truncated());
  text << "more" << 5;
  EXPECT_EQ(text.view(), "1234...");
}

TEST(FixedBuffer, DotsAlsoReplaceTextThatFilledTheBufferBefore) {
  FixedBuffer<8> text;
  text << "1234567";
  EXPECT_EQ(text.view(), "1234567");
  text << "8";
  EXPECT_EQ(text.view(), "1234...");
}

TEST(FixedBuffer, ClearStartsAgain) {
  FixedBuffer<6> text;
  text << "123456789";
  text.clear();
  EXPECT_FALSE(text.is_truncated());
  text << "ab";
  EXPECT_EQ(text.view(), "ab");
}

TEST(FixedBuffer, NothingIsWrittenBehindTheArray) {
  char array[8] = {'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x'};
  TextWriter text{array, 6};
  text << "0123456789";
  EXPECT_STREQ(array, "01...");
  EXPECT_EQ(array[6], 'x');
  EXPECT_EQ(array[7], 'x');
}

}  // namespace
}  // namespace levee::base
