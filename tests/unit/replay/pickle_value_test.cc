// Opcodes one by one; what Python writes, and hostile files, are tested by tests/replay.
#include "bench/replay/readers/pickle_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace levee::replay {
namespace {

using std::string_literals::operator""s;
using Kind = PickleValue::Kind;
using ::testing::HasSubstr;

/// The value of a pickle of protocol 4 without its head and end. The bytes live as long as the
/// test.
class PickleReading : public ::testing::Test {
 protected:
  std::optional<Pickle> read(std::string body) {
    bytes_ = "\x80\x04" + body + ".";
    return Pickle::read(bytes_, &why_);
  }
  PickleValue value_of(std::string body) {
    pickle_ = read(std::move(body));
    EXPECT_TRUE(pickle_) << why_;
    return pickle_ ? pickle_->root() : PickleValue{};
  }
  std::string refusal_of(std::string body) {
    EXPECT_FALSE(read(std::move(body)));
    return why_;
  }

  std::string bytes_;
  std::string why_;
  std::optional<Pickle> pickle_;
};

TEST_F(PickleReading, NumbersOfEverySize) {
  const auto integer = [this](std::string body) {
    const PickleValue value = value_of(std::move(body));
    EXPECT_EQ(value.kind, Kind::kInteger);
    return value;
  };
  EXPECT_EQ(integer("K\xff").bits, 255U);
  EXPECT_EQ(integer("M\xff\xff").bits, 65535U);
  EXPECT_EQ(integer("J\xff\xff\xff\xff"s).bits, 1U);
  EXPECT_TRUE(integer("J\xff\xff\xff\xff"s).is_negative);
  EXPECT_EQ(integer("J\0\0\0\x80"s).bits, std::uint64_t{1} << 31);
  EXPECT_EQ(integer("\x8a\0"s).bits, 0U);
  EXPECT_EQ(integer("\x8a\x01\x80"s).bits, 128U);
  EXPECT_TRUE(integer("\x8a\x01\x80"s).is_negative);
  EXPECT_EQ(integer("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0"s).bits, UINT64_MAX);
  EXPECT_EQ(integer("I-12\n").bits, 12U);
  EXPECT_EQ(integer("L34L\n").bits, 34U);
  EXPECT_EQ(value_of("I01\n").kind, Kind::kBool);
  EXPECT_EQ(value_of("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x01"s).kind, Kind::kHugeNumber);
  EXPECT_EQ(value_of("\x8a\x09\0\0\0\0\0\0\0\0\xff"s).kind, Kind::kHugeNumber);
  EXPECT_EQ(value_of("L99999999999999999999L\n").kind, Kind::kHugeNumber);
}

TEST_F(PickleReading, RealsAreBigEndian) {
  const PickleValue value = value_of("G\x3f\xf8\0\0\0\0\0\0"s);
  EXPECT_EQ(value.kind, Kind::kReal);
  EXPECT_DOUBLE_EQ(std::bit_cast<double>(value.bits), 1.5);
  EXPECT_DOUBLE_EQ(std::bit_cast<double>(value_of("F2.5\n").bits), 2.5);
}

TEST_F(PickleReading, TextsOfEveryForm) {
  for (const std::string& body :
       {"\x8c\x02hi"s, "X\x02\0\0\0hi"s, "\x8d\x02\0\0\0\0\0\0\0hi"s, "Vhi\n"s, "S'hi'\n"s,
        "C\x02hi"s, "B\x02\0\0\0hi"s, "U\x02hi"s, "T\x02\0\0\0hi"s}) {
    const PickleValue value = value_of(body);
    EXPECT_EQ(pickle_->text(value), "hi");
  }
}

TEST_F(PickleReading, ContainersAndTheMemo) {
  // {"a": [1, (2, 3)], "b": the same list}
  const PickleValue root = value_of(
      "}(\x8c\x01"
      "a](K\x01K\x02K\x03\x86"
      "e\x94\x8c\x01"
      "bh\0u"s);
  const PickleValue a = *pickle_->get(root, "a");
  const PickleValue b = *pickle_->get(root, "b");
  EXPECT_EQ(a.bits, b.bits) << "one list";
  ASSERT_EQ(pickle_->items(a).size(), 2U);
  ASSERT_EQ(pickle_->items(pickle_->items(a)[1]).size(), 2U);
  EXPECT_EQ(pickle_->items(pickle_->items(a)[1])[1].bits, 3U);
  EXPECT_FALSE(pickle_->get(root, "c"));
}

TEST_F(PickleReading, NumbersOfADictAreCheckedForSignAndType) {
  const PickleValue root = value_of(
      "}(\x8c\x01"
      "aJ\xff\xff\xff\xff\x8c\x01"
      "bK\x07\x8c\x01"
      "c\x8c\x01xu"s);
  EXPECT_FALSE(pickle_->get_unsigned(root, "a"));
  EXPECT_EQ(pickle_->get_signed(root, "a"), -1);
  EXPECT_EQ(pickle_->get_unsigned(root, "b"), 7U);
  EXPECT_FALSE(pickle_->get_unsigned(root, "c"));
  EXPECT_EQ(pickle_->get_text(root, "c"), "x");
  EXPECT_EQ(pickle_->get_text(root, "b"), "");
}

TEST_F(PickleReading, WhateverNamesAClassIsRefusedByItsName) {
  EXPECT_THAT(refusal_of("cos\nsystem\n"), HasSubstr("the Python object os.system"));
  EXPECT_THAT(refusal_of("\x8c\x02os\x8c\x06system\x93"s),
              HasSubstr("the Python object os.system"));
  EXPECT_THAT(refusal_of("(ios\nsystem\n"), HasSubstr("os.system"));
  for (const char op : "R\x81\x92\x82\x83\x84QPbo\x97\x98"s)
    EXPECT_THAT(refusal_of("NN"s + op), HasSubstr("no instruction of a pickle of plain data"));
}

TEST_F(PickleReading, InstructionsThatTakeMoreThanThereIsAreRefused) {
  for (const std::string& body :
       {"a"s, "Na"s, "s"s, "u"s, "]u"s, "t"s, "e"s, "0"s, "h\x01"s, "\x86"s, "K"s, "\x8c\x09hi"s,
        "X\xff\xff\xff\xff"s, "I12"s, "(Nu"s})
    EXPECT_NE(refusal_of(body), "") << body;
}

TEST_F(PickleReading, NumbersAndTextsThatAreNoneAreRefused) {
  for (const std::string& body :
       {"I12x\n"s, "I\n"s, "I-\n"s, "L1 L\n"s, "F1.5x\n"s, "Fx\n"s, "F\n"s})
    EXPECT_THAT(refusal_of(body), HasSubstr("is no number")) << body;
  EXPECT_THAT(refusal_of("K\x07gx\n"), HasSubstr("a reference is no number"));
  EXPECT_THAT(refusal_of("K\x07p0x\n"), HasSubstr("a reference is no number"));
  EXPECT_THAT(refusal_of("S'\n"), HasSubstr("lacks its quotes"));
  EXPECT_THAT(refusal_of("}(K\x01u"), HasSubstr("a key lacks its value"));
  EXPECT_EQ(value_of("K\x07p0\n0g0\n").bits, 7U);
  EXPECT_EQ(value_of("K\x07p9\n0g9\n").bits, 7U) << "a name far from the others";
}

TEST_F(PickleReading, WhatIsNoDictHasNoKeys) {
  const PickleValue root = value_of(
      "](\x8c\x01"
      "aK\x07"
      "e"s);
  EXPECT_FALSE(pickle_->get(root, "a"));
  const PickleValue huge = value_of(
      "}(\x8c\x01"
      "a\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0\x8c\x01"
      "b\x8c\x01xu"s);
  EXPECT_FALSE(pickle_->get_signed(huge, "a"));
  EXPECT_FALSE(pickle_->get_signed(huge, "b"));
  EXPECT_FALSE(pickle_->get_signed(huge, "c"));
}

TEST_F(PickleReading, AMarkFencesOffWhatLiesBelow) {
  EXPECT_NE(refusal_of("N(a"), "") << "the list below the mark is not reachable";
  EXPECT_EQ(value_of("K\x07(K\x01K\x02"
                     "1"s)
                .bits,
            7U);
  EXPECT_EQ(value_of("K\x07(0"s).bits, 7U) << "POP takes a mark that is on top";
}

}  // namespace
}  // namespace levee::replay
