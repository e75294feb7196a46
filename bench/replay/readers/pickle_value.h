// Plain data out of a Python pickle, without Python: nothing in the file is ever executed.
//
// Owns: the containers of one pickle; texts stay in the file's bytes, which must outlive it.
// Promises: any bytes are safe; only plain values are understood (None, bool, numbers, text, bytes,
// list, tuple, dict, set), and whatever names a class, calls something or asks for something
// outside ends the reading with one sentence; no recursion; memory is at most about 100 bytes for
// each byte of the file, whatever lengths, numbers or memo indices it claims. Values may be shared
// and even contain themselves: who walks them bounds what they visit. Protocols 0 to 5. Cost: about
// 10 ns a value.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace levee::replay {

class Pickle;

/// One value. Cheap to copy; valid as long as its pickle.
struct PickleValue {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,
    kInteger,     ///< fits into 64 bits, signed or unsigned
    kHugeNumber,  ///< an integer beyond 64 bits: its value is not kept
    kReal,
    kText,  ///< text or bytes
    kList,  ///< list, tuple or set
    kDict,  ///< keys and values in turn
  };
  Kind kind = Kind::kNone;
  bool is_negative = false;  ///< of kInteger
  std::uint32_t length = 0;  ///< of kText
  std::uint64_t bits = 0;    ///< magnitude, double's bits, offset of text, number of container

  bool is_text() const { return kind == Kind::kText; }
};

class Pickle {
 public:
  /// Nothing, with one sentence in `why`, if `bytes` are no pickle of plain data.
  static std::optional<Pickle> read(std::string_view bytes, std::string* why);

  PickleValue root() const { return root_; }
  std::string_view text(PickleValue value) const;
  /// Items of a list, or keys and values of a dict in turn. Empty for other kinds.
  const std::vector<PickleValue>& items(PickleValue value) const;

  /// The value of a key in a dict; nothing if there is none or this is no dict. Looks at the first
  /// `kMaxKeys` keys alone: records have a dozen.
  std::optional<PickleValue> get(PickleValue dict, std::string_view key) const;
  /// Numbers of a dict: nothing if the key is absent or its value is no integer that fits.
  std::optional<std::uint64_t> get_unsigned(PickleValue dict, std::string_view key) const;
  std::optional<std::int64_t> get_signed(PickleValue dict, std::string_view key) const;
  /// Empty if there is none.
  std::string_view get_text(PickleValue dict, std::string_view key) const;

  static constexpr std::size_t kMaxKeys = 64;

 private:
  friend class PickleMachine;
  explicit Pickle(std::string_view bytes) : bytes_(bytes) {}

  std::string_view bytes_;
  std::deque<std::vector<PickleValue>> containers_;
  PickleValue root_;
};

}  // namespace levee::replay
