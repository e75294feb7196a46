// Python pickles of plain containers, protocol 4: dicts, lists, tuples, text, integers, floats,
// booleans and None.
//
// Promises: only the opcodes that torch's MemoryViz.js reads (no classes, no protocol 5, no 8-byte
// lengths), so nothing in the file can execute anything. Repeated values are written once with
// `remember` and then by `recall`. Single-threaded.
#pragma once

#include <cstdint>
#include <string_view>

#include "allocator/export/sinks.h"

namespace levee::exporting {

class PickleWriter {
 public:
  explicit PickleWriter(ByteSink& sink);
  ~PickleWriter();
  PickleWriter(const PickleWriter&) = delete;
  PickleWriter& operator=(const PickleWriter&) = delete;

  // Containers: items of a list, or keys and values in turn, between begin and end.
  void begin_dict();
  void end_dict();
  void begin_list();
  void end_list();
  void pair(std::uint64_t first, std::uint64_t second);  ///< a tuple of two

  void text(std::string_view value);  ///< bytes that are not UTF-8 become "?"
  void integer(std::uint64_t value);
  void signed_integer(std::int64_t value);
  void real(double value);
  void boolean(bool value);
  void none();

  /// Gives the value just written the next number, which is returned.
  std::uint32_t remember();
  /// Writes the value of that number again.
  void recall(std::uint32_t number);

  /// Ends the pickle.
  void finish();

 private:
  void put(char byte) { put(std::string_view(&byte, 1)); }
  void put(std::string_view bytes);
  void put_number(std::uint64_t value, int bytes);
  void long_integer(std::uint64_t magnitude_bits, bool is_negative);

  ByteSink& sink_;
  std::string buffer_;
  std::uint32_t remembered_ = 0;
};

}  // namespace levee::exporting
