// Text without the heap: for messages that are made where memory must not be allocated (check
// failures, misuse reports).
//
// Owns: `TextWriter`, which writes into somebody's array, and `FixedBuffer<N>`, which brings the
// array. Promises: the text is always terminated; what does not fit is dropped and the text then
// ends in "..."; no allocation, no locale, no exception. Does not: format in columns or from a
// format string (cold code uses fmt for that). Not thread-safe: one writer, one thread.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include <levee/ids.h>
#include <levee/status.h>
#include <levee/units.h>

namespace levee::base {

/// Wraps an integer that is to be written as 0x...
struct Hex {
  std::uint64_t value = 0;
};

class TextWriter {
 public:
  /// Writes into `array`, which holds `capacity` characters with the terminator; `capacity` is at
  /// least 4.
  TextWriter(char* array, std::size_t capacity) : array_(array), capacity_(capacity) {
    array_[0] = '\0';
  }
  TextWriter(const TextWriter&) = delete;
  TextWriter& operator=(const TextWriter&) = delete;

  std::string_view view() const { return {array_, length_}; }
  const char* c_str() const { return array_; }
  bool is_truncated() const { return truncated_; }

  void clear() {
    length_ = 0;
    truncated_ = false;
    array_[0] = '\0';
  }

  TextWriter& operator<<(std::string_view text) {
    append(text);
    return *this;
  }
  TextWriter& operator<<(const char* text) {
    return *this << (text == nullptr ? std::string_view{"(null)"} : std::string_view{text});
  }
  TextWriter& operator<<(char c) { return *this << std::string_view{&c, 1}; }
  TextWriter& operator<<(bool b) { return *this << (b ? "true" : "false"); }
  TextWriter& operator<<(Hex hex) {
    *this << "0x";
    return append_number(hex.value, 16);
  }
  TextWriter& operator<<(const void* pointer) {
    return *this << Hex{reinterpret_cast<std::uintptr_t>(pointer)};
  }
  TextWriter& operator<<(std::nullptr_t) { return *this << "nullptr"; }

  template <std::integral T>
  TextWriter& operator<<(T number) {
    return append_number(number, 10);
  }
  /// Shortest text that reads back as the same number.
  template <std::floating_point T>
  TextWriter& operator<<(T number) {
    char text[64];
    const auto end = std::to_chars(text, text + sizeof(text), static_cast<double>(number));
    return *this << std::string_view{text, static_cast<std::size_t>(end.ptr - text)};
  }
  template <typename T>
  requires std::is_enum_v<T> TextWriter& operator<<(T enumerator) {
    return *this << static_cast<std::int64_t>(enumerator);
  }

  TextWriter& operator<<(Bytes bytes) { return *this << bytes.value << " B"; }
  TextWriter& operator<<(DeviceAddr addr) { return *this << Hex{addr.value}; }
  TextWriter& operator<<(Nanos time) { return *this << time.value << " ns"; }
  TextWriter& operator<<(DeviceId id) { return *this << "device " << id.value; }
  TextWriter& operator<<(StreamId id) { return *this << "stream " << Hex{id.value}; }
  TextWriter& operator<<(EventId id) { return *this << "event " << Hex{id.value}; }
  TextWriter& operator<<(HandleId id) { return *this << "handle " << Hex{id.value}; }
  TextWriter& operator<<(PoolId id) {
    return *this << "pool (" << id.first << ", " << id.second << ")";
  }
  TextWriter& operator<<(StatusCode code) { return *this << name_of(code); }
  TextWriter& operator<<(Status status) {
    *this << status.code;
    if (status.native_code != 0) *this << " (native code " << status.native_code << ")";
    return *this;
  }

 private:
  void append(std::string_view text) {
    if (truncated_) return;
    const std::size_t room = capacity_ - 1 - length_;
    const std::size_t count = text.size() < room ? text.size() : room;
    std::memcpy(array_ + length_, text.data(), count);
    length_ += count;
    if (count < text.size()) {
      truncated_ = true;
      std::memcpy(array_ + capacity_ - 4, "...", 3);
    }
    array_[length_] = '\0';
  }

  template <typename T>
  TextWriter& append_number(T number, int base) {
    char text[72] = {};  // filled below; g++ 12 cannot see that and warns
    const auto end = std::to_chars(text, text + sizeof(text), number, base);
    return *this << std::string_view{text, static_cast<std::size_t>(end.ptr - text)};
  }

  char* array_;
  std::size_t capacity_;
  std::size_t length_ = 0;
  bool truncated_ = false;
};

namespace detail {
// A base of its own, so that the array exists before the writer that is given its address.
template <std::size_t N>
struct FixedBufferStorage {
  char storage[N];  // filled by the writer; the rest is never read
};
}  // namespace detail

/// A TextWriter of `N` characters, terminator included, on the stack or inside another object.
template <std::size_t N>
class FixedBuffer : private detail::FixedBufferStorage<N>, public TextWriter {
  static_assert(N >= 4, "there must be room for \"...\"");

 public:
  FixedBuffer() : TextWriter(this->storage, N) {}
};

}  // namespace levee::base
