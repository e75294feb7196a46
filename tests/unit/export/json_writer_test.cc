#include "allocator/export/json_writer.h"

#include <limits>

#include <gtest/gtest.h>

namespace levee::exporting {
namespace {

template <typename Write>
std::string written(Write write) {
  StringSink sink;
  {
    JsonWriter json(sink);
    write(json);
  }
  return sink.take();
}

TEST(JsonWriter, CommasStandBetweenValuesOnly) {
  EXPECT_EQ(written([](JsonWriter& json) {
              json.begin_object().field("a", 1).key("b").begin_array().value(true).null();
              json.begin_object().end_object().end_array().field("c", "x").end_object();
            }),
            R"({"a":1,"b":[true,null,{}],"c":"x"})");
}

TEST(JsonWriter, NumbersKeepEveryDigit) {
  EXPECT_EQ(written([](JsonWriter& json) {
              json.begin_array().value(std::numeric_limits<std::uint64_t>::max());
              json.value(std::numeric_limits<std::int64_t>::min()).value(0.1);
              json.value(std::numeric_limits<double>::infinity()).fixed(1'234'567, 3).fixed(5, 3);
              json.end_array();
            }),
            "[18446744073709551615,-9223372036854775808,0.1,null,1234.567,0.005]");
}

TEST(JsonWriter, AnyBytesBecomeValidText) {
  const auto text = [](std::string_view bytes) {
    return written([&](JsonWriter& json) { json.value(bytes); });
  };
  EXPECT_EQ(text("a\"b\\c\nd\x01"), "\"a\\\"b\\\\c\\nd\\u0001\"");
  EXPECT_EQ(text("</script>"), "\"\\u003c/script>\"");
  EXPECT_EQ(text("\xC3\xA4"), "\"\xC3\xA4\"");                  // a letter with an umlaut
  EXPECT_EQ(text("\xFFx"), "\"\xEF\xBF\xBDx\"");                // no UTF-8
  EXPECT_EQ(text("\xC0\xAF"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");  // overlong
  EXPECT_EQ(text("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // surrogate
  EXPECT_EQ(text("\xE2\x80\xA8"), "\"\\u2028\"");
  EXPECT_EQ(text("\xE2\x82"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");  // cut off
}

}  // namespace
}  // namespace levee::exporting
