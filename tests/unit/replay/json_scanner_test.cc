#include "bench/replay/readers/json_scanner.h"

#include <gtest/gtest.h>

#include <string>

namespace levee::replay {
namespace {

TEST(JsonScanner, WalksAnObject) {
  JsonScanner json(R"( { "a" : -12 , "b":"x\"y\\", "c": [1, {"d": null}], "e": 1.5e3 } )");
  ASSERT_TRUE(json.take('{'));
  EXPECT_EQ(json.string(), "a");
  ASSERT_TRUE(json.take(':'));
  EXPECT_EQ(json.integer(), -12);
  ASSERT_TRUE(json.take(','));
  EXPECT_EQ(json.string(), "b");
  ASSERT_TRUE(json.take(':'));
  EXPECT_EQ(json.string(), R"(x\"y\\)");
  ASSERT_TRUE(json.take(','));
  EXPECT_EQ(json.string(), "c");
  ASSERT_TRUE(json.take(':'));
  ASSERT_TRUE(json.skip());
  ASSERT_TRUE(json.take(','));
  EXPECT_EQ(json.string(), "e");
  ASSERT_TRUE(json.take(':'));
  EXPECT_EQ(json.integer(), 1500);
  EXPECT_TRUE(json.take('}'));
  EXPECT_FALSE(json.take('}'));
}

TEST(JsonScanner, NumbersThatDoNotFitAreNone) {
  EXPECT_FALSE(JsonScanner("1e300").integer());
  EXPECT_FALSE(JsonScanner("99999999999999999999").integer());
  EXPECT_FALSE(JsonScanner("--1").integer());
  EXPECT_FALSE(JsonScanner("").number());
  EXPECT_EQ(JsonScanner("9223372036854775807").integer(), INT64_MAX);
}

TEST(JsonScanner, SkipEndsAtMalformedTextAndAtDepth) {
  for (const std::string& text :
       {std::string(), std::string("["), std::string("{\"a\""), std::string("\"abc"),
        std::string("]"), std::string(JsonScanner::kMaxDepth + 1, '['), std::string("\"\\\"")})
    EXPECT_FALSE(JsonScanner(text).skip()) << text.substr(0, 10);
  for (const char* text : {",", ":", "x", "abc\""}) {
    EXPECT_FALSE(JsonScanner(text).string()) << text;
  }
  EXPECT_FALSE(JsonScanner("\"abc").string());
  EXPECT_FALSE(JsonScanner(",").skip());
  EXPECT_FALSE(JsonScanner(":").skip());
  std::string deep(JsonScanner::kMaxDepth + 1, '[');
  deep += std::string(JsonScanner::kMaxDepth + 1, ']');
  EXPECT_FALSE(JsonScanner(deep).skip());
  std::string nested(JsonScanner::kMaxDepth, '[');
  nested += std::string(JsonScanner::kMaxDepth, ']');
  EXPECT_TRUE(JsonScanner(nested).skip());
}

}  // namespace
}  // namespace levee::replay
