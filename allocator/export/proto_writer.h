// Protocol buffers by hand: the wire types that TensorBoard's and Perfetto's files need, in field
// order as called.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace levee::exporting {

class ProtoWriter {
 public:
  ProtoWriter& varint(std::uint32_t field, std::uint64_t value) {
    key(field, 0);
    put_varint(value);
    return *this;
  }
  ProtoWriter& fixed64(std::uint32_t field, double value) {
    key(field, 1);
    put_fixed(std::bit_cast<std::uint64_t>(value), 8);
    return *this;
  }
  ProtoWriter& fixed32(std::uint32_t field, float value) {
    key(field, 5);
    put_fixed(std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  ProtoWriter& text(std::uint32_t field, std::string_view value) {
    key(field, 2);
    put_varint(value.size());
    bytes_ += value;
    return *this;
  }
  /// A nested message, already encoded.
  ProtoWriter& message(std::uint32_t field, std::string_view encoded) {
    return text(field, encoded);
  }

  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  void key(std::uint32_t field, std::uint32_t wire_type) {
    put_varint(std::uint64_t{field} << 3 | wire_type);
  }
  void put_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(0x80U | (value & 0x7FU)));
    bytes_.push_back(static_cast<char>(value));
  }
  void put_fixed(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i) & 0xFFU));
  }

  std::string bytes_;
};

}  // namespace levee::exporting
