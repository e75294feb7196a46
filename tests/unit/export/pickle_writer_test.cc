// Opcodes byte by byte; that Python and the viewer read them is checked by tests/view.
#include "allocator/export/pickle_writer.h"

#include <gtest/gtest.h>

namespace levee::exporting {
namespace {

template <typename Write>
std::string written(Write write) {
  StringSink sink;
  {
    PickleWriter pickle(sink);
    write(pickle);
  }
  return sink.take().substr(2);  // without the protocol
}

TEST(PickleWriter, IntegersUseTheShortestForm) {
  const auto integer = [](std::uint64_t value) {
    return written([&](PickleWriter& pickle) { pickle.integer(value); });
  };
  using std::string_literals::operator""s;
  EXPECT_EQ(integer(0), "K\0"s);
  EXPECT_EQ(integer(255), "K\xFF");
  EXPECT_EQ(integer(256), "M\0\x01"s);
  EXPECT_EQ(integer(65536), "J\0\0\x01\0"s);
  EXPECT_EQ(integer(0x7FFF'FFFF), "J\xFF\xFF\xFF\x7F");
  EXPECT_EQ(integer(0x8000'0000), "\x8A\x05\0\0\0\x80\0"s);  // a ninth zero bit keeps it positive
  EXPECT_EQ(integer(std::uint64_t{1} << 63), "\x8A\x09\0\0\0\0\0\0\0\x80\0"s);
}

TEST(PickleWriter, NegativeIntegersKeepTheirSign) {
  const auto integer = [](std::int64_t value) {
    return written([&](PickleWriter& pickle) { pickle.signed_integer(value); });
  };
  EXPECT_EQ(integer(-1), "\x8A\x01\xFF");
  EXPECT_EQ(integer(-129), "\x8A\x02\x7F\xFF");
}

TEST(PickleWriter, NeverWritesAnOpcodeThatNamesAClass) {
  const std::string text = written([](PickleWriter& pickle) {
    pickle.begin_dict();
    pickle.text("key");
    pickle.begin_list();
    pickle.pair(1, 2);
    pickle.real(0.5);
    pickle.none();
    pickle.boolean(true);
    pickle.end_list();
    pickle.end_dict();
    pickle.finish();
  });
  using std::string_literals::operator""s;
  EXPECT_EQ(text, "}(\x8C\x03key](K\x01K\x02\x86G\x3F\xE0\0\0\0\0\0\0N\x88"s + "eu.");
}

TEST(PickleWriter, TextThatIsNotAsciiStaysValid) {
  EXPECT_EQ(written([](PickleWriter& pickle) { pickle.text("a\xFF"); }),
            "\x8C\x02"
            "a?");
}

}  // namespace
}  // namespace levee::exporting
