// Little-endian numbers, varints and zigzag over byte arrays: how every part of a trace file is put
// together and taken apart.
//
// Promises: `ByteReader` never reads outside its span; after the first short or malformed read
// `ok()` is false and every further read gives 0, so that a decoder may check once at its end. A
// varint has at most 10 bytes, low 7 bits first (LEB128). Costs: a one-byte varint is one compare
// and one store or load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace levee::record {

inline constexpr std::size_t kMaxVarintBytes = 10;

constexpr std::uint64_t zigzag(std::int64_t value) {
  return (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>((value >> 1) ^ (~(value & 1) + 1));
}
/// a - b as it is stored: wraps, so that every pair of values has a difference that leads back.
constexpr std::uint64_t zigzag_difference(std::uint64_t a, std::uint64_t b) {
  return zigzag(static_cast<std::int64_t>(a - b));
}

/// Reads a little-endian number at a fixed place; the caller has checked the size.
template <typename T>
T load_le(const std::uint8_t* bytes) {
  T value{};
  std::memcpy(&value, bytes,
              sizeof(T));  // levee runs on little-endian machines alone, as CUDA does
  return value;
}
template <typename T>
void store_le(std::uint8_t* bytes, T value) {
  std::memcpy(bytes, &value, sizeof(T));
}

/// Appends to an array that it owns.
class ByteWriter {
 public:
  void clear() { size_ = 0; }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::span<const std::uint8_t> bytes() const { return {array_.data(), size_}; }
  std::uint8_t* data() { return array_.data(); }

  void put_byte(std::uint8_t value) {
    grow_for(1);
    array_[size_++] = value;
  }
  void put_varint(std::uint64_t value) {
    grow_for(kMaxVarintBytes);
    std::uint8_t* p = array_.data() + size_;
    while (value >= 0x80) {
      *p++ = static_cast<std::uint8_t>(value | 0x80);
      value >>= 7;
    }
    *p++ = static_cast<std::uint8_t>(value);
    size_ = static_cast<std::size_t>(p - array_.data());
  }
  void put_zigzag(std::int64_t value) { put_varint(zigzag(value)); }
  void put_bytes(std::span<const std::uint8_t> bytes) {
    if (bytes.empty()) return;
    grow_for(bytes.size());
    std::memcpy(array_.data() + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  /// Length and characters.
  void put_text(std::string_view text) {
    put_varint(text.size());
    put_bytes({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }
  /// `count` bytes of room at the end, for who fills them; zero.
  std::uint8_t* put_room(std::size_t count) {
    grow_for(count);
    std::memset(array_.data() + size_, 0, count);
    size_ += count;
    return array_.data() + size_ - count;
  }
  /// Makes the array this long after somebody wrote into the room at its end.
  void shrink_to(std::size_t size) { size_ = size; }

 private:
  void grow_for(std::size_t count) {
    if (array_.size() - size_ < count) array_.resize((size_ + count) * 2);
  }

  std::vector<std::uint8_t> array_;
  std::size_t size_ = 0;
};

/// Takes numbers from a span.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::uint8_t> bytes)
      : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool ok() const { return ok_; }
  bool at_end() const { return next_ == end_; }
  std::size_t left() const { return static_cast<std::size_t>(end_ - next_); }

  std::uint8_t take_byte() {
    if (next_ == end_) return fail();
    return *next_++;
  }
  std::uint64_t take_varint() {
    if (next_ != end_ && *next_ < 0x80) [[likely]]
      return *next_++;
    return take_long_varint();
  }
  std::int64_t take_zigzag() { return unzigzag(take_varint()); }
  std::span<const std::uint8_t> take_bytes(std::uint64_t count) {
    if (count > left()) {
      fail();
      return {};
    }
    const std::span<const std::uint8_t> bytes{next_, static_cast<std::size_t>(count)};
    next_ += count;
    return bytes;
  }
  std::string_view take_text() {
    const auto bytes = take_bytes(take_varint());
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  std::uint8_t fail() {
    ok_ = false;
    next_ = end_;
    return 0;
  }
  std::uint64_t take_long_varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (next_ == end_) return fail();
      const std::uint8_t byte = *next_++;
      // The tenth byte holds the last bit of 64; more would be lost.
      if (shift == 63 && byte > 1) return fail();
      value |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
      if (byte < 0x80) return value;
    }
    return fail();
  }

  const std::uint8_t* next_;
  const std::uint8_t* end_;
  bool ok_ = true;
};

}  // namespace levee::record
