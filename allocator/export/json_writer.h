// Writes JSON text into a sink, one value after the other.
//
// Promises: the output is valid JSON whatever strings it is given (bytes that are not UTF-8 become
// U+FFFD), and safe inside an HTML <script> element (`<` is written as an escape); numbers are
// written without loss, integers beyond 2^53 too, so a reader that keeps doubles should be given
// those as text. Commas and nesting are the writer's business. Single-threaded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "allocator/export/sinks.h"

namespace levee::exporting {

class JsonWriter {
 public:
  explicit JsonWriter(ByteSink& sink) : sink_(sink) {}
  ~JsonWriter() { flush(); }
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool is_true);
  JsonWriter& value(std::uint64_t number);
  JsonWriter& value(std::int64_t number);
  JsonWriter& value(std::uint32_t number) { return value(std::uint64_t{number}); }
  JsonWriter& value(std::int32_t number) { return value(std::int64_t{number}); }
  JsonWriter& value(double number);  ///< null if not finite
  JsonWriter& null();
  /// Text that is JSON already.
  JsonWriter& raw(std::string_view json);
  /// A number with exactly `decimals` digits behind the point: `scaled` / 10^decimals.
  JsonWriter& fixed(std::uint64_t scaled, int decimals);

  template <typename T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }
  template <typename T>
  JsonWriter& field(std::string_view name, const std::vector<T>& items) {
    key(name).begin_array();
    for (const T& item : items) value(item);
    return end_array();
  }

  /// Hands what is buffered to the sink.
  void flush();

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  void separate();
  void put_string(std::string_view text);
  void maybe_flush();

  ByteSink& sink_;
  std::string out_;
  bool needs_comma_ = false;
};

}  // namespace levee::exporting
