// A forward pass over JSON text, for readers that want a few fields of very large files.
//
// Owns nothing. Promises: any bytes are safe; no recursion and no memory of its own; nesting beyond
// `kMaxDepth` is an error. Checks what it looks at and no more: a value that is skipped is not
// validated. Cost: about a byte a nanosecond.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace levee::replay {

class JsonScanner {
 public:
  static constexpr int kMaxDepth = 256;

  explicit JsonScanner(std::string_view text) : text_(text) {}

  /// The next character that is no white space, without taking it; 0 at the end.
  char peek();
  /// Takes that character if it is `expected`.
  bool take(char expected);
  /// Takes a string, still escaped. Nothing if there is none.
  std::optional<std::string_view> string();
  /// Takes a number. Nothing if there is none that fits.
  std::optional<double> number();
  /// Takes an integer; numbers with a fraction are rounded towards zero.
  std::optional<std::int64_t> integer();
  /// Takes any value. False if it is malformed or nested too deeply.
  bool skip();

  std::size_t position() const { return at_; }

 private:
  std::string_view number_text();
  bool skip_string();

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace levee::replay
