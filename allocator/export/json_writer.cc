#include "allocator/export/json_writer.h"

#include <charconv>
#include <cmath>
#include <iterator>

#include <fmt/format.h>

namespace levee::exporting {
namespace {

constexpr std::size_t kFlushBytes = std::size_t{1} << 16;

// Length of the UTF-8 sequence at the start of `text`, 0 if it is not one. Overlong forms,
// surrogates and what lies above U+10FFFF are refused.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t i) {
    return i < text.size() && (byte(i) & 0xC0U) == 0x80U;
  };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first < 0xF0) {
    if (!continues(1) || !continues(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    if (first == 0xED && byte(1) >= 0xA0) return 0;
    return 3;
  }
  if (first >= 0xF0 && first < 0xF5) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) >= 0x90) return 0;
    return 4;
  }
  return 0;
}

}  // namespace

void JsonWriter::flush() {
  if (!out_.empty()) sink_.write(out_);
  out_.clear();
}

void JsonWriter::maybe_flush() {
  if (out_.size() >= kFlushBytes) flush();
}

void JsonWriter::separate() {
  if (needs_comma_) out_.push_back(',');
  needs_comma_ = true;
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  out_.push_back(bracket);
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  out_.push_back(bracket);
  needs_comma_ = true;
  maybe_flush();
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  put_string(name);
  out_.push_back(':');
  needs_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  put_string(text);
  return *this;
}

JsonWriter& JsonWriter::value(bool is_true) {
  return raw(is_true ? "true" : "false");
}
JsonWriter& JsonWriter::null() {
  return raw("null");
}

JsonWriter& JsonWriter::value(std::uint64_t number) {
  char text[24];
  const auto end = std::to_chars(std::begin(text), std::end(text), number);
  return raw({text, static_cast<std::size_t>(end.ptr - text)});
}

JsonWriter& JsonWriter::value(std::int64_t number) {
  char text[24];
  const auto end = std::to_chars(std::begin(text), std::end(text), number);
  return raw({text, static_cast<std::size_t>(end.ptr - text)});
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  char text[40];
  const auto end = std::to_chars(std::begin(text), std::end(text), number);
  return raw({text, static_cast<std::size_t>(end.ptr - text)});
}

JsonWriter& JsonWriter::fixed(std::uint64_t scaled, int decimals) {
  std::uint64_t unit = 1;
  for (int i = 0; i < decimals; ++i) unit *= 10;
  separate();
  fmt::format_to(std::back_inserter(out_), "{}.{:0{}}", scaled / unit, scaled % unit, decimals);
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
  separate();
  out_ += json;
  maybe_flush();
  return *this;
}

void JsonWriter::put_string(std::string_view text) {
  out_.push_back('"');
  while (!text.empty()) {
    const char c = text[0];
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      out_ += "\xEF\xBF\xBD";  // U+FFFD
      text.remove_prefix(1);
      continue;
    }
    if (length > 1) {
      const std::string_view sequence = text.substr(0, length);
      // JavaScript before 2019 takes these two as line ends inside a literal.
      if (sequence == "\xE2\x80\xA8") {
        out_ += "\\u2028";
      } else if (sequence == "\xE2\x80\xA9") {
        out_ += "\\u2029";
      } else {
        out_ += sequence;
      }
    } else if (c == '"' || c == '\\') {
      out_.push_back('\\');
      out_.push_back(c);
    } else if (c == '\n') {
      out_ += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == '<' || c == 0x7F) {
      fmt::format_to(std::back_inserter(out_), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out_.push_back(c);
    }
    text.remove_prefix(length);
  }
  out_.push_back('"');
}

}  // namespace levee::exporting
