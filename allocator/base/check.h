// Checks that end the process when an invariant is broken.
//
// Owns: LEVEE_CHECK and its relatives. Promises: the message goes to standard error with file,
// line, the condition, both operands of a comparison and the caller's details; making it allocates
// nothing, so that it works with a corrupt heap and under every lock; then the process aborts.
// Operands are evaluated once; details only on failure. Tiers: LEVEE_CHECK always; LEVEE_DCHECK in
// checked, sanitizer and fuzz builds (elsewhere it compiles, evaluates nothing). Does not: report a
// user's mistake (that is `Status` or a misuse report). Costs: one predictable branch.
//
//   LEVEE_CHECK(block != nullptr);
//   LEVEE_CHECK(is_free(block), "block at ", block->addr, " of ", block->bytes);
//   LEVEE_CHECK_EQ(reserved, live + waiting + free, "after trim");
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "allocator/base/attributes.h"
#include "allocator/base/fixed_buffer.h"

namespace levee::base {

#if LEVEE_CHECKED
inline constexpr bool kChecked = true;
#else
inline constexpr bool kChecked = false;
#endif

/// Writes `text` to standard error and aborts. `text` need not end in a line feed.
[[noreturn]] LEVEE_COLD LEVEE_NOINLINE void die(const TextWriter& text);

namespace detail {

inline constexpr std::size_t kMaxMessage =
    1024;  // chosen: two operands and a sentence; fits any stack

template <typename T>
concept Printable = requires(TextWriter& text, const T& value) {
  text << value;
};

template <typename T>
void print_operand(TextWriter& text, const T& value) {
  if constexpr (Printable<T>) {
    text << value;
  } else {
    text << "?";
  }
}

void begin_message(TextWriter& text, const char* file, int line, const char* condition);

template <typename... Details>
[[noreturn]] LEVEE_COLD LEVEE_NOINLINE void check_failed(const char* file, int line,
                                                         const char* condition,
                                                         const Details&... details) {
  FixedBuffer<kMaxMessage> text;
  begin_message(text, file, line, condition);
  if constexpr (sizeof...(details) > 0) {
    text << ": ";
    (text << ... << details);
  }
  die(text);
}

template <typename A, typename B, typename... Details>
[[noreturn]] LEVEE_COLD LEVEE_NOINLINE void comparison_failed(const char* file, int line,
                                                              const char* condition, const A& a,
                                                              const B& b,
                                                              const Details&... details) {
  FixedBuffer<kMaxMessage> text;
  begin_message(text, file, line, condition);
  text << " (";
  print_operand(text, a);
  text << " vs ";
  print_operand(text, b);
  text << ")";
  if constexpr (sizeof...(details) > 0) {
    text << ": ";
    (text << ... << details);
  }
  die(text);
}

// Integers of different signedness compare by value, so that `LEVEE_CHECK_EQ(v.size(), 3)` needs no
// suffix and -1 is never equal to the largest unsigned number. bool and the character types are
// left to the plain operators.
template <typename T>
concept PlainInteger = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char> &&
                       !std::same_as<T, wchar_t> && !std::same_as<T, char8_t> &&
                       !std::same_as<T, char16_t> && !std::same_as<T, char32_t>;

template <typename A, typename B>
constexpr bool equal(const A& a, const B& b) {
  if constexpr (PlainInteger<A> && PlainInteger<B>) {
    return std::cmp_equal(a, b);
  } else {
    return a == b;
  }
}

template <typename A, typename B>
constexpr bool less(const A& a, const B& b) {
  if constexpr (PlainInteger<A> && PlainInteger<B>) {
    return std::cmp_less(a, b);
  } else {
    return a < b;
  }
}

}  // namespace detail
}  // namespace levee::base

#define LEVEE_CHECK(condition, ...)                              \
  (__builtin_expect(static_cast<bool>(condition), 1)             \
       ? static_cast<void>(0)                                    \
       : ::levee::base::detail::check_failed(__FILE__, __LINE__, \
                                             #condition __VA_OPT__(, ) __VA_ARGS__))

#define LEVEE_CHECK_COMPARISON_(condition, text, a, b, ...)                               \
  do {                                                                                    \
    const auto& levee_check_a = (a);                                                      \
    const auto& levee_check_b = (b);                                                      \
    if (__builtin_expect(!(condition), 0)) {                                              \
      ::levee::base::detail::comparison_failed(__FILE__, __LINE__, text, levee_check_a,   \
                                               levee_check_b __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                     \
  } while (false)

#define LEVEE_CHECK_EQ(a, b, ...)                                                     \
  LEVEE_CHECK_COMPARISON_(::levee::base::detail::equal(levee_check_a, levee_check_b), \
                          #a " == " #b, a, b __VA_OPT__(, ) __VA_ARGS__)
#define LEVEE_CHECK_NE(a, b, ...)                                                      \
  LEVEE_CHECK_COMPARISON_(!::levee::base::detail::equal(levee_check_a, levee_check_b), \
                          #a " != " #b, a, b __VA_OPT__(, ) __VA_ARGS__)
#define LEVEE_CHECK_LT(a, b, ...)                                                                 \
  LEVEE_CHECK_COMPARISON_(::levee::base::detail::less(levee_check_a, levee_check_b), #a " < " #b, \
                          a, b __VA_OPT__(, ) __VA_ARGS__)
#define LEVEE_CHECK_LE(a, b, ...)                                                     \
  LEVEE_CHECK_COMPARISON_(!::levee::base::detail::less(levee_check_b, levee_check_a), \
                          #a " <= " #b, a, b __VA_OPT__(, ) __VA_ARGS__)
#define LEVEE_CHECK_GT(a, b, ...)                                                                 \
  LEVEE_CHECK_COMPARISON_(::levee::base::detail::less(levee_check_b, levee_check_a), #a " > " #b, \
                          a, b __VA_OPT__(, ) __VA_ARGS__)
#define LEVEE_CHECK_GE(a, b, ...)                                                     \
  LEVEE_CHECK_COMPARISON_(!::levee::base::detail::less(levee_check_a, levee_check_b), \
                          #a " >= " #b, a, b __VA_OPT__(, ) __VA_ARGS__)

/// A `Status` that cannot fail here; prints the status.
#define LEVEE_CHECK_OK(status, ...)                                                             \
  do {                                                                                          \
    const ::levee::Status levee_check_status = (status);                                        \
    if (__builtin_expect(!levee_check_status.ok(), 0)) {                                        \
      ::levee::base::detail::check_failed(__FILE__, __LINE__, #status " is ok", "it is ",       \
                                          levee_check_status __VA_OPT__(, "; ", ) __VA_ARGS__); \
    }                                                                                           \
  } while (false)

/// Where control never comes, for instance behind a switch over every enumerator.
#define LEVEE_UNREACHABLE(...) \
  ::levee::base::detail::check_failed(__FILE__, __LINE__, "unreachable" __VA_OPT__(, ) __VA_ARGS__)

#define LEVEE_DCHECK(...) LEVEE_DCHECK_(LEVEE_CHECK(__VA_ARGS__))
#define LEVEE_DCHECK_EQ(...) LEVEE_DCHECK_(LEVEE_CHECK_EQ(__VA_ARGS__))
#define LEVEE_DCHECK_NE(...) LEVEE_DCHECK_(LEVEE_CHECK_NE(__VA_ARGS__))
#define LEVEE_DCHECK_LT(...) LEVEE_DCHECK_(LEVEE_CHECK_LT(__VA_ARGS__))
#define LEVEE_DCHECK_LE(...) LEVEE_DCHECK_(LEVEE_CHECK_LE(__VA_ARGS__))
#define LEVEE_DCHECK_GT(...) LEVEE_DCHECK_(LEVEE_CHECK_GT(__VA_ARGS__))
#define LEVEE_DCHECK_GE(...) LEVEE_DCHECK_(LEVEE_CHECK_GE(__VA_ARGS__))
#define LEVEE_DCHECK_(check)                      \
  do {                                            \
    if constexpr (::levee::base::kChecked) check; \
  } while (false)
