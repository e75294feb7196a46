#include "allocator/base/small_vector.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/heap_count.h"

namespace levee::base {
namespace {

template <typename T, std::size_t N>
std::vector<T> contents(const SmallVector<T, N>& v) {
  return {v.begin(), v.end()};
}

TEST(SmallVector, KeepsItsFirstElementsWithoutTheHeap) {
  const test::HeapCount count;
  SmallVector<int, 4> v;
  for (int i = 0; i < 4; ++i) v.push_back(i);
  EXPECT_EQ(count.value(), 0);
  EXPECT_TRUE(v.is_inline());
  v.push_back(4);
  EXPECT_EQ(count.value(), 1);
  EXPECT_FALSE(v.is_inline());
  EXPECT_EQ(contents(v), (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(SmallVector, ReserveAllocatesOnce) {
  SmallVector<int, 2> v;
  v.reserve(50);
  const test::HeapCount count;
  for (int i = 0; i < 50; ++i) v.push_back(i);
  EXPECT_EQ(count.value(), 0);
  EXPECT_EQ(v.back(), 49);
  EXPECT_EQ(v.front(), 0);
}

TEST(SmallVector, ErasesInOrderAndUnordered) {
  SmallVector<std::string, 2> v{"a", "b", "c", "d"};
  v.erase(1);
  EXPECT_EQ(contents(v), (std::vector<std::string>{"a", "c", "d"}));
  v.erase_unordered(0);
  EXPECT_EQ(contents(v), (std::vector<std::string>{"d", "c"}));
  v.erase_unordered(1);
  EXPECT_EQ(contents(v), (std::vector<std::string>{"d"}));
  v.pop_back();
  EXPECT_TRUE(v.empty());
}

TEST(SmallVector, AnElementMayBeAppendedToItsOwnVector) {
  SmallVector<std::string, 1> v{"a long string that lives on the heap of its own"};
  for (int i = 0; i < 5; ++i) v.push_back(v[0]);
  for (const std::string& s : v) EXPECT_EQ(s, "a long string that lives on the heap of its own");
}

TEST(SmallVector, CopiesAreIndependent) {
  SmallVector<std::string, 2> a{"1", "2", "3"};
  SmallVector<std::string, 2> b{a};
  b[0] = "changed";
  EXPECT_EQ(a[0], "1");
  a = b;
  EXPECT_EQ(a, b);
  const SmallVector<std::string, 2>& alias = a;
  a = alias;
  EXPECT_EQ(a, b);
}

TEST(SmallVector, MovingLeavesTheSourceEmptyInlineAndOnTheHeap) {
  SmallVector<std::unique_ptr<int>, 2> inline_source;
  inline_source.push_back(std::make_unique<int>(1));
  SmallVector<std::unique_ptr<int>, 2> a{std::move(inline_source)};
  EXPECT_EQ(*a[0], 1);
  EXPECT_TRUE(inline_source.empty());  // NOLINT(bugprone-use-after-move): the state is promised

  SmallVector<std::unique_ptr<int>, 2> heap_source;
  for (int i = 0; i < 3; ++i) heap_source.push_back(std::make_unique<int>(i));
  const test::HeapCount count;
  a = std::move(heap_source);
  EXPECT_EQ(count.value(), 0);
  ASSERT_EQ(a.size(), 3);
  EXPECT_EQ(*a[2], 2);
  EXPECT_TRUE(heap_source.empty());  // NOLINT(bugprone-use-after-move): the state is promised
  heap_source.push_back(std::make_unique<int>(9));
  EXPECT_EQ(*heap_source[0], 9);
}

TEST(SmallVector, ElementsAreDestroyedWithIt) {
  const auto shared = std::make_shared<int>(0);
  {
    SmallVector<std::shared_ptr<int>, 2> v;
    for (int i = 0; i < 5; ++i) v.push_back(shared);
    EXPECT_EQ(shared.use_count(), 6);
    v.resize(2);
    EXPECT_EQ(shared.use_count(), 3);
    v.clear();
    EXPECT_EQ(shared.use_count(), 1);
    v.push_back(shared);
  }
  EXPECT_EQ(shared.use_count(), 1);
}

TEST(SmallVector, ResizeAddsDefaultElements) {
  SmallVector<int, 2> v{7};
  v.resize(4);
  EXPECT_EQ(contents(v), (std::vector<int>{7, 0, 0, 0}));
}

TEST(SmallVector, ComparesByElements) {
  using V = SmallVector<int, 2>;
  EXPECT_EQ((V{1, 2, 3}), (V{1, 2, 3}));
  EXPECT_FALSE((V{1, 2, 3}) == (V{1, 2}));
  EXPECT_FALSE((V{1, 2, 3}) == (V{1, 2, 4}));
}

TEST(SmallVectorDeathTest, CheckedBuildsCatchAnIndexBehindTheEnd) {
  if constexpr (kChecked) {
    SmallVector<int, 2> v{1};
    EXPECT_DEATH(v[1] = 0, "i < size_ \\(1 vs 1\\)");
    v.clear();
    EXPECT_DEATH(v.pop_back(), "size_ > 0 \\(0 vs 0\\)");
  }
}

}  // namespace
}  // namespace levee::base
