#include "bench/replay/readers/pickle_value.h"

#include <bit>
#include <charconv>
#include <unordered_map>

#include <fmt/format.h>

namespace levee::replay {

namespace {

using Kind = PickleValue::Kind;

// Opcodes, as Python's pickletools names them.
enum Op : unsigned char {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kFloat = 'F',
  kInt = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLong = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kString = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicode = 'V',
  kBinUnicode = 'X',
  kAppend = 'a',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kGet = 'g',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
  // What is refused, by name.
  kGlobal = 'c',
  kInst = 'i',
  kStackGlobal = 0x93,
};

PickleValue integer(std::uint64_t magnitude, bool is_negative = false) {
  return PickleValue{Kind::kInteger, is_negative && magnitude != 0, 0, magnitude};
}
PickleValue boolean(bool value) {
  return PickleValue{Kind::kBool, false, 0, value ? 1U : 0U};
}

/// For messages: a few printable characters.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 60)) out += c >= 0x20 && c < 0x7f ? c : '?';
  return out;
}

}  // namespace

/// Runs the opcodes over a stack of values.
class PickleMachine {
 public:
  PickleMachine(std::string_view bytes, Pickle& pickle) : bytes_(bytes), pickle_(pickle) {}

  /// False with a sentence in `why`.
  bool run(std::string* why) {
    while (failure_.empty()) {
      if (at_ >= bytes_.size()) {
        fail("the file ends in the middle: it was cut off while being written or copied");
        break;
      }
      const auto op = static_cast<unsigned char>(bytes_[at_++]);
      if (op == kStop) {
        if (stack_.empty()) {
          fail("it ends without a value");
          break;
        }
        pickle_.root_ = stack_.back();
        return true;
      }
      step(op);
    }
    *why = failure_;
    return false;
  }

 private:
  void fail(std::string sentence) {
    if (failure_.empty()) failure_ = std::move(sentence);
  }
  void refuse(std::string_view what) {
    fail(fmt::format(
        "at byte {} this pickle asks for {}; only plain data is read, and nothing of it was run",
        at_ - 1, what));
  }

  // ---- Bytes.

  bool has(std::uint64_t count) {
    if (count <= bytes_.size() - at_) return true;
    fail("the file ends in the middle: it was cut off while being written or copied");
    return false;
  }
  std::uint64_t number(unsigned count) {
    if (!has(count)) return 0;
    std::uint64_t value = 0;
    for (unsigned i = 0; i < count; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes_[at_ + i])} << (8 * i);
    at_ += count;
    return value;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', at_);
    if (end == std::string_view::npos) {
      has(UINT64_MAX);
      return {};
    }
    const std::string_view text = bytes_.substr(at_, end - at_);
    at_ = end + 1;
    return text;
  }

  // ---- Values.

  void push(PickleValue value) { stack_.push_back(value); }
  PickleValue top() {
    if (stack_.size() > floor()) return stack_.back();
    fail("its instructions take more values than there are");
    return {};
  }
  PickleValue pop() {
    const PickleValue value = top();
    if (failure_.empty()) stack_.pop_back();
    return value;
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  void push_text(std::uint64_t length) {
    if (!has(length)) return;
    push_text_at(at_, length);
    at_ += length;
  }
  void push_text_at(std::size_t offset, std::uint64_t length) {
    if (length > UINT32_MAX) {
      fail("it holds a text of more than 4 GiB");
      return;
    }
    push(PickleValue{Kind::kText, false, static_cast<std::uint32_t>(length), offset});
  }
  void push_container(Kind kind, std::vector<PickleValue> items = {}) {
    pickle_.containers_.push_back(std::move(items));
    push(PickleValue{kind, false, 0, pickle_.containers_.size() - 1});
  }
  /// Values since the last mark, which is taken away.
  std::vector<PickleValue> since_mark() {
    if (marks_.empty()) {
      fail("its instructions take a mark that is not there");
      return {};
    }
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleValue> items(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return items;
  }
  std::vector<PickleValue>* container(Kind kind) {
    const PickleValue value = top();
    if (!failure_.empty()) return nullptr;
    if (value.kind != kind) {
      fail("it adds items to something that is no container");
      return nullptr;
    }
    return &pickle_.containers_[value.bits];
  }
  void add(Kind kind, const std::vector<PickleValue>& items) {
    if (std::vector<PickleValue>* into = container(kind))
      into->insert(into->end(), items.begin(), items.end());
  }
  void push_tuple(std::size_t count) {
    if (stack_.size() < floor() + count) {
      fail("its instructions take more values than there are");
      return;
    }
    std::vector<PickleValue> items(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    push_container(Kind::kList, std::move(items));
  }

  /// Little endian two's complement.
  void push_long(std::uint64_t length) {
    if (!has(length)) return;
    const std::string_view digits = bytes_.substr(at_, length);
    at_ += length;
    if (digits.empty()) return push(integer(0));
    const bool negative = (static_cast<unsigned char>(digits.back()) & 0x80U) != 0;
    std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = 0; i < digits.size(); ++i) {
      const auto byte = static_cast<unsigned char>(digits[i]);
      if (i < 8) {
        value &= ~(std::uint64_t{0xff} << (8 * i));
        value |= std::uint64_t{byte} << (8 * i);
      } else if (byte != (negative ? 0xff : 0)) {
        return push(PickleValue{Kind::kHugeNumber, negative, 0, 0});
      }
    }
    if (!negative) return push(integer(value));
    if (value == 0) return push(PickleValue{Kind::kHugeNumber, true, 0, 0});  // -2^64
    push(integer(~value + 1, true));
  }

  void push_decimal(std::string_view text) {
    if (text == "00" || text == "01") return push(boolean(text == "01"));
    if (!text.empty() && text.back() == 'L') text.remove_suffix(1);
    const bool negative = !text.empty() && text.front() == '-';
    if (negative) text.remove_prefix(1);
    std::uint64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code == std::errc::result_out_of_range)
      return push(PickleValue{Kind::kHugeNumber, negative, 0, 0});
    if (code != std::errc{} || end != text.data() + text.size()) {
      fail(fmt::format("\"{}\" is no number", shown(text)));
      return;
    }
    push(integer(value, negative));
  }

  void push_real(double value) {
    push(PickleValue{Kind::kReal, false, 0, std::bit_cast<std::uint64_t>(value)});
  }
  void push_real_text(std::string_view text) {
    double value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size()) {
      fail(fmt::format("\"{}\" is no number", shown(text)));
      return;
    }
    push_real(value);
  }

  void remember(std::uint64_t index) {
    const PickleValue value = top();
    if (!failure_.empty()) return;
    if (index == memo_.size()) {
      memo_.push_back(value);
    } else if (index < memo_.size()) {
      memo_[index] = value;
    } else {
      sparse_memo_[index] = value;
    }
  }
  void recall(std::uint64_t index) {
    if (index < memo_.size()) return push(memo_[index]);
    const auto found = sparse_memo_.find(index);
    if (found != sparse_memo_.end()) return push(found->second);
    fail("it refers to a value that it has not named");
  }
  std::uint64_t decimal_index() {
    const std::string_view text = line();
    std::uint64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{} || end != text.data() + text.size()) fail("a reference is no number");
    return value;
  }

  void step(unsigned char op) {
    switch (op) {
      case kProto:
        number(1);
        return;
      case kFrame:
        number(8);
        return;
      case kMark:
        marks_.push_back(stack_.size());
        return;
      case kPop:
        if (stack_.size() == floor() && !marks_.empty()) {
          marks_.pop_back();
        } else {
          pop();
        }
        return;
      case kPopMark:
        since_mark();
        return;
      case kDup:
        push(top());
        return;
      case kNone:
        return push(PickleValue{});
      case kNewTrue:
      case kNewFalse:
        return push(boolean(op == kNewTrue));
      case kInt:
      case kLong:
        return push_decimal(line());
      case kBinInt: {
        const auto value = static_cast<std::int32_t>(number(4));
        const auto wide = std::int64_t{value};
        return push(integer(static_cast<std::uint64_t>(wide < 0 ? -wide : wide), wide < 0));
      }
      case kBinInt1:
        return push(integer(number(1)));
      case kBinInt2:
        return push(integer(number(2)));
      case kLong1:
        return push_long(number(1));
      case kLong4:
        return push_long(number(4));
      case kFloat:
        return push_real_text(line());
      case kBinFloat: {
        std::uint64_t bits = number(8);
        std::uint64_t swapped = 0;
        for (int i = 0; i < 8; ++i, bits >>= 8) swapped = swapped << 8 | (bits & 0xff);
        return push_real(std::bit_cast<double>(swapped));
      }
      default:
        return step_texts(op);
    }
  }

  void step_texts(unsigned char op) {
    switch (op) {
      case kString: {
        const std::string_view quoted = line();
        if (quoted.size() < 2) return fail("a text lacks its quotes");
        return push_text_at(static_cast<std::size_t>(quoted.data() - bytes_.data()) + 1,
                            quoted.size() - 2);
      }
      case kUnicode: {
        const std::string_view text = line();
        return push_text_at(static_cast<std::size_t>(text.data() - bytes_.data()), text.size());
      }
      case kBinString:
      case kBinUnicode:
      case kBinBytes:
        return push_text(number(4));
      case kShortBinString:
      case kShortBinUnicode:
      case kShortBinBytes:
        return push_text(number(1));
      case kBinUnicode8:
      case kBinBytes8:
      case kByteArray8:
        return push_text(number(8));
      default:
        return step_containers(op);
    }
  }

  void step_containers(unsigned char op) {
    switch (op) {
      case kEmptyList:
      case kEmptyTuple:
      case kEmptySet:
        return push_container(Kind::kList);
      case kEmptyDict:
        return push_container(Kind::kDict);
      case kList:
      case kTuple:
      case kFrozenSet:
        return push_container(Kind::kList, since_mark());
      case kDict:
        return push_container(Kind::kDict, since_mark());
      case kTuple1:
        return push_tuple(1);
      case kTuple2:
        return push_tuple(2);
      case kTuple3:
        return push_tuple(3);
      case kAppend: {
        const PickleValue value = pop();
        return add(Kind::kList, {value});
      }
      case kAppends:
      case kAddItems:
        return add(Kind::kList, since_mark());
      case kSetItem: {
        const PickleValue value = pop();
        const PickleValue key = pop();
        return add(Kind::kDict, {key, value});
      }
      case kSetItems: {
        const std::vector<PickleValue> items = since_mark();
        if (items.size() % 2 != 0) return fail("a key lacks its value");
        return add(Kind::kDict, items);
      }
      case kPut:
        return remember(decimal_index());
      case kBinPut:
        return remember(number(1));
      case kLongBinPut:
        return remember(number(4));
      case kMemoize:
        return remember(memo_.size());
      case kGet:
        return recall(decimal_index());
      case kBinGet:
        return recall(number(1));
      case kLongBinGet:
        return recall(number(4));
      default:
        return step_refused(op);
    }
  }

  void step_refused(unsigned char op) {
    const std::size_t at = at_;
    switch (op) {
      case kGlobal:
      case kInst: {
        const std::string module = shown(line());
        const std::string name = shown(line());
        at_ = at;
        return refuse(fmt::format("the Python object {}.{}", module, name));
      }
      case kStackGlobal: {
        std::string name = "?";
        if (stack_.size() >= 2 && stack_.back().is_text() && stack_[stack_.size() - 2].is_text()) {
          name = fmt::format("{}.{}", shown(pickle_.text(stack_[stack_.size() - 2])),
                             shown(pickle_.text(stack_.back())));
        }
        return refuse("the Python object " + name);
      }
      default:
        return fail(fmt::format("byte {} is no instruction of a pickle of plain data (0x{:02x})",
                                at_ - 1, op));
    }
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
  Pickle& pickle_;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleValue> memo_;
  std::unordered_map<std::uint64_t, PickleValue> sparse_memo_;
  std::string failure_;
};

std::optional<Pickle> Pickle::read(std::string_view bytes, std::string* why) {
  std::optional<Pickle> pickle(Pickle{bytes});
  PickleMachine machine(bytes, *pickle);
  if (!machine.run(why)) pickle.reset();
  return pickle;
}

std::string_view Pickle::text(PickleValue value) const {
  return value.is_text() ? bytes_.substr(value.bits, value.length) : std::string_view{};
}

const std::vector<PickleValue>& Pickle::items(PickleValue value) const {
  static const std::vector<PickleValue> kNothing;
  const bool is_container = value.kind == Kind::kList || value.kind == Kind::kDict;
  return is_container ? containers_[value.bits] : kNothing;
}

std::optional<PickleValue> Pickle::get(PickleValue dict, std::string_view key) const {
  if (dict.kind != Kind::kDict) return std::nullopt;
  const std::vector<PickleValue>& pairs = containers_[dict.bits];
  for (std::size_t i = 0; i + 1 < pairs.size() && i < 2 * kMaxKeys; i += 2) {
    if (pairs[i].is_text() && text(pairs[i]) == key) return pairs[i + 1];
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Pickle::get_unsigned(PickleValue dict, std::string_view key) const {
  const std::optional<PickleValue> value = get(dict, key);
  if (!value || value->kind != Kind::kInteger || value->is_negative) return std::nullopt;
  return value->bits;
}

std::optional<std::int64_t> Pickle::get_signed(PickleValue dict, std::string_view key) const {
  const std::optional<PickleValue> value = get(dict, key);
  if (!value || value->kind != Kind::kInteger || value->bits > INT64_MAX) return std::nullopt;
  const auto magnitude = static_cast<std::int64_t>(value->bits);
  return value->is_negative ? -magnitude : magnitude;
}

std::string_view Pickle::get_text(PickleValue dict, std::string_view key) const {
  const std::optional<PickleValue> value = get(dict, key);
  return value ? text(*value) : std::string_view{};
}

}  // namespace levee::replay
