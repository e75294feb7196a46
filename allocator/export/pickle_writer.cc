#include "allocator/export/pickle_writer.h"

#include <bit>

namespace levee::exporting {
namespace {

// pickletools names each of these.
constexpr char kProto = '\x80';
constexpr char kMark = '(';
constexpr char kStop = '.';
constexpr char kEmptyDict = '}';
constexpr char kSetItems = 'u';
constexpr char kEmptyList = ']';
constexpr char kAppends = 'e';
constexpr char kTuple2 = '\x86';
constexpr char kBinInt1 = 'K';
constexpr char kBinInt2 = 'M';
constexpr char kBinInt = 'J';
constexpr char kLong1 = '\x8a';
constexpr char kBinFloat = 'G';
constexpr char kShortText = '\x8c';
constexpr char kText = 'X';
constexpr char kTrue = '\x88';
constexpr char kFalse = '\x89';
constexpr char kNone = 'N';
constexpr char kLongBinPut = 'r';
constexpr char kLongBinGet = 'j';

constexpr std::size_t kFlushBytes = std::size_t{1} << 16;

}  // namespace

PickleWriter::PickleWriter(ByteSink& sink) : sink_(sink) {
  put(kProto);
  put('\x04');
}

PickleWriter::~PickleWriter() {
  if (!buffer_.empty()) sink_.write(buffer_);
}

void PickleWriter::put(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= kFlushBytes) {
    sink_.write(buffer_);
    buffer_.clear();
  }
}

void PickleWriter::put_number(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) put(static_cast<char>(value >> (8 * i) & 0xFF));
}

void PickleWriter::begin_dict() {
  put(kEmptyDict);
  put(kMark);
}
void PickleWriter::end_dict() {
  put(kSetItems);
}
void PickleWriter::begin_list() {
  put(kEmptyList);
  put(kMark);
}
void PickleWriter::end_list() {
  put(kAppends);
}

void PickleWriter::pair(std::uint64_t first, std::uint64_t second) {
  integer(first);
  integer(second);
  put(kTuple2);
}

void PickleWriter::text(std::string_view value) {
  std::string clean;
  bool is_ascii = true;
  for (const char c : value) is_ascii = is_ascii && static_cast<unsigned char>(c) < 0x80;
  if (!is_ascii) {
    // Rare (a path with an accent); a byte-wise replacement keeps this file small and the pickle
    // valid.
    for (const char c : value) clean.push_back(static_cast<unsigned char>(c) < 0x80 ? c : '?');
    value = clean;
  }
  if (value.size() < 256) {
    put(kShortText);
    put_number(value.size(), 1);
  } else {
    put(kText);
    put_number(value.size(), 4);
  }
  put(value);
}

void PickleWriter::integer(std::uint64_t value) {
  if (value < 256) {
    put(kBinInt1);
    put_number(value, 1);
  } else if (value < 65536) {
    put(kBinInt2);
    put_number(value, 2);
  } else if (value < (std::uint64_t{1} << 31)) {
    put(kBinInt);
    put_number(value, 4);
  } else {
    long_integer(value, false);
  }
}

void PickleWriter::signed_integer(std::int64_t value) {
  if (value >= 0) return integer(static_cast<std::uint64_t>(value));
  long_integer(static_cast<std::uint64_t>(value), true);
}

// Two's complement, little-endian, as few bytes as keep the sign.
void PickleWriter::long_integer(std::uint64_t bits, bool is_negative) {
  const std::uint64_t filler = is_negative ? 0xFF : 0;
  int bytes = 8;
  while (bytes > 1) {
    const std::uint64_t top = bits >> (8 * (bytes - 1)) & 0xFF;
    const bool sign_below = (bits >> (8 * (bytes - 2) + 7) & 1) != 0;
    if (top != filler || sign_below != is_negative) break;
    --bytes;
  }
  const bool sign_bit = (bits >> (8 * bytes - 1) & 1) != 0;
  put(kLong1);
  put_number(static_cast<std::uint64_t>(sign_bit == is_negative ? bytes : bytes + 1), 1);
  put_number(bits, bytes);
  if (sign_bit != is_negative) put_number(filler, 1);
}

void PickleWriter::real(double value) {
  put(kBinFloat);
  const auto bits = std::bit_cast<std::uint64_t>(value);
  for (int i = 7; i >= 0; --i) put(static_cast<char>(bits >> (8 * i) & 0xFF));
}

void PickleWriter::boolean(bool value) {
  put(value ? kTrue : kFalse);
}
void PickleWriter::none() {
  put(kNone);
}

std::uint32_t PickleWriter::remember() {
  put(kLongBinPut);
  put_number(remembered_, 4);
  return remembered_++;
}

void PickleWriter::recall(std::uint32_t number) {
  put(kLongBinGet);
  put_number(number, 4);
}

void PickleWriter::finish() {
  put(kStop);
}

}  // namespace levee::exporting
