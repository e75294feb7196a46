#include "bench/replay/readers/json_scanner.h"

#include <charconv>
#include <cmath>

namespace levee::replay {

char JsonScanner::peek() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return c;
    ++at_;
  }
  return 0;
}

bool JsonScanner::take(char expected) {
  if (peek() != expected || at_ >= text_.size()) return false;
  ++at_;
  return true;
}

bool JsonScanner::skip_string() {
  if (!take('"')) return false;
  for (;;) {
    const std::size_t end = text_.find('"', at_);
    if (end == std::string_view::npos) return false;
    std::size_t slashes = 0;
    while (end > at_ + slashes && text_[end - 1 - slashes] == '\\') ++slashes;
    at_ = end + 1;
    if (slashes % 2 == 0) return true;
  }
}

std::optional<std::string_view> JsonScanner::string() {
  peek();
  const std::size_t begin = at_ + 1;
  if (!skip_string()) return std::nullopt;
  return text_.substr(begin, at_ - 1 - begin);
}

std::string_view JsonScanner::number_text() {
  peek();
  const std::size_t begin = at_;
  while (at_ < text_.size()) {
    const char c = text_[at_];
    const bool is_part =
        (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
    if (!is_part) break;
    ++at_;
  }
  return text_.substr(begin, at_ - begin);
}

std::optional<double> JsonScanner::number() {
  const std::string_view text = number_text();
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> JsonScanner::integer() {
  const std::string_view text = number_text();
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code == std::errc{} && end == text.data() + text.size()) return value;
  double real = 0;
  const auto [real_end, real_code] = std::from_chars(text.data(), text.data() + text.size(), real);
  if (real_code != std::errc{} || real_end != text.data() + text.size() || !(std::abs(real) < 9e18))
    return std::nullopt;
  return static_cast<std::int64_t>(real);
}

bool JsonScanner::skip() {
  int depth = 0;
  do {
    switch (peek()) {
      case 0:
        return false;
      case '{':
      case '[':
        if (++depth > kMaxDepth) return false;
        ++at_;
        break;
      case '}':
      case ']':
        if (--depth < 0) return false;
        ++at_;
        break;
      case '"':
        if (!skip_string()) return false;
        break;
      case ',':
      case ':':
        if (depth == 0) return false;
        ++at_;
        break;
      default: {  // number, true, false, null
        const std::size_t begin = at_;
        while (at_ < text_.size() &&
               std::string_view(",:]}\"{[ \n\t\r").find(text_[at_]) == std::string_view::npos)
          ++at_;
        if (at_ == begin) return false;
      }
    }
  } while (depth > 0);
  return true;
}

}  // namespace levee::replay
